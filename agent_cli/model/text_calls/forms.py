"""The syntaxes in which models write tool calls as text if their server does not convert them.

Each form is parsed strictly: a known tool, arguments that are an object with every required key, and nothing after
the calls but the end of the answer. `finder` decides where in an answer a form may start.
"""

from collections.abc import Callable

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.base import ToolSpec
from .reader import Found, Incomplete, NoMatch, Reader

_PARAMETER = lazy_regex(r"<parameter=([^>\n]+)>")
_PARAMETER_END = lazy_regex(r"</parameter>\s*(?=<parameter=|</function>)|\n(?=<parameter=|</function>)")
"""Some models omit the closing tag."""
_INVOKE = lazy_regex(r'<(?:\|DSML\|)?invoke name="([^"\n]+)">')
_INVOKE_NEXT = lazy_regex(r"<(?:\|DSML\|)?invoke ")
_INVOKE_END = lazy_regex(r"</(?:\|DSML\|)?invoke>")
_NAMED = lazy_regex(r'<(?:\|DSML\|)?parameter name="([^"\n]+)"(?: string="(true|false)")?[^>\n]*>')
_NAMED_END = lazy_regex(r"</(?:\|DSML\|)?parameter>(?=\s*</?(?:\|DSML\|)?(?:parameter|invoke)\b)")
_TRAILING = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_sentence|>", "<|end|>", "<|endoftext|>", "</s>",
    "<end_of_turn>",
)  # fmt: skip
_MADE_UP = ("<tool_response", "<tool_result", "[TOOL_RESULT", "<|tool_output", "<|im_start|>")
"""Results invented by the model after its call; they are dropped."""


class Reading(msgspec.Struct, frozen=True):
    """Result of parsing a text that may be incomplete."""

    alive: bool
    """True if the text is, or may become, calls and nothing else."""
    calls: tuple[Found, ...] = ()


def read_calls(text: str, tools: dict[str, ToolSpec], *, alone: bool, final: bool) -> Reading:
    """Parse a text that consists of calls.

    Args:
        text: from the start of a form on.
        tools: by name.
        alone: nothing else comes before it, so that plain JSON counts too.
        final: no more text follows.
    """
    reader = Reader(text, tools, alone=alone, final=final)
    try:
        return Reading(True, tuple(all_calls(reader)))
    except Incomplete:
        return Reading(alive=not final)
    except NoMatch:
        return Reading(alive=False)


def all_calls(reader: Reader) -> list[Found]:
    """Return all calls up to the end of the text."""
    found: list[Found] = []
    allowed = dict(FORMS)
    while True:
        opener = next((each for each in allowed if reader.plain.startswith(each, reader.at)), "")
        if not opener:
            reader.wait_for(*allowed)
            raise NoMatch
        form = FORMS[opener]
        found += form(reader)
        reader.space()
        while any(reader.plain.startswith(token, reader.at) for token in _TRAILING):
            reader.take(*_TRAILING)
            reader.space()
        if not reader.rest or any(reader.rest.startswith(made_up) for made_up in _MADE_UP):
            return found
        reader.wait_for(*_TRAILING, *_MADE_UP)
        allowed = {each: other for each, other in FORMS.items() if each not in LINE_START_OPENERS or other is form}


def _wrapped(reader: Reader) -> list[Found]:
    """Parse `<tool_call>` with JSON (Hermes, Qwen), `<function=…>` (Qwen 3 Coder) or keys and values (GLM)."""
    opener = reader.take(*_WRAPPERS)
    reader.space()
    if reader.rest[:1] in ("{", "["):
        found = reader.json_calls()
        while reader.rest.startswith("}"):
            reader.at += 1
    elif reader.take("<function="):
        found = [_function_body(reader)]
    else:
        found = [_keys_and_values(reader)]
    reader.space()
    if reader.rest:
        reader.take(_WRAPPERS[opener])
    return found


def _function(reader: Reader) -> list[Found]:
    """Parse `<function=name><parameter=key>value</parameter></function>` without enclosing tags."""
    reader.need("<function=")
    found = [_function_body(reader)]
    reader.space()
    if reader.rest:
        reader.take("</tool_call>")
    return found


def _function_body(reader: Reader) -> Found:
    name = reader.tool_name(">", "\n")
    reader.need(">")
    values: list[tuple[str, str, bool | None]] = []
    while True:
        reader.space()
        if reader.take("</function>"):
            return reader.typed(name, values)
        key = reader.tag(_PARAMETER)[1]
        end = _PARAMETER_END.search(reader.plain, reader.at)
        if end is None:
            raise Incomplete
        values.append((key, reader.text[reader.at : end.start()], None))
        reader.at = end.end()


def _keys_and_values(reader: Reader) -> Found:
    name = reader.tool_name("<", "\n")
    values: list[tuple[str, str, bool | None]] = []
    while True:
        reader.space()
        if reader.rest.startswith("</tool_call>"):
            return reader.typed(name, values)
        reader.wait_for("</tool_call>")
        reader.need("<arg_key>")
        key = reader.until("</arg_key>")
        reader.need("</arg_key>")
        reader.space()
        reader.need("<arg_value>")
        values.append((key, reader.until("</arg_value>"), None))
        reader.need("</arg_value>")


def _invokes(reader: Reader) -> list[Found]:
    """Parse `<invoke name="…">` with named parameters, with or without DeepSeek's `DSML` in the tags."""
    if not _INVOKE_NEXT.match(reader.rest):
        reader.need(*_INVOKE_OPENERS)
        reader.take(">")
    found: list[Found] = []
    while True:
        reader.space()
        if found and not _INVOKE_NEXT.match(reader.rest):
            reader.wait_for("<invoke ", "<|DSML|invoke ")
            if reader.rest:
                reader.take(*(f"</{opener[1:]}>" for opener in _INVOKE_OPENERS))
            return found
        name = reader.tag(_INVOKE)[1]
        if reader.tool(name) is None:
            raise NoMatch
        found.append(_invoked(reader, name))


def _invoked(reader: Reader, name: str) -> Found:
    values: list[tuple[str, str, bool | None]] = []
    while True:
        reader.space()
        if closing := _INVOKE_END.match(reader.plain, reader.at):
            reader.at = closing.end()
            return reader.typed(name, values)
        reader.wait_for("</invoke>", "</|DSML|invoke>")
        named = reader.tag(_NAMED)
        end = _NAMED_END.search(reader.plain, reader.at)
        if end is None:
            raise Incomplete
        verbatim = None if named[2] is None else named[2] == "true"
        values.append((named[1], reader.text[reader.at : end.start()], verbatim))
        reader.at = end.end()


def _tokens(reader: Reader) -> list[Found]:
    """Parse DeepSeek's and Kimi's special tokens around a name and JSON."""
    if not reader.rest.startswith("<|tool_call_begin|>"):
        reader.need("<|tool_calls_section_begin|>", "<|tool_calls_begin|>")
    found: list[Found] = []
    while True:
        reader.space()
        if found and not reader.rest.startswith("<|tool_call_begin|>"):
            reader.wait_for("<|tool_call_begin|>")
            if reader.rest:
                reader.take("<|tool_calls_section_end|>", "<|tool_calls_end|>")
            return found
        reader.need("<|tool_call_begin|>")
        found.append(_token_call(reader))


def _token_call(reader: Reader) -> Found:
    name = reader.until("<|tool_sep|>", "<|tool_call_argument_begin|>", "{", "\n").strip()
    fenced = ""
    if reader.rest.startswith("<|tool_sep|>") and name == "function":
        reader.need("<|tool_sep|>")
        name = reader.tool_name("\n")
        reader.space()
        fenced = reader.take("```json", "```")
    elif not reader.rest.startswith("{"):
        reader.need("<|tool_sep|>", "<|tool_call_argument_begin|>")
    name = name.removeprefix("functions.")
    name = name.rpartition(":")[0] or name
    if reader.tool(name) is None:
        raise NoMatch
    found = reader.call(name, reader.value())
    reader.space()
    if fenced:
        reader.need("```")
        reader.space()
    reader.need("<|tool_call_end|>")
    return found


def _python_tag(reader: Reader) -> list[Found]:
    """Parse Llama's form: JSON after a token, several objects separated by semicolons."""
    reader.need("<|python_tag|>")
    found = reader.json_calls()
    reader.space()
    while reader.rest.startswith(";"):
        reader.at += 1
        found += reader.json_calls()
        reader.space()
    return found


def _mistral(reader: Reader) -> list[Found]:
    """Parse `[TOOL_CALLS]` followed by a list, or by a name and its arguments."""
    reader.need("[TOOL_CALLS]")
    reader.space()
    if reader.rest[:1] in ("[", "{"):
        return reader.json_calls()
    name = reader.tool_name("[", "{")
    if reader.take("[CALL_ID]"):
        reader.until("[ARGS]")
    reader.take("[ARGS]")
    return [reader.call(name, reader.value())]


def _fenced(reader: Reader) -> list[Found]:
    """Parse a code block that is the whole answer."""
    if not reader.alone:
        raise NoMatch
    reader.need("```")
    language = reader.until("\n").strip().lower()
    if language not in ("json", "tool_call", "tool_calls", ""):
        raise NoMatch
    found = reader.json_calls(strict=True)
    reader.space()
    reader.need("```")
    return found


def _bare(reader: Reader) -> list[Found]:
    """Parse JSON that is the whole answer, or lacks the opening tag but has the closing one."""
    found = reader.json_calls(strict=True)
    reader.space()
    if reader.rest.startswith(";"):
        reader.at += 1
        reader.space()
    elif not reader.take("</tool_call>") and not reader.alone:
        raise NoMatch
    return found


Form = Callable[[Reader], list[Found]]
_WRAPPERS = {
    "<tool_call>": "</tool_call>",
    "<function_call>": "</function_call>",
    "[TOOL_REQUEST]": "[END_TOOL_REQUEST]",
}
_INVOKE_OPENERS = ("<|DSML|function_calls", "<|DSML|tool_calls", "<function_calls", "<minimax:tool_call")
FORMS: dict[str, Form] = {
    **dict.fromkeys(_WRAPPERS, _wrapped),
    "<function=": _function,
    **dict.fromkeys((*_INVOKE_OPENERS, "<|DSML|invoke ", "<invoke "), _invokes),
    **dict.fromkeys(("<|tool_calls_section_begin|>", "<|tool_calls_begin|>", "<|tool_call_begin|>"), _tokens),
    "<|python_tag|>": _python_tag,
    "[TOOL_CALLS]": _mistral,
    "```": _fenced,
    "{": _bare,
    "[": _bare,
}
"""Parsers by the normalized opener of their form."""
LINE_START_OPENERS = frozenset({"```", "{", "["})
"""Openers that count only at the start of an answer, or at least of a line."""

"""The answer of a hook: exit code and output, interpreted by the rules of its dialect."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from agent_cli.protocol.json_text import decode_json, repair_json
from agent_cli.protocol.sanitize import clean

from .definition import DECIDING, Hook, HookProcess

Decision = Literal["allow", "ask", "deny"]
MAX_OUTPUT = 1_000_000
"""Maximum number of bytes that a hook may print."""
_MOST_SAID = 300
"""Maximum number of characters shown of a background hook's message."""
_MOST_CHARS = 10_000
_CONTEXT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events at which plain output is text for the model."""
_NO_START = (126, 127)
_KILLED = range(129, 193)
"""Exit codes of programs that a signal has ended: 128 and its number."""
_NAME = re.compile(r"(?!(?:LD|DYLD)_|PATH$)[A-Za-z_]\w*", re.ASCII)
_DENIES = ("deny", "block")
_ASKS = ("ask", "defer")
_ALLOWS = ("allow", "approve")


class _MeaninglessError(Exception):
    """A meaningless part of an answer."""


class HookAnswer(msgspec.Struct, frozen=True):
    """The decision and effects requested by a hook."""

    decision: Decision | None = None
    reason: str = ""
    """For the model; for the user if a prompt is refused."""
    context: str = ""
    """Text for the model."""
    message: str = ""
    """Text for the user."""
    new_input: dict[str, Any] | None = None
    """New arguments of a call, in the hook's dialect."""
    new_output: str | None = None
    """Text the model reads instead of the result."""
    stop: bool = False
    """True if the turn must end."""
    stop_reason: str = ""
    failure: str = ""
    """Failure of the hook itself; empty if none."""
    merges_input: bool = False
    """True if the new input holds only the changed arguments."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables for later hooks of Cursor."""


def read_answer(hook: Hook, ended: HookProcess) -> HookAnswer:
    """Return the answer of a hook. A failed hook at a deciding event refuses, unless its definition says
    otherwise: a broken guard must not open the gate."""
    answer = _read(hook, ended)
    if hook.can_decide:
        return _as_meant(hook, answer)
    said = [each for each in (answer.message, answer.context, answer.reason) if hook.is_async and each]
    message = f"{hook.label}: {' '.join(clean(said[0]).split())[:_MOST_SAID]}" if said else answer.message
    return HookAnswer(message=message, failure=answer.failure)


def _as_meant(hook: Hook, answer: HookAnswer) -> HookAnswer:
    """Return an answer with the effect that it has in the hook's own agent."""
    match hook.event:
        case "PostToolUse" if hook.dialect == "gemini" and answer.decision == "deny" and not answer.failure:
            return msgspec.structs.replace(answer, decision=None, reason="", new_output=answer.reason)
        case "PostToolUse" if hook.dialect == "codex" and (answer.decision == "deny" or answer.stop):
            output = answer.reason or answer.stop_reason
            return msgspec.structs.replace(answer, decision=None, reason="", stop=False, new_output=output)
        case "SubagentStart" if hook.dialect != "cursor":
            return msgspec.structs.replace(answer, decision=None, reason="", stop=False)
        case _:
            return answer


def _read(hook: Hook, ended: HookProcess) -> HookAnswer:
    if ended.problem:
        return _failed(hook, ended.problem, is_broken=True)
    code = ended.exit_code
    if code == 2:
        return HookAnswer("deny", reason=_cut(ended.stderr.strip()) or f"refused by the hook {hook.label}")
    if code in _NO_START:
        return _failed(hook, f"could not start (exit code {code}): {_first_line(ended.stderr)}", is_broken=True)
    if code is None or code in _KILLED:
        return _failed(hook, f"was killed (exit code {code})", is_broken=True)
    text = ended.stdout.removeprefix("\ufeff").strip()
    if json := _json_in(hook, text):
        try:
            given = decode_json(repair_json(json.encode("utf-8", "replace")), type=dict[str, Any])
            answer = _from_json(hook, given)
        except (msgspec.DecodeError, _MeaninglessError) as error:
            return _failed(hook, f"printed JSON that cannot be read: {error}", is_broken=True)
    elif code == 0 and (hook.event in _CONTEXT_EVENTS or (hook.event, hook.dialect) == ("SubagentStart", "codex")):
        answer = HookAnswer(context=_cut(text))
    else:
        answer = HookAnswer()
    if code:
        failed = _failed(hook, f"failed with exit code {code}: {_first_line(ended.stderr)}", is_broken=False)
        return answer if answer.decision == "deny" else failed
    return answer


def _json_in(hook: Hook, text: str) -> str:
    """Return the JSON of an output; at events without plain output it may follow log lines."""
    if text.startswith("{") or hook.event in _CONTEXT_EVENTS:
        return text if text.startswith("{") else ""
    begin = text.find("\n{")
    return text[begin + 1 :] if begin >= 0 else ""


def _failed(hook: Hook, what: str, *, is_broken: bool) -> HookAnswer:
    """Return the answer for a failed hook. Failures that another agent's format treats as harmless are allowed and
    reported."""
    failure = f"The hook {hook.label} ({hook.source}) {what.rstrip(': ')}."
    strict = is_broken or hook.dialect == "native"
    on_error = hook.on_error or ("block" if strict and hook.event in DECIDING else "allow")
    decisions: dict[str, Decision | None] = {"allow": None, "ask": "ask", "block": "deny"}
    reason = "a user hook failed" if on_error == "block" else ""
    return HookAnswer(decisions[on_error], reason=reason, failure=failure)


def _from_json(hook: Hook, given: Mapping[str, Any]) -> HookAnswer:
    specific = given.get("hookSpecificOutput") or {}
    if not isinstance(specific, dict):
        raise _MeaninglessError("hookSpecificOutput is not an object")
    return HookAnswer(
        decision=_decision(given, specific),
        reason=_cut(
            _text(
                specific.get("permissionDecisionReason"), given.get("reason"), given.get("agent_message"),
                given.get("agentMessage"), _nested(specific, "decision", "message"), given.get("followup_message"),
            )
        ),
        context=_cut(_text(specific.get("additionalContext"), given.get("additional_context"))),
        message=_cut(
            clean(_text(given.get("systemMessage"), given.get("user_message"), given.get("userMessage")))
        ),
        new_input=_new_input(given, specific),
        merges_input=isinstance(specific.get("tool_input"), dict),
        new_output=_new_output(given, specific),
        stop=given.get("continue") is False and hook.written_event != "beforeSubmitPrompt",
        stop_reason=_cut(clean(_text(given.get("stopReason")))),
        variables=tuple(_variables(given)) if (hook.dialect, hook.event) == ("cursor", "SessionStart") else (),
    )  # fmt: skip


def _variables(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables that a hook of Cursor sets at the start of a session."""
    listed = given.get("env")
    for name, value in listed.items() if isinstance(listed, dict) else ():
        if _NAME.fullmatch(name) and isinstance(value, str) and "\0" not in value:
            yield name, value


def _decision(given: Mapping[str, Any], specific: Mapping[str, Any]) -> Decision | None:
    """Return the strictest of the decisions in an answer, in the terms of any dialect.

    Raises:
        _MeaninglessError: one of them is unknown.
    """
    written = (
        specific.get("permissionDecision"), given.get("permissionDecision"), given.get("decision"),
        given.get("permission"), _nested(specific, "decision", "behavior"),
    )  # fmt: skip
    words = {each.lower() if isinstance(each, str) else str(each) for each in written if each not in (None, "")}
    if unknown := words.difference(_DENIES, _ASKS, _ALLOWS):
        raise _MeaninglessError(f"there is no decision {clean(min(unknown))[:40]!r}")
    if words.intersection(_DENIES) or (given.get("continue") is False and "hookSpecificOutput" not in given):
        return "deny"
    if words.intersection(_ASKS) or given.get("followup_message"):
        return "ask" if words.intersection(_ASKS) else "deny"
    return "allow" if words else None


def _new_input(given: Mapping[str, Any], specific: Mapping[str, Any]) -> dict[str, Any] | None:
    offered = (
        specific.get("updatedInput"), specific.get("tool_input"), given.get("updated_input"),
        _nested(specific, "decision", "updatedInput"),
    )  # fmt: skip
    return next((each for each in offered if isinstance(each, dict)), None)


def _new_output(given: Mapping[str, Any], specific: Mapping[str, Any]) -> str | None:
    named = (specific.get(key) for key in ("updatedToolOutput", "updatedMCPToolOutput", "tool_output"))
    for value in (*named, given.get("updated_mcp_tool_output")):
        if value is not None:
            text = _text_of(value)
            return msgspec.json.encode(value).decode() if text is None else text
    return None


def _text_of(output: Any) -> str | None:
    """Return the text of a result in the forms that tools have in Claude Code; None for any other."""
    match output:
        case str():
            return output
        case {"stdout": str() as said, **rest}:
            errors = rest.get("stderr")
            return "\n".join(filter(None, (said, errors))) if isinstance(errors, str) else said
        case {"file": {"content": str() as said}} | {"content": str() as said} | {"result": str() as said}:
            return said
        case [*parts] if parts and all(isinstance(each, dict) and "text" in each for each in parts):
            return "\n".join(str(each["text"]) for each in parts)
        case _:
            return None


def _nested(given: Mapping[str, Any], *keys: str) -> Any:
    value: Any = given
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(*offered: Any) -> str:
    return next((each for each in offered if isinstance(each, str) and each), "")


def _first_line(text: str) -> str:
    return clean(text.strip().split("\n")[0])[:200]


def _cut(text: str) -> str:
    return (
        text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n[… {len(text) - _MOST_CHARS} characters cut]"
    )

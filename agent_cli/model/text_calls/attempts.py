"""Textual calls that cannot run as they are: an unknown tool, wrong arguments, broken JSON, text after the call.
They are passed on as calls with a reason, so that the model gets the same response as for any bad call.
Separate from `forms`, which parses what may run."""

import json
import re

from ..types.base import CallPiece, ToolSpec
from .forms import FORMS, LINE_START_OPENERS, all_calls
from .reader import Incomplete, NoMatch, Reader, plain

_OPENERS = tuple(sorted((each for each in FORMS if each not in LINE_START_OPENERS), key=len, reverse=True))
_SURE = re.compile(r"<\||</?minimax:|<(?:\|DSML\|)?invoke name=")
"""Openers that occur in text only to call a tool."""
_GOES_ON = re.compile(r"\s*(?:$|[{\[<])|[^\S\n]*\n|[^\S\n]*[\w.-]+(?:>\s*(?:$|[<\n])|\s*(?:$|[\[{(<\n]))")
"""Text that follows the other openers in a call, and hardly ever in a sentence."""
_UNDECIDED = re.compile(r"[^\S\n]*[\w.-]*>?\s*")
_NAME = re.compile(
    r'"name"\s*:\s*"([^"\\\n]{1,64})"|<function=([\w.-]+)|invoke name="([^"\n]{1,64})"'
    r"|function<\|tool_sep\|>([\w-]+)|<\|tool_call_begin\|>(?!function<)(?:functions\.)?([\w-]+)"
    r"|<(?:tool|function)_call>\s*([\w-]+)|\[TOOL_CALLS\]\s*([\w-]+)"
)
_BEHIND = (
    "Nothing was run, because text stands behind the call. To call a tool, end your answer with the call. To "
    "write about this form, put it in a code block."
)
_BROKEN = (
    "Nothing was run, because the call cannot be read: {why}. Call the tool again, with arguments that are one "
    "JSON object."
)


def opener_of(text: str) -> str:
    """Return the tag that starts a textual call; empty if it starts with plain JSON or a code block."""
    begun = plain(text[:40])
    return next((each for each in _OPENERS if begun.startswith(each)), "")


def is_attempt(text: str, *, final: bool) -> bool | None:
    """Return True if text starting with a tag is an attempted call; None while undecided."""
    opener = opener_of(text)
    begun = plain(text[:400])
    if not opener or _SURE.match(begun):
        return bool(opener)
    rest = begun[len(opener) :]
    if not final and _UNDECIDED.fullmatch(rest) and "\n" not in rest.lstrip(" \t"):
        return None
    return _GOES_ON.match(rest) is not None


def read_attempt(text: str, tools: dict[str, ToolSpec]) -> list[tuple[str, CallPiece]]:
    """Return name and content of each call in a text accepted by `is_attempt`: unchanged if only the tool or its
    arguments are wrong, else a single call with its problem."""
    try:
        found = all_calls(Reader(text, tools, alone=False, final=True, any_call=True))
        return [(name, CallPiece(place, arguments)) for place, (name, arguments) in enumerate(found)]
    except (NoMatch, Incomplete):
        pass
    try:
        name, arguments = FORMS[opener_of(text)](Reader(text, tools, alone=False, final=True, any_call=True))[0]
        return [(name, CallPiece(0, arguments, problem=_BEHIND))]
    except (NoMatch, Incomplete):
        named = _NAME.search(plain(text))
        name = next(filter(None, named.groups())) if named else ""
        return [(name, CallPiece(0, "{}", problem=_BROKEN.format(why=_fault(text))))]


def _fault(text: str) -> str:
    start = text.find("{")
    if start < 0:
        return "its form is unknown, or it was cut off"
    try:
        json.JSONDecoder(strict=False).raw_decode(text, start)
    except json.JSONDecodeError as error:
        return f"it is not valid JSON ({error.msg} at character {error.pos - start + 1} of the object)"
    except RecursionError:
        return "it is nested too deeply"
    return "its form is unknown, or it was cut off"

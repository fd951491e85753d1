"""Parser primitives for text that may hold tool calls, used by the forms in `forms`.

It works on a prefix of the text: each step distinguishes “no match, whatever follows” (`NoMatch`) from “may become
a match” (`Incomplete`), and a `NoMatch` is final.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.base import ToolSpec
from ..types.json import Json

_SAME = str.maketrans({"\uff5c": "|", "\u2581": "_"})
"""DeepSeek's tokens use a full-width bar and a low block for `|` and `_`; many servers write the plain ones."""
_JSON = json.JSONDecoder(strict=False)
_BEGINS_LIKE_A_CALL = lazy_regex(r'\s*[\[{][\s{]*"(?:name|type|function|tool|id|arguments|parameters)"\s*:')
_MAY_BEGIN_SO = lazy_regex(r'\s*[\[{][\s{]*(?:"[a-z]{0,10}"?\s*)?')
_NAMED_FIRST = lazy_regex(r'\s*[\[{][\s{]*"name"\s*:\s*"([^"\\]*)"')
_CUT = lazy_regex(r"-|\.|[eE][+-]?|tr?u?|fa?l?s?|nu?l?")
"""Remainder of JSON that is cut inside a number or a word."""
_ANY_NAME = lazy_regex(r"[\w.:/-]{1,64}")
_CALL_KEYS = {"type", "id", "name", "function", "tool", "arguments", "parameters"}

Found = tuple[str, str]
"""Name of a known tool and its arguments as the JSON text of an object."""


class Incomplete(Exception):
    """The text so far may become a call."""


class NoMatch(Exception):
    """The text is not a call, whatever follows."""


def plain(text: str) -> str:
    """Return the text with special tokens normalized; its length is unchanged."""
    return text.translate(_SAME)


class Reader:
    """Cursor over a text, from left to right."""

    def __init__(
        self, text: str, tools: dict[str, ToolSpec], *, alone: bool, final: bool, any_call: bool = False
    ) -> None:
        """Create a reader. `alone`: nothing precedes the text in the answer. `final`: nothing follows it.
        `any_call`: also accept unknown tools and wrong arguments."""
        self.text = text
        self.plain = plain(text)
        self.tools = tools
        self.alone = alone
        self.final = final
        self.any_call = any_call
        self.at = 0

    @property
    def rest(self) -> str:
        """The unread text, normalized."""
        return self.plain[self.at :]

    def tool(self, name: str) -> ToolSpec | None:
        """Return the tool of a name; with `any_call`, an unknown tool gets an empty schema."""
        found = self.tools.get(name)
        return ToolSpec(name, "", {}) if found is None and self.any_call and _ANY_NAME.fullmatch(name) else found

    def space(self) -> None:
        """Skip white space."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, *literals: str) -> str:
        """Skip the first of the literals that matches here and return it, or an empty string.

        Raises:
            Incomplete: the text ends where one may still follow.
        """
        for literal in literals:
            if self.plain.startswith(literal, self.at):
                self.at += len(literal)
                return literal
            self.wait_for(literal)
        return ""

    def wait_for(self, *literals: str) -> None:
        """Check that none of the literals may still follow.

        Raises:
            Incomplete: the text ends where one of the literals may still follow.
        """
        rest = self.plain[self.at : self.at + 40]
        if not self.final and any(literal.startswith(rest) for literal in literals):
            raise Incomplete

    def need(self, *literals: str) -> None:
        """Skip one of the literals.

        Raises:
            NoMatch: none is there.
        """
        if not self.take(*literals):
            raise NoMatch

    def tag(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Skip a tag, which ends with `>` on its own line."""
        found = pattern.match(self.plain, self.at)
        if found is None:
            begun = self.plain[self.at : self.at + 200]
            raise (
                NoMatch
                if ">" in begun or "\n" in begun or len(begun) == 200 or begun[:1] not in ("", "<")
                else Incomplete
            )
        self.at = found.end()
        return found

    def until(self, *literals: str) -> str:
        """Return the text before the first of the literals, which are not skipped."""
        places = [place for literal in literals if (place := self.plain.find(literal, self.at)) >= 0]
        if not places:
            raise Incomplete
        before, self.at = self.text[self.at : min(places)], min(places)
        return before

    def tool_name(self, *ends: str) -> str:
        """Return the name of a known tool before one of the given ends."""
        try:
            name = self.until(*ends).strip()
        except Incomplete:
            begun = self.text[self.at :].strip()
            if any(name.startswith(begun) or begun.startswith(name) for name in self.tools):
                raise
            raise NoMatch from None
        if self.tool(name) is None:
            raise NoMatch
        return name

    def value(self) -> Any:
        """Parse JSON, accepting raw line breaks inside strings, as models write them."""
        self.space()
        try:
            value, self.at = _JSON.raw_decode(self.text, self.at)
        except RecursionError:
            raise NoMatch from None
        except json.JSONDecodeError as error:
            rest = self.text[error.pos :]
            if error.msg.startswith("Unterminated string") or not rest.strip() or _CUT.fullmatch(rest):
                raise Incomplete from None
            if "escape" in error.msg and len(rest) < 8:
                raise Incomplete from None
            if not error.msg.startswith("Expecting ','"):
                raise NoMatch from None
            return self._unclosed(error.pos)
        return value

    def _unclosed(self, end: int) -> Any:
        """Return the object that lacks only its last brace, as the closing tag after it shows."""
        if not self.final and self.plain[end:] == "<":
            raise Incomplete
        try:
            value = _JSON.decode(self.text[self.at : end] + "}") if self.plain.startswith("</", end) else None
        except ValueError:
            value = None
        if value is None:
            raise NoMatch
        self.at = end
        return value

    def call(self, name: str, arguments: Any) -> Found:
        """Return a call of a known tool with an object that has the required keys."""
        tool = self.tool(name.strip().removeprefix("functions."))
        if isinstance(arguments, str):
            try:
                arguments = _JSON.decode(arguments)
            except ValueError:
                raise NoMatch from None
        if tool is not None and self.any_call:
            return tool.name, json.dumps(arguments, ensure_ascii=False)
        if tool is None or not isinstance(arguments, dict):
            raise NoMatch
        if not set(tool.parameters.get("required", ())) <= arguments.keys():
            raise NoMatch
        return tool.name, json.dumps(arguments, ensure_ascii=False)

    def json_calls(self, *, strict: bool = False) -> list[Found]:
        """Return the calls of a JSON object or a list of them.

        Args:
            strict: accept only keys of a call, and only arguments that the tool has.
        """
        self.space()
        if not self.rest:
            raise Incomplete
        if _BEGINS_LIKE_A_CALL.match(self.text, self.at) is None:
            begun = _MAY_BEGIN_SO.match(self.text, self.at)
            raise Incomplete if begun is not None and begun.end() == len(self.text) else NoMatch
        named = _NAMED_FIRST.match(self.text, self.at)
        if named is not None and self.tool(named[1].removeprefix("functions.")) is None:
            raise NoMatch
        value = self.value()
        entries = value if isinstance(value, list) else [value]
        if not entries:
            raise NoMatch
        return [self._json_call(entry, strict) for entry in entries]

    def _json_call(self, entry: Any, strict: bool) -> Found:
        if not isinstance(entry, dict) or (strict and not entry.keys() <= _CALL_KEYS):
            raise NoMatch
        inner = entry.get("function")
        if isinstance(inner, dict):
            entry = inner
        name = next((each for key in ("name", "function", "tool") if isinstance(each := entry.get(key), str)), "")
        arguments = entry.get("arguments", entry.get("parameters"))
        found = self.call(name, {} if arguments is None and not strict else arguments)
        if strict and not json.loads(found[1]).keys() <= self._properties(found[0]).keys():
            raise NoMatch
        return found

    def _properties(self, name: str) -> Json:
        tool = self.tool(name)
        return tool.parameters.get("properties", {}) if tool else {}

    def typed(self, name: str, values: Iterable[tuple[str, str, bool | None]]) -> Found:
        """Return a call with textual arguments, each converted according to the schema.

        Args:
            name: of a known tool.
            values: key, text, and whether the text is known to be literal.
        """
        properties = self._properties(name)
        arguments: Json = {}
        for key, text, verbatim in values:
            key = key.strip()
            if verbatim is None:
                verbatim = properties.get(key, {}).get("type", "string") == "string"
            arguments[key] = _trimmed(text) if verbatim else _lenient(text)
        return self.call(name, arguments)


def _trimmed(text: str) -> str:
    """Strip the line break that the forms put on either side of a value."""
    return text.removeprefix("\n").removesuffix("\n")


def _lenient(text: str) -> Any:
    """Parse JSON or Python's constants; return the text itself if it is neither."""
    stripped = text.strip()
    try:
        return _JSON.decode({"True": "true", "False": "false", "None": "null"}.get(stripped, stripped))
    except ValueError:
        return _trimmed(text)

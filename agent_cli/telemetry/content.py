"""Which texts a span may hold. None by default: a trace says what happened and how long it took, not what was
said."""

from collections.abc import Collection, MutableMapping
from typing import Literal, get_args

import msgspec

from . import conventions as names
from .span import Attribute

ContentKind = Literal["prompts", "answers", "arguments", "results", "commands"]
CONTENT_KINDS: tuple[ContentKind, ...] = get_args(ContentKind)
MOST_BYTES = 60_000
"""Of one text; what is longer is cut."""
_CUT = " … [cut]"


class Content:
    """Adds the texts that the user has asked for, each kind apart. They are masked before they come here."""

    def __init__(self, kinds: Collection[ContentKind] = ()) -> None:
        self._kinds = frozenset(kinds)

    def prompt(self, attributes: MutableMapping[str, Attribute], text: str) -> None:
        """Add what a turn or a sub-agent was asked."""
        if "prompts" in self._kinds and text:
            attributes[names.INPUT_MESSAGES] = _message("user", text)

    def answer(self, attributes: MutableMapping[str, Attribute], text: str, finish: str) -> None:
        """Add what a model answered."""
        if "answers" in self._kinds and text:
            attributes[names.OUTPUT_MESSAGES] = _message("assistant", text, finish)

    def arguments(self, attributes: MutableMapping[str, Attribute], text: str) -> None:
        """Add the arguments of a tool call, as the model wrote them."""
        if "arguments" in self._kinds:
            attributes[names.TOOL_ARGUMENTS] = shortened(text)

    def result(self, attributes: MutableMapping[str, Attribute], text: str, command: str) -> None:
        """Add the result of a tool call, and the command line that it ran."""
        if "results" in self._kinds:
            attributes[names.TOOL_RESULT] = shortened(text)
        if "commands" in self._kinds and command:
            attributes[names.COMMAND] = shortened(command)


NO_CONTENT = Content()


def shortened(text: str, most: int = MOST_BYTES) -> str:
    """Return a text of at most so many bytes of UTF-8; what was cut says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    return data[: most - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT


def _message(role: str, text: str, finish: str = "") -> str:
    """Return a list of one message, as JSON in the form of the conventions."""
    message: dict[str, object] = {"role": role, "parts": [{"type": "text", "content": shortened(text)}]}
    if finish:
        message["finish_reason"] = finish
    return msgspec.json.encode([message]).decode()

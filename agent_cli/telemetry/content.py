"""The texts that a span may contain. None by default: a trace shows what happened and how long it took, not what
was said."""

from collections.abc import Collection, MutableMapping
from typing import Literal

import msgspec

from . import conventions as names
from .span import Attribute

ContentKind = Literal["prompts", "answers", "arguments", "results", "commands"]
MOST_BYTES = 60_000
"""Maximum size of a text in bytes; longer texts are cut."""
_CUT = " … [cut]"


class Content:
    """Adds the texts that the user requested, by kind. They have been redacted before."""

    def __init__(self, kinds: Collection[ContentKind] = ()) -> None:
        self._kinds = frozenset(kinds)

    def prompt(self, attributes: MutableMapping[str, Attribute], text: str) -> None:
        """Add the prompt of a turn or a sub-agent."""
        if "prompts" in self._kinds and text:
            attributes[names.INPUT_MESSAGES] = _message("user", text)

    def answer(self, attributes: MutableMapping[str, Attribute], text: str, finish: str) -> None:
        """Add the answer of a model."""
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
    """Return a text of at most `most` bytes of UTF-8; a cut is marked."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    return data[: most - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT


def _message(role: str, text: str, finish: str = "") -> str:
    """Return a list with a single message, as JSON in the format of the conventions."""
    message: dict[str, object] = {"role": role, "parts": [{"type": "text", "content": shortened(text)}]}
    if finish:
        message["finish_reason"] = finish
    return msgspec.json.encode([message]).decode()

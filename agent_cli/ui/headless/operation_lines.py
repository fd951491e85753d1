"""Operations as lines of standard input: parse each line, or report what is wrong with it."""

from collections.abc import Callable
from typing import Any

import msgspec

from agent_cli.protocol.json_text import BYTE_ORDER_MARK, decode_json
from agent_cli.protocol.operation_json import OperationError, decode, name_of
from agent_cli.protocol.operations import Operation, UserInput

from .line_streams import MAX_LINE, Line


class OperationLine(msgspec.Struct, frozen=True):
    """A line of input."""

    number: int
    """Number of the line, from 1."""
    operation: Operation | None = None
    name: str = ""
    """The operation's name as written in the line."""
    wrong: str = ""
    """Why the line contains no operation."""


def read_operation(line: Line, prepared: Callable[[UserInput], UserInput]) -> OperationLine:
    """Parse a line; `prepared` makes a prompt ready to be sent, or raises ValueError."""
    if not line.is_whole:
        return OperationLine(line.number, wrong=f"longer than {MAX_LINE // 10**6} MB")
    try:
        operation = _decoded(line.data.removeprefix(BYTE_ORDER_MARK))
        if isinstance(operation, UserInput):
            operation = prepared(operation)
    except ValueError as error:
        return OperationLine(line.number, wrong=str(error))
    return OperationLine(line.number, operation, name_of(operation))


def _decoded(data: bytes) -> Operation:
    try:
        return decode(data)
    except OperationError:
        if (prompt := _prompt_of_others(data)) is None:
            raise
    return decode(prompt)


def _prompt_of_others(data: bytes) -> dict[str, Any] | None:
    """Return the prompt in a message in Claude Code's format: `{"type": "user", "message": {"content": …}}`."""
    try:
        content = decode_json(data, type=_Message).message.content
    except msgspec.DecodeError:
        return None
    blocks = [_Text(content)] if isinstance(content, str) else content
    return {
        "type": "user_input",
        "text": "\n".join(each.text for each in blocks if isinstance(each, _Text)),
        "images": [
            {"media_type": each.source.media_type, "data": each.source.data}
            for each in blocks
            if isinstance(each, _Picture)
        ],
    }


class _Text(msgspec.Struct, tag="text"):
    text: str


class _Source(msgspec.Struct):
    media_type: str
    data: str


class _Picture(msgspec.Struct, tag="image"):
    source: _Source


class _Content(msgspec.Struct):
    content: str | list[_Text | _Picture]


class _Message(msgspec.Struct, tag="user"):
    message: _Content

"""Operations as JSON, for programs that control the agent: `{"type": "user_input", "text": "…"}`.

An operation's name in snake case is its `type`; its fields are next to it. A program may submit whatever a user at
the terminal could. It may not submit texts that pass as a skill's, commands that pass as the user's own, rules
that allow calls without asking (`UserInput.allowed`), or the reason for which a turn was stopped. Closing the
session is left to the front end.
"""

import re
from base64 import b64decode
from difflib import get_close_matches
from typing import Any, get_args

import msgspec

from .json_text import decode_json
from .messages import Image
from .operations import (
    ApprovalAnswer,
    ChangeSettings,
    Compact,
    ControlAgent,
    ControlJob,
    Interrupt,
    KeepSummary,
    MarkMessage,
    Operation,
    OperationBase,
    QuestionAnswer,
    Redo,
    RemoveGrant,
    Rename,
    Resolve,
    Rewind,
    Steer,
    TakeBack,
    Uncompact,
    Undo,
    UserInput,
)

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class OperationError(ValueError):
    """The JSON is not an operation; the message says what is wrong and what would be valid."""


class Prompt(OperationBase, frozen=True, omit_defaults=True, tag="user_input"):
    """A prompt. Empty text without images continues where the last turn stopped."""

    text: str
    images: tuple[Image, ...] = ()
    is_data: bool = False
    """True if other people wrote the text: a file name in it is then no consent to read that file."""


class Stop(OperationBase, frozen=True, tag="interrupt"):
    """Stop all running work now. Queued input is returned as `input_returned`, and nothing else starts."""


_FromOutside = (
    Prompt | Steer | TakeBack | ApprovalAnswer | QuestionAnswer | Stop
    | Undo | Redo | Rewind | Resolve | Compact | KeepSummary | Uncompact | MarkMessage | Rename
    | ChangeSettings | ControlJob | ControlAgent | RemoveGrant
)  # fmt: skip
_TYPES: dict[str, type[Any]] = {str(each.__struct_config__.tag): each for each in get_args(_FromOutside)}
NAMES: tuple[str, ...] = tuple(_TYPES)
"""Allowed values of `type`."""


def decode(given: bytes | str | dict[str, Any]) -> Operation:
    """Return the operation in JSON text or in an already decoded object.

    Raises:
        OperationError: the input is not a valid operation.
    """
    fields = given if isinstance(given, dict) else _object(given)
    name = fields.get("type")
    if not isinstance(name, str) or name not in _TYPES:
        raise OperationError(_no_type(name))
    try:
        found = msgspec.convert(fields, _TYPES[name])
    except msgspec.ValidationError as error:
        raise OperationError(f"{name}: {error}; {_form(name)}") from None
    return _operation(found)


def encode(operation: Operation) -> bytes:
    """Return an operation as one line of JSON, without a newline.

    Raises:
        OperationError: the operation cannot be submitted by another program.
    """
    given: msgspec.Struct = operation
    if isinstance(operation, UserInput):
        given = Prompt(operation.text, operation.images, operation.is_data)
    elif isinstance(operation, Interrupt):
        given = Stop()
    encoded = msgspec.json.encode(given)
    if decode(encoded) != operation:
        raise OperationError(f"{type(operation).__name__} holds what cannot come from outside")
    return encoded


def name_of(operation: Operation) -> str:
    """Return the `type` of an operation."""
    return str(operation.__struct_config__.tag)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of all operations."""
    (main,), parts = msgspec.json.schema_components((_FromOutside,), ref_template="#/$defs/{name}")
    return {**main, "$defs": parts}


def _object(text: bytes | str) -> dict[str, Any]:
    try:
        found = decode_json(text)
    except msgspec.DecodeError as error:
        raise OperationError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OperationError('not a JSON object; an operation is, such as {"type": "user_input", "text": "…"}')
    return found


def _operation(found: _FromOutside) -> Operation:
    match found:
        case Prompt():
            return UserInput(found.text, tuple(map(_checked, found.images)), is_data=found.is_data)
        case Stop():
            return Interrupt()
        case _:
            return found


def _no_type(name: object) -> str:
    if name is None:
        return f"it has no `type`, which is one of {', '.join(NAMES)}"
    near = get_close_matches(str(name), NAMES, 1)
    said = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(NAMES)}"
    return f"there is no operation `{str(name)[:100]}`; {said}"


def _form(name: str) -> str:
    """Describe the fields of an operation in words."""
    fields = msgspec.structs.fields(_TYPES[name])
    if not fields:
        return "it has no fields"
    return "its fields are " + ", ".join(
        f"{each.encode_name} (required)" if each.required else each.encode_name for each in fields
    )


def _checked(image: Image) -> Image:
    """Return the image with whitespace removed from its data.

    Raises:
        OperationError: models do not accept this image type, or the data is empty or not base64.
    """
    if image.media_type not in IMAGE_TYPES:
        raise OperationError(
            f"user_input: media_type is {image.media_type[:100]!r}; models take {', '.join(IMAGE_TYPES)}"
        )
    data = re.sub(r"\s", "", image.data)
    if not data:
        raise OperationError("user_input: an image is empty")
    try:
        b64decode(data, validate=True)
    except ValueError as error:
        raise OperationError(f"user_input: the data of an image is not base64: {error}") from None
    return Image(image.media_type, data)

"""Content blocks: convert prompts to input for the engine, and texts for the client."""

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import AttachedText, UserInput
from agent_cli.protocol.paths import can_be_path, is_inside

from ..jsonrpc.messages import INVALID_PARAMS, RpcError
from ..sessions.host import HostError


def text_block(text: str) -> dict[str, Any]:
    """Return a text block for the client."""
    return {"type": "text", "text": text}


class _Block(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    data: str = ""
    uri: str | None = None
    name: str = ""
    resource: "_Resource | None" = None


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class PromptReader:
    """Reads the blocks of a prompt. Text typed by the user and files linked by the editor are part of the prompt;
    embedded resources are added as data, in which no names are followed."""

    def __init__(self, folders: Sequence[str], picture: Callable[[bytes], Image]) -> None:
        """`folders` are those of the session; `picture` fits an image for a model."""
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._picture = picture

    def read(self, blocks: Sequence[dict[str, Any]]) -> UserInput:
        """Return the input. Call in a thread, because images are decoded.

        Raises:
            RpcError: a block cannot be used.
        """
        parts: list[str] = []
        images: list[Image] = []
        brought: list[AttachedText] = []
        for at, given in enumerate(blocks):
            try:
                block = msgspec.convert(given, _Block)
            except msgspec.ValidationError as error:
                raise RpcError(INVALID_PARAMS, f"prompt[{at}]: {error}.") from error
            match block:
                case _Block(type="text"):
                    parts.append(block.text)
                case _Block(type="image"):
                    images.append(self._image(block.data, at))
                case _Block(type="resource_link", uri=str(uri)):
                    parts.append(self._link(uri, block.name))
                case _Block(type="resource", resource=_Resource(text=str(text)) as resource):
                    parts.append(f"`{self._name(resource.uri)}`")
                    brought.append(self._resource(resource.uri, text))
                case _Block(type="resource", resource=_Resource(blob=str(blob), mime_type=str(kind)) as resource):
                    if not kind.startswith("image/"):
                        raise RpcError(INVALID_PARAMS, f"prompt[{at}]: {kind} cannot be given to the model.")
                    parts.append(f"`{self._name(resource.uri)}`")
                    images.append(self._image(blob, at))
                case _:
                    raise RpcError(INVALID_PARAMS, f"prompt[{at}]: {block.type} cannot be used here.")
        text = _joined(parts)
        if not text.strip() and not images:
            raise RpcError(INVALID_PARAMS, "The prompt is empty.")
        return UserInput(text, images=tuple(images), brought=tuple(brought))

    def _image(self, data: str, at: int) -> Image:
        try:
            return self._picture(base64.b64decode(data, validate=True))
        except (binascii.Error, HostError) as error:
            raise RpcError(INVALID_PARAMS, f"prompt[{at}]: the image cannot be used: {error}") from error

    def _link(self, uri: str, name: str) -> str:
        """Return the mention of a file, which the engine reads; another URI is only named."""
        path = file_of(uri)
        if path is None or '"' in path or "\n" in path:
            return f"[{name or uri}]({uri})"
        return f'@"{self._relative(path)}"{_lines(uri)}'

    def _resource(self, uri: str, text: str) -> AttachedText:
        """Return an embedded text: a file of the workspace as if mentioned, any other as untrusted text."""
        name, path = self._name(uri), file_of(uri)
        whole = f'<resource uri="{name.translate(_QUOTED)}">\n{text}\n</resource>'
        is_own = path is not None and is_inside(os.path.realpath(path), self._folders)
        return AttachedText(name, whole, source="" if is_own else name, kind="resource")

    def _name(self, uri: str) -> str:
        path = file_of(uri)
        return f"{self._relative(path)}{_lines(uri)}" if path is not None else uri

    def _relative(self, path: str) -> str:
        """Return the path from the first folder, however the editor came there; of a file elsewhere as given."""
        root, real = self._folders[0], os.path.realpath(path)
        if not is_inside(real, [root]):
            return path
        named = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return os.path.relpath(named if is_inside(named, [root]) else real, root)


_QUOTED = str.maketrans('"<>', "'()")


def file_of(uri: str) -> str | None:
    """Return the absolute path of a file URI on this machine; None for any other URI."""
    path = uri
    if uri.startswith("file:"):
        try:
            parts = urlsplit(uri)
        except ValueError:  # such as an unclosed bracket
            return None
        if parts.netloc not in ("", "localhost"):
            return None
        path = unquote(parts.path)
    return path if path.startswith("/") and can_be_path(path) else None


def _lines(uri: str) -> str:
    """Return the line range after `#L` in a file URI, in the syntax of a mention."""
    first, _, last = uri.partition("#L")[2].partition(":")[0].replace("-L", "-").partition("-")
    if not first.isdecimal():
        return ""
    return f":{first}-{last}" if last.isdecimal() else f":{first}"


def _joined(parts: Sequence[str]) -> str:
    """Join the parts into one text: editors split a sentence at each mention, with or without blanks."""
    text = ""
    for part in parts:
        needs_blank = text and part and not text[-1].isspace() and not part[0].isspace()
        text += (" " if needs_blank and part[0] not in ".,;:!?)" else "") + part
    return text

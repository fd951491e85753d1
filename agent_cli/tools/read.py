"""`read_file`: a page of a text file with line numbers, or a picture."""

import os
from typing import Annotated

import msgspec

from ..protocol.actions import Action, ReadPath
from ..protocol.messages import Image
from ..workspace.files import FileError, open_regular, read_bytes
from ..workspace.pages import Page, read_page
from ..workspace.paths import Resolved
from .base import Preview, ToolContext, ToolError, ToolOutcome, locate

_MAX_IMAGE_BYTES = 5_000_000
_THREAD_FROM_BYTES = 4_000_000
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class ReadParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `read_file` takes."""

    path: str
    offset: Annotated[int, msgspec.Meta(description="First line, from 1")] = 1
    limit: Annotated[int, msgspec.Meta(description="Number of lines")] = 2000


class ReadFile:
    """Reads; records the hash of what it saw, which is what allows a later overwrite."""

    name = "read_file"
    Params = ReadParams
    editable = ""

    def title(self, params: ReadParams) -> str:
        return params.path

    def actions(self, params: ReadParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path)
        return (ReadPath(place.real, place.shown),)

    async def preview(self, params: ReadParams, context: ToolContext) -> Preview:
        return Preview(f"Read {locate(context, params.path).real}")

    async def run(self, params: ReadParams, context: ToolContext) -> ToolOutcome:
        place = locate(context, params.path)
        if os.path.isdir(place.real):
            raise ToolError(f"{place.shown} is a directory; use list_dir to see what is in it")
        first, limit = max(1, params.offset), max(1, params.limit)
        try:
            media_type, size_bytes = _looked_at(place)
            if media_type:
                return _image(place, media_type)
            page = await _page(place, size_bytes, first, limit)
        except FileError as error:
            raise ToolError(str(error)) from error
        if first > max(1, page.total or first):
            raise ToolError(f"{place.shown} has {page.total} lines; there is no line {first}")
        return ToolOutcome(
            text=_numbered(page, place),
            display=_summary(page),
            seen={place.real: page.hash} if page.hash else {},
        )


async def _page(place: Resolved, size_bytes: int, first: int, limit: int) -> Page:
    """A large file is read in a thread, so that the program stays responsive."""
    if size_bytes < _THREAD_FROM_BYTES:
        return read_page(place.real, place.shown, first, limit)
    import asyncio

    return await asyncio.to_thread(read_page, place.real, place.shown, first, limit)


def _looked_at(place: Resolved) -> tuple[str, int]:
    """The media type of a picture that models can see, empty for anything else; and the size in bytes."""
    fd, status = open_regular(place.real, place.shown)
    try:
        head = os.read(fd, 16)
    finally:
        os.close(fd)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp", status.st_size
    kind = next((kind for magic, kind in _PICTURES.items() if head.startswith(magic)), "")
    return kind, status.st_size


def _image(place: Resolved, media_type: str) -> ToolOutcome:
    import base64

    try:
        data, _ = read_bytes(place.real, place.shown, _MAX_IMAGE_BYTES)
    except FileError as error:
        raise FileError(f"{error}; a picture can be shown up to that size, so make a smaller copy") from error
    text = f"[{place.shown}: {media_type}, {len(data)} bytes; the picture is attached]"
    image = Image(media_type, base64.b64encode(data).decode("ascii"))
    return ToolOutcome(text=text, images=(image,))


def _numbered(page: Page, place: Resolved) -> str:
    notes = _notes(page, place)
    if not page.lines:
        return f"[{place.shown} is empty]"
    lines = [f"{number}\t{line}" for number, line in enumerate(page.lines, page.first)]
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def _notes(page: Page, place: Resolved) -> list[str]:
    notes = []
    last = page.first + len(page.lines) - 1
    if page.total is None or last < page.total:
        total = page.total or f"a file of {page.size_bytes} bytes, too large to count"
        call = msgspec.json.encode({"path": place.shown, "offset": last + 1}).decode()
        notes.append(f"Lines {page.first}-{last} of {total} shown. To go on: read_file {call}")
    if page.shortened:
        notes.append(
            f"{page.shortened} long lines are shown without their middle; to see it: grep, or shell with"
            " sed -n 'LINEp' FILE | cut -c FROM-TO"
        )
    if page.guessed:
        notes.append(f"Not UTF-8; shown as {page.encoding}, which is a guess")
    elif page.encoding != "utf-8":
        notes.append(f"Encoding: {page.encoding}; it is kept by edits")
    if page.crlf:
        notes.append("Line ends are CRLF; write \\n in edits, they are kept")
    return notes


def _summary(page: Page) -> str:
    total = "" if page.total is None or page.total == len(page.lines) else f" of {page.total}"
    return f"{len(page.lines)}{total} {'line' if page.total == 1 else 'lines'}"

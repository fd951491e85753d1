"""`read_file`: a page of a text file with line numbers, an image, a document as text, or the entries of a
folder."""

import asyncio
import contextlib
import os
from typing import Annotated

import msgspec

from agent_cli.protocol.actions import Action, ReadPath
from agent_cli.protocol.messages import ResultKind
from agent_cli.protocol.paths import is_inside
from agent_cli.workspace.files.paging import PAGE_BYTES, Page, Part, page_of, read_page, read_part
from agent_cli.workspace.files.read_coverage import Coverage
from agent_cli.workspace.files.reader import FileError, content_hash, open_regular, read_bytes
from agent_cli.workspace.paths import Resolved

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome, locate
from ..kit.output import PAGE_BYTES_PER_TOKEN, counted

_THREAD_FROM_BYTES = 2_000_000
_HEAD_BYTES = 1024


def _tmp_hint(context: ToolContext, real: str) -> str:
    """Return a hint if a file that cannot be read is in the `/tmp` of sandboxed commands."""
    top = next((top for top in ("/tmp", "/var/tmp") if is_inside(real, (top,))), "")
    confinement = context.confine() if top else None
    if confinement is None or not confinement.tmp:
        return ""
    theirs = os.path.join(confinement.tmp, os.path.relpath(real, top))
    hint = ". A command made it: in the sandbox they have a /tmp of their own. Read it with a command"
    return hint if os.path.lexists(theirs) else ""


class ReadParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `read_file`."""

    path: str
    offset: Annotated[int, msgspec.Meta(description="First line, cell or page, from 1; -9: the last 9 lines")] = 1
    limit: Annotated[int, msgspec.Meta(description="Number of lines, cells or pages")] = 2000
    column: Annotated[int, msgspec.Meta(description="Only line `offset`, from this character (from 1)")] = 0


class ReadFile(BasicTool):
    """Reads files. Once all of a file was shown, its hash is recorded, which permits overwriting it."""

    name = "read_file"
    label = "Read"
    counted = "file"
    Params = ReadParams
    result_kind: ResultKind = "summary"

    def __init__(self) -> None:
        self._coverage = Coverage()

    def title(self, params: ReadParams) -> str:
        return params.path

    def actions(self, params: ReadParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path, existing=True)
        return (ReadPath(place.real, place.shown),)

    async def preview(self, params: ReadParams, context: ToolContext) -> Preview:
        return Preview(f"Read {locate(context, params.path).real}")

    async def run(self, params: ReadParams, context: ToolContext) -> ToolOutcome:
        place = locate(context, params.path)
        if os.path.isdir(place.real):
            from ..search.list_dir import ListDir, ListParams

            return await ListDir().run(ListParams(params.path), context)
        first, limit = max(1, params.offset), max(1, params.limit)
        try:
            kind, size_bytes = _looked_at(place)
            if params.column > 0 and kind in ("text", "notebook"):
                return await self._part(context, place, size_bytes, first, params.column)
            if kind == "picture":
                return await _picture(place)
            if kind in ("pdf", "zip"):
                from . import documents

                read = documents.read_pdf if kind == "pdf" else documents.read_zip
                return await read(context, place, first, limit, self._page(context))
            if kind == "notebook" and (outcome := await self._notebook(context, place, first, limit)):
                return outcome
            return await self._text(context, place, size_bytes, params.offset or 1, limit)
        except FileError as error:
            raise ToolError(f"{error}{_tmp_hint(context, place.real)}") from error
        except OSError as error:
            raise ToolError(f"{place.shown} cannot be read: {error.strerror or error}") from error

    def _page(self, context: ToolContext) -> int:
        """Return the bytes of a page: fewer for a small context window, so that the result is not truncated
        afterwards."""
        return min(PAGE_BYTES, int(PAGE_BYTES_PER_TOKEN * context.max_tokens()))

    async def _text(
        self, context: ToolContext, place: Resolved, size_bytes: int, first: int, limit: int
    ) -> ToolOutcome:
        if context.buffers is not None and (outcome := await self._unsaved(context, place, first, limit)):
            return outcome
        arguments = (place.real, place.shown, first, limit, self._page(context))
        large = size_bytes >= _THREAD_FROM_BYTES
        page = await asyncio.to_thread(read_page, *arguments) if large else read_page(*arguments)
        if first > max(1, page.total or first):
            raise ToolError(f"{place.shown} has {counted(page.total or 0, 'line')}; there is no line {first}")
        complete = self._coverage.page(place.real, page)
        seen = await _seen(context, place, page.hash if complete else None, page.data)
        return ToolOutcome(text=_numbered(page, place), display=_summary(page), seen=seen)

    async def _unsaved(self, context: ToolContext, place: Resolved, first: int, limit: int) -> ToolOutcome | None:
        """Return the file as in the user's editor; None if it has no unsaved changes. The file does not count as
        seen, because its text on disk differs."""
        from ..kit.editor_buffers import unsaved_text

        text = await unsaved_text(context.buffers, place.real)
        if text is None:
            return None
        page = page_of(text.encode("utf-8", "replace"), place.shown, first, limit, self._page(context))
        note = "[As shown in the user's editor, with changes that are not saved yet]"
        return ToolOutcome(text=f"{_numbered(page, place)}\n{note}", display=f"{_summary(page)}, unsaved")

    async def _part(
        self, context: ToolContext, place: Resolved, size_bytes: int, line: int, column: int
    ) -> ToolOutcome:
        arguments = (place.real, place.shown, line, column, self._page(context))
        large = size_bytes >= _THREAD_FROM_BYTES
        part = await asyncio.to_thread(read_part, *arguments) if large else read_part(*arguments)
        if part.length is not None and column > max(1, part.length):
            raise ToolError(
                f"Line {line} of {place.shown} has {counted(part.length, 'character')}; there is none at {column}"
            )
        complete = self._coverage.part(place.real, part)
        seen = await _seen(context, place, part.hash if complete else None, None)
        return ToolOutcome(text=_part_text(part, place), display=f"a part of line {line}", seen=seen)

    async def _notebook(self, context: ToolContext, place: Resolved, first: int, limit: int) -> ToolOutcome | None:
        """Return the rendered notebook; None if the file is not a notebook, and is read as text then."""
        from . import notebook

        data, _ = await asyncio.to_thread(read_bytes, place.real, place.shown)
        found = await asyncio.to_thread(notebook.parse, data)
        if found is None:
            return None
        if first > max(1, len(found.cells)):
            raise ToolError(f"{place.shown} has {counted(len(found.cells), 'cell')}; there is no cell {first}")
        text = notebook.render(found, place, first, limit, self._page(context))
        # Never counts as seen in full: rewriting it would lose outputs, images and metadata.
        return ToolOutcome(text=text, display=counted(len(found.cells), "cell"))


async def _seen(context: ToolContext, place: Resolved, hash: str | None, data: bytes | None) -> dict[str, str]:
    """Return what the model knows after all of a file was shown; `hash` is None before that. The content is kept
    for merging with changes by others."""
    if hash is None:
        return {}
    if data is None:
        with contextlib.suppress(FileError):
            data, _ = await asyncio.to_thread(read_bytes, place.real, place.shown)
    if data is not None and content_hash(data) == hash:
        context.known.keep(hash, data)
    return {place.real: hash}


def _looked_at(place: Resolved) -> tuple[str, int]:
    """Return the kind of a file, by its beginning and name, and its size in bytes."""
    from .images import picture_kind

    fd, status = open_regular(place.real, place.shown)
    try:
        head = os.read(fd, _HEAD_BYTES)
    finally:
        os.close(fd)
    if picture_kind(head):
        return "picture", status.st_size
    if b"%PDF-" in head and b"\n" not in head[: head.index(b"%PDF-")].strip():
        return "pdf", status.st_size
    if head.startswith(b"PK\x03\x04"):
        return "zip", status.st_size
    return "notebook" if place.real.endswith(".ipynb") else "text", status.st_size


async def _picture(place: Resolved) -> ToolOutcome:
    from .images import MAX_FILE_BYTES, PictureError, fit

    try:
        data, _ = await asyncio.to_thread(read_bytes, place.real, place.shown, MAX_FILE_BYTES)
    except FileError as error:
        raise FileError(f"{error}; make a smaller copy of the image to see it") from error
    try:
        fitted = await asyncio.to_thread(fit, data)
    except PictureError as error:
        raise ToolError(f"The image {place.shown} cannot be shown: {error}") from error
    return ToolOutcome(text=f"[{place.shown}: {fitted.told}; it is attached]", images=(fitted.image,))


def _numbered(page: Page, place: Resolved) -> str:
    if not page.lines:
        return f"[{place.shown} is empty]"
    lines = [f"{number}\t{line}" for number, line in enumerate(page.lines, page.first)]
    return "\n".join([*lines, *(f"[{note}]" for note in _notes(page, place))])


def _notes(page: Page, place: Resolved) -> list[str]:
    notes = []
    last = page.first + len(page.lines) - 1
    if page.shortened:
        lines = ", ".join(map(str, page.shortened[:5])) + (" …" if len(page.shortened) > 5 else "")
        notes.append(
            f"Long lines without their middle: {lines}. To see one whole:"
            f" read_file {_call(place, offset=page.shortened[0], column=1)}"
        )
    if page.encoding.startswith("damaged"):
        notes.append("Damaged UTF-8: the bytes shown as \ufffd are no text, so it cannot be edited")
    elif page.guessed:
        notes.append(f"Not UTF-8; shown as {page.encoding}, which is a guess")
    elif page.encoding != "utf-8":
        notes.append(f"Encoding: {page.encoding}; it is kept by edits")
    if page.crlf:
        notes.append("Line ends are CRLF; write \\n in edits, they are kept")
    if page.total is None or last < page.total:
        total = page.total or f"a file of {page.size_bytes} bytes, too large to count"
        notes.append(
            f"Lines {page.first}-{last} of {total} shown. To continue: read_file {_call(place, offset=last + 1)}"
        )
    return notes


def _part_text(part: Part, place: Resolved) -> str:
    last = part.column + len(part.text) - 1
    of = f" of {part.length}" if part.length is not None else ""
    note = f"Line {part.line}, characters {part.column}-{last}{of}"
    if part.length is None or last < part.length:
        note += f". To continue: read_file {_call(place, offset=part.line, column=last + 1)}"
    return f"{part.text}\n[{note}]"


def _call(place: Resolved, **arguments: int) -> str:
    return msgspec.json.encode({"path": place.shown, **arguments}).decode()


def _summary(page: Page) -> str:
    total = "" if page.total is None or page.total == len(page.lines) else f" of {page.total}"
    return f"{len(page.lines)}{total} {'line' if page.total == 1 else 'lines'}"

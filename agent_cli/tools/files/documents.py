"""Read PDFs for `read_file`, as the text of their pages, and office documents, e-books and ZIP archives, as lines.
Parsing runs in a child process with limits on time and memory, since a thread that loops on a hostile file could
never be stopped."""

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.workspace.documents.pdf_text import PdfAnswer, PdfPage, PdfRequest
from agent_cli.workspace.documents.zip_text import ZipAnswer, ZipRequest
from agent_cli.workspace.paths import Resolved

from ..kit.base import ToolContext, ToolError, ToolOutcome
from ..kit.output import counted
from ..kit.worker_call import run_in_worker

_SOFT_S = 15
_HARD_S = 25.0


async def read_pdf(context: ToolContext, place: Resolved, first: int, limit: int, page_bytes: int) -> ToolOutcome:
    """Return the text of some pages.

    Raises:
        ToolError: the file is encrypted or damaged, or lacks that page.
    """
    wanted = PdfRequest(place.real, first, limit, page_bytes, _SOFT_S)
    try:
        answer = await run_in_worker(context, "documents.pdf_text", msgspec.json.encode(wanted), timeout_s=_HARD_S)
    except ToolError as error:
        raise ToolError(f"{place.shown} cannot be read as PDF. {error}") from error
    found = decode_json(answer, type=PdfAnswer)
    if found.encrypted:
        raise ToolError(f"{place.shown} is encrypted; its text cannot be read without the password")
    if not found.pages:
        _refuse(found, place, first)
    return ToolOutcome(text=_text(found, place, page_bytes), display=_summary(found))


async def read_zip(context: ToolContext, place: Resolved, first: int, limit: int, page_bytes: int) -> ToolOutcome:
    """Return some lines of a document in a ZIP archive, or of the list of its files.

    Raises:
        ToolError: the file is encrypted or damaged, or lacks that line.
    """
    wanted = msgspec.json.encode(ZipRequest(place.real, first, limit, page_bytes))
    try:
        found = decode_json(
            await run_in_worker(context, "documents.zip_text", wanted, timeout_s=_HARD_S), type=ZipAnswer
        )
    except ToolError as error:
        raise ToolError(f"{place.shown} cannot be read. {error}") from error
    if found.error:
        raise ToolError(f"{place.shown} cannot be read as an archive or an office document: {found.error}")
    if not found.lines:
        raise ToolError(f"{place.shown} has {counted(found.total, 'line')} of text; there is no line {first}")
    last = first + len(found.lines) - 1
    parts = [f"{number}\t{line}" for number, line in enumerate(found.lines, first)]
    parts.append(
        "[An archive: the sizes and names of its files]"
        if found.is_list
        else "[The text of the document, without its layout; it cannot be edited as text]"
    )
    if last < found.total:
        call = msgspec.json.encode({"path": place.shown, "offset": last + 1}).decode()
        parts.append(f"[Lines {first}-{last} of {found.total} shown. To continue: read_file {call}]")
    return ToolOutcome(text="\n".join(parts), display=counted(len(found.lines), "line"))


def _refuse(found: PdfAnswer, place: Resolved, first: int) -> None:
    if found.slow:
        raise ToolError(f"{place.shown}: page {first} was not read within {_SOFT_S} s")
    if found.error:
        raise ToolError(f"{place.shown} cannot be read as PDF: {found.error}")
    raise ToolError(f"{place.shown} has {counted(found.total, 'page')}; there is no page {first}")


def _text(found: PdfAnswer, place: Resolved, page_bytes: int) -> str:
    parts = [_page_text(page, found.total, page_bytes) for page in found.pages]
    last = found.pages[-1].number
    if found.slow or found.error:
        parts.append(f"[Page {last + 1} could not be read: {found.error or f'it took longer than {_SOFT_S} s'}]")
    elif last < found.total:
        call = msgspec.json.encode({"path": place.shown, "offset": last + 1}).decode()
        parts.append(
            f"[Pages {found.pages[0].number}-{last} of {found.total} shown. To continue: read_file {call}]"
        )
    if not any(page.text for page in found.pages):
        parts.append(
            "[These pages have no text, they are probably scanned. To read them: turn a page into an image"
            " with shell (pdftoppm -png) and read that]"
        )
    return "\n".join(parts)


def _page_text(page: PdfPage, total: int, page_bytes: int) -> str:
    of = f" of {total}" if total else ""
    pictures = f" ({page.pictures} images)" if page.pictures else ""
    text = page.text if len(page.text) <= page_bytes else page.text[:page_bytes]
    left_out = " The rest of this page is left out." if page.cut or len(text) < len(page.text) else ""
    return f"[Page {page.number}{of}{pictures}.{left_out}]\n{text}".rstrip("\n")


def _summary(found: PdfAnswer) -> str:
    shown = len(found.pages)
    return f"{shown} of {found.total} pages" if found.total != shown else counted(shown, "page")

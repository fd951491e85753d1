"""Extract the text of PDF pages with pypdf. Only runs in a child process (see `worker`), because a PDF can make
its reader loop or exhaust memory."""

import os
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json

from ..files.reader import open_regular


class PdfRequest(msgspec.Struct, frozen=True):
    """The requested pages."""

    path: str
    first: int
    """Number of the first page, from 1."""
    limit: int
    max_bytes: int
    """Approximate limit in bytes of UTF-8. A page that exceeds it is completed, but cut at three times the
    limit."""
    soft_s: int
    """Seconds after which the pages read so far are returned."""


class PdfPage(msgspec.Struct, frozen=True):
    """The text of one page."""

    number: int
    text: str
    pictures: int
    cut: bool = False


class PdfAnswer(msgspec.Struct, frozen=True):
    """The extracted pages."""

    total: int = 0
    pages: tuple[PdfPage, ...] = ()
    encrypted: bool = False
    slow: bool = False
    """True if time ran out while reading the page after the last one here."""
    error: str = ""


class _SlowError(Exception):
    """Time has run out."""


def work(request: bytes) -> bytes:
    """Answer an encoded `PdfRequest` with an encoded `PdfAnswer`."""
    import logging
    import signal

    logging.disable(logging.CRITICAL)
    wanted = decode_json(request, type=PdfRequest)
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.alarm(wanted.soft_s)
    found: list[PdfPage] = []
    try:
        answer = _answer(wanted, found)
    except _SlowError:
        answer = PdfAnswer(pages=tuple(found), slow=True)
    except MemoryError:
        answer = PdfAnswer(pages=tuple(found), error="it needs too much memory")
    except Exception as error:  # pypdf raises arbitrary errors on damaged files
        answer = PdfAnswer(pages=tuple(found), error=f"{type(error).__name__}: {error}"[:300])
    signal.alarm(0)
    return msgspec.json.encode(answer)


def _time_is_up(number: int, frame: object) -> None:
    raise _SlowError


def _answer(wanted: PdfRequest, found: list[PdfPage]) -> PdfAnswer:
    from pypdf import PdfReader

    fd, _ = open_regular(wanted.path, "the file")
    with os.fdopen(fd, "rb") as file:  # the reader needs an open file, to read parts of it
        reader = PdfReader(file)
        if reader.is_encrypted and not _opened(reader):
            return PdfAnswer(encrypted=True)
        total = len(reader.pages)
        room = wanted.max_bytes
        for number in range(wanted.first, min(total, wanted.first + wanted.limit - 1) + 1):
            page = _page(reader.pages[number - 1], number, 3 * wanted.max_bytes)
            room -= len(page.text.encode()) + 40
            if found and room < 0:
                break
            found.append(page)
        return PdfAnswer(total, tuple(found))


def _opened(reader: Any) -> bool:
    """Return True if the empty password, which many files have, opens the file."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # a missing cipher is an ImportError; damaged data may raise anything
        return False


def _page(page: Any, number: int, max_bytes: int) -> PdfPage:
    text = page.extract_text().encode("utf-8", "replace").decode()
    text = "".join(char for char in text if char >= " " or char in "\n\t").strip()
    return PdfPage(number, text[:max_bytes], _pictures(page), len(text) > max_bytes)


def _pictures(page: Any) -> int:
    """Return the number of images on a page, without decoding them."""
    try:
        objects = page["/Resources"]["/XObject"].get_object()
        return sum(objects[name].get_object().get("/Subtype") == "/Image" for name in objects)
    except (KeyError, AttributeError, TypeError):
        return 0

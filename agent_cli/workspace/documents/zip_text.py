"""Extract the text of office documents and e-books, which are XML in a ZIP archive; of any other archive, the
names of its files. Only runs in a child process (see `worker`), since a small archive can hold endless data."""

import os
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import msgspec

from agent_cli.protocol.json_text import decode_json

from ..files.reader import open_regular
from .html_bare import bare_text

_MOST_BYTES = 60_000_000
"""Maximum size of one file in the archive."""
_MOST_GAP = 200
"""Maximum number of empty cells between two others, as shown."""
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " ", "noBreakHyphen": "-"}
"""Elements that stand for a character."""
_NOTES = {"footnote": "", "endnote": "e", "comment": "c"}
"""Kinds of notes in a Word document, and what distinguishes their numbers."""


class ZipRequest(msgspec.Struct, frozen=True):
    """The requested lines."""

    path: str
    first: int
    limit: int
    max_bytes: int
    """Approximate limit in bytes of UTF-8."""


class ZipAnswer(msgspec.Struct, frozen=True):
    """The lines of a document."""

    total: int = 0
    lines: tuple[str, ...] = ()
    is_list: bool = False
    """True if the lines are the names of the files in an archive."""
    error: str = ""


def work(request: bytes) -> bytes:
    """Answer an encoded `ZipRequest` with an encoded `ZipAnswer`."""
    wanted = decode_json(request, type=ZipRequest)
    try:
        answer = _answer(wanted)
    except MemoryError:
        answer = ZipAnswer(error="it needs too much memory")
    except Exception as error:  # damaged archives raise arbitrary errors
        answer = ZipAnswer(error=f"{type(error).__name__}: {error}"[:300])
    return msgspec.json.encode(answer)


def _answer(wanted: ZipRequest) -> ZipAnswer:
    fd, _ = open_regular(wanted.path, "the file")
    with os.fdopen(fd, "rb") as file, zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        read = next((text for needed, text in _READERS.items() if names.issuperset(needed.split())), None)
        text = "\n".join(read(archive) if read else _names(archive))
    lines = "".join(char for char in text if char >= " " or char in "\n\t").split("\n")
    room = wanted.max_bytes
    shown: list[str] = []
    for line in lines[wanted.first - 1 : wanted.first - 1 + wanted.limit]:
        cut = line.encode()[: wanted.max_bytes].decode("utf-8", "ignore")
        room -= len(cut.encode()) + 8
        if shown and room < 0:
            break
        shown.append(cut)
    return ZipAnswer(len(lines), tuple(shown), read is None)


def _names(archive: zipfile.ZipFile) -> Iterator[str]:
    return (f"{each.file_size:>12,}  {each.filename}" for each in archive.infolist() if not each.is_dir())


def _word(archive: zipfile.ZipFile) -> Iterator[str]:
    yield from _blocks(_xml(archive, "word/document.xml"))
    for kind, letter in _NOTES.items():
        if f"word/{kind}s.xml" in archive.namelist():
            for note in _xml(archive, f"word/{kind}s.xml"):
                if text := " ".join(filter(None, _blocks(note))):  # separators have none
                    yield f"[^{letter}{_attribute(note, 'id')}]: {text}"


def _open_document(archive: zipfile.ZipFile) -> Iterator[str]:
    return _blocks(_xml(archive, "content.xml"))


def _blocks(parent: Element) -> Iterator[str]:
    """Yield the paragraphs and the rows of tables below an element."""
    for each in parent:
        match _tag(each):
            case "p" | "h":
                yield _heading(each) + _text(each)
            case "tr" | "table-row":
                cells = [" ".join(filter(None, _blocks(cell))) for cell in _cells(each)]
                yield "\t".join(cells).rstrip()
            case "table" if name := _attribute(each, "name"):
                yield f"[Table {name}]"
                yield from _blocks(each)
            case "page":
                yield f"[{_attribute(each, 'name') or 'Page'}]"
                yield from _blocks(each)
            case "Fallback":  # the same again, for other programs
                pass
            case _:
                yield from _blocks(each)


def _cells(row: Element) -> Iterator[Element]:
    """Yield the cells of a row, empty ones as often as they are repeated."""
    for cell in row:
        if _tag(cell) in ("tc", "table-cell", "covered-table-cell"):
            count = _attribute(cell, "number-columns-repeated")
            yield from [cell] * min(int(count) if count.isdecimal() else 1, _MOST_GAP)


def _heading(paragraph: Element) -> str:
    style = next((_attribute(each, "val") for each in paragraph.iter() if _tag(each) == "pStyle"), "")
    named = re.fullmatch(r"[Hh]eading(\d)", style)
    level = named[1] if named else _attribute(paragraph, "outline-level") if _tag(paragraph) == "h" else ""
    return "#" * int(level) + " " if level.isdecimal() else ""


def _text(paragraph: Element) -> str:
    """Return the text of a paragraph; in Office's files only `t` has text, in OpenDocument every element may."""
    is_office = "openxmlformats" in paragraph.tag or "ooxml" in paragraph.tag
    parts: list[str] = []

    def add(element: Element) -> None:
        tag = _tag(element)
        if tag in ("delText", "instrText", "annotation", "tracked-changes", "Fallback"):
            return
        parts.append(_CHARACTERS.get(tag, ""))
        if (kind := tag.removesuffix("Reference")) != tag and kind in _NOTES:
            parts.append(f"[^{_NOTES[kind]}{_attribute(element, 'id')}]")
        parts.append((element.text or "") if not is_office or tag == "t" else "")
        for each in element:
            add(each)
            parts.append((each.tail or "") if not is_office else "")

    add(paragraph)
    return "".join(parts)


def _slides(archive: zipfile.ZipFile) -> Iterator[str]:
    listed = (each for each in _xml(archive, "ppt/presentation.xml").iter() if _tag(each) == "sldId")
    ids = [value for each in listed for key, value in each.items() if key.endswith("}id")]
    for number, name in enumerate(filter(None, map(_relationships(archive, "ppt/presentation.xml").get, ids)), 1):
        yield f"[Slide {number}]"
        yield from filter(None, _blocks(_xml(archive, name)))


def _sheets(archive: zipfile.ZipFile) -> Iterator[str]:
    strings = []
    if "xl/sharedStrings.xml" in archive.namelist():
        strings = [_joined(each) for each in _xml(archive, "xl/sharedStrings.xml") if _tag(each) == "si"]
    targets = _relationships(archive, "xl/workbook.xml")
    for sheet in _xml(archive, "xl/workbook.xml").iter():
        if _tag(sheet) == "sheet":
            yield f"[Sheet {sheet.get('name', '')}; dates are day numbers]"
            path = targets.get(_attribute(sheet, "id"), "")
            rows = (each for each in _xml(archive, path).iter() if _tag(each) == "row")
            yield from ("\t".join(_row(row, strings)) for row in rows)


def _row(row: Element, strings: list[str]) -> list[str]:
    found: list[str] = []
    for cell in row:
        letters = re.match(r"[A-Z]+", cell.get("r", ""))
        at = sum((ord(letter) - 64) * 26**n for n, letter in enumerate(reversed(letters[0]))) if letters else 0
        found += [""] * min(max(0, at - 1 - len(found)), _MOST_GAP)
        value = next((each.text or "" for each in cell if _tag(each) == "v"), "")
        if cell.get("t") == "s" and value:
            value = strings[int(value)]
        found.append(value or _joined(cell))
    return found


def _joined(element: Element) -> str:
    return "".join(each.text or "" for each in element.iter() if _tag(each) == "t")


def _book(archive: zipfile.ZipFile) -> Iterator[str]:
    container = _xml(archive, "META-INF/container.xml")
    path = next(each.get("full-path", "") for each in container.iter() if _tag(each) == "rootfile")
    package = list(_xml(archive, path).iter())
    files = {each.get("id"): unquote(each.get("href", "")) for each in package if _tag(each) == "item"}
    for chapter in (each.get("idref") for each in package if _tag(each) == "itemref"):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), files.get(chapter, "")))
        yield f"[{name}]"
        yield from bare_text(_data(archive, name).decode("utf-8", "replace")).split("\n")


_READERS: dict[str, Callable[[zipfile.ZipFile], Iterable[str]]] = {
    "word/document.xml": _word,
    "xl/workbook.xml": _sheets,
    "ppt/presentation.xml": _slides,
    "META-INF/container.xml": _book,
    "META-INF/manifest.xml content.xml": _open_document,
}
"""Files in the archive → the reader of such documents."""


def _relationships(archive: zipfile.ZipFile, name: str) -> dict[str, str]:
    """Return the targets of an Office file's relationships by their ids."""
    folder, own = posixpath.split(name)
    return {
        each.get("Id", ""): posixpath.normpath(posixpath.join("/", folder, each.get("Target", ""))).lstrip("/")
        for each in _xml(archive, f"{folder}/_rels/{own}.rels")
    }


def _xml(archive: zipfile.ZipFile, name: str) -> Element:
    return ElementTree.fromstring(_data(archive, name))


def _data(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{name} is larger than {_MOST_BYTES:,} bytes")
    return data


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    """Return an attribute, whatever its namespace."""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")

"""PDFs are read as text by page, office documents by line, at the cost of what is shown, and hostile ones are
stopped."""

import io
import sqlite3
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from pypdf import PdfWriter

from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.kit.worker_call import run_in_worker
from agent_cli.workspace.documents.pdf_text import PdfAnswer, PdfRequest
from tests.rows import each_row
from tests.tools.calls import call


def pdf(
    pages: Sequence[bytes], *, resources: bytes = b"/Font << /F1 3 0 R >>", extra: Sequence[bytes] = ()
) -> bytes:
    """A document with these content streams, one a page; `extra` objects are numbered from 4."""
    first = 4 + len(extra)
    kids = b" ".join(b"%d 0 R" % (first + 2 * n) for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *extra,
    ]
    for number, content in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << %s >> /Contents %d 0 R >>"
            % (resources, first + 2 * number + 1)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def words(text: str) -> bytes:
    return f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()


async def test_pages_are_shown_as_text(context: ToolContext, root: Path) -> None:
    (root / "f.pdf").write_bytes(pdf([words("Hello one"), words("Hello two")]))
    outcome = await call(context, "read_file", path="f.pdf")
    assert outcome.text == "[Page 1 of 2.]\nHello one\n[Page 2 of 2.]\nHello two"
    assert outcome.display == "2 pages" and not outcome.seen


async def test_a_long_document_comes_in_pages_that_say_how_to_go_on(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(pdf([words(f"Page number {n} says this") for n in range(1, 1001)]))
    some = await call(context, "read_file", path="f", offset=998, limit=2)
    assert some.text.endswith(
        'Page number 999 says this\n[Pages 998-999 of 1000 shown. To continue: read_file {"path":"f","offset":1000}]'
    )
    outcome = await call(context, "read_file", path="f")
    assert len(outcome.text) < 46_000 and "of 1000 shown. To continue" in outcome.text
    with pytest.raises(ToolError, match="has 1000 pages; there is no page 1001"):
        await call(context, "read_file", path="f", offset=1001)


async def test_a_scanned_document_says_so(context: ToolContext, root: Path) -> None:
    picture = b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray /Length 1 >>\nstream\n\x00\nendstream"
    (root / "f.pdf").write_bytes(pdf([b"/Im Do"], resources=b"/XObject << /Im 4 0 R >>", extra=[picture]))
    outcome = await call(context, "read_file", path="f.pdf")
    assert outcome.text.startswith("[Page 1 of 1 (1 images).]\n[These pages have no text")


async def test_an_encrypted_document_says_so(context: ToolContext, root: Path) -> None:
    for password in ("secret", ""):
        writer = PdfWriter(clone_from=io.BytesIO(pdf([words("Hello")])))
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
        writer.write(root / "f.pdf")
        if password:
            with pytest.raises(ToolError, match="is encrypted"):
                await call(context, "read_file", path="f.pdf")
        else:
            assert "Hello" in (await call(context, "read_file", path="f.pdf")).text


@pytest.mark.parametrize(
    "data",
    [b"%PDF-1.7\nnothing of the kind", b"%PDF-1.4\n" + bytes(10_000), pdf([words("x")])[:400]],
    ids=["words", "zeros", "cut"],
)
async def test_a_damaged_document_is_an_error_that_names_it(context: ToolContext, root: Path, data: bytes) -> None:
    (root / "f.pdf").write_bytes(data)
    with pytest.raises(ToolError, match=r"f\.pdf"):
        await call(context, "read_file", path="f.pdf")


async def test_pages_that_refer_to_themselves_end(context: ToolContext, root: Path) -> None:
    data = pdf([words("x")]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    (root / "f.pdf").write_bytes(data)
    with pytest.raises(ToolError, match=r"f\.pdf"):
        await call(context, "read_file", path="f.pdf")


async def test_a_stream_that_unpacks_to_far_too_much_is_stopped(context: ToolContext, root: Path) -> None:
    import zlib

    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
    data = pdf([bomb]).replace(
        b"<< /Length %d >>" % len(bomb), b"<< /Filter /FlateDecode /Length %d >>" % len(bomb)
    )
    (root / "f.pdf").write_bytes(data)
    with pytest.raises(ToolError, match=r"f\.pdf"):
        await call(context, "read_file", path="f.pdf")


async def test_a_page_that_takes_too_long_is_given_up_and_the_ones_before_are_kept(
    context: ToolContext, root: Path
) -> None:
    (root / "f.pdf").write_bytes(pdf([words("Hello"), b"BT (x) Tj ET\n" * 1_000_000]))
    wanted = PdfRequest(str(root / "f.pdf"), 1, 10, 40_000, 1)
    answer = await run_in_worker(context, "documents.pdf_text", msgspec.json.encode(wanted), timeout_s=20)
    found = msgspec.json.decode(answer, type=PdfAnswer)
    assert found.slow and [page.text for page in found.pages] == ["Hello"]


async def test_work_that_does_not_end_is_killed(context: ToolContext, root: Path) -> None:
    (root / "f.pdf").write_bytes(pdf([b"BT (x) Tj ET\n" * 1_000_000]))
    wanted = PdfRequest(str(root / "f.pdf"), 1, 10, 40_000, 60)
    with pytest.raises(ToolError, match="longer than 1 s"):
        await run_in_worker(context, "documents.pdf_text", msgspec.json.encode(wanted), timeout_s=1)
    with pytest.raises(ToolError, match="Reading it failed"):
        await run_in_worker(context, "documents.pdf_text", b"no request", timeout_s=20)
    answer = await run_in_worker(
        context, "documents.pdf_text", msgspec.json.encode(wanted), timeout_s=20, memory_bytes=60_000_000
    )
    assert "memory" in msgspec.json.decode(answer, type=PdfAnswer).error


async def test_text_that_mentions_pdf_is_text(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("a line\nMagic: %PDF-1.4\n", encoding="utf-8")
    assert (await call(context, "read_file", path="f")).text.startswith("1\ta line")


_W, _A, _S, _STRICT = (
    "xmlns='http://schemas.openxmlformats.org/w'",
    "xmlns='http://schemas.openxmlformats.org/a'",
    "xmlns='urn:s'",
    "xmlns='http://purl.oclc.org/ooxml/a'",
)
_TEXT = "[The text of the document, without its layout; it cannot be edited as text]"
DOCUMENTS: tuple[tuple[dict[str, str], str], ...] = (
    (
        {"word/document.xml": f"<d {_W}><body><p><pPr><pStyle val='Heading2'/></pPr><r><t>Title</t></r></p><p><r><t>a </t></r><r><tab/><t>b</t></r>"
         "<del><r><delText>gone</delText></r></del></p><tbl><tr><tc><p><r><t>1</t></r></p></tc><tc><p><r><t>2</t></r></p></tc></tr></tbl></body></d>"},
        "1\t## Title\n2\ta \tb\n3\t1\t2",
    ),
    (
        {"ppt/presentation.xml": "<p xmlns:r='urn:r'><sldMasterIdLst><sldMasterId id='1' r:id='m'/></sldMasterIdLst><sldIdLst><sldId id='9' r:id='b'/>"
         "<sldId id='7' r:id='none'/><sldId id='8' r:id='a'/></sldIdLst></p>",
         "ppt/_rels/presentation.xml.rels": "<r><Relationship Id='a' Target='slides/slide2.xml'/><Relationship Id='b' Target='/ppt/slides/slide10.xml'/></r>",
         "ppt/slides/slide10.xml": f"<p {_A}><t><p><r><t>Ten</t></r></p><p/></t></p>",
         "ppt/slides/slide2.xml": f"<s {_STRICT}><p> <r><t>Two</t></r> </p></s>", "ppt/slides/slide3.xml": "<s/>"},
        "1\t[Slide 1]\n2\tTen\n3\t[Slide 2]\n4\tTwo",
    ),
    (
        {"word/document.xml": f"<d {_W} xmlns:w='urn:w'><p><pPr><sectPr><headerReference w:id='1'/></sectPr></pPr><r><t>a</t></r><r><footnoteReference w:id='2'/></r><r><endnoteReference w:id='2'/></r>"
         "<r><commentReference w:id='0'/></r><r><t>b</t></r></p></d>",
         "word/footnotes.xml": f"<f {_W} xmlns:w='urn:w'><footnote w:id='0'><p><r><separator/></r></p></footnote><footnote w:id='2'><p><r><footnoteRef/>"
         "<t>Foot</t></r></p><p/><p><r><t>note</t></r></p></footnote></f>",
         "word/endnotes.xml": f"<f {_W} xmlns:w='urn:w'><endnote w:id='2'><p><r><t>End</t></r></p></endnote></f>",
         "word/comments.xml": f"<f {_W} xmlns:w='urn:w'><comment w:id='0' w:author='A'><p><r><t>Why?</t></r></p></comment></f>"},
        "1\ta[^2][^e2][^c0]b\n2\t[^2]: Foot note\n3\t[^e2]: End\n4\t[^c0]: Why?",
    ),
    (
        {"xl/workbook.xml": f"<w {_S} xmlns:r='urn:r'><sheets><sheet name='One' r:id='x'/></sheets></w>",
         "xl/_rels/workbook.xml.rels": "<r><Relationship Id='x' Target='worksheets/sheet7.xml'/></r>",
         "xl/sharedStrings.xml": "<sst><si><t>Name</t></si><si><r><t>ri</t></r><r><t>ch</t></r></si></sst>",
         "xl/worksheets/sheet7.xml": "<w><row><c r='A1' t='s'><v>0</v></c><c r='D1' t='s'><v>1</v></c></row><row><c r='A2' t='s'/><c r='B2'><f>1+1</f><v>2</v></c>"
         "<c r='C2' t='inlineStr'><is><t>in</t></is></c><c r='XFD2'><v>9</v></c></row></w>"},
        "1\t[Sheet One; dates are day numbers]\n2\tName\t\t\trich\n3\t\t2\tin" + "\t" * 201 + "9",
    ),
    (
        {"META-INF/manifest.xml": "<m/>", "content.xml": "<o xmlns:x='urn:x'><h x:outline-level='1'>Head</h><p>a<s/><span>b</span> c<annotation><p>note</p></annotation><line-break/>d</p><table x:name='T'><table-row><table-cell><p>1</p>"
         "</table-cell><covered-table-cell/><table-cell x:number-columns-repeated='9000'/><table-cell><p>2</p></table-cell></table-row></table>"
         "<page x:name='Front'><p>e</p></page><page/></o>"},
        "1\t# Head\n2\ta b c\n3\td\n4\t[Table T]\n5\t1" + "\t" * 202 + "2\n6\t[Front]\n7\te\n8\t[Page]",
    ),
    (
        {"word/document.xml": f"<d {_W}><p><r><t>a</t><noBreakHyphen/><t>b</t><AlternateContent><Choice><t>box</t></Choice><Fallback><t>box</t>"
         "</Fallback></AlternateContent></r></p><AlternateContent><Choice><p><r><t>c</t></r></p></Choice><Fallback><p><r><t>c</t></r></p></Fallback>"
         "</AlternateContent></d>"},
        "1\ta-bbox\n2\tc",
    ),
    (
        {"META-INF/container.xml": "<c><rootfile full-path='O/b.opf'/></c>", "O/c 1.xhtml": "<h1>Chapter</h1><p>Fish &amp; chips</p>",
         "O/b.opf": "<p><manifest><item id='i' href='c%201.xhtml'/></manifest><spine><itemref idref='i'/></spine></p>"},
        "1\t[O/c 1.xhtml]\n2\tChapter\n3\tFish & chips",
    ),
)  # fmt: skip


def archive(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, text in files.items():
            writer.writestr(name, text)


@each_row(("files", "text"), DOCUMENTS)
async def test_an_office_document_is_shown_as_lines(
    context: ToolContext, root: Path, files: dict[str, str], text: str
) -> None:
    archive(root / "f", files)
    outcome = await call(context, "read_file", path="f")
    assert outcome.text == f"{text}\n{_TEXT}" and not outcome.seen


async def test_an_archive_is_shown_as_its_names(context: ToolContext, root: Path) -> None:
    archive(root / "f.zip", {"a/": "", "a/b.txt": "hello", "c\x1b[1m": ""})
    told = "1\t           5  a/b.txt\n2\t           0  c[1m\n[An archive: the sizes and names of its files]"
    assert (await call(context, "read_file", path="f.zip")).text == told


async def test_an_archive_with_a_file_named_as_in_a_document_is_shown_as_its_names(
    context: ToolContext, root: Path
) -> None:
    archive(root / "f.zip", {"content.xml": "<rss/>"})
    assert (await call(context, "read_file", path="f.zip")).text.startswith(
        "1\t           6  content.xml\n[An archive"
    )


async def test_a_long_office_document_says_how_to_go_on(context: ToolContext, root: Path) -> None:
    rows = "".join(f"<p><r><t>Line {n} of this text</t></r></p>" for n in range(1, 5001))
    archive(root / "f", {"word/document.xml": f"<d {_W}>{rows}</d>"})
    some = await call(context, "read_file", path="f", offset=4, limit=2)
    assert some.text.startswith("4\tLine 4 of this text\n5\t")
    assert some.text.endswith('[Lines 4-5 of 5000 shown. To continue: read_file {"path":"f","offset":6}]')
    assert len((await call(context, "read_file", path="f", limit=5000)).text) < 80_000
    with pytest.raises(ToolError, match="has 5000 lines of text; there is no line 5001"):
        await call(context, "read_file", path="f", offset=5001)
    archive(root / "f", {"word/document.xml": f"<d {_W}><p><t>{'é' * 500_000}</t></p></d>"})
    assert len((await call(context, "read_file", path="f")).text) < 80_000


@each_row(
    ("xml", "why"),
    [
        ("<a>" + " " * 70_000_000 + "</a>", "larger than"), ("<a>" * 100_000 + "</a>" * 100_000, "recursion"), ("<a>", "ParseError"),
        ("<!DOCTYPE l [<!ENTITY a0 'ha'>" + "".join(f"<!ENTITY a{n + 1} '{f'&a{n};' * 10}'>" for n in range(12)) + "]><a>&a12;</a>", "amplification"),
    ],
)  # fmt: skip
async def test_a_hostile_office_document_ends_with_an_error(
    context: ToolContext, root: Path, xml: str, why: str
) -> None:
    archive(root / "f", {"word/document.xml": xml})
    with pytest.raises(ToolError, match=f"cannot be read as an archive or an office document: .*{why}"):
        await call(context, "read_file", path="f")


async def test_a_workbook_that_repeats_a_huge_text_ends_with_an_error(context: ToolContext, root: Path) -> None:
    sheet = "<w><row>" + "<c t='s'><v>0</v></c>" * 100 + "</row></w>"
    names = ("xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/sharedStrings.xml", "xl/worksheets/sheet7.xml")
    texts = (*list(DOCUMENTS[3][0].values())[:2], f"<s><si><t>{'x' * 50_000_000}</t></si></s>", sheet)
    archive(root / "f", dict(zip(names, texts, strict=True)))
    with pytest.raises(ToolError, match="it needs too much memory"):
        await call(context, "read_file", path="f")


@each_row(
    ("data", "kind"),
    [(b"PAR1\0", "a Parquet table .* `duckdb "), (b"\xd0\xcf\x11\xe0\0", "an old or encrypted office document .* `soffice ")],
)  # fmt: skip
async def test_a_kind_of_data_is_named_with_a_command(
    context: ToolContext, root: Path, data: bytes, kind: str
) -> None:
    (root / "f").write_bytes(data * 100)
    with pytest.raises(ToolError, match=kind):
        await call(context, "read_file", path="f")


async def test_a_database_is_refused_with_the_command_that_shows_it(context: ToolContext, root: Path) -> None:
    with sqlite3.connect(root / "f.db") as database:
        database.execute("create table t (a)")
    database.close()
    with pytest.raises(
        ToolError, match=r"an SQLite database .* A command such as `sqlite3 FILE \.schema` shows it"
    ):
        await call(context, "read_file", path="f.db")

"""PDFs are read as text by page, at the cost of the pages shown, and hostile ones are stopped."""

import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from pypdf import PdfWriter

from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.kit.worker_call import run_in_worker
from agent_cli.workspace.documents.pdf_text import PdfAnswer, PdfRequest
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

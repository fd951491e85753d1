"""Pictures are sent upright, within the limits of providers, and byte for byte where they fit already."""

import base64
import io
import random
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent_cli.tools.files.images import MAX_BYTES, PictureError, fit, picture_kind, read_image
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from tests.rows import each_row
from tests.tools.calls import call

pytestmark = pytest.mark.filterwarnings("ignore")  # pytest forgets the filters between tests


def made(kind: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, "red" if mode in ("RGB", "RGBA") else 1).save(buffer, kind, **options)
    return buffer.getvalue()


def opened(outcome: ToolOutcome) -> tuple[str, Image.Image]:
    """The media type and the picture that was attached."""
    (image,) = outcome.images
    return image.media_type, Image.open(io.BytesIO(base64.b64decode(image.data)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_what_fits_is_sent_byte_for_byte(context: ToolContext, root: Path, kind: str) -> None:
    data = made(kind)
    (root / "p").write_bytes(data)
    outcome = await call(context, "read_file", path="p")
    assert base64.b64decode(outcome.images[0].data) == data
    assert outcome.images[0].media_type == f"image/{kind.lower()}"
    assert outcome.text.startswith(f"[p: {kind.lower()}, 40 x 30; sent as it is, ") and not outcome.seen


@pytest.mark.parametrize(("kind", "missing"), [("PNG", 12), ("PNG", 4), ("GIF", 1)])
def test_a_picture_without_its_end_is_encoded_anew(kind: str, missing: int) -> None:
    fitted = fit(made(kind)[:-missing])
    assert "sent as 40 x 30" in fitted.told
    assert fitted.data.endswith(b"IEND\xaeB`\x82")


def test_the_filters_of_warnings_are_touched_once_at_most() -> None:
    fit(made("PNG"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        mine = warnings.filters[0]
        fit(made("PNG"))
        assert warnings.filters[0] is mine


@pytest.mark.parametrize("kind", ["BMP", "TIFF"])
async def test_other_formats_are_sent_as_png(context: ToolContext, root: Path, kind: str) -> None:
    (root / "p").write_bytes(made(kind))
    outcome = await call(context, "read_file", path="p")
    media_type, picture = opened(outcome)
    assert (media_type, picture.size, picture.getpixel((3, 3))) == ("image/png", (40, 30), (255, 0, 0))
    assert f"{kind.lower()}, 40 x 30; sent as 40 x 30 png" in outcome.text


@pytest.mark.parametrize(
    ("kind", "size", "sent"),
    [("PNG", (4000, 1000), (1568, 392)), ("JPEG", (900, 4000), (353, 1568)), ("WEBP", (1600, 1600), (1568, 1568))],
)
async def test_large_pictures_are_made_smaller(
    context: ToolContext, root: Path, kind: str, size: tuple[int, int], sent: tuple[int, int]
) -> None:
    (root / "p").write_bytes(made(kind, size))
    outcome = await call(context, "read_file", path="p")
    assert opened(outcome)[1].size == sent
    assert f"{size[0]} x {size[1]}; sent as {sent[0]} x {sent[1]}" in outcome.text


def test_a_picture_with_too_many_bytes_is_encoded_anew() -> None:
    noise = random.Random(1).randbytes(1150 * 1150 * 3)
    buffer = io.BytesIO()
    Image.frombytes("RGB", (1150, 1150), noise).save(buffer, "PNG")
    assert len(buffer.getvalue()) > MAX_BYTES
    fitted = fit(buffer.getvalue())
    assert fitted.media_type == "image/jpeg" and len(fitted.data) <= MAX_BYTES
    assert Image.open(io.BytesIO(fitted.data)).size == (1150, 1150)
    small = fit(buffer.getvalue(), max_bytes=50_000)
    assert len(small.data) <= 50_000


def test_the_orientation_a_camera_noted_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    fitted = fit(made("JPEG", (40, 30), exif=exif))
    assert Image.open(io.BytesIO(fitted.data)).size == (30, 40)


def test_of_an_animation_the_first_frame_is_sent_and_said() -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue", "green")]
    for kind in ("GIF", "WEBP", "PNG"):
        buffer = io.BytesIO()
        frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], lossless=True)
        fitted = fit(buffer.getvalue())
        assert "the first of 3 frames" in fitted.told
        assert Image.open(io.BytesIO(fitted.data)).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


@each_row("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "I", "CMYK", "F"])
def test_every_colour_mode_can_be_sent(mode: str) -> None:
    kind = "TIFF" if mode in ("CMYK", "F", "I;16", "I") else "PNG"
    fitted = fit(made(kind, (2000, 10), mode))
    assert Image.open(io.BytesIO(fitted.data)).size == (1568, 8)


def test_sixteen_bits_of_grey_keep_their_shades() -> None:
    picture = Image.new("I;16", (2, 1))
    picture.putpixel((0, 0), 1000)
    picture.putpixel((1, 0), 40_000)
    buffer = io.BytesIO()
    picture.save(buffer, "TIFF")
    sent = Image.open(io.BytesIO(fit(buffer.getvalue()).data))
    assert (sent.getpixel((0, 0)), sent.getpixel((1, 0))) == (0, 255)


def png_header(width: int, height: int) -> bytes:
    """A picture of any size, with next to no data."""
    out = b"\x89PNG\r\n\x1a\n"
    for chunk in (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + bytes(64), b"IEND"):
        out += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return out


@pytest.mark.parametrize("side", [9_000, 12_000, 60_000])
async def test_a_picture_with_too_many_pixels_is_refused(context: ToolContext, root: Path, side: int) -> None:
    (root / "bomb.png").write_bytes(png_header(side, side))
    with pytest.raises(ToolError, match=r"bomb\.png cannot be shown.*pixels"):
        await call(context, "read_file", path="bomb.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
async def test_a_damaged_picture_is_an_error_that_says_so(context: ToolContext, root: Path, kind: str) -> None:
    whole = made(kind, (300, 300))
    for data in (whole[: len(whole) // 2], whole[:20] + bytes(200)):
        (root / "p").write_bytes(data)
        if picture_kind(data):
            with pytest.raises(ToolError, match=r"image p cannot be shown.*damaged"):
                await call(context, "read_file", path="p")


def test_damage_anywhere_is_a_picture_error_or_a_picture() -> None:
    source = random.Random(2)
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        whole = made(kind, (30, 30))
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(4):
                data[source.randrange(8, len(data))] = source.randrange(256)
            try:
                assert fit(bytes(data)).data
            except PictureError as error:
                assert str(error)


async def test_a_file_too_large_for_a_picture_is_refused(context: ToolContext, root: Path) -> None:
    with (root / "p").open("wb") as file:
        file.write(made("PNG"))
        file.truncate(60_000_000)
    with pytest.raises(ToolError, match="smaller copy"):
        await call(context, "read_file", path="p")


async def test_svg_is_text(context: ToolContext, root: Path) -> None:
    (root / "p.svg").write_text("<svg/>", encoding="utf-8")
    assert (await call(context, "read_file", path="p.svg")).text == "1\t<svg/>"


async def test_text_that_begins_like_a_bitmap_is_text(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("BMW and others\n", encoding="utf-8")
    assert (await call(context, "read_file", path="f")).text == "1\tBMW and others"


def test_a_file_that_is_no_image_is_not_called_damaged(tmp_path: Path) -> None:
    for content in (b"x = 1\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b""):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(PictureError, match="f: not an image in a known format: PNG, JPEG"):
            read_image(tmp_path / "f")

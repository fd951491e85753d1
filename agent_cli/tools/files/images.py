"""Prepare images for a model: upright, no larger than providers accept without downscaling, in a format that all
of them read. A suitable image is passed on byte for byte.

Pillow is imported when the first image is processed. The functions here are slow and should run in a thread.
"""

import functools
import io
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol.messages import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

LONGEST_SIDE = 1568
"""Pixels; providers downscale larger images before the model sees them, or refuse them among many."""
MAX_BYTES = 3_700_000
"""Providers accept 5 MB of base64, which is a third larger than the data."""
MAX_FILE_BYTES = 50_000_000
_MAX_PIXELS = 50_000_000
"""Maximum pixels to decode at once. A JPEG is decoded at down to an eighth of its size if that is enough."""
_ORIENTATION = 0x0112
_PASSED_ON = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_FORMATS = (*_PASSED_ON, "BMP", "TIFF")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)


class PictureError(Exception):
    """An image that cannot be used; the message says why."""


class EncodedImage(msgspec.Struct, frozen=True):
    """An image ready to send."""

    media_type: str
    data: bytes
    told: str
    """Description such as `png, 4000 x 3000; sent as 1568 x 1176 jpeg, 210 kB`."""

    @property
    def image(self) -> Image:
        """The image as part of a message."""
        return Image(self.media_type, b64encode(self.data).decode("ascii"))


def picture_kind(head: bytes) -> str:
    """Return the image format of a file by its first 32 bytes; empty if it is not an image."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WEBP"
    if (
        head.startswith(b"BM")
        and head[6:10] == b"\0\0\0\0"
        and head[14:18] in (b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0")
    ):
        return "BMP"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")


def read_image(path: Path) -> Image:
    """Return the image in a file, prepared for a model.

    Raises:
        PictureError: it cannot be read or used; the message begins with the path.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise PictureError(f"larger than {MAX_FILE_BYTES:,} bytes")
        return fit(data).image
    except (OSError, PictureError) as error:
        why = f"{error.strerror}; check the path" if isinstance(error, OSError) else error
        raise PictureError(f"{path}: {why}") from error


def fit_image(image: Image) -> Image:
    """Return an image received as data, prepared for a model.

    Raises:
        PictureError: it cannot be used.
    """
    return fit(b64decode(image.data)).image


def fit(data: bytes, longest_side: int = LONGEST_SIDE, max_bytes: int = MAX_BYTES) -> EncodedImage:
    """Return the image within the limits. Of an animation, only the first frame is used.

    Raises:
        PictureError: it is damaged, truncated, or has too many pixels to open safely.
    """
    from PIL import Image, UnidentifiedImageError

    _silence_pillow()
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            return _fitted(picture, data, longest_side, max_bytes)
    except Image.DecompressionBombError as error:
        raise PictureError(f"it has far too many pixels to be opened safely ({error})") from error
    except UnidentifiedImageError as error:
        if not picture_kind(data[:32]):
            raise PictureError("not an image in a known format: PNG, JPEG, GIF, WebP, BMP or TIFF") from error
        raise PictureError("it is damaged: its beginning cannot be read") from error
    except MemoryError as error:
        raise PictureError("there is not enough memory to open it") from error
    # Decoders raise arbitrary errors on damaged files.
    except (OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, ArithmeticError) as error:
        raise PictureError(f"it is damaged or cut off: {error}") from error


@functools.cache
def _silence_pillow() -> None:
    """Suppress Pillow's warnings, which would be printed to the terminal. Done once, since all threads share the
    filters."""
    import warnings

    warnings.filterwarnings("ignore", module=r"PIL\.")


def _fitted(picture: "Picture", data: bytes, longest_side: int, max_bytes: int) -> EncodedImage:
    kind = str(picture.format)
    width, height = picture.size
    frames = getattr(picture, "n_frames", 1) if kind != "TIFF" else 1
    if kind == "JPEG":
        picture.draft("RGB", (longest_side, longest_side))
    if picture.width * picture.height > _MAX_PIXELS:
        raise PictureError(
            f"it has {width} x {height} pixels, more than the {_MAX_PIXELS // 1_000_000} million that can be"
            " opened safely; make a smaller copy"
        )
    turned = picture.getexif().get(_ORIENTATION, 1) not in (0, 1)
    picture.load()
    told = f"{kind.lower()}, {width} x {height}"
    if frames > 1:
        told += f", the first of {frames} frames"
    fits = max(width, height) <= longest_side and len(data) <= max_bytes
    if (
        fits
        and not turned
        and frames == 1
        and kind in _PASSED_ON
        and _is_whole(data, kind)
        and picture.mode in ("1", "L", "LA", "P", "RGB", "RGBA")
    ):
        return EncodedImage(_PASSED_ON[kind], data, f"{told}; sent as it is, {_size(len(data))}")
    return _made(_upright(picture), kind, told, longest_side, max_bytes)


def _is_whole(data: bytes, kind: str) -> bool:
    """Return True if a file ends as its format requires. Pillow tolerates a missing end, providers do not."""
    if kind == "PNG":
        return data.endswith(b"IEND\xaeB`\x82")
    if kind == "GIF":
        return data.endswith(b";")
    return kind != "WEBP" or len(data) >= 8 + int.from_bytes(data[4:8], "little")


def _upright(picture: "Picture") -> "Picture":
    from PIL import ImageOps

    turned = ImageOps.exif_transpose(picture)
    if turned.mode.startswith(("I", "F")):
        grey = turned.convert("F")
        low, high = _extremes(grey)
        scale = 255 / (high - low) if high > low else 1.0
        return grey.point(lambda value: value * scale - low * scale).convert("L")
    if turned.mode in ("P", "PA", "LA", "La", "RGBa") or "transparency" in turned.info:
        return turned.convert("RGBA")
    return turned if turned.mode in ("L", "RGB", "RGBA") else turned.convert("RGB")


def _extremes(grey: "Picture") -> tuple[float, float]:
    """Return the darkest and brightest value of a single-channel image."""
    low, high = grey.getextrema()
    return (low, high) if isinstance(low, int | float) and isinstance(high, int | float) else (0.0, 255.0)


def _made(picture: "Picture", kind: str, told: str, longest_side: int, max_bytes: int) -> EncodedImage:
    """Re-encode the image, reducing size and quality until it fits."""
    side = min(longest_side, max(picture.size))
    photo = kind == "JPEG"
    while side >= 16 or side == max(picture.size):
        smaller = picture.copy()
        smaller.thumbnail((side, side))
        for media_type, encoded in _encodings(smaller, photo):
            if len(encoded) <= max_bytes:
                sent = f"{smaller.width} x {smaller.height} {media_type.removeprefix('image/')}"
                return EncodedImage(media_type, encoded, f"{told}; sent as {sent}, {_size(len(encoded))}")
        side = side * 3 // 4
    raise PictureError("it cannot be made small enough")


def _encodings(picture: "Picture", photo: bool) -> "list[tuple[str, bytes]]":
    from PIL import Image

    out: list[tuple[str, bytes]] = []
    if not photo:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        out.append(("image/png", buffer.getvalue()))
    if picture.mode == "RGBA":
        ground = Image.new("RGB", picture.size, "white")
        ground.paste(picture, mask=picture.getchannel("A"))
        picture = ground
    for quality in (85, 60):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        out.append(("image/jpeg", buffer.getvalue()))
    return out


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1_000_000 else f"{size_bytes / 1e3:.1f} kB"

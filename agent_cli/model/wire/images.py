"""Check images against provider limits, by their headers alone."""

import base64
import binascii
import struct

from agent_cli.protocol.messages import Image

from ..types.provider_table import ImageLimits


def sendable_images(
    images: tuple[Image, ...], text: str, limits: ImageLimits | None
) -> tuple[tuple[Image, ...], str]:
    """Return the images a provider accepts, and the text with a line for each omitted one.

    Args:
        images: the images of one message.
        text: of the same message.
        limits: None if the model does not support images.
    """
    kept: list[Image] = []
    lines: list[str] = []
    for image in images:
        problem = "this model does not accept images" if limits is None else _problem(image, limits)
        if problem:
            lines.append(f"[An image ({image.media_type}) is left out: {problem}.]")
        else:
            kept.append(image)
    return tuple(kept), "\n".join(([text] if text else []) + lines)


def size_px(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the start of a PNG, GIF, WebP or JPEG file; None for other data."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    return _jpeg_size(data) if data[:2] == b"\xff\xd8" else None


def _problem(image: Image, limits: ImageLimits) -> str:
    if not image.data:
        return "it is empty"
    if len(image.data) > limits.largest_bytes:
        return f"it has {len(image.data) / 1e6:.1f} MB, more than the provider's {limits.largest_bytes / 1e6:g} MB"
    try:
        size = size_px(base64.b64decode(image.data[:400_000]))
    except (binascii.Error, ValueError):
        return "its data cannot be read"
    if size is not None and max(size) > limits.longest_side:
        return f"it has {size[0]} x {size[1]} pixels, more than the provider's {limits.longest_side} on a side"
    return ""


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Read the size from the first start-of-frame segment (ITU T.81, B.2.2)."""
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None

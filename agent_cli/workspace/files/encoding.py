"""Which encoding a file is in, and the way back to exactly the same bytes.

UTF-8, and UTF-16 with a byte order mark, are recognised; anything else must be declared by the file itself
(a coding cookie, an XML or HTML declaration) or is a guess, and says so. A decoding counts only when
encoding gives the same bytes again.
"""

import codecs
import re

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_DECLARATION = lazy_regex(
    rb"""\A(?:[ \t]*(?:\#[^\n]*)?\n)?[ \t]*(?:\#|//|/\*|;)[ \t]*(?:-\*-[ \t]*)?(?:en)?coding[:=][ \t]*([-\w.]+)
    |\A(?:[^\n]*\n)?[^\n]*-\*-[^\n]*\bcoding:[ \t]*([-\w.]+)[^\n]*-\*-
    |\A\s*<\?xml[^>]*\sencoding=["']([-\w.]+)
    |\A\s*<(?:[^>]*>[^<>]*<)*?meta\s[^>]*\bcharset=["']?([-\w.]+)
    |\A@charset[ ]"([-\w.]+)\"""",
    re.VERBOSE,
)
"""A declaration beyond doubt: where Python, Emacs, XML, HTML and CSS look for it, and nowhere else."""
_DECLARED = lazy_regex(rb"""coding[:=][ \t]*([-\w.]+)|encoding=["']([-\w.]+)["']|charset=["']?([-\w.]+)""")
_HEAD = 1024
"""What is looked for in bytes that are not UTF-8, and so must be something else."""
_SOUND_PER_FAULT = 4
_WIDE = lazy_regex(r"[^\x00-\x7f\ufffd]")
_MULTIBYTE = ("cp932", "euc_jp", "gb18030", "big5", "euc_kr")
_SINGLE_BYTE = ("cp1252", "latin-1")

_KINDS = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
)


class Codec(msgspec.Struct, frozen=True):
    """How a file's bytes and its text correspond."""

    name: str = "utf-8"
    bom: bytes = b""
    guessed: bool = False
    """Neither UTF-8 nor declared: good enough to show, and for edits in ASCII."""
    evident: bool = False
    """Guessed, but with evidence for this encoding and for no other: good enough to write in."""
    damage: str = ""
    """Which byte is no part of the text, where there is such: the file is fit to be shown, not to be changed."""

    @property
    def shown(self) -> str:
        """For people: `utf-8 with BOM`."""
        if self.damage:
            return f"damaged {self.name}"
        return f"{self.name} with BOM" if self.bom else self.name

    def encode(self, text: str) -> bytes:
        """Return the bytes of `text`, mark included.

        Raises:
            UnicodeEncodeError: a character does not exist in this encoding.
        """
        return self.bom + text.encode(self.name)


def decode(data: bytes) -> tuple[str, Codec] | None:
    """Return the text of `data` and its codec; None when it is not text."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _exact(data, Codec(name, bom))
    if is_binary(data):
        return None
    if found := _exact(data, Codec()):
        return (found[0], codec_for_new(found[0])) if data.isascii() else found
    if (declared := _declared(data)) and (found := _exact(data, Codec(declared))):
        return found
    if found := _damaged(data):
        return found
    from .encoding_guess import evident_encoding

    if (name := evident_encoding(data)) and (found := _exact(data, Codec(name, guessed=True, evident=True))):
        return found
    candidates = (_exact(data, Codec(name, guessed=True)) for name in _likely(data))
    return next((found for found in candidates if found), None)


def codec_for_new(text: str) -> Codec:
    """Return the codec for a text that is no file yet, or is ASCII so far: the one it declares, else UTF-8."""
    name = _named(_DECLARATION.search(text[:_HEAD].encode("ascii", "replace")))
    if not name or codecs.lookup(name).name == "utf-8":
        return Codec()
    probe = bytes(range(32, 127))
    try:
        fits = probe.decode(name).encode(name) == probe == probe.decode(name).encode("ascii")
    except UnicodeError:
        return Codec()
    return Codec(name) if fits else Codec()


def _damaged(data: bytes) -> tuple[str, Codec] | None:
    """Return the text of UTF-8 in which a few bytes are wrong, with U+FFFD for them; None when it is not that."""
    text = data.decode("utf-8", "replace")
    faults = text.count("\ufffd")
    if len(_WIDE.findall(text)) < faults * _SOUND_PER_FAULT:
        return None
    return text, Codec(guessed=True, damage=_fault(data, 0, "utf-8"))


def _fault(data: bytes, start: int, name: str) -> str:
    try:
        data[start:].decode(name)
    except UnicodeDecodeError as error:
        at = start + error.start
        return f"byte 0x{data[at]:02x} at offset {at}"
    return ""


def first_fault(data: bytes) -> str:
    """Return where data with a byte order mark stops being text, for a message: `byte 0x61 at offset 2 ...`."""
    bom, name = next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), (b"", "utf-8"))
    try:
        data[len(bom) :].decode(name)
    except UnicodeDecodeError as error:
        at = len(bom) + error.start
        return f"byte 0x{data[at]:02x} at offset {at} does not fit its byte order mark ({name}: {error.reason})"
    return f"it does not come out the same when written back as {name}"


def is_binary(data: bytes) -> bool:
    """Return whether data without a byte order mark is something else than text: it contains a NUL."""
    return b"\0" in data and not any(data.startswith(bom) for bom, _ in _BOMS)


def kind_of(data: bytes) -> str:
    """Return what binary data looks like, for a message."""
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data")


def _exact(data: bytes, codec: Codec) -> tuple[str, Codec] | None:
    try:
        text = data[len(codec.bom) :].decode(codec.name)
        return (text, codec) if codec.name == "utf-8" or codec.encode(text) == data else None
    except (UnicodeError, LookupError):
        return None


def _declared(data: bytes) -> str:
    """Return the encoding named in the first lines, where Python, editors, XML and HTML look for it."""
    return _named(_DECLARED.search(data[:_HEAD]))


def _named(found: re.Match[bytes] | None) -> str:
    """Return the encoding a match names; empty when it is none for text."""
    name = next((group for group in found.groups() if group), b"").decode() if found else ""
    if re.search("escape|utf-?7|punycode|idna", name, re.IGNORECASE):
        return ""  # these are no encodings of files, and decode to what is no text
    try:
        return name if isinstance("".encode(name), bytes) else ""
    except (LookupError, ValueError, TypeError):
        return ""


def _likely(data: bytes) -> tuple[str, ...]:
    """Encodings to try, the likelier family first: European text has its high bytes one by one."""
    runs = re.findall(rb"[\x80-\xff]+", data[: 1 << 16])
    single = sum(len(run) == 1 for run in runs)
    return (*_SINGLE_BYTE, *_MULTIBYTE) if single * 2 > len(runs) else (*_MULTIBYTE, *_SINGLE_BYTE)

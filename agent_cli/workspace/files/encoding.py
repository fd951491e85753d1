"""Detect the encoding of a file, and convert back to exactly the same bytes.

UTF-8, and UTF-16 with a byte order mark, are recognized. Any other encoding must be declared by the file itself (a
coding cookie, an XML or HTML declaration); otherwise it is a guess and marked as such. A decoding is accepted only
if encoding yields the same bytes.
"""

import codecs
import re

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

BOMS = (
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
"""An unambiguous declaration, only where Python, Emacs, XML, HTML and CSS look for it."""
_DECLARED = lazy_regex(rb"""coding[:=][ \t]*([-\w.]+)|encoding=["']([-\w.]+)["']|charset=["']?([-\w.]+)""")
_HEAD = 1024
"""Bytes to search for a declaration in a file that is not UTF-8."""
_SOUND_PER_FAULT = 4
_WIDE = lazy_regex(r"[^\x00-\x7f\ufffd]")
_MULTIBYTE = ("cp932", "euc_jp", "gb18030", "big5", "euc_kr")
_SINGLE_BYTE = ("cp1252", "latin-1")

_KINDS = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"\xd0\xcf\x11\xe0", "an old or encrypted office document"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
)
_SHOWN_BY = {
    "an old or encrypted office document": "soffice --headless --convert-to txt:Text FILE",
    "gzip-compressed data": "zcat FILE | head",
    "an SQLite database": "sqlite3 FILE .schema",
    "a Parquet table": "duckdb -c \"select * from 'FILE' limit 20\"",
}
"""Commands that show files of a kind."""


class Codec(msgspec.Struct, frozen=True):
    """The mapping between a file's bytes and its text."""

    name: str = "utf-8"
    bom: bytes = b""
    guessed: bool = False
    """Neither UTF-8 nor declared: good enough for display and for ASCII edits."""
    evident: bool = False
    """Guessed, but with evidence for this encoding and no other: good enough for writing."""
    damage: str = ""
    """Description of an invalid byte, if any: the file can then be displayed but not changed."""

    @property
    def shown(self) -> str:
        """Display name, such as `utf-8 with BOM`."""
        if self.damage:
            return f"damaged {self.name}"
        return f"{self.name} with BOM" if self.bom else self.name

    def encode(self, text: str) -> bytes:
        """Return the bytes of `text`, including the byte order mark.

        Raises:
            UnicodeEncodeError: a character does not exist in this encoding.
        """
        return self.bom + text.encode(self.name)


def decode(data: bytes) -> tuple[str, Codec] | None:
    """Return the text of `data` and its codec; None if it is not text."""
    for bom, name in BOMS:
        if data.startswith(bom):
            return _exact(data, Codec(name, bom))
    if is_binary(data):
        return None
    if found := _exact(data, Codec()):
        return (found[0], codec_for_new(found[0])) if data.isascii() else found
    if (declared := _named(_DECLARED.search(data[:_HEAD]))) and (found := _exact(data, Codec(declared))):
        return found
    if found := _damaged(data):
        return found
    from .encoding_guess import evident_encoding

    if (name := evident_encoding(data)) and (found := _exact(data, Codec(name, guessed=True, evident=True))):
        return found
    candidates = (_exact(data, Codec(name, guessed=True)) for name in _likely(data))
    return next((found for found in candidates if found), None)


def codec_for_new(text: str) -> Codec:
    """Return the codec for text not yet in a file, or so far only ASCII: the declared one, otherwise UTF-8."""
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
    """Return the text of UTF-8 with a few invalid bytes, replaced by U+FFFD; None if it is not such text."""
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
    """Return the first invalid byte of data with a byte order mark, for a message: `byte 0x61 at offset 2 ...`."""
    bom, name = next(((bom, name) for bom, name in BOMS if data.startswith(bom)), (b"", "utf-8"))
    try:
        data[len(bom) :].decode(name)
    except UnicodeDecodeError as error:
        at = len(bom) + error.start
        return f"byte 0x{data[at]:02x} at offset {at} does not fit its byte order mark ({name}: {error.reason})"
    return f"it does not come out the same when written back as {name}"


def is_binary(data: bytes) -> bool:
    """Return True if data without a byte order mark is not text: it contains a NUL."""
    return b"\0" in data and not any(data.startswith(bom) for bom, _ in BOMS)


def kind_of(data: bytes) -> str:
    """Return the likely kind of binary data, for a message."""
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data")


def reader_of(data: bytes) -> str:
    """Return a shell command that shows binary data of this kind; empty if none is usual."""
    return _SHOWN_BY.get(kind_of(data), "")


def _exact(data: bytes, codec: Codec) -> tuple[str, Codec] | None:
    try:
        text = data[len(codec.bom) :].decode(codec.name)
        return (text, codec) if codec.name == "utf-8" or codec.encode(text) == data else None
    except (UnicodeError, LookupError):
        return None


def _named(found: re.Match[bytes] | None) -> str:
    """Return the encoding named by a match; empty if it is not a text encoding."""
    name = next((group for group in found.groups() if group), b"").decode() if found else ""
    if re.search("escape|utf-?7|punycode|idna", name, re.IGNORECASE):
        return ""  # not encodings of files; they decode to something other than text
    try:
        return name if isinstance("".encode(name), bytes) else ""
    except (LookupError, ValueError, TypeError):
        return ""


def _likely(data: bytes) -> tuple[str, ...]:
    """Return encodings to try, the likelier family first: in European text, high bytes are mostly isolated."""
    runs = re.findall(rb"[\x80-\xff]+", data[: 1 << 16])
    single = sum(len(run) == 1 for run in runs)
    return (*_SINGLE_BYTE, *_MULTIBYTE) if single * 2 > len(runs) else (*_MULTIBYTE, *_SINGLE_BYTE)

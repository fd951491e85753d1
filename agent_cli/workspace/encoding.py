"""Which encoding a file is in, and the way back to exactly the same bytes.

UTF-8, and UTF-16 with a byte order mark, are recognised; anything else must be declared by the file itself
(a coding cookie, an XML or HTML declaration) or is a guess, and says so. A decoding counts only when
encoding gives the same bytes again.
"""

import re

import msgspec

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_DECLARED = re.compile(rb"""coding[:=][ \t]*([-\w.]+)|encoding=["']([-\w.]+)["']|charset=["']?([-\w.]+)""")
_HEAD = 1024
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

    @property
    def shown(self) -> str:
        """For people: `utf-8 with BOM`."""
        return f"{self.name} with BOM" if self.bom else self.name

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, mark included.

        Raises:
            UnicodeEncodeError: a character does not exist in this encoding.
        """
        return self.bom + text.encode(self.name)


def decode(data: bytes) -> tuple[str, Codec] | None:
    """The text of `data` and its codec; None when it is not text."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _exact(data, Codec(name, bom))
    if is_binary(data):
        return None
    if found := _exact(data, Codec()):
        return found
    if (declared := _declared(data)) and (found := _exact(data, Codec(declared))):
        return found
    from .evidence import evident_encoding

    if (name := evident_encoding(data)) and (found := _exact(data, Codec(name, guessed=True, evident=True))):
        return found
    candidates = (_exact(data, Codec(name, guessed=True)) for name in _likely(data))
    return next((found for found in candidates if found), None)


def first_fault(data: bytes) -> str:
    """Where data with a byte order mark stops being text, for a message: `byte 0x61 at offset 2 ...`."""
    bom, name = next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), (b"", "utf-8"))
    try:
        data[len(bom) :].decode(name)
    except UnicodeDecodeError as error:
        at = len(bom) + error.start
        return f"byte 0x{data[at]:02x} at offset {at} does not fit its byte order mark ({name}: {error.reason})"
    return f"it does not come out the same when written back as {name}"


def is_binary(data: bytes) -> bool:
    """Whether data without a byte order mark is something else than text: it contains a NUL."""
    return b"\0" in data and not any(data.startswith(bom) for bom, _ in _BOMS)


def kind_of(data: bytes) -> str:
    """What binary data looks like, for a message."""
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data")


def _exact(data: bytes, codec: Codec) -> tuple[str, Codec] | None:
    try:
        text = data[len(codec.bom) :].decode(codec.name)
        return (text, codec) if codec.name == "utf-8" or codec.encode(text) == data else None
    except (UnicodeError, LookupError):
        return None


def _declared(data: bytes) -> str:
    """The encoding named in the first lines, where Python, editors, XML and HTML look for it."""
    found = _DECLARED.search(data[:_HEAD])
    name = next((group for group in found.groups() if group), b"").decode() if found else ""
    try:
        return name if isinstance("".encode(name), bytes) else ""
    except (LookupError, ValueError, TypeError):
        return ""


def _likely(data: bytes) -> tuple[str, ...]:
    """Encodings to try, the likelier family first: European text has its high bytes one by one."""
    runs = re.findall(rb"[\x80-\xff]+", data[: 1 << 16])
    single = sum(len(run) == 1 for run in runs)
    return (*_SINGLE_BYTE, *_MULTIBYTE) if single * 2 > len(runs) else (*_MULTIBYTE, *_SINGLE_BYTE)

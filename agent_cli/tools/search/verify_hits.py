"""Verify search results against the files themselves. The search program uses paths, so a link put in place of a
folder or file in the meantime could lead it outside the allowed folder. Output is shown only if it is found again
in the file, opened without following links."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agent_cli.fs.nofollow import is_there
from agent_cli.workspace.files.reader import MAX_TEXT_BYTES, FileError, chunks, open_regular

Stands = Callable[[int, bytes], bool]
"""Returns True if the bytes are at the offset as ripgrep counts it: after the byte order mark, in UTF-8."""
_UTF_8 = b"\xef\xbb\xbf"
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@contextlib.contextmanager
def standing(folder: Path, name: str) -> Iterator[Stands]:
    """Yield the check for one file below a real folder; it fails for a file that does not exist."""
    try:
        fd, _ = open_regular(os.path.join(folder, name), name)
    except FileError:
        yield lambda offset, raw: False
        return
    try:
        yield _in_file(fd)
    finally:
        os.close(fd)


def there(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield the paths that exist below a real folder."""
    return (name for name in names if is_there(os.path.join(folder, name)))


def _in_file(fd: int) -> Stands:
    mark = os.pread(fd, 3, 0)
    if codec := _UTF_16.get(mark[:2]):
        text = b"".join(chunks(fd, MAX_TEXT_BYTES))[2:].decode(codec, "replace").encode("utf-8", "replace")
        return lambda offset, raw: text.startswith(raw, offset)
    skipped = len(_UTF_8) if mark == _UTF_8 else 0

    def stands(offset: int, raw: bytes) -> bool:
        # In a file named explicitly, ripgrep treats NUL as a line ending.
        try:
            found = os.pread(fd, len(raw), offset + skipped)
        except OSError:
            return False
        return found == raw or found.replace(b"\0", b"\n") == raw

    return stands

"""Whether what a search has found stands where it is said to. The searching program goes by paths, so a link put
in the place of a folder or file meanwhile could lead it out of what it was allowed to search. Nothing of its
output is shown that is not found again in the file itself, reached without following links.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agent_cli.fs.nofollow import is_there
from agent_cli.workspace.files.reader import MAX_TEXT_BYTES, FileError, chunks, open_regular

Stands = Callable[[int, bytes], bool]
"""Whether these bytes stand at this offset, as ripgrep counts it: behind the byte order mark, of its UTF-8."""
_UTF_8 = b"\xef\xbb\xbf"
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@contextlib.contextmanager
def standing(folder: Path, name: str) -> Iterator[Stands]:
    """The test for one file below a real folder; nothing stands in one that is not there."""
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
    """Yield those of some paths below a real folder that are there."""
    return (name for name in names if is_there(os.path.join(folder, name)))


def _in_file(fd: int) -> Stands:
    mark = os.pread(fd, 3, 0)
    if codec := _UTF_16.get(mark[:2]):
        text = b"".join(chunks(fd, MAX_TEXT_BYTES))[2:].decode(codec, "replace").encode("utf-8", "replace")
        return lambda offset, raw: text.startswith(raw, offset)
    skipped = len(_UTF_8) if mark == _UTF_8 else 0

    def stands(offset: int, raw: bytes) -> bool:
        # In a file named as such ripgrep takes NUL for the end of a line.
        try:
            found = os.pread(fd, len(raw), offset + skipped)
        except OSError:
            return False
        return found == raw or found.replace(b"\0", b"\n") == raw

    return stands

"""Files imported by instructions with `@path/to/file.md`, and detection of changes to any of them. Separate from
`instructions` because imports need their own restrictions: what a project's file names goes to the model without
asking, so it may only name other texts of the same project."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.nofollow import dir_entry
from agent_cli.protocol.lazy_regex import lazy_regex

MAX_FILE_BYTES = 32_768
"""Maximum size of each file; the rest is cut with a note."""
MAX_CHAIN_BYTES = 65_536
"""Maximum size of all instructions together."""
MAX_DEPTH = 5
_MAX_IMPORTS = 100
_SETTLED_NS = 50_000_000
"""A file younger than this (one clock tick) may change again without a different time stamp."""
_TEXTS = frozenset({".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".adoc"})
_FENCE = lazy_regex(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})")
_CODE = lazy_regex(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_NAMED = lazy_regex(r"(?<![\w@/.`])@(?:\"([^\"\n]+)\"|([^\s`\"'<>()\[\]{}|*,;]+))")
_BULLET = lazy_regex(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?")

_Stamp = tuple[str, int, int, int, int]


class Scope(msgspec.Struct, frozen=True):
    """Restrictions on what a file may import."""

    folder: str
    """Real path of the folder that imports must be in: the project's, or that of the user's own file."""
    home: str = ""
    """Real path for `~/`; empty if not allowed."""


class FileStamps:
    """States of the files read, to detect without reading again whether any has changed, disappeared or
    appeared."""

    def __init__(self, may_read: Callable[[str], bool]) -> None:
        """`may_read` tells whether the agent may open a real path at all."""
        self._may_read = may_read
        self._seen: dict[str, _Stamp | None] = {}
        self._judged: dict[str, bool] = {}
        self._there: dict[str, bool] = {}
        self._until_ns = time.time_ns()

    def real(self, path: str) -> str:
        """Return the real path of a file; empty if it does not exist."""
        found = self._seen[path] = _stamp(path)
        return found[0] if found else ""

    def is_there(self, path: str) -> bool:
        """Return True if a path exists."""
        found = self._there[path] = os.path.exists(path)
        return found

    def may_read(self, real: str) -> bool:
        """Return True if the agent may read a file."""
        found = self._judged[real] = self._may_read(real)
        return found

    def are_unchanged(self) -> bool:
        """Return True if nothing has changed since the files were first checked."""
        young = self._until_ns - _SETTLED_NS
        return (
            all(_stamp(path) == stamp and (not stamp or stamp[3] < young) for path, stamp in self._seen.items())
            and all(os.path.exists(path) == there for path, there in self._there.items())
            and all(self._may_read(real) == may for real, may in self._judged.items())
        )


def _stamp(path: str) -> _Stamp | None:
    try:
        real = os.path.realpath(path)
        status = os.stat(real)
    except (OSError, ValueError):  # ValueError for a NUL in the name
        return None
    return real, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def cut_note(name: str, max_bytes: int) -> str:
    """Return the note that a text was cut."""
    size = f"{max_bytes // 1024} KB" if max_bytes >= 1024 else f"{max_bytes} bytes"
    return f"[cut: only the first {size} of {name} are shown]"


class Importer:
    """Inserts the texts of imported files, for all files of one chain together: each file is inserted once, where
    it is first named."""

    def __init__(self, looks: FileStamps) -> None:
        self._looks = looks
        self.given: set[str] = set()
        """Real paths of the files inserted so far."""
        self.cut: set[str] = set()
        """Real paths of the files of which only the beginning was read."""
        self._left_bytes = MAX_CHAIN_BYTES
        self._count = 0

    def read(self, real: str, name: str, max_bytes: int = MAX_FILE_BYTES) -> str:
        """Return the text of a regular file, without surrounding blanks. Of a long file, only the beginning is
        returned, with a note.

        Raises:
            OSError: it cannot be read, or is a link, a folder, a pipe or a device.
        """
        with dir_entry(real) as at:
            data = at.read(max_bytes + 1)
        is_whole = len(data) <= max_bytes
        text = data[:max_bytes].decode("utf-8-sig", errors="replace" if is_whole else "ignore")
        text = text.replace("\r\n", "\n").strip()
        if is_whole:
            return text
        self.cut.add(real)
        return f"{text}\n\n{cut_note(name, max_bytes)}"

    def expanded(self, text: str, real: str, scope: Scope) -> str:
        """Return `text` of the file at `real` with imports inserted after each line that names them. A line that
        only contains a name is replaced."""
        self.given.add(real)
        return self._expanded(text, os.path.dirname(real), scope, 1)

    def _expanded(self, text: str, folder: str, scope: Scope, depth: int) -> str:
        if "@" not in text:
            return text
        out: list[str] = []
        for line, is_code in _lines(text):
            names = () if is_code else tuple(_named(line))
            if not names or not _is_only(line, names[0]):
                out.append(line)
            out += [self._imported(name, folder, scope, depth) for name in names]
        return "\n".join(out)

    def _imported(self, name: str, folder: str, scope: Scope, depth: int) -> str:
        self._count += 1
        if depth > MAX_DEPTH:
            return _refused(name, f"imports go no deeper than {MAX_DEPTH} files")
        if self._count > _MAX_IMPORTS:
            return _refused(name, f"there are more than {_MAX_IMPORTS} imports")
        if self._left_bytes <= 0:
            return _refused(name, f"the instructions have {MAX_CHAIN_BYTES // 1024} KB without it")
        path = _place(name, folder, scope)
        if not path:
            return _refused(name, "~/ is for the user's own instructions")
        real = self._looks.real(path)
        if why := self._unfit(real, path, name, scope):
            return _refused(name, why)
        try:
            text = self.read(real, name, min(MAX_FILE_BYTES, self._left_bytes))
        except OSError as error:
            return _refused(name, f"it cannot be read ({error.strerror or error})")
        self.given.add(real)
        self._left_bytes -= len(text.encode("utf-8", "replace"))
        inner = Scope(os.path.dirname(real), scope.home) if name.startswith("~/") else scope
        text = self._expanded(text, os.path.dirname(real), inner, depth + 1)
        return f"[from {name}]\n{text}\n[end of {name}]"

    def _unfit(self, real: str, path: str, name: str, scope: Scope) -> str:
        """Return why a file cannot be imported; empty if it can."""
        is_inside = _is_below(os.path.normpath(path), scope) and (not real or _is_below(real, scope))
        if not is_inside and not name.startswith("~/"):
            return "it is outside the folder it may come from"
        if not real:
            return "there is no such file"
        if name.startswith("~/") and not Path(real).is_relative_to(scope.home):
            return "it is outside the home directory"
        if Path(real).suffix != Path(name).suffix:
            return "it leads to a file of another kind"
        if real in self.given:
            return "it is given already"
        return "" if self._looks.may_read(real) else "it is closed to the agent"


def _place(name: str, folder: str, scope: Scope) -> str:
    """Return the path that a name refers to; empty for a `~/` that is not allowed."""
    if name.startswith("~/"):
        return os.path.join(scope.home, name[2:]) if scope.home else ""
    return os.path.join(folder, name)


def _is_below(path: str, scope: Scope) -> bool:
    return Path(path).is_relative_to(scope.folder)


def _refused(name: str, why: str) -> str:
    return f"[{name} is not imported: {why}]"


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is part of a fenced code block."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence:
            fence = found.group(1) if found else ""
            yield line, bool(fence)
            continue
        yield line, True
        if found and found.group(1).startswith(fence) and not line[found.end() :].strip("`~ \t"):
            fence = ""


def _named(line: str) -> Iterator[str]:
    """Yield the files named in a line of prose, by their text file endings, so that `@someone` is left alone."""
    if "@" not in line:
        return
    for found in _NAMED.finditer(_CODE.sub("``", line)):
        name = (found.group(1) or found.group(2)).rstrip(".:!?")
        if os.path.splitext(name)[1].lower() in _TEXTS:
            yield name


def _is_only(line: str, name: str) -> bool:
    start = _BULLET.match(line)
    rest = line[start.end() if start else 0 :].strip()
    return rest in (f"@{name}", f'@"{name}"')

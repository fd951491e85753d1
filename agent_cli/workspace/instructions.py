"""The project's instructions to agents: the user's own file for all projects, then the AGENTS.md chain from the
repository's root down to the working directory, then those of deeper folders with files that the agent has read or
written, each with its imports.

These files go to the model without asking. A project's file may therefore only be a link to another text of the
same project.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.fs.nofollow import dir_entry

from .agentignore import AgentIgnore
from .files.reader import content_hash
from .instruction_imports import MAX_CHAIN_BYTES, FileStamps, Importer, Scope, cut_note
from .instruction_imports import MAX_FILE_BYTES as MAX_BYTES

if TYPE_CHECKING:
    from .git.index import TrackedFiles

__all__ = [
    "DEFAULT_NAMES",
    "MAX_BYTES",
    "MAX_CHAIN_BYTES",
    "Instruction",
    "InstructionFiles",
    "instruction_bytes",
]  # fmt: skip

_MOST_COMPARED = 1_000_000
_CUT = f" (cut: the limits are {MAX_BYTES // 1024} KB for a file, {MAX_CHAIN_BYTES // 1024} KB in all)"
DEFAULT_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")


class Instruction(msgspec.Struct, frozen=True):
    """One file of the chain, as sent to the model."""

    path: str
    """Absolute path."""
    text: str
    """Text including imports."""
    hash: str
    """Hash of `text`."""
    source: str
    """Machine-independent name of the file: its path relative to the working directory, or `user:` and its
    name."""
    is_doubtful: bool = False
    """True if a command changed the file or an import while untrusted text was in a conversation."""
    is_cut: bool = False
    """True if only the beginning of the file or of an import is sent."""


class InstructionFiles:
    """The instructions that apply in a folder. `read` may be called before every request: while nothing has
    changed, it checks the files without reading them."""

    def __init__(
        self,
        cwd: Path,
        names: Sequence[str] = DEFAULT_NAMES,
        config_dir: Path | None = None,
        may_read: Callable[[str], bool] = lambda real: True,
        is_doubtful: Callable[[str], bool] = lambda real: False,
        *,
        of_project: bool = True,
        used: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """In every folder from the repository's root (the nearest ancestor with `.git`, otherwise only `cwd`) down
        to `cwd`, the first readable one of `names` applies; before them, that of `config_dir`. `may_read` tells
        whether the agent may open a real path of the project, in addition to access lists. `is_doubtful` tells
        whether its content may come from others. Without `of_project`, only the user's file applies. `used`
        returns the absolute paths of the files that the agent has read or written."""
        self._cwd = cwd.resolve()
        self._names = tuple(names)
        self._config_dir = config_dir
        self._may_read = may_read
        self._is_doubtful = is_doubtful
        self._of_projects = of_project
        self.files: frozenset[str] = frozenset()
        """Real paths of the project files in the result of `read`, including imports."""
        self._used = used
        self._used_count = 0
        self._deeper: dict[Path, tuple[str, ...]] = {}
        """Folders below the working directory in which a file was used, and the names of the instructions in them
        that the repository tracks: those of installed packages are not the project's."""
        self._tracked: TrackedFiles | None = None
        self._looks: FileStamps | None = None
        self._found: tuple[Instruction, ...] = ()

    def read(self) -> tuple[Instruction, ...]:
        """Return the files that currently apply, from general to specific, so that the nearest file has the last
        word.

        Empty and unreadable files are skipped, as are links that lead out of the project or to a file with another
        suffix.
        """
        if self._go_deeper() or self._look_again() or self._looks is None or not self._looks.are_unchanged():
            self._looks, self._found = self._read()
        return self._found

    def come_near(self) -> tuple[str, ...]:
        """Return the instructions of deeper folders, as paths relative to the working directory, that apply since
        the last call because a file there was used."""
        new = self._go_deeper()
        if not new:
            return ()
        self._looks, self._found = self._read()
        applying = new.intersection(Path(each.path).parent for each in self._found)
        return tuple(sorted(os.path.relpath(folder, self._cwd) for folder in applying))

    def _go_deeper(self) -> set[Path]:
        """Return the folders with tracked instructions in which a file was used since the last call."""
        used = self._used() if self._of_projects else ()
        if len(used) == self._used_count:
            return set()
        known = self._used_count if len(used) > self._used_count else 0  # an undo makes it forget some
        self._used_count = len(used)
        new = {folder for path in islice(used, known, None) for folder in self._folders_of(path)}
        return self._note_tracked(new)

    def _look_again(self) -> bool:
        """Return True if git tracks instructions now in a folder that had none, as after a `git pull`."""
        without = [folder for folder, names in self._deeper.items() if not names]
        return bool(without) and bool(self._note_tracked(without))

    def _note_tracked(self, folders: Collection[Path]) -> set[Path]:
        """Note which instructions in some folders are tracked, and return the folders that have any."""
        tracked = self._tracked_among([str(folder / name) for folder in folders for name in self._names])
        found = {
            folder: tuple(name for name in self._names if str(folder / name) in tracked) for folder in folders
        }
        self._deeper |= found
        return {folder for folder, names in found.items() if names}

    def _tracked_among(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of the paths that are files which the repository tracks."""
        files = list(filter(os.path.isfile, paths))
        if not files:
            return frozenset()
        if self._tracked is None:
            from .git.index import TrackedFiles

            self._tracked = TrackedFiles()
        return self._tracked.among(str(self._cwd), files)

    def _folders_of(self, path: str) -> Iterator[Path]:
        """Yield the folders between the working directory and a file in it."""
        folder = Path(path).parent
        while folder != self._cwd and folder.is_relative_to(self._cwd) and folder not in self._deeper:
            yield folder
            folder = folder.parent

    def _read(self) -> tuple[FileStamps, tuple[Instruction, ...]]:
        folders = _folders(self._cwd)
        lists = AgentIgnore(folders[:1])
        looks = FileStamps(lambda real: lists.verdict(real) is None and self._may_read(real))
        for folder in (self._cwd, *self._cwd.parents):
            if looks.is_there(str(folder / ".git")):
                break
        importer = Importer(looks)
        found = [self._own(looks, importer)]
        own = set(importer.given)
        places = [(folder, self._names) for folder in folders] + sorted(self._deeper.items())
        for folder, names in places if self._of_projects else ():
            if folder != self._config_dir:
                paths = [folder / name for name in names]
                found.append(self._of_project(paths, folders[0], looks, importer))
        self.files = frozenset(importer.given - own)
        return looks, _within_bound([each for each in found if each])

    def summary(self) -> str:
        """Return one line on which files of the project apply, which files next to them are not read, and which
        files, the user's own included, are too long to be sent whole; empty if there are none."""
        shown = [
            each.source + _CUT * each.is_cut + self._passed_over(Path(each.path))
            for each in self.read()
            if each.is_cut or Path(each.path).parent != self._config_dir
        ]
        return ", ".join(shown)

    def _passed_over(self, chosen: Path) -> str:
        others = [
            name
            for name in self._names
            if name != chosen.name
            and os.path.isfile(chosen.parent / name)
            and os.path.realpath(chosen.parent / name) not in self.files
        ]
        return f" ({', '.join(others)} beside it {'are' if len(others) > 1 else 'is'} not read)" if others else ""

    def _own(self, looks: FileStamps, importer: Importer) -> Instruction | None:
        """Return the user's file for all projects. It may import files next to it and files named with `~/`."""
        if self._config_dir is None:
            return None
        home = os.path.realpath(os.path.expanduser("~"))
        for name in self._names:
            path = self._config_dir / name
            real = looks.real(str(path))
            cut_earlier = len(importer.cut)
            if text := _text(real, name, importer):
                text = importer.expanded(text, real, Scope(os.path.dirname(real), home))
                is_cut = len(importer.cut) > cut_earlier
                return Instruction(str(path), text, _hash(text), f"user:{name}", is_cut=is_cut)
        return None

    def _of_project(
        self, paths: Sequence[Path], project: Path, looks: FileStamps, importer: Importer
    ) -> Instruction | None:
        """Return the first file of those in a folder that applies."""
        for path in paths:
            real = looks.real(str(path))
            if not real or not Path(real).is_relative_to(project) or Path(real).suffix != path.suffix:
                continue
            if not looks.may_read(real):
                continue
            earlier, cut_earlier = set(importer.given), len(importer.cut)
            if text := _text(real, path.name, importer):
                text = importer.expanded(text, real, Scope(str(project)))
                is_doubtful = any(map(self._is_doubtful, importer.given - earlier))
                is_cut = len(importer.cut) > cut_earlier
                source = os.path.relpath(path, self._cwd)
                return Instruction(str(path), text, _hash(text), source, is_doubtful, is_cut)
        return None


def instruction_bytes(real: str) -> bytes:
    """Return the content of a file for comparison.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with dir_entry(real) as at:
        return at.read(_MOST_COMPARED)


def _folders(cwd: Path) -> list[Path]:
    """Return the folders from the repository's root down to the working directory."""
    upwards = [cwd, *cwd.parents]
    for depth, folder in enumerate(upwards):
        if (folder / ".git").exists():
            return upwards[depth::-1]
    return [cwd]


def _text(real: str, name: str, importer: Importer) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return importer.read(real, name) if real else ""
    except OSError:
        return ""


def _hash(text: str) -> str:
    return content_hash(text.encode("utf-8", "replace"))


def _within_bound(found: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Truncate the instructions to `MAX_CHAIN_BYTES` in total; the nearest files are kept first."""
    left, kept = MAX_CHAIN_BYTES, []
    for each in reversed(found):
        data = each.text.encode("utf-8", "replace")
        if len(data) > left:
            text = data[:left].decode("utf-8", "ignore").rstrip()
            text = f"{text}\n\n{cut_note(Path(each.path).name, left)}".strip()
            each = msgspec.structs.replace(each, text=text, hash=_hash(text), is_cut=True)
        left = max(0, left - len(data))
        kept.append(each)
    return tuple(reversed(kept))

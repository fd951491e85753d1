"""The project's instructions to agents: the AGENTS.md chain from the repository's root down to where the
agent works, after the user's own file for all projects, each with the files it imports.

What is read here goes to the model unasked, so a project's file may be a link to another text of the same project,
and to nothing else."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.nofollow import dir_entry

from .agentignore import AgentIgnore
from .files.reader import content_hash
from .instruction_imports import MAX_CHAIN_BYTES, FileStamps, Importer, Scope, cut_note, text_of
from .instruction_imports import MAX_FILE_BYTES as MAX_BYTES

__all__ = [
    "DEFAULT_NAMES",
    "MAX_BYTES",
    "MAX_CHAIN_BYTES",
    "Instruction",
    "InstructionFiles",
    "instruction_bytes",
    "instructions",
]  # fmt: skip

_MOST_COMPARED = 1_000_000
DEFAULT_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")


class Instruction(msgspec.Struct, frozen=True):
    """One file of the chain, as the model is given it."""

    path: str
    """Absolute."""
    text: str
    """With what it imports."""
    hash: str
    """Of `text`."""
    source: str
    """The same file's name on any machine: its path from where the agent works, or `user:` and its name."""
    is_doubtful: bool = False
    """Whether a command changed it, or what it imports, while text from others was in a conversation."""


class InstructionFiles:
    """The instructions that apply in a folder. `read` may be called before every request: as long as nothing has
    changed it looks at the files and reads none."""

    def __init__(
        self,
        cwd: Path,
        names: Sequence[str] = DEFAULT_NAMES,
        config_dir: Path | None = None,
        may_read: Callable[[str], bool] = lambda real: True,
        is_doubtful: Callable[[str], bool] = lambda real: False,
        *,
        of_project: bool = True,
    ) -> None:
        """In every folder from the repository's root (the nearest ancestor with `.git`, else `cwd` alone) down to
        `cwd` the first of `names` that can be read counts; before them that of `config_dir`. `may_read` says of a
        real path of the project whether the agent may open it; access lists are heeded besides. `is_doubtful`
        says of one whether its content may come from others. Without `of_project` only the user's file counts."""
        self._cwd = cwd.resolve()
        self._names = tuple(names)
        self._config_dir = config_dir
        self._may_read = may_read
        self._is_doubtful = is_doubtful
        self._of_projects = of_project
        self.files: frozenset[str] = frozenset()
        """Real paths of the files that `read` has given, those they import included."""
        self._looks: FileStamps | None = None
        self._found: tuple[Instruction, ...] = ()

    def read(self) -> tuple[Instruction, ...]:
        """Return the files that apply now, the most general first, so that the nearest has the last word.

        Files that are empty or cannot be read do not count, and neither do links that lead out of the project or
        to a file of another kind, as its ending tells.
        """
        if self._looks is None or not self._looks.are_unchanged():
            self._looks, self._found = self._read()
        return self._found

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
        for folder in dict.fromkeys(folders) if self._of_projects else ():
            if folder != self._config_dir:
                found.append(self._of_project(folder, folders[0], looks, importer))
        self.files = frozenset(importer.given - own)
        return looks, _within_bound([each for each in found if each])

    def summary(self) -> str:
        """Return which files of the project apply, and which lie beside them and are not read, in one line; empty
        where there are none."""
        shown = [
            each.source + self._passed_over(Path(each.path))
            for each in self.read()
            if Path(each.path).parent != self._config_dir
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
        """Return the user's file for all projects, which may bring in what lies beside it or is named from
        `~/`."""
        if self._config_dir is None:
            return None
        home = os.path.realpath(os.path.expanduser("~"))
        for name in self._names:
            path = self._config_dir / name
            real = looks.real(str(path))
            if text := _text(real, name):
                text = importer.expanded(text, real, Scope(os.path.dirname(real), home))
                return Instruction(str(path), text, _hash(text), f"user:{name}")
        return None

    def _of_project(
        self, folder: Path, project: Path, looks: FileStamps, importer: Importer
    ) -> Instruction | None:
        """Return the first file of a folder that counts."""
        for name in self._names:
            path = folder / name
            real = looks.real(str(path))
            if not real or not _is_text_of(real, path, project) or not looks.may_read(real):
                continue
            if text := _text(real, path.name):
                earlier = set(importer.given)
                text = importer.expanded(text, real, Scope(str(project)))
                is_doubtful = any(map(self._is_doubtful, importer.given - earlier))
                return Instruction(
                    str(path), text, _hash(text), os.path.relpath(path, self._cwd), is_doubtful
                )  # fmt: skip
        return None


def instructions(
    cwd: Path,
    names: Sequence[str] = DEFAULT_NAMES,
    config_dir: Path | None = None,
    may_read: Callable[[str], bool] = lambda real: True,
) -> tuple[Instruction, ...]:
    """Return the instructions that apply in a folder now, as `InstructionFiles` gives them."""
    return InstructionFiles(cwd, names, config_dir, may_read).read()


def instruction_bytes(real: str) -> bytes:
    """Return the content of a file by which it is compared.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with dir_entry(real) as at:
        return at.read(_MOST_COMPARED)


def _folders(cwd: Path) -> list[Path]:
    """From the repository's root down to where the agent works."""
    upwards = [cwd, *cwd.parents]
    for depth, folder in enumerate(upwards):
        if (folder / ".git").exists():
            return upwards[depth::-1]
    return [cwd]


def _text(real: str, name: str) -> str:
    """Empty where there is none that could be read."""
    try:
        return text_of(real, name) if real else ""
    except OSError:
        return ""


def _hash(text: str) -> str:
    return content_hash(text.encode("utf-8", "replace"))


def _is_text_of(real: str, path: Path, project: Path) -> bool:
    return Path(real).is_relative_to(project) and Path(real).suffix == path.suffix


def _within_bound(found: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the same with at most `MAX_CHAIN_BYTES` in all; what is nearest is kept first."""
    left, kept = MAX_CHAIN_BYTES, []
    for each in reversed(found):
        data = each.text.encode("utf-8", "replace")
        if len(data) > left:
            text = data[:left].decode("utf-8", "ignore").rstrip()
            text = f"{text}\n\n{cut_note(Path(each.path).name, left)}".strip()
            each = msgspec.structs.replace(each, text=text, hash=_hash(text))
        left = max(0, left - len(data))
        kept.append(each)
    return tuple(reversed(kept))

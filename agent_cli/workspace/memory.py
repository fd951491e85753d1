"""The agent's memory: labelled blocks of text in Markdown files that belong to the user, who may read and edit
them at any time. User blocks apply to all projects, project blocks to one folder, and notes to one session.

A file may begin with settings between two lines `---`. They are parsed by a small parser that never raises: a file
it does not understand is shown unchanged, and only the user may change it.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from agent_cli.fs.files import make_private
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange, MemoryChange

from .files.reader import FileError, content_hash, read_bytes, stamp_of

if TYPE_CHECKING:
    from agent_cli.redaction.redactor import Redactor

Scope = Literal["user", "project", "notes"]
"""Scope of a block: all projects, this project, or this session."""

MAX_BYTES = 200_000
"""Maximum size of a file. A larger one is not shown in full, and only the user may change it."""
MAX_LIMIT = 20_000
MAX_BLOCKS = 20
"""Maximum number of blocks per scope."""
_LIMITS: Mapping[Scope, int] = MappingProxyType({"user": 4_000, "project": 8_000, "notes": 4_000})
_ABOUT: Mapping[Scope, str] = MappingProxyType(
    {
        "user": "facts about the user and how they like to work, for all projects",
        "project": "facts about this project that its files do not say",
        "notes": "working notes of this session",
    }
)
_SETTINGS = f"`description: TEXT`, `limit: CHARACTERS` up to {MAX_LIMIT} and `read_only: true`, each once"
_SETTLED_NS = 50_000_000
"""A file younger than this (one clock tick) may change again without a different time stamp."""
_MODE = 0o600

_Stamps = tuple[tuple[str, int, int, int], ...]


class Block(msgspec.Struct, frozen=True):
    """One block as in its file, or its initial state if there is no file."""

    label: str
    """`user`, `project`, `notes`, or the scope and the file's name: `user/style`."""
    scope: Scope
    path: str
    """Real path of its file."""
    text: str
    """Text without the settings; lines end with `\\n`."""
    description: str
    limit: int
    """Recommended maximum characters of `text`."""
    hash: str = ""
    """Content hash of the whole file; empty if there is none."""
    read_only: bool = False
    problem: str = ""
    """Why the file could not be parsed; it is then `read_only`."""
    head: str = ""
    """The settings as in the file, with the lines around them."""
    crlf: bool = False


class BlockError(Exception):
    """A block cannot be changed; the message says why and what to do."""


class Memory:
    """The memory blocks of one session."""

    def __init__(
        self, config_dir: Path, project_state: Path, notes_dir: Path, redactor: "Redactor | None" = None
    ) -> None:
        """`notes_dir` is the folder of this session's notes; none of the folders need exist. `redactor` knows the
        secrets that must not be written. Without it, only secrets with recognizable patterns are detected."""
        self._folders: dict[Scope, Path] = {
            "user": config_dir / "memory",
            "project": project_state / "memory",
            "notes": notes_dir,
        }
        self._redactor = redactor
        self._stamps: _Stamps | None = None
        self._blocks: tuple[Block, ...] = ()
        self._given: dict[str, str] = {}

    def blocks(self) -> tuple[Block, ...]:
        """Return all blocks: of the user, the project and the session, each starting with the block that always
        exists. Files are read again when they have changed."""
        began_ns = time.time_ns()
        stamps = tuple(_stamps(self._folders.items()))
        if stamps != self._stamps:
            self._blocks = tuple(block for scope in get_args(Scope) for block in self._of(scope))
            youngest = max((stamp[3] for stamp in stamps), default=0)
            self._stamps = stamps if youngest < began_ns - _SETTLED_NS else None
        return self._blocks

    def given(self) -> tuple[Block, ...]:
        """Return all blocks for the model, and record their versions as known: the model is about to be sent those
        that changed."""
        blocks = self.blocks()
        self._given = {block.label: block.hash for block in blocks}
        return blocks

    def find(self, label: str) -> Block:
        """Return a block by its label.

        Raises:
            BlockError: there is none; the message lists the blocks.
        """
        blocks = self.blocks()
        for block in blocks:
            if block.label == label:
                return block
        raise BlockError(f"There is no memory block {label!r}; there are {', '.join(b.label for b in blocks)}.")

    def is_known(self, block: Block) -> bool:
        """Return True if the model has seen the current version of a block."""
        return self._given.get(block.label) == block.hash

    def changed(self, block: Block, text: str) -> str:
        """Return the whole file with a new text in the block.

        Raises:
            BlockError: it may not be changed, would be too long, or would contain a secret.
        """
        if block.problem:
            raise BlockError(f"{block.label} can be changed by the user only: {block.problem} ({block.path}).")
        if block.read_only:
            raise BlockError(f"{block.label} is read-only; only the user changes it ({block.path}).")
        if len(text) > max(block.limit, 0) and len(text) >= len(block.text):
            over = len(text) - block.limit
            raise BlockError(
                f"{block.label} would have {len(text)} characters, {over} more than its limit of {block.limit}."
                f" Nothing was written: shorten it first, by rewrite or replace, or say less."
            )
        self._refuse_secrets(block, text)
        body = text if not text or text.endswith("\n") else f"{text}\n"
        needs_head = not block.hash or (not block.head.strip("\ufeff") and body.startswith("---"))
        whole = (_head(block) if needs_head else block.head) + body
        return whole.replace("\n", "\r\n") if block.crlf else whole

    def write(self, block: Block, whole: str) -> None:
        """Replace the file that `block` was read from with `whole`.

        Raises:
            BlockError: the file has changed since, or cannot be written; it is unchanged.
        """
        try:
            _put(block.path, block.label, whole, block.hash)
        except FileError as error:
            raise BlockError(f"{error}. Nothing was written.") from error
        self._stamps = None
        self._given[block.label] = content_hash(whole.encode("utf-8"))

    def show(self, block: Block) -> None:
        """Record that the model has been shown the current version of a block."""
        self._given[block.label] = block.hash

    def put_all_back(self, changes: Iterable[MemoryChange]) -> RestoreReport:
        """Apply changes in sequence, each from its `before` to its `after`, for undo and redo. A block that was
        changed since is left alone and reported. So is a file that is no block: a forged session could name any.
        """
        restored: list[FileChange] = []
        conflicts: list[Conflict] = []
        for change in changes:
            try:
                path = self._own_path(change.path)
                done = path is not None and put_back(path, change.before, change.after)
                reason = "modified after this turn" if path is not None else "not a memory block of this session"
            except FileError as error:
                done, reason = False, str(error)
            if done:
                restored.append(FileChange(change.path, _kind(change)))
            else:
                conflicts.append(Conflict(change.path, reason))
        return RestoreReport(tuple(restored), tuple(conflicts))

    def _own_path(self, path: str) -> str | None:
        """Return the file of a block that a record names; None if it is none. A copy of a session has its own
        notes, but its records name those of the original."""
        folder, name = os.path.split(os.path.realpath(path))
        known = {os.path.realpath(each): each for each in self._folders.values()}
        notes = os.path.realpath(self._folders["notes"])
        if name.endswith(".md") and os.path.dirname(folder) == os.path.dirname(notes):
            folder = notes
        if name.endswith(".md") and folder in known:
            return os.path.join(folder, name)
        real = os.path.join(folder, name)
        return real if real in {block.path for block in self.blocks()} else None

    def problems(self) -> tuple[str, ...]:
        """Return the problems with the files, for the user."""
        found = [f"{block.path}: {block.problem}" for block in self.blocks() if block.problem]
        for scope, folder in self._folders.items():
            if (count := len(_names(folder, scope))) > MAX_BLOCKS:
                found.append(f"{folder} has {count} files; only the first {MAX_BLOCKS} are blocks")
        return tuple(found)

    def _of(self, scope: Scope) -> Iterator[Block]:
        folder, first = self._folders[scope], f"{scope}.md"
        yield _read(folder / first, scope, scope)
        for name in _names(folder, scope)[:MAX_BLOCKS]:
            if name != first:
                yield _read(folder / name, scope, f"{scope}/{name.removesuffix('.md')}")

    def _refuse_secrets(self, block: Block, text: str) -> None:
        """Refuse new secrets. Existing ones may stay, because the user has put them there."""
        from agent_cli.redaction.redactor import Redactor

        redactor = self._redactor or Redactor()
        before = {block.text[span.start : span.end] for span in redactor.spans(block.text, True)}
        for span in redactor.spans(text, True):
            if text[span.start : span.end] not in before:
                raise BlockError(
                    f"It holds a secret ({span.name}), and memory is given to every later conversation."
                    " Nothing was written: leave it out, or name where it is kept."
                )


def put_back(path: str, expected: str | None, text: str | None) -> bool:
    """Restore a block's file to another content, or delete it, for undo and redo. Return False and do nothing if
    its content is no longer `expected` (None: no file).

    Raises:
        FileError: it cannot be read or written.
    """
    real = os.path.realpath(path)
    before = _content(real)
    if before != (None if expected is None else expected.encode("utf-8")):
        return False
    if text is not None:
        _put(real, os.path.basename(path), text, "" if before is None else content_hash(before))
    elif (there := stamp_of(real)) is not None:
        from .files.atomic_write import remove

        remove(real, os.path.basename(path), there)
    return True


def _kind(change: MemoryChange) -> Literal["created", "modified", "deleted"]:
    if change.before is None:
        return "created"
    return "deleted" if change.after is None else "modified"


def file_text(block: Block) -> str | None:
    """Return the full content of a block's file, for `MemoryChange`; None if there is none.

    Raises:
        BlockError: it cannot be read, or has changed since the block was read.
    """
    try:
        data = _content(block.path)
    except FileError as error:
        raise BlockError(str(error)) from error
    if (content_hash(data) if data is not None else "") != block.hash:
        raise BlockError(f"{block.label} is being changed by somebody else; nothing was written. Try again.")
    return None if data is None else data.decode("utf-8")


def _put(real: str, shown: str, whole: str, expected_hash: str) -> None:
    """Write a file if its content still has the given hash; empty for no file."""
    there = stamp_of(real)
    if there is not None and content_hash(read_bytes(real, shown, MAX_BYTES)[0]) != expected_hash:
        raise FileError(f"{shown} was changed in the meantime")
    if there is None and expected_hash:
        raise FileError(f"{shown} was deleted in the meantime")
    mode = None
    if there is None:
        make_private(Path(real).parent)
        mode = _MODE
    from .files.atomic_write import write_atomic

    write_atomic(real, shown, whole.encode("utf-8"), there, mode=mode)


def _content(real: str) -> bytes | None:
    return None if stamp_of(real) is None else read_bytes(real, os.path.basename(real), MAX_BYTES)[0]


def _names(folder: Path, scope: Scope) -> list[str]:
    """Return the files that may be blocks, starting with the one that always exists."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".md") and not name.startswith(".")]
    except OSError:
        return []
    return sorted(names, key=lambda name: (name != f"{scope}.md", name))


def _stamps(folders: Iterable[tuple[Scope, Path]]) -> Iterator[tuple[str, int, int, int]]:
    """Yield stamps that reveal whether a file in some folders has changed, appeared or disappeared."""
    for scope, folder in folders:
        for name in _names(folder, scope)[: MAX_BLOCKS + 1]:
            try:
                status = os.stat(folder / name)
            except OSError:
                continue
            yield f"{folder}/{name}", status.st_ino, status.st_size, status.st_mtime_ns


def _read(path: Path, scope: Scope, label: str) -> Block:
    """Return the block of a file, whatever its contents."""
    real = os.path.realpath(path)
    about = _ABOUT[scope] if label == scope else ""
    block = Block(label, scope, real, "", about, _LIMITS[scope])
    try:
        data = _content(real)
    except FileError as error:
        return _broken(block, b"", str(error))
    if data is None:
        return block
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _broken(block, data, "it is not UTF-8")
    crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    text = text.replace("\r\n", "\n") if crlf else text
    found = _divided(text)
    if found is None:
        return _broken(block, data, "its settings have no second line ---")
    head, settings, body = found
    block = msgspec.structs.replace(
        block, text=body.removesuffix("\n"), head=head, hash=content_hash(data), crlf=crlf
    )
    return _with_settings(block, settings, data)


def _broken(block: Block, data: bytes, problem: str) -> Block:
    """Return a block that is shown as in its file and can only be changed by the user."""
    return msgspec.structs.replace(
        block,
        text=data.decode("utf-8-sig", "replace").replace("\r\n", "\n").strip("\n"),
        hash=content_hash(data or problem.encode("utf-8", "replace")),
        read_only=True,
        problem=problem,
        head="",
    )


def _divided(text: str) -> tuple[str, list[str], str] | None:
    """Return the head of a file, its settings line by line, and the rest; None if the head is not terminated."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text[len(mark) :].split("\n")
    if lines[0].rstrip() != "---":
        return mark, [], text[len(mark) :]
    ends = [at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"]
    if not ends:
        return None
    end = ends[0]
    body = end + 1
    while body < len(lines) - 1 and not lines[body].strip():
        body += 1
    return mark + "".join(f"{line}\n" for line in lines[:body]), lines[1:end], "\n".join(lines[body:])


def _with_settings(block: Block, lines: list[str], data: bytes) -> Block:
    seen: dict[str, object] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, written = line.partition(":")
        key, value = key.strip(), _value(key.strip(), written.strip()) if colon else None
        if value is None or key in seen:
            return _broken(block, data, f"line {number} is not one of {_SETTINGS}")
        seen[key] = value
    return msgspec.structs.replace(block, **seen)


def _value(key: str, written: str) -> str | int | bool | None:
    """Return the value of a setting; None if it is invalid."""
    if key == "description":
        is_quoted = len(written) > 1 and written[0] == written[-1] and written[0] in "\"'"
        return written[1:-1] if is_quoted else written
    if key == "limit":
        is_number = written.isascii() and written.isdigit() and len(written) < 8
        return int(written) if is_number and 0 < int(written) <= MAX_LIMIT else None
    return {"true": True, "false": False}.get(written) if key == "read_only" else None


def _head(block: Block) -> str:
    """Return the head of a new file, which shows the user which settings exist."""
    return f"---\ndescription: {block.description}\nlimit: {block.limit}\n---\n\n"

"""Checkpoints without git: copies of files that tools write, stored by content.

Only files written by the agent's own tools are covered. A file that only a shell command changed is unknown, and
every report says so.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, reason_of, replace_file
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice

from .git import name_of
from .resolve import decide
from .restore import (
    Change,
    Entry,
    blob_hash,
    chains,
    join_reports,
    kind_of_change,
    plan_changes,
    present,
    printable,
    restore,
)
from .types import CheckpointError, Move

_HASH_LENGTH = 40
_LIST = re.compile(r"list-[0-9a-f]{40}")
NOTE = "git is not installed, so only files written by the agent's own tools can be restored"


class Copies:
    """Checkpoints of one workspace root without git. A checkpoint is a list of paths and their contents."""

    def __init__(self, root: Path, store: Path, session_id: str = "") -> None:
        """`session_id` is the session whose deletion removes the checkpoints; without one they are kept
        forever."""
        self.root = root
        self._session_id = session_id
        self._store = store
        self._covered: set[str] = set()
        self.left_out: tuple[str, ...] = ()
        """Always empty; files that are too large are reported by `cover`."""
        self.uncovered: tuple[str, ...] = ()
        """Always empty."""
        self.needs_maintenance = False

    async def take(self, about: Sequence[Move] = ()) -> str:
        for move in about:
            self._load(move.left)
            self._load(move.target)
        return self._save({path: self._entry(path) for path in sorted(self._covered)})

    async def cover(self, path: str, checkpoint: str) -> str:
        relative = os.path.relpath(path, self.root)
        if relative.split("/")[0] == "..":
            raise CheckpointError(f"{path} is outside the workspace")
        if relative in self._covered:
            return checkpoint
        self._covered.add(relative)
        return self._save({**self._load(checkpoint), relative: self._entry(relative)})

    async def mark_own_changes(self, before: str, after: str, until_s: float) -> str:
        """Return `after`: files written by tools are known, and nothing else is covered."""
        return after

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        found = []
        for path, (old, new) in self._differences(before, after).items():
            lines = self._diff(path, old, new)[2:]
            added = sum(line.startswith("+") for line in lines)
            removed = sum(line.startswith("-") for line in lines)
            found.append(FileChange(printable(path), kind_of_change(old, new), added, removed))
        return tuple(found)

    async def diff(self, before: str, after: str) -> str:
        differences = self._differences(before, after)
        return "".join(line for path, pair in differences.items() for line in self._diff(path, *pair))

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        changes = self._net(moves)
        pairs = {path: (each.start, each.end) for path, each in changes.items() if each.start != each.end}
        report = restore(self.root, pairs, self._content, dry_run=dry_run)
        told = {conflict.path for conflict in report.conflicts}
        held_up = [Conflict(printable(path), each.reason) for path, each in changes.items() if each.reason]
        more = tuple(conflict for conflict in held_up if conflict.path not in told)
        return join_reports((report, RestoreReport(conflicts=more, notes=(NOTE,))))

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        wanted = {path: each for path, each in self._net(moves).items() if not paths or printable(path) in paths}

        async def load(blobs: Collection[str]) -> Mapping[str, bytes]:
            return {blob: self._content(blob) for blob in blobs}

        concerned = {path: each for path, each in wanted.items() if each.is_open}
        return await decide(self.root, concerned, choice, self._load(saved), load, printable)

    async def maintain(self) -> None:
        """Do nothing: copies need no maintenance."""

    def _net(self, moves: Sequence[Move]) -> dict[str, Change]:
        steps = ((self._differences(move.left, move.target), move.refusal) for move in moves)
        return plan_changes(self.root, chains(steps, printable))

    def _differences(self, left: str, right: str) -> dict[str, tuple[Entry, Entry]]:
        old, new = self._load(left), self._load(right)
        pairs = {path: (old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys())}
        return {path: (a, b) for path, (a, b) in pairs.items() if a is not None and b is not None and a != b}

    def _diff(self, path: str, old: Entry, new: Entry) -> list[str]:
        sides = [
            self._content(entry.blob).decode("utf-8", "replace") if entry.blob else "" for entry in (old, new)
        ]
        before, after = (side.splitlines(keepends=True) for side in sides)
        import difflib

        return list(difflib.unified_diff(before, after, f"a/{printable(path)}", f"b/{printable(path)}"))

    def _entry(self, path: str) -> Entry:
        try:
            entry, data = present(self.root, path)
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error
        if entry.blob:
            self._keep(data)
        return entry

    def _keep(self, data: bytes) -> str:
        name = blob_hash(data)
        if not (self._store / name).exists():
            self._write(name, data)
        return name

    def _save(self, manifest: dict[str, Entry]) -> str:
        data = msgspec.json.encode({os.fsencode(path).hex(): entry for path, entry in manifest.items()})
        name = f"list-{blob_hash(data)}"
        self._write(name, data)
        if self._session_id:
            self._note(name)
        return name

    def _note(self, name: str) -> None:
        """Record that a checkpoint belongs to the session."""
        notes = self._store / f"session-{name_of(self._session_id)}"
        try:
            with notes.open("a", encoding="ascii") as file:
                file.write(f"{name}\n")
        except OSError as error:
            raise CheckpointError(f"cannot write {self._store}: {error.strerror}") from error

    def _load(self, checkpoint: str) -> dict[str, Entry]:
        if not _LIST.fullmatch(checkpoint):  # the session file could name any file
            raise CheckpointError(f"{checkpoint[:80]!r} is not a checkpoint")
        try:
            raw = decode_json((self._store / checkpoint).read_bytes(), type=dict[str, Entry])
        except (OSError, msgspec.DecodeError) as error:
            raise CheckpointError(f"the checkpoint {checkpoint} cannot be read: {reason_of(error)}") from error
        found = {os.fsdecode(bytes.fromhex(path)): entry for path, entry in raw.items()}
        self._covered.update(found)
        return found

    def _content(self, blob: str) -> bytes:
        return (self._store / blob).read_bytes()

    def _write(self, name: str, data: bytes) -> None:
        try:
            make_private(self._store)
            replace_file(self._store / name, data)
        except OSError as error:
            raise CheckpointError(f"cannot write {self._store}: {error.strerror}") from error


def forget_copies(store: Path, session_id: str) -> None:
    """Delete a session's copies, and contents that only they refer to. Checkpoints not recorded by any session
    were made by an older version and are kept."""
    own = store / f"session-{name_of(session_id)}"
    try:
        gone = set(own.read_text(encoding="ascii").split())
    except OSError:
        return
    kept = {name for file in store.glob("session-*") if file != own for name in file.read_text("ascii").split()}
    for name in gone - kept:
        (store / name).unlink(missing_ok=True)
    own.unlink(missing_ok=True)
    needed: set[str] = set()
    for file in store.glob("list-*"):
        entries = decode_json(file.read_bytes(), type=dict[str, Entry])
        needed.update(entry.blob for entry in entries.values())
    for file in store.iterdir():
        if len(file.name) == _HASH_LENGTH and file.name not in needed:
            file.unlink(missing_ok=True)

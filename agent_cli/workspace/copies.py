"""Checkpoints where git is missing: copies of the files that tools write, by content.

It covers what the agent's own tools touch and nothing else; a file that only a shell command changed is
not known, and every report says so.
"""

import contextlib
import os
import stat
from collections.abc import Collection
from pathlib import Path

import msgspec

from ..protocol.events import RestoreReport
from ..protocol.messages import FileChange
from .anchored import spot
from .checkpoints import CheckpointError
from .restore import LARGEST_BYTES, LINK, Entry, blob_hash, kind_of_change, printable, restore
from .small_files import regular_bytes

NOTE = "git is not installed, so only files written by the agent's own tools can be restored"


class Copies:
    """Checkpoints of one workspace root without git. A checkpoint is a list of paths and their content."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root = root
        self._store = store
        self._covered: set[str] = set()
        self.left_out: tuple[str, ...] = ()
        """None; what is too large is told when it is to be covered."""

    async def take(self) -> str:
        """Save every covered file as it is now; returns the checkpoint's id.

        Raises:
            CheckpointError: it cannot be written.
        """
        return self._save({path: self._entry(path) for path in sorted(self._covered)})

    async def cover(self, path: str, checkpoint: str) -> str:
        """Add a file about to be written to a checkpoint; returns the checkpoint to use from now on.

        Raises:
            CheckpointError: it cannot be written.
        """
        relative = os.path.relpath(path, self.root)
        if relative.split("/")[0] == "..":
            raise CheckpointError(f"{path} lies outside the workspace")
        if relative in self._covered:
            return checkpoint
        self._covered.add(relative)
        return self._save({**self._load(checkpoint), relative: self._entry(relative)})

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Covered files that differ between two checkpoints.

        Raises:
            CheckpointError: a checkpoint is gone.
        """
        found = []
        for path, (old, new) in self._differences(before, after).items():
            lines = self._diff(path, old, new)[2:]
            added = sum(line.startswith("+") for line in lines)
            removed = sum(line.startswith("-") for line in lines)
            found.append(FileChange(printable(path), kind_of_change(old, new), added, removed))
        return tuple(found)

    async def diff(self, before: str, after: str) -> str:
        """Unified diff of the covered files.

        Raises:
            CheckpointError: a checkpoint is gone.
        """
        differences = self._differences(before, after)
        return "".join(line for path, pair in differences.items() for line in self._diff(path, *pair))

    async def restore(self, left: str, target: str, only: Collection[str] | None = None) -> RestoreReport:
        """As `Checkpoints.restore`, for covered files.

        Raises:
            CheckpointError: a checkpoint is gone.
        """
        report = restore(self.root, self._differences(left, target), self._content, only=only)
        return msgspec.structs.replace(report, notes=(NOTE,))

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

    def _text(self, entry: Entry) -> str:
        return self._content(entry.blob).decode("utf-8", "replace") if entry.blob else ""

    def _entry(self, path: str) -> Entry:
        try:
            with spot(os.path.join(os.path.realpath(self.root), path)) as at:
                status = at.status()
                if stat.S_ISLNK(status.st_mode):
                    return Entry(self._keep(os.fsencode(os.readlink(at.name, dir_fd=at.folder))), LINK)
                if status.st_size > LARGEST_BYTES:
                    raise CheckpointError(f"{path} is larger than {LARGEST_BYTES:,} bytes")
                mode = stat.S_IMODE(status.st_mode)
                kind = "100755" if mode & 0o100 else "100644"
                return Entry(self._keep(regular_bytes(at, LARGEST_BYTES)), kind, mode)
        except (FileNotFoundError, NotADirectoryError):
            return Entry()
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error

    def _keep(self, data: bytes) -> str:
        name = blob_hash(data)
        if not (self._store / name).exists():
            self._write(name, data)
        return name

    def _save(self, manifest: dict[str, Entry]) -> str:
        data = msgspec.json.encode({os.fsencode(path).hex(): entry for path, entry in manifest.items()})
        name = f"list-{blob_hash(data)}"
        self._write(name, data)
        return name

    def _load(self, checkpoint: str) -> dict[str, Entry]:
        try:
            raw = msgspec.json.decode((self._store / checkpoint).read_bytes(), type=dict[str, Entry])
        except (OSError, msgspec.DecodeError) as error:
            raise CheckpointError(f"the checkpoint {checkpoint} cannot be read: {error}") from error
        return {os.fsdecode(bytes.fromhex(path)): entry for path, entry in raw.items()}

    def _content(self, blob: str) -> bytes:
        return (self._store / blob).read_bytes()

    def _write(self, name: str, data: bytes) -> None:
        draft = self._store / f"{name}.{os.getpid()}.tmp"
        try:
            self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(data)
            draft.replace(self._store / name)
        except OSError as error:
            raise CheckpointError(f"cannot write {self._store}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

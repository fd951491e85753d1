"""Snapshots of the workspace in a private git object store, outside the workspace and blind to the user's
own repository: own GIT_DIR, own index, no hooks, no filters, no global configuration.

A checkpoint is a commit: its tree holds every tracked and untracked-unignored file, byte for byte, and its
message the permission bits git does not keep. Restoring compares each path with the state the agent left
behind and never overwrites anything else.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ..protocol.events import RestoreReport
from ..protocol.messages import FileChange
from .programs import outside, program
from .restore import LARGEST_BYTES, NESTED, Entry, kind_of_change, printable, restore
from .small_files import small_bytes

_OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false",
    "-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.quotePath=false",
    "-c", "gc.auto=0", "-c", "advice.addEmbeddedRepo=false", "-c", "core.ignoreCase=false",
    "-c", "user.name=agent-cli", "-c", "user.email=agent-cli@localhost", "-c", "commit.gpgSign=false",
)  # fmt: skip
_ATTRIBUTES = "* -text -filter -ident !diff -working-tree-encoding -merge\n"
_PLAIN_MODES = (0o644, 0o755)
_MORE_TRIES = 2
_LONGEST_EXCLUDE = 1_000_000


class CheckpointError(Exception):
    """The workspace could not be saved or restored; the text says why."""


class _GitFailed(CheckpointError):
    """git began and gave up, as it does when a file goes away under its hands."""


class Output(Protocol):
    """What a finished program gives back."""

    @property
    def exit_code(self) -> int: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...


class RunProgram(Protocol):
    """Runs a program to its end; `sandbox.ProcessRunner.run` is one."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Output: ...


class Checkpoints:
    """Checkpoints of one workspace root, taken for one session."""

    def __init__(
        self,
        root: Path,
        store: Path,
        session_id: str,
        run: RunProgram,
        *,
        timeout_s: float,
        roots: Iterable[Path] = (),
    ) -> None:
        """`roots` are further folders that commands write to: no git that lies in one is run."""
        search_path = os.environ.get("PATH", os.defpath)
        self._program = program("git", search_path, (root, *roots))
        self._path = os.pathsep.join(outside(search_path, (root, *roots)))
        self._top = _enclosing_repository(root)
        """Where ignore files begin to count: the repository around the workspace, else the workspace."""
        self._scope = os.path.relpath(root, self._top)
        self._git_dir = store
        self._index = store / f"index-{session_id}"
        self._run = run
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._tracked: set[str] = set()
        self._listing: bytes | None = None
        """What the index holds, while nothing has changed it since it was listed."""
        self._extra: set[str] = set()
        """Ignored files that a tool is about to write, relative to the top."""
        self.left_out: tuple[str, ...] = ()
        """Files that the last checkpoint lacks because they are larger than `LARGEST_BYTES`, as shown."""

    async def take(self) -> str:
        """Save the workspace as it is now; returns the checkpoint's id.

        Raises:
            CheckpointError: no git, too large for the time allowed, or the disk is full.
        """
        async with self._lock:
            return await self._take()

    async def _take(self) -> str:
        try:
            await self._prepare()
        except OSError as error:
            raise CheckpointError(f"{self._git_dir} cannot be written: {error.strerror}") from error
        await self._without_nested()
        for _ in range(_MORE_TRIES):
            with contextlib.suppress(_GitFailed):
                await self._add_all()
                break
        else:
            await self._add_all()
        present = [
            path for path in sorted(self._extra) if os.path.lexists(self._top / path) and not self._is_large(path)
        ]
        if present:
            await self._add(*present)
        tree = (await self._git("write-tree")).decode().strip()
        self._listing = await self._git("ls-files", "-s", "-z")
        lines = self._listing.split(b"\0")
        self._tracked = {os.fsdecode(line.partition(b"\t")[2]) for line in lines if line}
        return await self._commit(tree, self._odd_modes())

    async def _add_all(self) -> None:
        """Everything that is not ignored, but for what is too large: that would take the time of all the rest."""
        listed = ("ls-files", "-z", "--others", "--modified", "--exclude-standard", "--", self._scope)
        from .ignore_files import BadIgnoreFile, unless_held_up

        try:
            found = await unless_held_up(self._git(*listed), self._top / self._scope)
        except BadIgnoreFile as error:
            raise CheckpointError(str(error)) from error
        names = {os.fsdecode(name) for name in found.split(b"\0") if name}
        large = sorted(name for name in names if self._is_large(name))
        self.left_out = tuple(self._shown(name) for name in large)
        wanted = [f":(literal){self._scope}", *(f":(exclude,literal){name}" for name in large)]
        await self._git(
            *("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"),
            input=b"\0".join(map(os.fsencode, wanted)),
            accept=(0, 1),
        )

    def _is_large(self, relative: str) -> bool:
        try:
            status = os.lstat(self._top / relative)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size > LARGEST_BYTES

    async def _add(self, *paths: str) -> None:
        """Files by name, ignored or not."""
        nested = await self._without_nested()
        await self._git("add", "--force", "--", *paths)
        if nested:
            await self._git("update-index", "-z", "--index-info", input=nested)

    async def _without_nested(self) -> bytes:
        """Take nested repositories out of the index, and give them as its lines. Of one that is in it, git would
        ask what has changed: by a git of its own in there, which obeys that repository's configuration."""
        listing = self._listing if self._listing is not None else await self._git("ls-files", "-s", "-z")
        self._listing = None
        nested = [line for line in listing.split(b"\0") if line.startswith(NESTED.encode())]
        if nested:
            names = b"".join(line.partition(b"\t")[2] + b"\0" for line in nested)
            await self._git("update-index", "-z", "--force-remove", "--stdin", input=names)
        return b"".join(line + b"\0" for line in nested)

    async def cover(self, path: str, checkpoint: str) -> str:
        """Make sure that a file about to be written is in `checkpoint`, even if it is ignored; returns the
        checkpoint to use from now on.

        Raises:
            CheckpointError: it lies outside the workspace or in a nested repository, or as for `take`.
        """
        if os.path.relpath(path, self._top / self._scope).split("/")[0] == "..":
            raise CheckpointError(f"{path} lies outside the workspace")
        relative = os.path.relpath(path, self._top)
        if relative in self._tracked or relative in self._extra:
            return checkpoint
        for folder in Path(relative).parents:
            if folder != Path(".") and (self._top / folder / ".git").exists():
                raise CheckpointError(f"{self._shown(relative)} lies in a repository of its own")
        async with self._lock:
            if await self._is_ignored(relative):
                if os.path.lexists(path):
                    if self._is_large(relative):
                        raise CheckpointError(f"{self._shown(relative)} is larger than {LARGEST_BYTES:,} bytes")
                    checkpoint = await self._add_ignored(relative, checkpoint)
                self._extra.add(relative)
        return checkpoint

    async def _add_ignored(self, relative: str, checkpoint: str) -> str:
        self._listing = None
        await self._git("read-tree", checkpoint)
        await self._add(relative)
        tree = (await self._git("write-tree")).decode().strip()
        modes = await self._modes(checkpoint)
        mode = stat.S_IMODE(os.lstat(self._top / relative).st_mode)
        if mode not in _PLAIN_MODES:
            modes[relative] = mode
        self._tracked.add(relative)
        return await self._commit(tree, modes)

    async def _commit(self, tree: str, modes: dict[str, int]) -> str:
        import json  # unlike msgspec it can hold names that are not UTF-8

        message = json.dumps({"modes": modes}).encode()
        return (await self._git("commit-tree", tree, input=message)).decode().strip()

    async def _is_ignored(self, relative: str) -> bool:
        found = await self._git("check-ignore", "--no-index", "--", relative, accept=(0, 1))
        return bool(found)

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Files that differ between two checkpoints, with line counts.

        Raises:
            CheckpointError: a checkpoint is gone.
        """
        raw = await self._git("diff-tree", "-r", "-z", "--no-renames", "--numstat", "--text", before, after)
        counts: dict[str, tuple[int, int]] = {}
        for item in raw.split(b"\0"):
            fields = item.split(b"\t", 2)
            if len(fields) == 3:
                added, removed = (int(n) if n.isdigit() else 0 for n in fields[:2])
                counts[os.fsdecode(fields[2])] = (added, removed)
        found = []
        for path, (old, new) in (await self._differences(before, after)).items():
            found.append(FileChange(self._shown(path), kind_of_change(old, new), *counts.get(path, (0, 0))))
        return tuple(found)

    async def diff(self, before: str, after: str) -> str:
        """Unified diff between two checkpoints."""
        raw = await self._git("diff-tree", "-r", "-p", "--no-renames", "--text", before, after)
        return raw.decode("utf-8", "replace")

    async def restore(self, left: str, target: str, only: Collection[str] | None = None) -> RestoreReport:
        """Bring every path that differs from `left` to `target` back to its state in `target`. A path that
        is no longer as in `left`, or not among `only`, is reported and left alone.

        Raises:
            CheckpointError: a checkpoint is gone.
        """
        differences = await self._differences(left, target)
        wanted = [new.blob for _, new in differences.values() if new.blob and new.kind != NESTED]
        contents = await self._contents(wanted)
        return restore(self._top, differences, contents.__getitem__, only=only, shown=self._shown)

    def _shown(self, path: str) -> str:
        """A path as the user writes it: relative to the workspace."""
        return printable(path if self._scope == "." else os.path.relpath(path, self._scope))

    async def _differences(self, left: str, right: str) -> dict[str, tuple[Entry, Entry]]:
        raw = await self._git("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", left, right)
        left_modes, right_modes = await self._modes(left), await self._modes(right)
        found: dict[str, tuple[Entry, Entry]] = {}
        fields = raw.split(b"\0")
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            path = os.fsdecode(name)
            old_kind, new_kind, old_blob, new_blob, _ = meta.decode().lstrip(":").split(" ")
            found[path] = (
                _entry(old_kind, old_blob, left_modes.get(path)),
                _entry(new_kind, new_blob, right_modes.get(path)),
            )
        for path in left_modes.keys() | right_modes.keys():
            if path not in found and left_modes.get(path) != right_modes.get(path):
                entry = await self._lookup(right, path)
                if entry is not None:
                    kind, blob = entry
                    found[path] = (
                        _entry(kind, blob, left_modes.get(path)),
                        _entry(kind, blob, right_modes.get(path)),
                    )
        return found

    async def _lookup(self, checkpoint: str, path: str) -> tuple[str, str] | None:
        raw = await self._git("ls-tree", "-z", checkpoint, "--", path)
        if not raw:
            return None
        kind, _, blob = raw.split(b"\t", 1)[0].decode().split(" ")
        return kind, blob

    async def _modes(self, checkpoint: str) -> dict[str, int]:
        raw = await self._git("cat-file", "commit", checkpoint)
        import json

        modes: dict[str, int] = json.loads(raw.partition(b"\n\n")[2])["modes"]
        return modes

    def _odd_modes(self) -> dict[str, int]:
        modes: dict[str, int] = {}
        root = str(self._top)
        for path in sorted(self._tracked):
            try:
                mode = os.lstat(f"{root}/{path}").st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and stat.S_IMODE(mode) not in _PLAIN_MODES:
                modes[path] = stat.S_IMODE(mode)
        return modes

    async def _contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        unique = sorted(set(blobs))
        if not unique:
            return {}
        raw = await self._git("cat-file", "--batch", input="".join(f"{blob}\n" for blob in unique).encode())
        contents: dict[str, bytes] = {}
        at = 0
        for blob in unique:
            end = raw.index(b"\n", at)
            size = int(raw[at:end].split(b" ")[2])
            contents[blob] = raw[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return contents

    async def _prepare(self) -> None:
        if not (self._git_dir / "HEAD").exists():
            self._git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._git("init", "--quiet", "--bare", "--template=", str(self._git_dir))
        info = self._git_dir / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
        (info / "exclude").write_bytes(self._exclusions())
        # Left by a git that was killed; the session's lock makes this process the only one to use the index.
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)

    def _exclusions(self) -> bytes:
        """The user's own excludes of this clone, and the store itself should it lie in the workspace."""
        lines = b""
        with contextlib.suppress(OSError):
            lines = small_bytes(self._top / ".git" / "info" / "exclude", _LONGEST_EXCLUDE)
        if self._git_dir.is_relative_to(self._top):
            lines += b"\n/" + os.fsencode(self._git_dir.relative_to(self._top)) + b"/\n"
        return lines

    async def _git(self, *arguments: str, input: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {
            "GIT_DIR": str(self._git_dir), "GIT_WORK_TREE": str(self._top), "GIT_INDEX_FILE": str(self._index),
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
            "GIT_LITERAL_PATHSPECS": "1", "GIT_ALLOW_PROTOCOL": "none", "PATH": self._path,
        }  # fmt: skip
        if arguments[0] == "check-ignore" or "--pathspec-from-file=-" in arguments:
            del env["GIT_LITERAL_PATHSPECS"]  # the first knows no other kind, and refuses to be told
        if arguments[0] == "init":
            del env["GIT_WORK_TREE"]
        if self._program is None:
            raise CheckpointError("there is no git on the PATH outside the workspace")
        try:
            done = await self._run(
                [self._program, *_OPTIONS, *arguments],
                cwd=self._top,
                env=env,
                input=input,
                timeout_s=self._timeout_s,
            )
        except TimeoutError:
            raise CheckpointError(
                f"saving the workspace took longer than {self._timeout_s:.0f} s; it is too large for undo"
            ) from None
        except Exception as error:
            raise CheckpointError(f"git cannot be run: {error}") from error
        if done.exit_code not in accept:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()
            fatal = [line for line in told if line.startswith("fatal:")] or told[-1:] or ["no reason given"]
            raise _GitFailed(f"git {arguments[0]} failed: {fatal[0]}")
        return done.stdout


def _enclosing_repository(root: Path) -> Path:
    """The nearest folder at or above the workspace that holds a repository, else the workspace."""
    home = Path.home() if "HOME" in os.environ else None
    for folder in (root, *root.parents):
        if (folder / ".git").exists() and folder != home:
            return folder
    return root


def _entry(kind: str, blob: str, mode: int | None) -> Entry:
    if kind == "000000":
        return Entry()
    return Entry(blob, kind, mode if mode is not None else 0o755 if kind == "100755" else 0o644)

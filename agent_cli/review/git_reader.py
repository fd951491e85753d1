"""Read the user's repository through git without obeying any of its settings: commits, the current files, and the
difference of two trees.

git runs in an empty private repository that refers to the objects and refs of the user's. No hook, filter,
external diff, text conversion or file system monitor can start, because the settings that would name one are never
read.
"""

import contextlib
import hashlib
import os
import posixpath
import stat
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular, reason_of
from agent_cli.fs.git_files import BARE_CONFIG, settings
from agent_cli.fs.which import RunProgram
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.workspace.checkpoints.git import GitFailed, PrivateGit, names_in
from agent_cli.workspace.checkpoints.types import CheckpointError
from agent_cli.workspace.git.ignore_guard import BadIgnoreFile, unless_held_up
from agent_cli.workspace.git.repository import GitFolder, git_folder
from agent_cli.workspace.worktrees.store import copy_index

from .finding import Omitted

_TIMEOUT_S = 120.0
_BINARY_BYTES = 8000
"""Number of leading bytes in which git looks for a NUL."""
LARGEST_FILE = 1_000_000
"""Maximum size of a reviewed file in bytes."""
ODD_NAME = "its name has control characters, quotes or backslashes"
_LARGEST_SETTINGS = 1_000_000
_LARGEST_REFS = 50_000_000
_MOST_PATHS = 400
"""Maximum number of paths in a command line."""
_REF = lazy_regex(r"(?!-)[^\x00-\x20\x7f:?*\[\\]+")
_LACKING = lazy_regex(r"unable to read|missing|bad object|single revision|could not get object")
"""What git says of an object that is not there."""
_ODD = lazy_regex(r"""[\x00-\x1f\x7f"\\]""")
"""Characters that make git quote a path."""
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "-l1000", "--full-index", "-z")
_CHANGED = ("diff-files", "-z", "--name-only", "--ignore-submodules=all")
_GITLINK = "160000"
_HEADER = b"diff --git "


class ReviewError(Exception):
    """The requested target cannot be reviewed; the text says why and what to do."""


class Change(msgspec.Struct, frozen=True):
    """A file that differs between two trees."""

    path: str
    old_path: str
    kind: str
    """Status letter of git: A, C, D, M, R or T."""
    modes: tuple[str, str]
    blobs: tuple[str, str]


class GitReader:
    """git on a repository; created by `git_reader`."""

    def __init__(self, git: PrivateGit, place: GitFolder, known: Mapping[str, str]) -> None:
        """`known` are the settings of the repository; only `core.fileMode`, and whether it is a partial clone, are
        used."""
        has_modes = known.get("core.filemode", "true").lower() != "false"
        self._of_files = ("-c", f"core.fileMode={str(has_modes).lower()}")
        self._is_partial = any(name.endswith((".promisor", ".partialclone")) for name in known)
        self._git = git
        self._index = git.folder / "index"
        self.top = Path(place.top)
        self._own = Path(place.own)

    async def commit(self, ref: str) -> str:
        """Return the hash of the commit that a ref names; empty if there is none."""
        if not _REF.fullmatch(ref):
            return ""
        try:
            found = await self._git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        except GitFailed:
            return ""
        return found.decode().strip()

    async def parent(self, commit: str) -> str:
        """Return the first parent of a commit; empty for a root commit."""
        return await self.commit(f"{commit}^1")

    async def is_cut_off(self, commit: str) -> bool:
        """Return True if a commit has parents that a shallow clone lacks."""
        head = (await self._say("cat-file", "commit", commit)).partition(b"\n\n")[0]
        return b"\nparent " in head and not await self.parent(commit)

    async def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor of two commits; empty if there is none."""
        try:
            found = await self._git("merge-base", one, other, accept=(0, 1))
        except GitFailed:
            return ""
        return found.decode().strip()

    async def tree(self, commit: str) -> str:
        """Return the tree of a commit; the empty tree for no commit."""
        if not commit:
            return (await self._say("hash-object", "-w", "-t", "tree", "--stdin")).decode().strip()
        return (await self._say("rev-parse", "--verify", f"{commit}^{{tree}}")).decode().strip()

    async def snapshot(self, own: Collection[str] = ()) -> tuple[str, tuple[Omitted, ...]]:
        """Return the tree of the current files without ignored ones and, of those that git does not know, without
        `own` (real paths), and the files omitted from it."""
        with contextlib.suppress(FileNotFoundError):
            copy_index(self._own / "index", self._index)
        others = self._git("ls-files", "-z", "--others", "--exclude-standard", work=self.top, index=self._index)
        try:
            new = names_in(await unless_held_up(others, self.top))
        except (BadIgnoreFile, CheckpointError) as error:
            raise ReviewError(f"the files in {self.top} cannot be listed: {error}") from error
        changed = names_in(await self._say(*self._of_files, *_CHANGED, work=self.top, index=self._index))
        wanted, omitted = [], []
        top = os.path.realpath(self.top)
        unknown = (name for name in new if os.path.join(top, name) not in own)
        for name in dict.fromkeys((*changed, *unknown)):
            if why := _why_not(self.top, name):
                omitted.append(Omitted(name.rstrip("/"), why, is_gap="large" in why or why == ODD_NAME))
            else:
                wanted.append(name)
        if wanted:
            update = ("update-index", "-z", "--add", "--remove", "--stdin")
            given = b"".join(os.fsencode(name) + b"\0" for name in wanted)
            await self._say(*self._of_files, *update, work=self.top, index=self._index, input=given)
        tree = await self._say("write-tree", "--missing-ok", index=self._index)
        return tree.decode().strip(), tuple(omitted)

    async def with_patch(self, tree: str, patch: bytes) -> tuple[str, str]:
        """Return the trees before and after a patch, one of which is the given tree: a patch that is already
        applied is reverted.

        Raises:
            ReviewError: it applies in neither direction.
        """
        patch = _with_line_feeds(patch)
        failures: list[GitFailed] = []
        ways = [(strip, *way) for strip in _strips(patch) for way in ((), ("--reverse",))]
        for options in ways:
            try:
                other = await self._applied(tree, patch, options)
            except GitFailed as failed:
                failures.append(failed)
                continue
            except CheckpointError as failed:
                raise ReviewError(str(failed)) from failed
            if other != tree:  # modes are set regardless of the old ones
                return (other, tree) if "--reverse" in options else (tree, other)
        if len(failures) < len(ways):
            return tree, tree
        if all("No valid patches" in str(each) for each in failures):
            raise ReviewError("there is no patch in it that git can read, such as the output of `git diff`")
        raise ReviewError(f"the patch fits neither the files here nor those before it: {failures[0]}")

    async def _applied(self, tree: str, patch: bytes, options: Sequence[str]) -> str:
        """Return the tree that results from a patch.

        Raises:
            GitFailed: it does not apply.
        """
        index = self._index.with_name("patch-index")
        await self._git("read-tree", tree, index=index)
        await self._git("apply", "--cached", *options, "-", index=index, input=patch)
        return (await self._say("write-tree", "--missing-ok", index=index)).decode().strip()

    async def changes(self, old: str, new: str) -> tuple[tuple[Change, ...], str]:
        """Return the files that differ between two trees, and a hash of the whole difference."""
        raw = await self._say("diff-tree", "-r", "--raw", *_DIFF, old, new)
        return tuple(_changes(raw)), hashlib.sha256(raw).hexdigest()

    async def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """Return the sizes of existing blobs in bytes."""
        given = "".join(f"{blob}\n" for blob in sorted(set(blobs)))
        raw = (await self._say("cat-file", "--batch-check", input=given.encode())).decode()
        rows = (line.split(" ") for line in raw.splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[2].isdigit()}

    async def binary(self, old: str, new: str) -> frozenset[str]:
        """Return the paths of binary files among the differing ones."""
        raw = await self._say("diff-tree", "-r", "--numstat", *_DIFF, old, new)
        return frozenset(_binary(raw))

    async def patch(self, old: str, new: str, changes: Sequence[Change]) -> str:
        """Return the diff of some files as text."""
        parts = [changes[at : at + _MOST_PATHS] for at in range(0, len(changes), _MOST_PATHS)]
        found = []
        for part in parts:
            paths = dict.fromkeys(path for each in part for path in (each.old_path, each.path))
            found.append(await self._say("diff-tree", "-r", "-p", *_DIFF, old, new, "--", *paths))
        return b"".join(found).decode("utf-8", "replace")

    async def text(self, tree: str, path: str) -> str | None:
        """Return the text of a file in a tree; None if it does not exist, or is binary or large."""
        if not path or _ODD.search(path) or path != posixpath.normpath(path) or path.startswith(("/", "../")):
            return None
        name = f"{tree}:{path}"
        format = "--batch-check=%(objecttype) %(objectsize)"  # for a missing object, the given name
        asked = os.fsencode(name)
        head = (await self._say("cat-file", format, input=asked + b"\n")).removesuffix(b"\n")
        kind, _, size = head.partition(b" ")
        if head == asked + b" missing" or kind != b"blob" or int(size) > LARGEST_FILE:
            return None
        data = await self._say("cat-file", "blob", name)
        return None if b"\0" in data[:_BINARY_BYTES] else data.decode("utf-8", "replace")

    async def uses(self, tree: str, names: Sequence[str], most: int) -> list[tuple[str, int, str]]:
        """Return the uses of words in the files of a tree: path, line number and text of the line."""
        words = [part for name in names for part in ("-e", name)]
        try:
            raw = await self._git(
                "grep", "-n", "-I", "-F", "-w", "-z", "-m", str(most), *words, tree, accept=(0, 1)
            )
        except CheckpointError:  # older git versions lack -m, and uses are only a hint
            return []
        rows = (line.split("\0", 2) for line in raw.decode("utf-8", "replace").split("\n") if line)
        return [(row[0].partition(":")[2], int(row[1]), row[2]) for row in rows if len(row) == 3]

    async def check_out(self, tree: str, folder: Path) -> None:
        """Write the files of a tree to an empty folder."""
        index = self._index.with_name("checkout-index")
        await self._say("read-tree", tree, index=index)
        await self._say("checkout-index", "--all", "--quiet", work=folder, index=index)

    async def _say(
        self, *arguments: str, work: Path | None = None, index: Path | None = None, input: bytes = b""
    ) -> bytes:
        try:
            return await self._git(*arguments, work=work, index=index, input=input)
        except GitFailed as error:
            is_lacking = self._is_partial and _LACKING.search(str(error))
            advice = "; `git diff` or `git show` of the same versions fetches what this partial clone lacks"
            raise ReviewError(f"{error}{advice if is_lacking else ''}") from error
        except CheckpointError as error:
            raise ReviewError(str(error)) from error


@contextlib.asynccontextmanager
async def git_reader(folder: Path, run: RunProgram) -> AsyncIterator[GitReader]:
    """Yield a reader of the repository that contains a folder; `run` is `sandbox.ProcessRunner.run`.

    Raises:
        ReviewError: there is no repository, or it cannot be read.
    """
    try:
        place = git_folder(os.path.realpath(folder))
        if place is None:
            raise ReviewError(f"{folder} is not in a git repository; a review needs one to compare versions")
        if not place.is_its_own:
            raise ReviewError(f"{place.top}/.git leads to the repository of another folder")
        with tempfile.TemporaryDirectory(prefix="agent-review-") as twin:
            git = PrivateGit(Path(twin), run, (Path(place.top),), timeout_s=_TIMEOUT_S)
            yield GitReader(git, place, _make_twin(git, place))
    except OSError as error:
        raise ReviewError(f"the repository of {folder} cannot be read: {reason_of(error)}") from error


def _make_twin(git: PrivateGit, place: GitFolder) -> dict[str, str]:
    """Create an empty repository that refers to the objects and refs of another one; return the settings of the
    other one.

    Raises:
        ReviewError: its storage format is not supported.
        OSError: its files cannot be read.
    """
    common, own = Path(place.common), Path(place.own)
    known = dict(settings(read_regular(common / "config", _LARGEST_SETTINGS)))
    form, twin = known.get("extensions.objectformat", "sha1").lower(), git.folder
    if form not in BARE_CONFIG or "extensions.refstorage" in known:
        raise ReviewError(f"{common} keeps objects or refs in a way that is not known here")
    (twin / "refs").symlink_to(common / "refs")
    try:
        git.prepare(objects=str(common / "objects"), form=form)
    except CheckpointError as error:
        raise ReviewError(str(error)) from error
    copied = ((own, "HEAD"), (common, "packed-refs"), (common, "shallow"), (common, "info/exclude"))
    for folder, name in copied:
        with contextlib.suppress(FileNotFoundError):
            (twin / name).write_bytes(read_regular(folder / name, _LARGEST_REFS))
    return known


def _with_line_feeds(patch: bytes) -> bytes:
    """Convert a patch with CRLF on every line, including its headers, to LF."""
    head = next((line for line in patch.split(b"\n") if line.startswith((b"diff --git ", b"--- "))), b"")
    return patch.replace(b"\r\n", b"\n") if head.endswith(b"\r") else patch


def _strips(patch: bytes) -> tuple[str, ...]:
    """Return the numbers of folders to strip from the names of a patch, as options of `git apply`. A new file
    applies with any number, but gets a wrong name with all except one, so git's headers decide if there are
    any."""
    names = [line.removeprefix(_HEADER).rstrip() for line in patch.split(b"\n") if line.startswith(_HEADER)]
    if any(name[: len(name) // 2] == name[len(name) // 2 + 1 :] for name in names):
        return ("-p0",)  # the same name twice: neither `a/` nor `b/` precedes it
    if names and all(name.lstrip(b'"')[1:2] == b"/" for name in names):
        return ("-p1",)
    return "-p1", "-p0"


def _why_not(top: Path, name: str) -> str:
    """Return why a file is not reviewed; empty if it is, or if it is gone."""
    if name.endswith("/"):
        return "a repository of its own"
    if has_odd_name(name):
        return ODD_NAME
    try:
        status = os.lstat(top / name)
    except OSError:
        return ""
    if stat.S_ISREG(status.st_mode):
        if status.st_size <= LARGEST_FILE:
            return ""
        return "a binary file" if _is_binary(top / name) else f"too large ({status.st_size:,} bytes)"
    return "" if stat.S_ISLNK(status.st_mode) else "no regular file"


def _is_binary(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return b"\0" in read_regular(path, _BINARY_BYTES)
    return False


def _changes(raw: bytes) -> Iterable[Change]:
    fields = [os.fsdecode(field) for field in raw.split(b"\0")]
    at = 0
    while at < len(fields) and fields[at].startswith(":"):
        before, after, old, new, kind = fields[at][1:].split(" ")
        path = old_path = fields[at + 1]
        at += 2
        if kind[0] in "RC":
            path, at = fields[at], at + 1
        yield Change(path, old_path, kind[0], (before, after), (old, new))


def _binary(raw: bytes) -> Iterable[str]:
    fields = [os.fsdecode(field) for field in raw.split(b"\0")]
    at = 0
    while at < len(fields) and "\t" in fields[at]:
        added, _, path = fields[at].split("\t", 2)
        at += 1
        if not path:
            path, at = fields[at + 1], at + 2
        if added == "-":
            yield path


def is_submodule(change: Change) -> bool:
    """Return True if a change is that of a nested repository."""
    return _GITLINK in change.modes


def has_odd_name(path: str) -> bool:
    """Return True if a diff cannot name a path without quoting it."""
    return _ODD.search(path) is not None

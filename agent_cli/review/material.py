"""Select the material of a review, and collect it: the diff in parts that a model can read, and the uses of
changed names."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from .diff import FileDiff, file_diffs, first_line, pieces
from .finding import Omitted, Target, TargetKind
from .git_reader import LARGEST_FILE, ODD_NAME, Change, GitReader, ReviewError, has_odd_name, is_submodule

PART_CHARS = 80_000
"""Maximum size of the diff for a conversation, in characters."""
_PIECE_CHARS = PART_CHARS // 4
"""Maximum size of a piece of a file that is divided among conversations."""
_LEAST_ROOM = 12_000
"""Free characters below which a conversation counts as full."""
_MOST_PARTS = 8
_GROUP_BYTES = 4_000_000
"""Maximum total size of files diffed together, both sides included, in bytes."""
_TOO_LONG = "the whole diff is too long"
_LONGEST_DELETED = 20_000
"""Maximum size of the diff of a deleted file, in characters."""
_MOST_BYTES = 20_000_000
"""Maximum total size of all changed files, both sides included."""
_GENERATED = re.compile(
    r"(^|/)(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|poetry\.lock|uv\.lock"
    r"|Pipfile\.lock|Cargo\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock|gradle\.lockfile)$"
    r"|\.(min\.(js|css)|map|snap)$"
)
_DEFINED = re.compile(
    r"^[+-].*?\b(?:def|class|func|function|fn|interface|struct|trait|enum|type|const|sub)\s+([A-Za-z_]\w{3,})",
    re.M,
)
_MOST_NAMES = 20
_MOST_USES = 6
"""Maximum number of uses listed for a name."""
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


class Selection(msgspec.Struct, frozen=True):
    """The requested target; `kind` None selects the uncommitted changes, else the branch."""

    kind: TargetKind | None = None
    ref: str = ""
    """The base or the commit."""
    patch: bytes = b""
    name: str = ""
    """Name of the patch file."""
    own: frozenset[str] = frozenset()
    """Real paths of the files that reviews write: part of no change, unless git knows them."""


class Material(msgspec.Struct, frozen=True):
    """The material that a review reads."""

    target: Target
    trees: tuple[str, str]
    """The trees before and after the change."""
    files: tuple[FileDiff, ...]
    parts: tuple[str, ...]
    """The diff as text, in parts that each fit into a conversation."""
    uses: str
    """Other uses of changed names, one per line."""
    omitted: tuple[Omitted, ...]
    is_work_tree: bool
    """True if the reviewed text is that of the current files."""

    def diff_of(self, path: str) -> FileDiff | None:
        """Return the change of a file; None if it has not changed."""
        return next((each for each in self.files if each.path == path), None)


async def collect(git: GitReader, asked: Selection, may_show: Callable[[str], bool]) -> Material:
    """Collect the requested material. Files for which `may_show` returns False are omitted; its argument is a path
    relative to the repository.

    Raises:
        ReviewError: there is no such base or commit, or the patch does not apply.
    """
    now, lost = await git.snapshot(asked.own)
    head = await git.commit("HEAD")
    target, trees = await _target(git, asked, now, head)
    changes, digest = await git.changes(*trees)
    target = msgspec.structs.replace(target, diff=digest)
    kept, omitted = await _kept(git, trees, changes, may_show)
    parts, files, unread = _Parts(), list[FileDiff](), list[Omitted]()
    for group in _groups(kept):
        if parts.is_full:  # the remaining files are not even read
            unread += [Omitted(each.path, _TOO_LONG, is_gap=True) for each, _ in group]
            continue
        for file in file_diffs(await git.patch(*trees, [each for each, _ in group])):
            parts.add(file)
            files.append(file)
    about_now = lost if trees[1] == now else ()
    return Material(
        target,
        trees,
        tuple(files),
        parts.texts,
        await _uses(git, trees[1], files),
        (*omitted, *parts.omitted, *unread, *about_now),
        trees[1] == now,
    )


async def _target(git: GitReader, asked: Selection, now: str, head: str) -> tuple[Target, tuple[str, str]]:
    match asked.kind:
        case "uncommitted":
            return await _uncommitted(git, now, head)
        case "base":
            return await _branch(git, asked.ref, head)
        case "commit":
            return await _commit(git, asked.ref)
        case "patch":
            trees = await git.with_patch(now, asked.patch)
            return Target("patch", f"the patch {asked.name}", head, head, ""), trees
        case None:
            target, trees = await _uncommitted(git, now, head)
            if trees[0] != trees[1]:
                return target, trees
            return await _branch(git, await _usual_base(git, head), head)


async def _uncommitted(git: GitReader, now: str, head: str) -> tuple[Target, tuple[str, str]]:
    return Target("uncommitted", "the uncommitted changes", head, head, ""), (await git.tree(head), now)


async def _branch(git: GitReader, ref: str, head: str) -> tuple[Target, tuple[str, str]]:
    if not head:
        raise ReviewError("there is no commit yet; --uncommitted reviews the files as they are")
    if not (base := await git.commit(ref)):
        raise ReviewError(f"--base {ref}: there is no such commit here; fetch it, or name another one")
    start = await git.merge_base(base, head)
    if not start:
        raise ReviewError(
            f"--base {ref}: it shares no commit with HEAD here. Of a shallow clone fetch more of the history, as "
            "with `git fetch --unshallow` or `fetch-depth: 0`"
        )
    words = f"the commits of HEAD that {ref} does not have"
    return Target("base", words, head, start, ""), (await git.tree(start), await git.tree(head))


async def _commit(git: GitReader, ref: str) -> tuple[Target, tuple[str, str]]:
    if not (commit := await git.commit(ref)):
        raise ReviewError(f"--commit {ref}: there is no such commit here")
    if await git.is_cut_off(commit):
        raise ReviewError(
            f"--commit {ref}: this shallow clone lacks the commit before it, so all files would count as new."
            " Fetch more of the history, as with `git fetch --deepen=1` or `fetch-depth: 2`"
        )
    parent = await git.parent(commit)
    trees = (await git.tree(parent), await git.tree(commit))
    return Target("commit", f"the commit {commit[:12]}", commit, parent, ""), trees


async def _usual_base(git: GitReader, head: str) -> str:
    """Return the probable base of the branch: the first usual ref that is not the head, else the first that
    exists."""
    found = [(ref, commit) for ref in _BASES if (commit := await git.commit(ref))]
    other = [ref for ref, commit in found if commit != head]
    if not found:
        raise ReviewError("nothing is uncommitted, and no base of this branch is found; name one with --base REF")
    return other[0] if other else found[0][0]


async def _kept(
    git: GitReader, trees: tuple[str, str], changes: Sequence[Change], may_show: Callable[[str], bool]
) -> tuple[list[tuple[Change, int]], list[Omitted]]:
    """Return the changes to read, with the sizes of their files in bytes, and those to omit."""
    if not changes:
        return [], []
    binary = await git.binary(*trees)
    zero = "0" * len(changes[0].blobs[0])
    sizes = await git.sizes(blob for each in changes for blob in each.blobs if blob != zero)
    kept: list[tuple[Change, int]] = []
    omitted: list[Omitted] = []
    total = 0
    for each in changes:
        size = sum(sizes.get(blob, 0) for blob in each.blobs)
        why, is_gap = "", False
        if is_submodule(each):
            why = "another commit of a submodule"
        elif has_odd_name(each.path + each.old_path):
            why, is_gap = ODD_NAME, True
        elif not (may_show(each.path) and may_show(each.old_path)):
            why = "closed to the agent by your rules"
        elif each.path in binary:
            why = "a binary file"
        elif _GENERATED.search(each.path):
            why = "a generated file"
        elif each.kind == "D" and size > LARGEST_FILE:
            why = f"deleted; its text is long ({size:,} bytes)"
        elif any(sizes.get(blob, 0) > LARGEST_FILE for blob in each.blobs):
            why, is_gap = f"too large ({size:,} bytes)", True
        elif total + size > _MOST_BYTES:
            why, is_gap = f"the changed files have more than {_MOST_BYTES:,} bytes together", True
        if why:
            omitted.append(Omitted(each.path, why, is_gap))
        else:
            total += size
            kept.append((each, size))
    return kept, omitted


def _groups(kept: Sequence[tuple[Change, int]]) -> Iterator[list[tuple[Change, int]]]:
    """Yield groups of changes that are diffed together."""
    group: list[tuple[Change, int]] = []
    total = 0
    for each in kept:
        if group and total + each[1] > _GROUP_BYTES:
            yield group
            group, total = [], 0
        group.append(each)
        total += each[1]
    if group:
        yield group


class _Parts:
    """Divides a diff among conversations. A file stays whole if a conversation has room for it."""

    def __init__(self) -> None:
        self._parts: list[list[str]] = []
        self._rooms: list[int] = []
        self.omitted: list[Omitted] = []
        """Files that are missing or incomplete for lack of room."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The diff of each conversation."""
        return tuple("".join(part) for part in self._parts)

    @property
    def is_full(self) -> bool:
        """True if there is no room for another file."""
        return len(self._parts) == _MOST_PARTS and max(self._rooms) < _LEAST_ROOM

    def add(self, file: FileDiff) -> None:
        """Add the change of a file, or record why it is incomplete."""
        if file.is_deleted and len(file.text) > _LONGEST_DELETED:
            self._omit(file, "deleted; its text is long", is_gap=False)
        elif len(file.text) > PART_CHARS or not self._is_placed(file.text):
            self._divide(file)

    def _divide(self, file: FileDiff) -> None:
        has_any = False
        for text in pieces(file, _PIECE_CHARS):
            if len(text) > 2 * PART_CHARS:
                self._omit(file, "its lines are too long")
                return
            if not self._is_placed(text):
                line = first_line(text) if has_any else 0
                self._omit(file, f"{_TOO_LONG}; not reviewed from line {line} on" if line else _TOO_LONG)
                return
            has_any = True

    def _is_placed(self, text: str) -> bool:
        place = next((at for at, room in enumerate(self._rooms) if len(text) <= room), len(self._parts))
        if place == _MOST_PARTS:
            return False
        if place == len(self._parts):
            self._parts.append([])
            self._rooms.append(PART_CHARS)
        self._parts[place].append(text)
        self._rooms[place] -= len(text)
        return True

    def _omit(self, file: FileDiff, why: str, *, is_gap: bool = True) -> None:
        self.omitted.append(Omitted(file.path, why, is_gap))


async def _uses(git: GitReader, tree: str, files: Sequence[FileDiff]) -> str:
    """Return other uses of names that the change defines or removes."""
    names = list(dict.fromkeys(name for each in files for name in _DEFINED.findall(each.text)))[:_MOST_NAMES]
    if not names:
        return ""
    rows: list[str] = []
    changed = {each.path: each for each in files}
    found = await git.uses(tree, names, _MOST_USES * 2)
    for name in names:
        word = re.compile(rf"\b{re.escape(name)}\b")
        places = [
            f"{path}:{line}: {text.strip()[:160]}"
            for path, line, text in found
            if word.search(text) and not (path in changed and changed[path].holds("RIGHT", line, line))
        ]
        rows += places[:_MOST_USES]
        if len(places) > _MOST_USES:
            rows.append(f"({name}: {len(places) - _MOST_USES} or more further places)")
    return "\n".join(dict.fromkeys(rows))


async def read_patch(path: Path) -> bytes:
    """Return the contents of a patch file.

    Raises:
        ReviewError: it cannot be read, or is too large.
    """
    try:
        data = await asyncio.to_thread(_beginning, path)
    except OSError as error:
        raise ReviewError(f"--patch {path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise ReviewError(f"--patch {path}: larger than {_MOST_BYTES:,} bytes")
    return data


def _beginning(path: Path) -> bytes:
    """Return at most one byte more than the maximum; an endless file is not read on."""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)

"""Choose what is reviewed, and collect it: the diff in parts that a model can read, and where changed names are
used."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from .diff import FileDiff, file_diffs, first_line, pieces
from .finding import Omitted, Target, TargetKind
from .git_reader import LARGEST_FILE, ODD_NAME, Change, GitReader, ReviewError, has_odd_name, is_submodule

PART_CHARS = 80_000
"""Of a diff in one conversation."""
_PIECE_CHARS = PART_CHARS // 4
"""Of a file that is divided among conversations."""
_LEAST_ROOM = 12_000
"""Characters below which a conversation has all that it takes."""
_MOST_PARTS = 8
_GROUP_BYTES = 4_000_000
"""Of the files whose difference is read at once, both sides together."""
_TOO_LONG = "the whole diff is too long"
_LONGEST_DELETED = 20_000
"""Characters of the diff of a file that is gone."""
_MOST_BYTES = 20_000_000
"""Of all changed files, both sides together."""
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
"""Places of one name that are listed."""
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


class Selection(msgspec.Struct, frozen=True):
    """What is asked for; `kind` None takes the uncommitted changes, else the branch."""

    kind: TargetKind | None = None
    ref: str = ""
    """The base or the commit."""
    patch: bytes = b""
    name: str = ""
    """Of the file with the patch."""


class Material(msgspec.Struct, frozen=True):
    """What a review reads."""

    target: Target
    trees: tuple[str, str]
    """Before and after."""
    files: tuple[FileDiff, ...]
    parts: tuple[str, ...]
    """The diff as text, each part small enough for one conversation."""
    uses: str
    """Where changed names are used elsewhere, a line each."""
    omitted: tuple[Omitted, ...]
    is_work_tree: bool
    """Whether the reviewed text is that of the files as they are."""

    def diff_of(self, path: str) -> FileDiff | None:
        """Return the change of a file; None where it is not changed."""
        return next((each for each in self.files if each.path == path), None)


async def collect(git: GitReader, asked: Selection, may_show: Callable[[str], bool]) -> Material:
    """Collect what is asked for. Files for which `may_show` is false are left out; its paths are relative to the
    repository.

    Raises:
        ReviewError: there is no such base or commit, or the patch does not fit.
    """
    now, lost = await git.snapshot()
    head = await git.commit("HEAD")
    target, trees = await _target(git, asked, now, head)
    changes, digest = await git.changes(*trees)
    target = msgspec.structs.replace(target, diff=digest)
    kept, omitted = await _kept(git, trees, changes, may_show)
    parts, files, unread = _Parts(), list[FileDiff](), list[Omitted]()
    for group in _groups(kept):
        if parts.is_full:  # what follows is not even read
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
    parent = await git.parent(commit)
    trees = (await git.tree(parent), await git.tree(commit))
    return Target("commit", f"the commit {commit[:12]}", commit, parent, ""), trees


async def _usual_base(git: GitReader, head: str) -> str:
    """Return the ref that the branch probably comes from: the first of the usual ones that has not all of it, else
    the first that there is."""
    found = [(ref, commit) for ref in _BASES if (commit := await git.commit(ref))]
    other = [ref for ref, commit in found if commit != head]
    if not found:
        raise ReviewError("nothing is uncommitted, and no base of this branch is found; name one with --base REF")
    return other[0] if other else found[0][0]


async def _kept(
    git: GitReader, trees: tuple[str, str], changes: Sequence[Change], may_show: Callable[[str], bool]
) -> tuple[list[tuple[Change, int]], list[Omitted]]:
    """Return the changes to read, with the bytes of their files, and those to leave out."""
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
    """Yield the changes that are read together."""
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
    """Divides a diff among conversations. A file stays whole where one has room for it."""

    def __init__(self) -> None:
        self._parts: list[list[str]] = []
        self._rooms: list[int] = []
        self.omitted: list[Omitted] = []
        """Files of which not all had its place."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the diff of each conversation."""
        return tuple("".join(part) for part in self._parts)

    @property
    def is_full(self) -> bool:
        """Return whether there is no room for a further file."""
        return len(self._parts) == _MOST_PARTS and max(self._rooms) < _LEAST_ROOM

    def add(self, file: FileDiff) -> None:
        """Take in the change of a file, or note why not all of it."""
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
    """Return where names that the change defines or removes are used in other places."""
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
    """Return the bytes of a file with a patch.

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
    """Return a file up to where it is too large; one that never ends is not read on."""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)

"""Name git state outside the work tree before a command may discard it: the staged content, and the stashes.

Both remain in the object store for weeks after they become unreachable; knowing their hashes is enough to restore
them. No ref, index or file is changed. git runs on a copy of the index in an empty private repository, because the
project's configuration may start programs, and this is outside the sandbox.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_cli.fs.files import replace_file
from agent_cli.fs.git_files import BARE_CONFIG
from agent_cli.fs.nofollow import dir_entry, open_folder
from agent_cli.fs.which import RunProgram, outside, program

from .repository import GitFolder, git_folder

_TIMEOUT_S = 5.0
_MOST_STASHES = 20
_LONGEST_LOG = 64_000
_LARGEST_INDEX = 100_000_000
_LARGEST_REFS = 20_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_STASHED = re.compile(rf"{_COMMIT.pattern} ({_COMMIT.pattern}) [^\t\n]*\t(.*)")
_FORMATS = {40: "sha1", 64: "sha256"}
"""Object formats, by length of object names in hex digits."""


async def named_state(run: RunProgram, folder: Path, roots: Iterable[Path] = ()) -> str:
    """Return how to restore what is currently staged and stashed; empty if there is neither, or no repository.
    `roots` are folders that commands write to: a git program inside them is never run."""
    try:
        place = git_folder(os.path.realpath(folder))
    except OSError:
        return ""
    if place is None or not place.is_its_own:
        return ""
    found = []
    if tree := await _staged(run, place, (Path.cwd(), Path(place.top), *roots)):
        found.append(f"what was staged is the tree {tree}: git read-tree {tree}")
    for commit, subject in _stashes(place):
        found.append(f"the stash “{subject[:60]}” is {commit}: git stash store -m brought-back {commit}")
    return "; ".join(found)


def _stashes(place: GitFolder) -> list[tuple[str, str]]:
    """Return (commit, subject) of each stash, newest first."""
    try:
        with dir_entry(os.path.join(place.common, "logs", "refs", "stash")) as at:
            log = at.read(_LONGEST_LOG, from_end=True).decode("utf-8", "replace")
    except OSError:
        return []
    lines = [match.groups() for match in map(_STASHED.fullmatch, log.split("\n")) if match]
    return [(commit, subject) for commit, subject in reversed(lines[-_MOST_STASHES:])]


async def _staged(run: RunProgram, place: GitFolder, roots: tuple[Path, ...]) -> str:
    """Return the tree of the index if it differs from that of the checked-out commit; otherwise empty."""
    git = program("git", os.environ.get("PATH", os.defpath), roots)
    try:
        head = head_commit(place)
        if git is None or not head:
            return ""
        with _twin(place, len(head)) as twin:
            env = {
                "PATH": os.pathsep.join(outside(os.environ.get("PATH", os.defpath), roots)), "HOME": twin,
                "GIT_DIR": twin, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C",
            }  # fmt: skip
            before = await _says(run, git, env, "rev-parse", "--verify", "--quiet", f"{head}^{{tree}}")
            tree = await _says(run, git, env, "write-tree", "--missing-ok")
            if not tree or tree == before:
                return ""
            _keep(os.path.join(twin, "objects"), os.path.join(place.common, "objects"))
            return tree
    except OSError:  # something is missing or a link: there is nothing to name
        return ""


async def _says(run: RunProgram, git: str, env: dict[str, str], *arguments: str) -> str:
    """Return the output of git; empty if it fails."""
    try:
        done = await run([git, *arguments], cwd=Path(env["GIT_DIR"]), env=env, timeout_s=_TIMEOUT_S)
    except Exception:  # git is missing, hangs or crashes: there is nothing to name
        return ""
    said = os.fsdecode(done.stdout).strip()
    return said if done.exit_code == 0 and _COMMIT.fullmatch(said) else ""


def head_commit(place: GitFolder) -> str:
    """Return the checked-out commit; empty if there is none yet.

    Raises:
        OSError: it cannot be read, or no commit was ever made.
    """
    said = _text(os.path.join(place.own, "HEAD"), 4096).strip()
    if not said.startswith("ref: refs/") or ".." in said:
        return said if _COMMIT.fullmatch(said) else ""
    name = said.removeprefix("ref: ")
    with contextlib.suppress(OSError):
        said = _text(os.path.join(place.common, name), 4096).strip()
        return said if _COMMIT.fullmatch(said) else ""
    packed = _text(os.path.join(place.common, "packed-refs"), _LARGEST_REFS)
    found = re.search(rf"^({_COMMIT.pattern}) {re.escape(name)}$", packed, re.MULTILINE)
    return found.group(1) if found else ""


def _text(path: str, most_bytes: int) -> str:
    with dir_entry(path) as at:
        return os.fsdecode(at.read(most_bytes))


@contextlib.contextmanager
def _twin(place: GitFolder, length: int) -> Iterator[str]:
    """Yield an empty repository with a copy of the index and access to another repository's objects."""
    with dir_entry(os.path.join(place.own, "index")) as at:
        index = at.read(_LARGEST_INDEX)
    objects = os.path.join(place.common, "objects")
    with open_folder(objects):
        pass
    if "\n" in objects or length not in _FORMATS:
        raise OSError(f"{objects} cannot be named to git")
    with tempfile.TemporaryDirectory(prefix="agent-index-") as folder:
        twin = Path(folder)
        (twin / "objects" / "info").mkdir(parents=True)
        (twin / "refs").mkdir()
        (twin / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
        (twin / "config").write_text(BARE_CONFIG[_FORMATS[length]], encoding="utf-8")
        (twin / "index").write_bytes(index)
        (twin / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        yield folder


def _keep(new: str, objects: str) -> None:
    """Add the objects of one store to another.

    Raises:
        OSError: it cannot be written, or a folder in it is a link.
    """
    for file in Path(new).glob("??/*"):
        with dir_entry(os.path.join(objects, file.parent.name, file.name), []) as at:
            replace_file(at.name, file.read_bytes(), mode=0o444, dir_fd=at.folder)

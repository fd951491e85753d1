"""Run git on a private store outside the workspace, isolated from the user's own repositories: separate GIT_DIR
and index, no hooks, no filters, no configuration except the options given here. Shared by snapshots, restoring and
maintenance of the store."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agent_cli.fs.files import make_private, replace_file
from agent_cli.fs.git_files import BARE_CONFIG, RAW_ATTRIBUTES
from agent_cli.fs.which import RunProgram, outside, program

from .types import CheckpointError

_OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false",
    "-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.quotePath=false",
    "-c", "gc.auto=0", "-c", "advice.addEmbeddedRepo=false", "-c", "core.ignoreCase=false",
    "-c", "core.precomposeUnicode=false", "-c", "core.trustctime=true", "-c", "index.version=2",
    "-c", "user.name=agent-cli", "-c", "user.email=agent-cli@localhost", "-c", "commit.gpgSign=false",
)  # fmt: skip
_EVERY_NAME = ("-c", "core.protectNTFS=false")
"""By default, git leaves out files named like `git~1` without a word."""
_FULL = re.compile(rb"No space left on device|Disk quota exceeded")
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
_FOLDERS = ("objects", "objects/info", "refs", "info")
_FILES = {
    "HEAD": b"ref: refs/heads/none\n",
    "info/attributes": RAW_ATTRIBUTES.encode(),
}
"""Folders and files of a store. It is created without `git init`, which takes longer, and whose hash and reference
formats depend on the version."""
_MAGIC_PATHSPECS = ("check-ignore", "--pathspec-from-file=-")
"""Commands that do not support literal pathspecs and fail if told to use them."""


class GitFailed(CheckpointError):
    """git started and failed, as it does when a file disappears while it runs."""


class PrivateGit:
    """git on one store, `folder`. `roots` are folders that commands write to: a git program inside them is never
    run. `every_name`: also save names that the user's git would refuse in a patch."""

    def __init__(
        self, folder: Path, run: RunProgram, roots: Iterable[Path], *, timeout_s: float, every_name: bool = False
    ) -> None:
        search_path = os.environ.get("PATH", os.defpath)
        kept = tuple(roots)
        self.folder = folder
        self._program = program("git", search_path, kept)
        self._path = os.pathsep.join(outside(search_path, kept))
        self._run = run
        self._options = (*_OPTIONS, *(_EVERY_NAME if every_name else ()))
        self._timeout_s = timeout_s
        self._version: tuple[int, int] | None = None

    async def __call__(
        self,
        *arguments: str,
        work: Path | None = None,
        index: Path | None = None,
        input: bytes = b"",
        accept: tuple[int, ...] = (0,),
    ) -> bytes:
        """Run git and return its output. `work` is the work tree and working directory, `index` the index file.

        Raises:
            CheckpointError: there is no git, or it took too long.
            GitFailed: its exit code is not in `accept`.
        """
        if self._program is None:
            raise CheckpointError("there is no git on the PATH outside the workspace")
        try:
            done = await self._run(
                [self._program, *self._options, *arguments],
                cwd=work or self.folder,
                env=self._environment(arguments, work, index),
                input=input,
                timeout_s=self._timeout_s,
            )
        except TimeoutError:
            raise too_slow(self._timeout_s) from None
        except Exception as error:
            raise CheckpointError(f"git cannot be run: {error}") from error
        if done.exit_code and _FULL.search(done.stderr):
            raise CheckpointError(f"the disk with {self.folder} is full; make room on it")
        if done.exit_code not in accept:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()
            fatal = [line for line in told if line.startswith("fatal:")] or told[-1:] or ["no reason given"]
            command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
            raise GitFailed(f"git {command} failed: {fatal[0]}")
        return done.stdout

    async def packs_many(self) -> bool:
        """Return True if this git packs large contents of one `update-index` together; before 2.38 each got its
        own pack."""
        if self._version is None:
            found = re.search(rb"(\d+)\.(\d+)", await self("version"))
            self._version = (int(found[1]), int(found[2])) if found else (0, 0)
        return self._version >= (2, 38)

    def prepare(self, exclusions: bytes = b"", *, objects: str = "", form: str = "sha1") -> None:
        """Create the store if it does not exist. `exclusions` are lines as in an ignore file, `objects` the folder
        of the objects of a repository, which are read too, `form` is their format.

        Raises:
            CheckpointError: it cannot be written, or the objects cannot be named to git.
        """
        if "\n" in objects:
            raise CheckpointError(f"{objects} cannot be named to git")
        try:
            make_private(self.folder)
            for name in _FOLDERS:
                (self.folder / name).mkdir(exist_ok=True)
            if objects:  # others may be reading it
                replace_file(self.folder / "objects" / "info" / "alternates", os.fsencode(objects) + b"\n")
            files = {**_FILES, "config": BARE_CONFIG[form].encode(), "info/exclude": exclusions}
            for name, content in files.items():
                path = self.folder / name
                if not path.exists() or (name.startswith("info/") and path.read_bytes() != content):
                    replace_file(path, content)
        except OSError as error:
            raise CheckpointError(f"{self.folder} cannot be written: {error.strerror}") from error

    def _environment(self, arguments: tuple[str, ...], work: Path | None, index: Path | None) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {
            "GIT_DIR": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1", "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0", "PATH": self._path,
            # Keep freed memory: by default, the C library returns it to the system for each file that is packed.
            "MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_TOP_PAD_": "16777216",
        }  # fmt: skip
        if work is not None:
            env["GIT_WORK_TREE"] = str(work)
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        if any(word in arguments for word in _MAGIC_PATHSPECS):
            del env["GIT_LITERAL_PATHSPECS"]
        return env


def too_slow(timeout_s: float) -> CheckpointError:
    """Return the error for a workspace that takes too long to save."""
    return CheckpointError(f"saving the workspace took longer than {timeout_s:.0f} s; it is too large for undo")


def name_of(session_id: str) -> str:
    """Return a session's name for file names and refs: its id, or a hash if the id has unusual characters."""
    if _SAFE_ID.fullmatch(session_id):
        return session_id
    import hashlib

    return "x" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def ref_of(store: Path, session_id: str) -> Path:
    """Return the ref file of a session's newest checkpoint, which refers to all earlier ones."""
    return store / "refs" / "sessions" / name_of(session_id)


def index_of(store: Path, session_id: str) -> Path:
    """Return the index of a session's main work tree; the indexes of nested repositories are next to it."""
    return store / f"files-{name_of(session_id)}.index"


def names_in(raw: bytes) -> list[str]:
    """Return the names that git ends with NUL."""
    return [os.fsdecode(name) for name in raw.split(b"\0") if name]


def lines_of_names(names: Iterable[str]) -> bytes:
    """Return names for the input of git, each ended with NUL."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)

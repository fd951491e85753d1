"""Mirror a repository given by a URL: only the history up to the commits of the tasks, if the server provides
commits by hash."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from agent_cli.fs.files import make_private
from agent_cli.fs.which import RunProgram, program
from agent_cli.workspace.git.repository import GitFolder
from agent_cli.workspace.worktrees.store import hold_lock
from agent_cli.workspace.worktrees.worktree import WorktreeError

_PASSWORD = re.compile(r"(?<=:)//[^/@\s]+@")
_TIMEOUT_S = 3600.0
_EVERYTHING = ("+refs/heads/*:refs/remote/heads/*", "+refs/tags/*:refs/remote/tags/*")


async def mirror(url: str, commit: str, place: Path, run: RunProgram) -> GitFolder:
    """Return a bare repository below `place` that has a commit, fetching what is missing, one fetch at a time.

    Raises:
        WorktreeError: it cannot be fetched.
        OSError: the mirror cannot be written.
    """
    if "\n" in url or url.startswith("-"):
        raise WorktreeError(f"{url!r} is not the URL of a repository")
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", url.rstrip("/").rpartition("/")[2].removesuffix(".git"))[:40]
    number = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    make_private(place)
    top = Path(os.path.realpath(place)) / "mirrors" / f"{stem}-{number}.git"
    make_private(top.parent)
    async with hold_lock(top.with_suffix(".lock-file")):
        if not (top / "HEAD").exists():
            await _git(run, top.parent, "init", "--quiet", "--bare", "--template=", str(top))
        try:
            await _git(run, top, "rev-parse", "--quiet", "--verify", f"{_kept(commit)}^{{commit}}")
        except WorktreeError:
            await _fetch(run, top, url, commit)
    return GitFolder(str(top), str(top), str(top))


def _kept(commit: str) -> str:
    """Return the ref that keeps a commit in the mirror; trees do not see these refs."""
    return f"refs/bases/{commit}"


async def _fetch(run: RunProgram, top: Path, url: str, commit: str) -> None:
    """Fetch a single commit, or everything if the server does not provide it by hash."""
    options = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--", url)
    try:
        await _git(run, top, *options, f"+{commit}:{_kept(commit)}")
    except WorktreeError:
        await _git(run, top, *options, *_EVERYTHING)
        await _git(run, top, "update-ref", _kept(commit), commit)


async def _git(run: RunProgram, folder: Path, *arguments: str) -> None:
    git = program("git", os.environ.get("PATH", os.defpath))
    if git is None:
        raise WorktreeError("there is no git on the PATH")
    try:
        done = await run([git, *arguments], cwd=folder, env=_environment(), timeout_s=_TIMEOUT_S)
    except Exception as error:
        raise WorktreeError(f"git {arguments[0]} cannot be run: {error}") from error
    if done.exit_code:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise WorktreeError(f"git {arguments[0]} failed: {_PASSWORD.sub('//', said)}")


def _environment() -> Mapping[str, str]:
    """Return the user's environment, so that git finds keys and settings, but without prompts."""
    env = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **env, **quiet}

"""Fetch plug-ins: copy a folder, or fetch one commit of a git repository, within limits of size and time.

git runs only with our configuration: no hooks, filters, submodules, prompts or helpers, and only the protocol of
the address. The size of a commit is checked before any of it is written.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli.config.dirs import MANIFESTS, MARKET_FILES
from agent_cli.fs.files import read_regular
from agent_cli.fs.which import RunProgram, program

from .plugin import PluginError
from .sources import MAX_MARKET_BYTES, Source, entry_manifest, entry_source, listed, other_path
from .tree import MAX_BYTES, MAX_FILES, copy_tree

TIMEOUT_S = 180.0
_MAX_LISTING = 8_000_000
_BLOCKS = 2 * 200_000
"""Blocks of 512 bytes: the largest file that git may write, such as a pack."""
_OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false",
    "-c", "core.symlinks=true", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "-c", "gc.auto=0",
    "-c", "credential.helper=", "-c", "fetch.unpackLimit=1", "-c", "transfer.unpackLimit=1",
    "-c", "maintenance.auto=false", "-c", "submodule.recurse=false",
)  # fmt: skip
_GITLINK = b"160000"


class Fetched(msgspec.Struct, frozen=True):
    """The files of a plug-in, copied to a folder."""

    root: Path
    name: str
    """Its name unless the manifest gives one."""
    commit: str = ""
    """The fetched commit; empty for a folder."""


async def fetch(source: Source, scratch: Path, run: RunProgram, env: Mapping[str, str]) -> Fetched:
    """Copy the files of a plug-in to a folder in `scratch` without running anything of it.

    Args:
        source: where to fetch it from.
        scratch: an empty folder.
        run: runs git.
        env: environment of git, without secrets; git's own variables in it are ignored.

    Raises:
        PluginError: it cannot be fetched, or is not a plug-in.
        OSError: something cannot be read or written.
    """
    root, manifest, name, otherwise = scratch / "plugin", b"", source.name, ""
    place: Folder | Repository = await _opened(source, scratch / "git", run, env)
    if source.entry:
        data = await place.market()
        if not data:
            raise PluginError(f"{source.place} is not a marketplace: it has none of {', '.join(MARKET_FILES)}")
        found = entry_source(data, source.entry, source)
        manifest = entry_manifest(data, source.entry)
        otherwise = other_path(data, source.entry)
        if found.place != source.place or found.ref != source.ref:
            place = await _opened(found, scratch / "git-of-entry", run, env)
        source = found
    try:
        await place.copy(source.path, root)
    except PluginError:
        if not otherwise:
            raise
        await place.copy(otherwise, root)
    if manifest and not any(os.path.lexists(root / each) for each in MANIFESTS.values()):
        file = root / MANIFESTS["claude"]
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_bytes(manifest)
        file.chmod(0o444)
    return Fetched(root, name, place.commit)


async def what_is_there(source: Source, scratch: Path, run: RunProgram, env: Mapping[str, str]) -> str:
    """Return a text listing the plug-ins of a marketplace; empty if there is no marketplace."""
    data = await (await _opened(source, scratch / "git-of-market", run, env)).market()
    return listed(data) if data else ""


async def _opened(source: Source, git: Path, run: RunProgram, env: Mapping[str, str]) -> "Folder | Repository":
    if source.kind == "folder":
        return Folder(Path(source.place))
    repository = Repository(git, run, env, source.protocol)
    await repository.open(source.place, source.ref)
    return repository


class Folder:
    """A folder of this machine."""

    commit = ""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(os.path.realpath(folder))

    async def market(self) -> bytes:
        """Return the content of the marketplace file; empty if there is none."""
        for name in MARKET_FILES:
            try:
                return read_regular(self._folder / name, MAX_MARKET_BYTES)
            except OSError:
                continue
        return b""

    async def copy(self, path: str, target: Path) -> None:
        """Copy a folder below it; raises as `copy_tree`, and PluginError for a missing folder or one outside."""
        source = Path(os.path.realpath(self._folder / path))
        if not source.is_relative_to(self._folder):
            raise PluginError(f"{path} is a link that leads out of {self._folder}")
        if not source.is_dir():
            raise PluginError(f"there is no folder {source}")
        copy_tree(source, target)


class Repository:
    """A commit of a git repository."""

    def __init__(self, folder: Path, run: RunProgram, env: Mapping[str, str], protocol: str) -> None:
        self._folder = folder
        self._run = run
        self._env = _environment(env, folder, protocol)
        self._program = program("git", env.get("PATH", os.defpath), ())
        self.commit = ""

    async def open(self, address: str, ref: str) -> None:
        """Fetch a commit without its history.

        Raises:
            PluginError: it cannot be fetched.
        """
        self._folder.mkdir(mode=0o700)
        await self._git("init", "--quiet", "--bare", "--template=", str(self._folder))
        await self._git(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", address, ref or "HEAD"
        )
        self.commit = (await self._git("rev-parse", "--verify", "FETCH_HEAD^{commit}")).decode("ascii").strip()

    async def market(self) -> bytes:
        """Return the content of the marketplace file; empty if there is none."""
        for name in MARKET_FILES:
            if listed := await self._git("ls-tree", "-l", self.commit, "--", name):
                if int(_size(listed) or 0) > MAX_MARKET_BYTES:
                    raise PluginError("the file of the marketplace is too large")
                return await self._git("cat-file", "blob", f"{self.commit}:{name}")
        return b""

    async def copy(self, path: str, target: Path) -> None:
        """Write a folder of the commit, with its links and modes.

        Raises:
            PluginError: it does not exist, is too large, or holds something forbidden in plug-ins.
            OSError: it cannot be written.
        """
        tree = f"{self.commit}:{path}" if path else self.commit
        listing = await self._git("ls-tree", "-r", "-l", "-z", "--full-tree", tree)
        entries = [entry for entry in listing.split(b"\0") if entry and not entry.startswith(_GITLINK)]
        if len(entries) > MAX_FILES:
            raise PluginError(f"it has more than {MAX_FILES:,} files")
        if sum(int(_size(entry) or 0) for entry in entries) > MAX_BYTES:
            raise PluginError(f"it is larger than {MAX_BYTES // 1_000_000} MB")
        work = target.with_name("work")
        work.mkdir(mode=0o700)
        await self._git("read-tree", tree)
        await self._git(f"--work-tree={work}", "checkout-index", "--all", "--force", "--quiet")
        copy_tree(work, target)

    async def _git(self, *arguments: str) -> bytes:
        if self._program is None:
            raise PluginError("there is no git on the PATH")
        git = [self._program, *_OPTIONS, *arguments]
        limited = ["/bin/sh", "-c", f'ulimit -f {_BLOCKS} && exec "$@"', "sh", *git]
        try:
            done = await self._run(
                limited, cwd=self._folder, env=self._env, timeout_s=TIMEOUT_S, max_output_bytes=_MAX_LISTING
            )
        except TimeoutError:
            raise PluginError(f"git took longer than {TIMEOUT_S:g} s; nothing was added") from None
        if done.cut:
            raise PluginError(f"it has more than {MAX_FILES:,} files")
        if done.exit_code:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            fatal = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
            word = next(each for each in arguments if not each.startswith("-"))
            why = fatal[0] if fatal else f"it ended with {done.exit_code}"
            too_large = f"; it may be larger than {_BLOCKS * 512 // 1_000_000} MB" if "index-pack" in why else ""
            raise PluginError(f"git {word} failed: {why}{too_large}")
        return done.stdout


def _size(entry: bytes) -> bytes:
    """Return the size in a line of `ls-tree -l`; for links it is the length of the target."""
    return (re.match(rb"\d+ \S+ \S+ +(\d+)", entry) or [b"", b""])[1]


def _environment(env: Mapping[str, str], folder: Path, protocol: str) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_DIR": str(folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": protocol, "GIT_ASKPASS": "true", "SSH_ASKPASS": "true",
        "SSH_ASKPASS_REQUIRE": "never", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C",
    }  # fmt: skip

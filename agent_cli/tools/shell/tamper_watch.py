"""Detect changes by confined commands that would later run outside the sandbox. The watch lasts from the first
such command until no process of any is alive. A separate module, because it outlasts single calls: nothing else
watches background commands."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent_cli.protocol.paths import AUTORUN_NAMES
from agent_cli.sandbox.git_tamper_guard import GitStateSnapshot, accept_changes, make_git_folders, take_git_state
from agent_cli.sandbox.process.running import ProcessError, Running
from agent_cli.workspace.git.programs import run_by_git
from agent_cli.workspace.git.repository import git_places
from agent_cli.workspace.matching_files import MatchingFiles
from agent_cli.workspace.paths import Workspace

from ..kit.output import first_of

_MOST_NAMED = 50


class Found(msgspec.Struct, frozen=True):
    """Changes found."""

    restored: tuple[str, ...] = ()
    """Files of git itself; already restored."""
    left: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    """Roots with more folders than are searched for such files."""

    def words(self, who: str) -> list[str]:
        """Return a sentence for each kind of change."""
        said = []
        if self.restored:
            names = first_of(self.restored, _MOST_NAMED)
            said.append(f"{who} changed {names}, which git runs or reads; that was put back")
        if self.left:
            names = first_of(self.left, _MOST_NAMED)
            said.append(f"{who} changed {names}, which may run later, outside the sandbox: look at it")
        if self.unchecked:
            names = ", ".join(self.unchecked)
            said.append(
                f"{who} made more folders in {names} than are searched for files that run later: look at them"
            )
        return said


class TamperWatch:
    """Watches one session. The state to compare with is renewed only when no confined process is alive and nothing
    was found; until then it is the state before the first command."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._before: dict[tuple[str, str], GitStateSnapshot] = {}
        self._places: dict[str, Places] = {}
        self._unchecked: set[str] = set()
        """Roots known to have more folders than are searched."""
        self._alive: list[Running] = []
        self._starting = 0
        self._outside: list[Running] = []
        """Unconfined background commands, during which nothing confined may write."""
        self._news: list[str] = []

    def begin(self, *, may_write: bool) -> None:
        """Record the state before a confined command, unless another one may have changed it. `may_write`: it can
        write to the workspace. Missing parts of a repository are then created, because only existing files can be
        protected."""
        if not self._alive and not self._starting:
            self._before = self._taken(self._before, may_write)
        self._starting += 1

    def started(self, running: Running | None) -> None:
        """Record the started command, None if the start failed. Ends a `begin`."""
        self._starting -= 1
        if running is not None:
            self._alive.append(running)

    def ended(self, running: Running) -> list[str]:
        """Return the changes by a confined command whose call returns, in words. If a process of it continues,
        changes are checked again when that ends."""
        said = self._compared().words("it")
        if running in self._alive:
            running.gone.add_done_callback(lambda _: self._news.extend(self._compared().words(_JOB)))
        return said

    @property
    def is_free(self) -> bool:
        """True if no unconfined command is running that could execute what a confined one writes."""
        return not self._outside

    async def leave(self) -> list[str]:
        """Prepare for an unconfined command: pause the confined ones that are alive, so that it finds nothing of
        theirs to run. Return their changes so far, in words. Each `leave` is followed by `left`.

        Raises:
            ProcessError: a confined command cannot be paused.
        """
        try:
            paused = [await running.pause() for running in self._alive if running.is_alive]
            if not all(paused):
                raise ProcessError("a background command in the sandbox cannot be paused for that: stop it first")
        except BaseException:
            self._resume()
            raise
        return self.look()

    def left(self, running: Running | None) -> None:
        """Record that an unconfined command was started, None if the start failed. Confined ones resume when it
        has ended."""
        if running is None:
            self._come_back()
            return
        self._outside.append(running)
        running.gone.add_done_callback(lambda _: self._come_back(running) if running in self._outside else None)

    def outside(self, running: Running, *, is_guarded: bool) -> list[str]:
        """Handle the end of an unconfined command's call. If the command continues, confined ones stay paused,
        unless what it may run later is protected (`is_guarded`) by more than the check afterwards."""
        if is_guarded and running in self._outside:
            self._come_back(running)
        is_waiting = not self.is_free and any(running.is_alive for running in self._alive)
        return ["background commands in the sandbox are paused until it ends"] if is_waiting else []

    def _come_back(self, running: Running | None = None) -> None:
        """Handle the end of an unconfined command: its changes are accepted, and confined ones resume."""
        if running is not None:
            self._outside.remove(running)
        if self._alive and not self._outside:
            self._before = self._taken(self._before, False)
        self._resume()

    def _resume(self) -> None:
        for confined in () if self._outside else self._alive:
            confined.resume()

    def look(self) -> list[str]:
        """Return the changes by background commands since the last call, in words."""
        said = [*self._news, *self._compared().words(_JOB)]
        self._news.clear()
        return said

    def _compared(self) -> Found:
        if not self._alive:
            return Found()
        alive = [running for running in self._alive if running.is_alive]  # first: one may end meanwhile
        restored: list[str] = []
        left: list[str] = []
        for key, guarded in self._before.items():
            opened, changed = guarded.reopen()
            done = guarded.restore() if changed else ()
            others = [path for path in changed if path not in done]
            self._before[key] = accept_changes(guarded, others) if others else guarded
            restored += self._names(key, (*opened, *done))
            left += self._names(key, others)
        self._alive = alive
        unchecked = self._too_large() - self._unchecked
        self._unchecked |= unchecked
        return Found(tuple(restored), tuple(left), tuple(sorted(unchecked)))

    def _too_large(self) -> set[str]:
        return {root for root, places in self._places.items() if not places.is_complete}

    def _taken(
        self, known: dict[tuple[str, str], GitStateSnapshot], may_write: bool
    ) -> dict[tuple[str, str], GitStateSnapshot]:
        """Return the state of each root, and of each repository elsewhere that commands may write."""
        found: dict[tuple[str, str], GitStateSnapshot] = {}
        roots = [str(root) for root in self._workspace.roots]
        for root in roots:
            if may_write:
                make_git_folders(root)
            places = self._places.setdefault(root, Places(root))
            own = _below(root, run_by_git(root))
            found[root, ".git"] = take_git_state(root, known.get((root, ".git")), places=places, own=own)
        self._unchecked = self._too_large()
        for root in roots:
            repository = git_places(root).repository
            folder, name = os.path.split(repository)
            if repository and (folder, name) not in found:
                if may_write:
                    make_git_folders(folder, name)
                key = (folder, name)
                found[key] = take_git_state(folder, known.get(key), git=name, is_outer=folder not in roots)
        return found

    def _names(self, key: tuple[str, str], paths: tuple[str, ...] | list[str]) -> list[str]:
        """Return paths for the user: relative to the first root, otherwise absolute."""
        if key[0] == str(self._workspace.root):
            return [os.path.normpath(path) for path in paths]
        return [self._workspace.relative(str(Path(key[0], path))) for path in paths]


class Places:
    """Finds the places in a root where files that run later are or could be. The root is walked once, and again
    where a folder has changed since. A folder that is closed to us counts: a command may have put anything into
    it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._walked = MatchingFiles([Path(root)], _runs_later, links=True, unseen=True)
        self._at_the_top = [os.path.join(root, name) for name in sorted(AUTORUN_NAMES)]

    def __call__(self) -> tuple[str, ...]:
        return _below(self._root, (*self._at_the_top, *self._walked.paths(), *run_by_git(self._root)))

    @property
    def is_complete(self) -> bool:
        return self._walked.is_complete


def _runs_later(path: str) -> bool:
    *_, folder, name = f"/{path.lower()}".split("/")
    return name in (".git", "head") or not AUTORUN_NAMES.isdisjoint((name, f"{folder}/{name}"))


def _below(root: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths relative to their root, without duplicates."""
    top = root.rstrip("/") + "/"
    return tuple(dict.fromkeys(path[len(top) :] for path in paths if path.startswith(top)))


_JOB = "a background command (or somebody else)"

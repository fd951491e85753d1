"""Confinement of commands: the requested level, what this machine was measured to enforce, and the profile for
each command."""

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.fs.files import make_private
from agent_cli.policy.rules.path_verdict import Policy, is_instruction, is_write_denied, watched
from agent_cli.policy.rules.rule import Rules, matches_path
from agent_cli.policy.rules.secret_paths import is_secret
from agent_cli.protocol.actions import Mode, Reach, SandboxLevel
from agent_cli.sandbox.profile.confinement import Confinement, EnforcedLevel
from agent_cli.workspace.git.repository import git_places
from agent_cli.workspace.paths import Workspace

if TYPE_CHECKING:
    from agent_cli.workspace.git.index import TrackedFiles
    from agent_cli.workspace.matching_files import MatchingFiles

    from .denied_paths import DeniedFiles

_ONLY_NAMED = "file rules apply only to calls that name the file"


class SandboxRequest(msgspec.Struct, frozen=True):
    """The requested sandbox level; `asked_for` is False for the default and True for a flag or setting."""

    level: SandboxLevel
    asked_for: bool


class SandboxProfiles:
    """Builds the confinement for the commands of one session."""

    def __init__(
        self,
        workspace: Workspace,
        wanted: SandboxRequest,
        enforced_level: EnforcedLevel,
        *,
        measure: Callable[[Path], Awaitable[EnforcedLevel]] | None = None,
        own: tuple[Path, ...] = (),
        cache: Path | None = None,
        scratch: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """`measure` tests what is enforced; without it, `enforced_level` counts as measured. `own` are the agent's
        own folders, which no command may read. `cache` is for package managers. `scratch` returns the folder for
        temporary files; None for the system's."""
        self._scratch = scratch
        self._workspace = workspace
        self._wanted = wanted
        self._measure = measure
        self._own = tuple(os.path.realpath(path) for path in own)
        self._tmp: Path | None = None
        self._tracked: TrackedFiles | None = None
        self._policy: Policy | None = None
        self._has_own_rules = False
        self._closed_under = Rules()
        self._closed_by_rules: set[str] = set()
        """Usual secrets outside the workspace that the rules in `_closed_under` close."""
        self._is_measured = measure is None
        self.cache = cache
        self.enforced_level = enforced_level

    @cached_property
    def _hidden(self) -> "MatchingFiles":
        from agent_cli.workspace.matching_files import MatchingFiles

        return MatchingFiles(self._workspace.roots, self._is_closed, unseen=True)

    @cached_property
    def _fixed(self) -> "MatchingFiles":
        from agent_cli.workspace.matching_files import MatchingFiles

        return MatchingFiles(self._workspace.roots, self._is_fixed)

    @cached_property
    def _denied(self) -> "DeniedFiles":
        from .denied_paths import DeniedFiles

        return DeniedFiles(self._workspace)

    def level(self, mode: Mode, untrusted: str) -> SandboxLevel:
        """Return the level in force in a mode. `plan` is read-only. `yolo` has no sandbox unless one was requested
        or untrusted text has entered the conversation."""
        wanted = self._wanted
        if wanted.level == "off" or not self.enforced_level.is_available:
            return "off"
        if mode == "yolo" and not (wanted.asked_for or untrusted):
            return "off"
        return "read-only" if mode == "plan" else wanted.level

    def describe(self, mode: Mode, untrusted: str, rules: Rules) -> str:
        """Describe the level in force: what enforces it or why nothing does, and which file rules it cannot
        enforce."""
        level = self.level(mode, untrusted)
        has_rules = bool(rules.of("deny", "write") or rules.closing("read"))
        if level != "off":
            short = (
                ", which cannot hide single files from commands" if not self.enforced_level.hides_inside else ""
            )
            return f"{level} ({self.enforced_level.mechanism}{short if has_rules else ''})"
        if self._masks(mode) and (rules.of("deny", "read") or rules.of("deny", "write")):
            return "off (files denied by rules stay hidden)"
        if self._wanted.level == "off" or self.enforced_level.is_available:
            return f"off ({_ONLY_NAMED})" if has_rules else "off"
        named = _ONLY_NAMED if has_rules and mode == "yolo" else ""
        why = "; ".join(filter(None, (self.enforced_level.why, named)))
        return f"none ({why})" if why else "none"

    async def measure(self) -> bool:
        """Hide the agent's keys from commands and test once what the mechanism really enforces. Return True if
        that differs from what was assumed."""
        if self._is_measured or self._measure is None:
            return False
        from agent_cli.sandbox.self_protection import hide_keys_of_this_process

        hide_keys_of_this_process()
        before, self._is_measured = self.enforced_level, True
        if self._wanted.level != "off":
            try:
                self.enforced_level = await self._measure(self.tmp)
            except OSError as error:
                self.enforced_level = EnforcedLevel("none", why=f"it could not be tested: {error}")
        return self.enforced_level != before

    def scan_files(self, policy: Policy) -> None:
        """Find the files that commands of the current mode must not reach. Slow the first time in a large
        workspace, and nearly free afterwards."""
        if self.level(policy.mode, policy.untrusted) != "off":
            self._closed_inside(policy, ())
        elif self._masks(policy.mode):
            self._denied.masked(policy)

    def is_enough(self, policy: Policy) -> bool:
        """Return True if commands may run in the sandbox without asking: files closed for reading or writing must
        stay closed."""
        if self.level(policy.mode, policy.untrusted) == "off" or not self._hidden.is_complete:
            return False
        if self.enforced_level.hides_inside:
            return True
        closed = self._closed_inside(policy, self._closed_outside(policy))
        return not closed and not any(is_write_denied(path, policy) for path in self._fixed_inside(policy))

    def missing_sandbox(self, mode: Mode) -> str:
        """Return why commands cannot be confined as a mode requires; empty if it requires nothing."""
        if mode == "yolo" and (self._wanted.level == "off" or not self._wanted.asked_for):
            return ""
        if self._wanted.level == "off":
            return "the sandbox is switched off"
        if self.enforced_level.is_available:
            return "this sandbox cannot hide single files of the workspace from commands"
        return "no sandbox is available here"

    def _masks(self, mode: Mode) -> bool:
        """Return True if commands without a sandbox are still kept from files that rules deny."""
        can = self.enforced_level.mechanism == "bubblewrap" and self.enforced_level.hides_inside
        return mode == "yolo" and self._wanted.level != "off" and can

    def for_command(self, policy: Policy, reach: Reach) -> Confinement | None:
        """Return the confinement of a command; None if it is not confined."""
        level = self.level(policy.mode, policy.untrusted)
        if level == "off":
            return self._denied.masked(policy) if self._masks(policy.mode) else None
        if reach == "outside":
            return None
        outside = self._closed_outside(policy)
        may_write = self._may_write(policy)
        roots = policy.roots if may_write else ()
        caches = (_ensure_folder(self.cache),) if self.cache and may_write else ()
        places = [git_places(root) for root in roots]
        guarded = [path for place in places for path in place.guarded]
        closed = self._closed_inside(policy, outside)
        lists = self._hidden.access_lists
        fixed = self._fixed_inside(policy)
        return Confinement(
            writable=(*roots, *(path for place in places for path in place.writable), *caches),
            read_only=(*guarded, *_autorun_files(roots, policy), *lists, *fixed, *_own_package(roots)),
            pinned=tuple(path for path in fixed if is_write_denied(path, policy)),
            hidden=(*self._own, *outside, *closed),
            tmp=str(self.tmp / "tmp"),
            readable=policy.roots,
            network="open" if reach == "network" else "none",
        )

    @property
    def tmp(self) -> Path:
        """This session's private folder for temporary files, created on first use."""
        if self._tmp is None:
            import tempfile

            self._tmp = Path(os.path.realpath(tempfile.mkdtemp(prefix="agent-", dir=self._scratch())))
            (self._tmp / "tmp").mkdir(mode=0o700)
        return self._tmp

    def close(self) -> None:
        """Remove the temporary files."""
        if self._tmp is not None:
            import shutil

            shutil.rmtree(self._tmp, ignore_errors=True)
            self._tmp = None

    def _closed_inside(self, policy: Policy, outside: tuple[str, ...]) -> tuple[str, ...]:
        if self._policy is None or bool(self._policy.untrusted) != bool(policy.untrusted):
            self._fixed.forget()
        if self._policy is None or self._policy.rules != policy.rules:
            self._hidden.forget()
            self._fixed.forget()
            self._has_own_rules = bool(policy.rules.closing("read"))
        self._policy = policy
        found = self._hidden.paths(outside)
        usual = [path for path in found if is_secret(path) and self._is_usual(path, policy)]
        if not usual:
            return found
        if self._tracked is None:
            from agent_cli.workspace.git.index import TrackedFiles

            self._tracked = TrackedFiles()
        tracked = {path for root in policy.roots for path in self._tracked.among(root, usual)}
        return tuple(path for path in found if path not in tracked)

    def _fixed_inside(self, policy: Policy) -> tuple[str, ...]:
        """Return the files that must not be changed although commands could. Call after `_closed_inside`."""
        has_any = bool(policy.untrusted or policy.rules.of("deny", "write"))
        return self._fixed.paths() if self._may_write(policy) and has_any else ()

    def _may_write(self, policy: Policy) -> bool:
        level = self.level(policy.mode, policy.untrusted)
        return level == "workspace-write" and not policy.unwritable

    def _is_usual(self, path: str, policy: Policy) -> bool:
        """Return True if a file is closed only because of its name. If git tracks the file, its contents are in
        the git objects anyway, and git could not work without it."""
        return not policy.hidden(path, False) and not any(
            matches_path(rule, path, policy.root) for rule in policy.rules.closing("read")
        )

    def _closed_outside(self, policy: Policy) -> tuple[str, ...]:
        from .denied_paths import closed_outside, usual_secrets

        if self._closed_under != policy.rules:
            self._closed_under, self._closed_by_rules = policy.rules, set()
        usual = (path for path in usual_secrets(policy.home) if self._is_closed_outside(path, policy))
        return tuple(sorted({*usual, *closed_outside(policy)}))

    def _is_closed_outside(self, path: str, policy: Policy) -> bool:
        """Return True if a usual secret is closed. The rules on its name are evaluated once."""
        if path in self._closed_by_rules:
            return True
        is_closed = watched(path, path, policy) is not None
        if is_closed and not policy.hidden(path, False):
            self._closed_by_rules.add(path)
        return is_closed

    def _is_fixed(self, path: str) -> bool:
        policy = self._policy
        if policy is None or (policy.untrusted and is_instruction(path, policy)):
            return policy is not None
        return is_write_denied(path, policy)

    def _is_closed(self, path: str) -> bool:
        policy = self._policy
        if policy is None or not (is_secret(path) or self._has_own_rules or policy.hidden(path, False)):
            return False
        return watched(path, path, policy) is not None


def _autorun_files(roots: tuple[str, ...], policy: Policy) -> tuple[str, ...]:
    """Return the files that editors, shells, other agents, git and the agent itself read or run automatically."""
    from agent_cli.protocol.paths import AUTORUN_NAMES
    from agent_cli.workspace.git.programs import run_by_git

    names = (".agentignore", *sorted(AUTORUN_NAMES), *(policy.instructions if policy.untrusted else ()))
    named = (os.path.join(root, name) for root in roots for name in names)
    return (*named, *(path for root in roots for path in run_by_git(root)))


def _own_package(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the environment this program runs from if it is in the workspace: commands must not change it."""
    own = os.path.realpath(sys.prefix)
    return (own,) if any(own.startswith(root.rstrip("/") + "/") for root in roots) else ()


def _ensure_folder(folder: Path) -> str:
    """Create a folder for a command and return it. A failure is ignored; the folder is then missing."""
    with contextlib.suppress(OSError):
        make_private(folder)
    return str(folder)

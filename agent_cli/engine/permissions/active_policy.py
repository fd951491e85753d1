"""The permission policy in force: rules from the configuration, rules saved by the user, and the current mode."""

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.fs.git_files import may_be_repository
from agent_cli.policy.authorize import Policy, authorize, combine, may_leave, repeats_changes
from agent_cli.policy.rules.path_verdict import watched
from agent_cli.policy.rules.rule import BUILT_IN, Rule, RuleError, Rules, parse_rule
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    Deny,
    Fetch,
    Mode,
    Reach,
    ReadPath,
    RunCommand,
    SendInput,
    Verdict,
    WriteMemory,
    WritePath,
    narrower,
)
from agent_cli.protocol.operations import GrantScope
from agent_cli.protocol.paths import is_inside
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.store.state.grants import GrantFile
from agent_cli.workspace.paths import Workspace, real_path

from .egress import EgressProxy
from .sandbox_profile import SandboxProfiles

if TYPE_CHECKING:
    from agent_cli.workspace.git.config_safety import GitSettings
    from agent_cli.workspace.matching_files import MatchingFiles

_LARGEST_SCRIPT = 256 * 1024
_TEMPORARY = ("/tmp", "/private/tmp", "/var/tmp")
_MAX_NAMES = 10_000
"""Maximum number of files that one glob of a command is expanded to."""
_Expand = Callable[[str], tuple[str, ...]]
"""Returns the files that a glob currently matches, or more."""


class SpecialPaths(msgspec.Struct, frozen=True):
    """Paths that every mode treats specially."""

    protected: tuple[Path, ...] = ()
    """The agent's own configuration and state: writes always ask."""
    readable: tuple[Path, ...] = ()
    """Paths outside the workspace that may be read without asking."""
    instructions: tuple[str, ...] = ()
    """Names of files that later conversations receive as instructions."""


_NONE = SpecialPaths()


class Permissions:
    """Builds the `Policy` for each decision, so that a new mode or rule takes effect immediately. `untrusted`
    returns the sources of untrusted text in the conversation.

    Raises:
        RuleError: a saved rule cannot be parsed.
    """

    def __init__(
        self,
        workspace: Workspace,
        rules: tuple[Rule, ...],
        *,
        mode: Mode,
        paths: SpecialPaths = _NONE,
        confining: SandboxProfiles | None = None,
        untrusted: Callable[[], tuple[str, ...]] = tuple,
        grants: Mapping[GrantScope, GrantFile] = MappingProxyType({}),
    ) -> None:
        self._mode: Mode = mode
        self.widest: Callable[[], Mode | None] = lambda: None
        """Returns the most permissive mode currently allowed to a sub-agent; None for no bound."""
        self.above: Permissions | None = None
        """Permissions of the parent session, for a sub-agent: what the user allows there also applies here."""
        self._workspace = workspace
        self._rules = (*BUILT_IN, *rules)
        self._protected = tuple(os.path.realpath(path) for path in paths.protected)
        self._readable = tuple(os.path.realpath(path) for path in paths.readable)
        self._sandbox_profiles = confining
        self._untrusted = untrusted
        self._instructions = paths.instructions
        self._scanned_for: tuple[bool, ...] = ()
        """Whether commands were confined, for each scan of the files to hide."""
        self._access_lists = workspace.access_lists
        self._git: GitSettings | None = None
        self._egress: EgressProxy | None = None
        self._judging: Policy | None = None
        self._temporary: set[str] = set()
        """Temporary files that commands of this session have made."""
        self._base: tuple[Hashable, Policy] | None = None
        """The policy without the sandbox, with the revision it was built for."""
        self._stores = grants
        self._grants: list[Rule] = []
        self._grant_changes = 0
        self._turn_rules: tuple[Rule, ...] = ()
        self._in_force = Rules()
        """The rules at the last call of `rules`: they remember how they are grouped."""
        self.restrictions: tuple[Rule, ...] = ()
        """Additional rules of a sub-agent; none of them allows anything."""
        for store in grants.values():
            self._grants += [_parse_grant(text, store.path, at) for at, text in enumerate(store.rules(), 1)]

    @property
    def mode(self) -> Mode:
        """The current approval mode."""
        return narrower(self._mode, self.widest())

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode

    def restore_grants(self, rules: Iterable[str]) -> None:
        """Restore rules that were saved for this session in an earlier run.

        Raises:
            RuleError: a rule cannot be parsed.
        """
        self._grants += [parse_rule(text, "allow", "this session") for text in rules]
        self._grant_changes += 1

    def _untrusted_source(self) -> str:
        return next(iter(self._untrusted()), "")

    def revision(self) -> Hashable:
        """Return a value that changes whenever a mode, a rule, untrusted text or the measured sandbox changes."""
        above = self.above.revision() if self.above is not None else None
        return self.mode, self._grant_changes, self._untrusted(), self._scanned_for, above

    def authorize(self, action: Action) -> Verdict:
        """Return the verdict of the current policy on an action."""
        is_command = isinstance(action, RunCommand | SendInput)
        try:
            return authorize(action, self._for_one_verdict(self.policy()) if is_command else self._base_policy())
        except OSError as error:
            return _deny_unresolved(error)

    def is_workspace_edit(self, actions: Iterable[Action]) -> bool:
        """Return True if these actions only change files, and mode `auto-edit` would allow all of them."""
        found = tuple(actions)
        if not all(isinstance(action, ReadPath | WritePath | WriteMemory) for action in found):
            return False
        policy = msgspec.structs.replace(self._base_policy(), mode="auto-edit")
        try:
            return bool(found) and all(isinstance(authorize(action, policy), Allow) for action in found)
        except OSError:
            return False

    def writes_beyond_undo(self, actions: Iterable[Action]) -> tuple[str, ...]:
        """Return paths outside the workspace that commands are known to write, which undo does not cover. New
        files directly in a folder for temporary files, such as the log of a server, do not count."""
        lines = [(action.command, action.cwd) for action in actions if isinstance(action, RunCommand)]
        if not lines:
            return ()
        from agent_cli.policy.shell.line import written_outside

        policy = self.policy()
        found = (path for line, cwd in lines for path in written_outside(line, cwd, policy))
        return tuple(path for path in found if not self._is_temporary(path))

    def _is_temporary(self, path: str) -> bool:
        if os.path.dirname(path) in _TEMPORARY and not os.path.lexists(path):
            self._temporary.add(path)
            self._base = None
        return path in self._temporary

    def policy(self) -> Policy:
        """Return the policy as a value, including the effect of the sandbox on commands."""
        policy = self._base_policy()
        profiles = self._sandbox_profiles
        if profiles is None:
            return policy
        if not profiles.is_enough(policy):
            return msgspec.structs.replace(policy, missing_sandbox=profiles.missing_sandbox(policy.mode))
        allows_hosts = bool(policy.rules.of("allow", "fetch"))
        has_hosts = profiles.enforced_level.shares_network and not policy.untrusted and allows_hosts
        return msgspec.structs.replace(policy, sandboxed=True, has_hosts=has_hosts)

    def _base_policy(self) -> Policy:
        """Return the policy without the sandbox. Only commands need the sandbox, and judging it may require a
        directory walk."""
        if self._base is None or self._base[0] != self.revision():
            self._base = self.revision(), self._new_policy()
        return self._base[1]

    def _new_policy(self) -> Policy:
        policy = Policy(
            mode=self.mode,
            rules=self.rules(),
            roots=tuple(str(root) for root in self._workspace.roots),
            protected=self._protected,
            readable=self._readable,
            home=os.path.realpath(os.path.expanduser("~")),
            sandboxed=False,
            resolve=_resolve,
            hidden=partial(self._hidden, _expanded),
            names=partial(_names, _expanded),
            links_out=partial(self._leads_out, self._is_link_out),
            splits_out=self._splits_out,
            script=_script,
            searched=self._searched,
            plain_git=self._plain_git,
            run_by_git=self._run_by_git,
            may_be_repository=may_be_repository,
            is_repository=_is_repository,
            git_is_read_only=self._git_is_read_only,
            git_aliases=_git_aliases,
            git_setting=_git_setting,
            untrusted=self._untrusted_source(),
            untrusted_sources=self._untrusted(),
            instructions=self._instructions,
            temporary=tuple(sorted(self._temporary)),
            unwritable=self.unwritable(),
        )
        return msgspec.structs.replace(
            policy, hard_links=partial(self._hard_links, policy), closed_below=partial(self._closed_below, policy)
        )

    def _git_is_read_only(self, folder: str) -> bool:
        from agent_cli.workspace.git.repository import git_folder, git_places

        try:
            place = git_folder(os.path.realpath(folder))
        except (OSError, ValueError):
            return False
        fixed = (path for root in self._workspace.roots for path in git_places(str(root)).guarded)
        return place is not None and is_inside(os.path.realpath(place.own), tuple(fixed))

    def _for_one_verdict(self, policy: Policy) -> Policy:
        """Return a policy that looks up each path and glob once, though a command is examined in several ways."""
        expand = cache(_expanded)
        return msgspec.structs.replace(
            policy, hidden=cache(partial(self._hidden, expand)), names=cache(partial(_names, expand))
        )

    @cached_property
    def _closed_files(self) -> "MatchingFiles":
        from agent_cli.workspace.matching_files import MatchingFiles

        return MatchingFiles(self._workspace.roots, self._is_closed)

    @cached_property
    def _leading_out(self) -> "MatchingFiles":
        """Links that lead out of the workspace, and names whose parts may."""
        from agent_cli.policy.shell.found_files import splits_out
        from agent_cli.workspace.matching_files import MatchingFiles

        def leads_out(path: str) -> bool:
            return splits_out(path) or self._is_link_out(path)

        return MatchingFiles(self._workspace.roots, leads_out, links=True)

    def _leads_out(self, does: Callable[[str], bool]) -> bool:
        found = any(map(does, self._leading_out.paths()))
        return found or not self._leading_out.is_complete

    def _splits_out(self) -> bool:
        from agent_cli.policy.shell.found_files import splits_out

        return self._leads_out(splits_out)

    def _is_link_out(self, path: str) -> bool:
        return os.path.islink(path) and not self._workspace.contains(os.path.realpath(path))

    def _closed_below(self, policy: Policy, folder: str) -> tuple[str, ...] | None:
        """Return the closed files of the workspace below a folder; None for a folder that is outside or too large
        to scan."""
        if not self._workspace.contains(folder):
            return None
        found = self._closed_files_of(policy)
        if not self._closed_files.is_complete:
            return None
        return tuple(path for path in found if is_inside(path, [folder]) or is_inside(folder, [path]))

    def _closed_files_of(self, policy: Policy) -> tuple[str, ...]:
        """Return the files of the workspace that a policy currently closes."""
        if self._judging is None or self._judging.rules != policy.rules:
            self._closed_files.forget()
        self._judging = policy
        return self._closed_files.paths()

    def _hard_links(self, policy: Policy, path: str) -> tuple[str, ...]:
        """Return the closed files that are hard links to the file at a path."""
        from .denied_paths import closed_outside, further_names

        return further_names(path, policy.home, lambda: (*self._closed_files_of(policy), *closed_outside(policy)))

    def authorize_reach(self, actions: tuple[Action, ...], reach: Reach, hosts: tuple[str, ...]) -> Verdict:
        """Return the verdict on running commands with a wider reach after the sandbox blocked them: with the
        network, to reach these hosts, or outside the sandbox."""
        policy = self.policy()
        if reach != "network":
            try:
                return combine(may_leave(action, policy) for action in actions if isinstance(action, RunCommand))
            except OSError as error:
                return _deny_unresolved(error)
        verdicts = [authorize(Fetch(f"https://{host}/", host), policy) for host in hosts]
        if denied := next((verdict for verdict in verdicts if isinstance(verdict, Deny)), None):
            return denied
        grant = f"fetch({hosts[0]})" if len(hosts) == 1 and not policy.untrusted else ""
        return Ask("sandbox", "it needs the network", grant, "network")

    def repeats_changes(self, actions: tuple[Action, ...]) -> bool:
        """Return True if commands that failed halfway may change something twice when they run again."""
        policy = self.policy()
        return any(repeats_changes(action, policy) for action in actions if isinstance(action, RunCommand))

    def confinement(self, reach: Reach) -> Confinement | None:
        """Return the confinement of a command with this reach; None if it is not confined."""
        return self._sandbox_profiles.for_command(self._base_policy(), reach) if self._sandbox_profiles else None

    @property
    def is_confining(self) -> bool:
        """True if commands are currently confined."""
        return (
            self._sandbox_profiles is not None
            and self._sandbox_profiles.level(self.mode, self._untrusted_source()) != "off"
        )

    def level(self) -> str:
        """Describe the sandbox in force in words."""
        if self._sandbox_profiles is None:
            return "none"
        return self._sandbox_profiles.describe(self.mode, self._untrusted_source(), self.rules())

    async def measure_sandbox(self) -> bool:
        """Check before a command that the sandbox works and that the files to hide are known. It takes time once,
        and once more when the mode changes whether commands are confined. Return True if the sandbox differs from
        what was assumed."""
        if self._sandbox_profiles is None:
            return False
        changed = await self._sandbox_profiles.measure()
        if (is_confining := self.is_confining) not in self._scanned_for:
            self._scanned_for += (is_confining,)
            await asyncio.to_thread(self._sandbox_profiles.scan_files, self._base_policy())
        return changed

    def open_egress(self, processes: ProcessRunner, private_hosts: Sequence[str]) -> EgressProxy:
        """Return the egress proxy through which these processes' commands reach allowed hosts, until `close`."""
        self._egress = EgressProxy(processes, self.rules, self.authorize, private_hosts)
        return self._egress

    def close(self) -> None:
        """Release the resources created for commands."""
        if self._egress is not None:
            self._egress.close()
        if self._sandbox_profiles is not None:
            self._sandbox_profiles.close()

    def _is_closed(self, path: str) -> bool:
        return self._judging is not None and watched(path, path, self._judging) is not None

    def unwritable(self) -> str:
        """Return why nothing may be changed here: a home directory or the root is not a project. Otherwise
        empty."""
        root = str(self._workspace.root)
        if root == os.path.realpath(os.path.expanduser("~")):
            return f"{root} is a home directory: start agent in a project folder"
        return "/ is the root folder: start agent in a project folder" if root == "/" else ""

    def _hidden(self, expand: _Expand, path: str, glob: bool) -> str | None:
        """Return what closes a path, or one of the files that a glob currently matches."""
        if not glob:
            return self._access_lists.verdict(path)
        found = expand(path)
        places = (self._access_lists.verdict(each) for name in found for each in (name, real_path(name)))
        place = next(filter(None, places), None)
        if place is None and len(found) == _MAX_NAMES:
            return self._searched(os.path.dirname(re.split(r"[*?[]", path)[0]))
        return place

    def _searched(self, folder: str) -> str | None:
        """Return the access list that applies to a folder; lists in its subfolders are not searched."""
        while self._workspace.contains(folder):
            if found := self._access_lists.list_of(folder):
                return found
            folder = os.path.dirname(folder)
        return None

    def _plain_git(self, folder: str) -> bool:
        from agent_cli.workspace.git.config_safety import GitSettings

        self._git = self._git or GitSettings()
        return self._git.are_harmless(folder)

    def _run_by_git(self) -> tuple[str, ...]:
        from agent_cli.workspace.git.programs import run_by_git

        return tuple(path for root in self._workspace.roots for path in run_by_git(str(root)))

    def rules(self) -> Rules:
        """Return all rules in force."""
        rules = (*self.restrictions, *self._rules, *self.granted(), *self._turn_rules)
        if rules != self._in_force:
            self._in_force = Rules(rules)
        return self._in_force

    def granted(self) -> tuple[Rule, ...]:
        """Return the rules that the user allowed, in this session and its parents."""
        return (*self._grants, *(self.above.granted() if self.above is not None else ()))

    def restrict(self, rules: Iterable[Rule]) -> None:
        """Add rules that ask or deny."""
        self.restrictions += tuple(rule for rule in rules if rule.effect != "allow")
        self._grant_changes += 1

    def allow_for_turn(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Allow calls by these rules until the turn ends. Return the rules that are valid and new."""
        known, found = {rule.text for rule in self._turn_rules}, []
        for text in texts:
            with contextlib.suppress(RuleError):
                if (rule := parse_rule(text, "allow", "this turn")).text not in known:
                    found.append(rule)
        self._turn_rules += tuple(found)
        self._grant_changes += bool(found)
        return tuple(rule.text for rule in found)

    def begin_turn(self) -> None:
        """Drop the rules of the previous turn."""
        self._grant_changes += bool(self._turn_rules)
        self._turn_rules = ()

    def add_grants(self, texts: Sequence[str], scope: GrantScope) -> list[Rule]:
        """Save rules and apply them from now on. For scope `session`, the caller records them.

        Raises:
            RuleError: one is not a valid rule; none is saved.
            store.StoreError: they could not be saved.
        """
        rules = [parse_rule(text, "allow", "this session") for text in texts]
        if (store := self._stores.get(scope)) is not None:
            for rule in rules:
                store.add(rule.text)
            saved = store.rules()
            rules = [_parse_grant(rule.text, store.path, saved.index(rule.text) + 1) for rule in rules]
        self._grants += rules
        self._grant_changes += 1
        return rules

    def grants(self) -> tuple[Rule, ...]:
        """Return the rules that the user saved."""
        return tuple(self._grants)

    def remove_grant(self, text: str) -> tuple[str, ...]:
        """Remove a saved rule and return the places where it was saved.

        Raises:
            store.StoreError: a file cannot be read or written.
        """
        places = [rule.place.partition(": rule ")[0] for rule in self._grants if rule.text == text]
        places += [str(store.path) for store in self._stores.values() if store.remove(text)]
        self._grants = [rule for rule in self._grants if rule.text != text]
        self._grant_changes += 1
        return tuple(dict.fromkeys(places))


def _parse_grant(text: str, path: Path, number: int) -> Rule:
    place = f"{path}: rule {number}"
    try:
        return parse_rule(text, "allow", place)
    except RuleError as error:
        raise RuleError(f"{place}: {error}") from error


def _names(expand: _Expand, glob: str) -> tuple[str, ...] | None:
    """Return the files that a glob currently matches, or more, as found and as real paths; None if there are too
    many."""
    found = expand(glob)
    return None if len(found) == _MAX_NAMES else tuple(dict.fromkeys((*found, *map(real_path, found))))


def _expanded(glob: str) -> tuple[str, ...]:
    from glob import iglob

    patterns = (_widened(glob), *_upwards(glob))
    return tuple(islice((name for each in patterns for name in iglob(each)), _MAX_NAMES))


def _widened(glob: str) -> str:
    """Return a pattern of the library that matches no less: shells read a set in other ways, and which of the
    characters were quoted is not known."""
    return re.sub(r"\[[^/]*", "*", glob)


def _upwards(glob: str) -> Iterator[str]:
    """Yield the patterns with `..` in place of a name that may match it: before version 5.2, bash expands `.*`
    so."""
    from fnmatch import fnmatchcase

    parts = glob.split("/")
    for at, part in enumerate(parts):
        if part.startswith(".") and part != ".." and fnmatchcase("..", _widened(part)):
            yield _widened("/".join((*parts[:at], "..", *parts[at + 1 :])))


def _script(path: str) -> str:
    try:
        return read_regular(Path(path), _LARGEST_SCRIPT).decode("utf-8", "replace")
    except OSError:
        return ""


def _git_aliases(folder: str, verb: str) -> tuple[str, ...]:
    from agent_cli.workspace.git.programs import aliases

    return aliases(folder, verb)


def _git_setting(folder: str, name: str) -> str:
    from agent_cli.workspace.git.programs import setting_value

    return setting_value(folder, name)


def _is_repository(folder: str) -> bool:
    from agent_cli.workspace.git.repository import git_folder

    try:
        return os.path.isdir(folder) and git_folder(folder) is not None
    except OSError:
        return True


def _resolve(word: str, folder: str) -> str:
    return real_path(os.path.join(folder, os.path.expanduser(word)))


def _deny_unresolved(error: OSError) -> Deny:
    """Deny a path that cannot be resolved: something replaces its folders while it is examined."""
    return Deny(
        "unsettled path", f"one of its paths cannot be resolved ({error.strerror}), it is changing right now"
    )

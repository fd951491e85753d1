"""The policy in force: rules from the configuration, rules kept by the user, and the mode of the moment."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from ..policy.authorize import Policy, authorize, may_leave, together
from ..policy.modes import BUILT_IN
from ..policy.rules import Rule, RuleError, parse_rule
from ..protocol.actions import Action, Mode, Reach, RunCommand, Verdict
from ..protocol.operations import GrantScope
from ..sandbox.base import Confinement
from ..workspace.agentignore import AgentIgnore
from ..workspace.paths import Workspace
from .confining import Confining

_MAX_NAMES = 10_000
"""Files that one glob of a command is followed to."""


class GrantStore(Protocol):
    """Kept rules of one scope; `store.GrantFile` is one."""

    @property
    def path(self) -> Path: ...

    def rules(self) -> tuple[str, ...]: ...

    def add(self, rule: str) -> None: ...


class Permissions:
    """Builds the `Policy` for each decision, so that a new mode or rule holds at once. `untrusted` tells where
    text of strangers in the conversation came from.

    Raises:
        RuleError: a kept rule cannot be read.
    """

    def __init__(
        self,
        workspace: Workspace,
        rules: tuple[Rule, ...],
        *,
        mode: Mode,
        protected: tuple[Path, ...] = (),
        readable: tuple[Path, ...] = (),
        confining: Confining | None = None,
        untrusted: Callable[[], str] = lambda: "",
        session_grants: tuple[str, ...] = (),
        project: GrantStore | None = None,
        user: GrantStore | None = None,
    ) -> None:
        self.mode: Mode = mode
        self._workspace = workspace
        self._rules = (*BUILT_IN, *rules)
        self._protected = tuple(os.path.realpath(path) for path in protected)
        self._readable = tuple(os.path.realpath(path) for path in readable)
        self._confining = confining
        self._untrusted = untrusted
        self._closed = AgentIgnore(workspace.roots)
        self._stores: dict[GrantScope, GrantStore | None] = {"project": project, "user": user}
        self._kept: list[Rule] = [parse_rule(text, "allow", "this session") for text in session_grants]
        for store in (project, user):
            if store is not None:
                self._kept += [_kept_rule(text, store.path) for text in store.rules()]

    def authorize(self, action: Action) -> Verdict:
        """What the policy says to an action, now."""
        return authorize(action, self.policy())

    def policy(self) -> Policy:
        """The policy as a value."""
        policy = Policy(
            mode=self.mode,
            rules=self.rules(),
            roots=tuple(str(root) for root in self._workspace.roots),
            protected=self._protected,
            readable=self._readable,
            home=os.path.realpath(os.path.expanduser("~")),
            sandboxed=False,
            resolve=_resolve,
            hidden=self._hidden,
            searched=self._searched,
            untrusted=self._untrusted(),
            unwritable=self._unwritable(),
        )
        if self._confining is None or not self._confining.is_enough(policy):
            return policy
        return msgspec.structs.replace(policy, sandboxed=True)

    def outside(self, actions: tuple[Action, ...]) -> Verdict:
        """What the policy says to running commands without the sandbox that has kept them from something."""
        policy = self.policy()
        return together(may_leave(action, policy) for action in actions if isinstance(action, RunCommand))

    def confinement(self, reach: Reach, report: Path | None) -> Confinement | None:
        """What a command with this reach may touch; None where it is not confined."""
        return self._confining.for_command(self.policy(), reach, report) if self._confining else None

    @property
    def is_confining(self) -> bool:
        """Whether commands are confined now."""
        return self._confining is not None and self._confining.level(self.mode) != "off"

    def level(self) -> str:
        """The sandbox in force, in words."""
        return self._confining.described(self.mode) if self._confining else "none"

    async def measured(self) -> bool:
        """Make sure, before the first command, that the sandbox holds; whether it is another than was thought."""
        return self._confining is not None and await self._confining.measured()

    def close(self) -> None:
        """Remove what was made for commands."""
        if self._confining is not None:
            self._confining.close()

    def _unwritable(self) -> str:
        """Why nothing may be changed here: a home directory or the root is no project."""
        root = str(self._workspace.root)
        if root == os.path.realpath(os.path.expanduser("~")):
            return f"{root} is a home directory: start agent in a project's folder"
        return "/ is the root of the system: start agent in a project's folder" if root == "/" else ""

    def _hidden(self, path: str, glob: bool) -> str | None:
        """What closes a path, or one of the files that a glob stands for now."""
        if not glob:
            return self._closed.verdict(path)
        from glob import iglob

        names = islice(iglob(path), _MAX_NAMES)
        places = (self._closed.verdict(each) for name in names for each in (name, os.path.realpath(name)))
        return next(filter(None, places), None)

    def _searched(self, folder: str) -> str | None:
        """The access list that holds in a folder; lists below it are not looked for."""
        while self._workspace.contains(folder):
            if found := self._closed.list_of(folder):
                return found
            folder = os.path.dirname(folder)
        return None

    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force."""
        return (*self._rules, *self._kept)

    def keep(self, text: str, scope: GrantScope) -> Rule:
        """Keep a rule from now on; for `session` the caller records it.

        Raises:
            RuleError: not a rule.
            store.StoreError: it could not be saved.
        """
        rule = parse_rule(text, "allow", "this session")
        store = self._stores.get(scope)
        if store is not None:
            store.add(rule.text)
            rule = parse_rule(text, "allow", str(store.path))
        self._kept.append(rule)
        return rule


def _kept_rule(text: str, path: Path) -> Rule:
    try:
        return parse_rule(text, "allow", str(path))
    except RuleError as error:
        raise RuleError(f"{path}: {error}") from error


def _resolve(word: str, folder: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(word)))

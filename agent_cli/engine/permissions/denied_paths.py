"""The files that deny rules close, masked for commands that are otherwise free: what holds in `yolo` without a
sandbox, where bubblewrap can be had."""

import os

from agent_cli.policy.rules.path_verdict import Policy, watched
from agent_cli.policy.rules.rule import Rule, matches_path
from agent_cli.protocol.actions import Deny
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.workspace.denied_files import HiddenFiles
from agent_cli.workspace.paths import Workspace


class DeniedFiles:
    """Finds them for each command; where there are none, commands run as they are."""

    def __init__(self, workspace: Workspace) -> None:
        self._policy: Policy | None = None
        self._read = HiddenFiles(workspace.roots, self._is_unreadable)
        self._write = HiddenFiles(workspace.roots, self._is_unwritable)

    def masked(self, policy: Policy) -> Confinement | None:
        """Everything but the files that rules deny; None where they deny none that is there."""
        if self._policy is None or self._policy.rules != policy.rules:
            self._read.forget()
            self._write.forget()
        self._policy = policy
        hidden = self._unreadable(policy)
        fixed = self._write.paths() if any(map(denies_writing, policy.rules)) else ()
        if not hidden and not fixed:
            return None
        return Confinement(
            writable=(), read_only=fixed, hidden=hidden, network="open", shown=policy.roots, is_bounded=False
        )

    def _unreadable(self, policy: Policy) -> tuple[str, ...]:
        lists = (os.path.join(root, ".agentignore") for root in policy.roots)
        if not any(map(denies_reading, policy.rules)) and not any(map(os.path.lexists, lists)):
            return ()
        from .denied_outside import closed_outside

        outside = tuple(path for path in closed_outside(policy) if self._is_unreadable(path))
        return (*outside, *self._read.paths(outside))

    def _is_unreadable(self, path: str) -> bool:
        return self._policy is not None and isinstance(watched(path, path, self._policy), Deny)

    def _is_unwritable(self, path: str) -> bool:
        policy = self._policy
        return policy is not None and any(
            denies_writing(rule) and matches_path(rule, path, policy.root) for rule in policy.rules
        )


def denies_reading(rule: Rule) -> bool:
    """Whether a rule says that files are never to be read."""
    return rule.kind == "read" and rule.effect == "deny"


def denies_writing(rule: Rule) -> bool:
    """Whether a rule says that files are never to be changed."""
    return rule.kind == "write" and rule.effect == "deny"

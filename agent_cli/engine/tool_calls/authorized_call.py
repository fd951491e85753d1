"""What a call would do and what the policy says to it, as one value."""

from collections.abc import Hashable
from typing import Any

import msgspec

from agent_cli.policy.authorize import together
from agent_cli.protocol.actions import (
    Action,
    Allow,
    CallExternal,
    Deny,
    Reach,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
)
from agent_cli.tools.kit.base import Tool, ToolContext

from ..permissions.active_policy import Permissions


class AuthorizedCall(msgspec.Struct, frozen=True):
    """A call as it was judged. Before that it does nothing, and nothing forbids it."""

    title: str
    actions: tuple[Action, ...] = ()
    verdict: Verdict = Allow("")
    may_tell: bool = True
    """What stands in the files concerned may be read without a question."""
    revision: Hashable = None
    """What it was judged by: another one means that the verdict may be out of date."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The files it is known to write."""
        return tuple(action.path for action in self.actions if isinstance(action, WritePath))

    @property
    def command(self) -> str:
        """The command line it runs; empty for none."""
        return next((action.command for action in self.actions if isinstance(action, RunCommand)), "")

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing, so that it may run beside others and again after a crash."""
        return all(isinstance(action, ReadPath) for action in self.actions)

    @property
    def can_run_in_parallel(self) -> bool:
        """Whether it may run in parallel with other such calls; of an external tool, its server says so."""
        return all(
            isinstance(action, ReadPath) or (isinstance(action, CallExternal) and action.says_read_only)
            for action in self.actions
        )

    @property
    def places(self) -> frozenset[str]:
        """The real paths it was judged by."""
        return frozenset(it.path for it in self.actions if isinstance(it, ReadPath | WritePath))

    @property
    def external(self) -> CallExternal | None:
        """The external tool that it calls; None when it calls none."""
        return next((it for it in self.actions if isinstance(it, CallExternal)), None)

    @property
    def untrusted_source(self) -> str:
        """What its result is marked with; empty when it calls no external tool."""
        return self.external.source if self.external else ""

    @property
    def reach(self) -> Reach:
        """How much of the machine it gets once it may run."""
        return "inside" if isinstance(self.verdict, Deny) else self.verdict.reach


def authorize_call(
    tool: Tool, params: Any, context: ToolContext, permissions: Permissions, revision: Hashable
) -> AuthorizedCall:
    """Derive from its parameters what a call would do, and what the policy says to that.

    Raises:
        Exception: whatever the tool raises when it is asked for its title or its actions.
    """
    title = tool.title(params) or tool.name
    actions = tuple(tool.actions(params, context))
    verdicts = [permissions.authorize(action) for action in actions]
    may_tell = all(
        isinstance(verdict, Allow)
        for action, verdict in zip(actions, verdicts, strict=True)
        if isinstance(action, ReadPath)
    )
    return AuthorizedCall(title, actions, together(verdicts), may_tell, revision)

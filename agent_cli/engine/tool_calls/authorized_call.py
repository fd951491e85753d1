"""The actions of a tool call and the policy's verdict, as one value."""

from collections.abc import Hashable
from typing import Any

import msgspec

from agent_cli.policy.authorize import combine
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
    """A judged call. By default it has no actions and is allowed."""

    title: str
    actions: tuple[Action, ...] = ()
    verdict: Verdict = Allow("")
    may_tell: bool = True
    """The contents of the files concerned may be read without asking."""
    revision: Hashable = None
    """Revision of the policy that the verdict is based on; if it changes, the verdict may be out of date."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The files that the call is known to write."""
        return tuple(action.path for action in self.actions if isinstance(action, WritePath))

    @property
    def command(self) -> str:
        """The command line it runs; empty for none."""
        return next((action.command for action in self.actions if isinstance(action, RunCommand)), "")

    @property
    def reads_only(self) -> bool:
        """True if it changes nothing, so that it may run in parallel with others and again after a crash."""
        return all(isinstance(action, ReadPath) for action in self.actions)

    @property
    def can_run_in_parallel(self) -> bool:
        """True if it may run in parallel with other such calls. For an external tool, its server declares that."""
        return all(
            isinstance(action, ReadPath) or (isinstance(action, CallExternal) and action.says_read_only)
            for action in self.actions
        )

    @property
    def places(self) -> frozenset[str]:
        """The real paths for which it was judged."""
        return frozenset(it.path for it in self.actions if isinstance(it, ReadPath | WritePath))

    @property
    def external(self) -> CallExternal | None:
        """The external tool that it calls; None if it calls none."""
        return next((it for it in self.actions if isinstance(it, CallExternal)), None)

    @property
    def untrusted_source(self) -> str:
        """Source marked in its result as untrusted; empty if it calls no external tool."""
        return self.external.source if self.external else ""

    @property
    def reach(self) -> Reach:
        """The reach it gets when it runs."""
        return "inside" if isinstance(self.verdict, Deny) else self.verdict.reach


def authorize_call(
    tool: Tool, params: Any, context: ToolContext, permissions: Permissions, revision: Hashable
) -> AuthorizedCall:
    """Determine the actions of a call from its parameters, and the policy's verdict on them.

    Raises:
        Exception: any error the tool raises while computing its title or actions.
    """
    title = tool.title(params) or tool.name
    actions = tuple(tool.actions(params, context))
    verdicts = [permissions.authorize(action) for action in actions]
    may_tell = all(
        isinstance(verdict, Allow)
        for action, verdict in zip(actions, verdicts, strict=True)
        if isinstance(action, ReadPath)
    )
    return AuthorizedCall(title, actions, combine(verdicts), may_tell, revision)

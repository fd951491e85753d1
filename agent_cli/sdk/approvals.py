"""Approvals and questions that the program answers itself."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import msgspec

from agent_cli.protocol.actions import Reach
from agent_cli.protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.operations import ApprovalAnswer, Decision, GrantScope, QuestionAnswer

_NOBODY = "No user is here to answer. Decide yourself and say what you assumed."
_T = TypeVar("_T")


class Allow(msgspec.Struct, frozen=True):
    """Let a call run."""

    remember: str = ""
    """A permission rule to save, such as `shell(pytest *)`; empty for none."""
    scope: GrantScope = "session"
    """Scope in which the rule is saved: this session, this project or the user."""


class Deny(msgspec.Struct, frozen=True):
    """Refuse a call."""

    message: str = ""
    """The reason, for the model."""


class ApprovalCall(msgspec.Struct, frozen=True):
    """A tool call that needs approval."""

    tool: str
    arguments: dict[str, Any]
    title: str
    """One line: the path, pattern or command."""
    preview: str
    """The exact command, or the whole unified diff."""
    preview_kind: Literal["command", "diff", "text"]
    reason: str
    """Why it needs approval."""
    rule: str
    """The rule or mode that requires it."""
    grant: str
    """The narrowest rule that would allow it next time; empty if none may be saved."""
    risk: str
    """The worst it could do, in one line."""
    reach: Reach
    """Where a command runs: in the sandbox, in the sandbox with network access, or outside."""
    agent_name: str
    """The sub-agent that made the call; empty for the main agent."""


class Question(msgspec.Struct, frozen=True):
    """A question of the model, of an MCP server or of the engine."""

    text: str
    options: tuple[str, ...]
    """Answers to choose from; empty for free text."""
    server: str
    """The MCP server that asks; empty for none."""
    agent_name: str
    """The sub-agent that asks; empty for the main agent."""


Approve = Callable[[ApprovalCall], Allow | Deny | Awaitable[Allow | Deny]]
Answer = Callable[[Question], str | Awaitable[str]]
Warn = Callable[[str], None]


class CallbackError(Exception):
    """A callback of the program failed; the text says how."""


async def called(callback: Callable[[Any], Any], value: Any, timeout_s: float | None) -> Any:
    """Call a callback of the program and return its result. A callback that is not async runs in a thread, so that
    it blocks nothing.

    Raises:
        CallbackError: it raised an exception, or timed out.
    """
    from agent_cli.tools.plugins import in_a_thread, unless_stopped

    try:
        async with asyncio.timeout(timeout_s):
            if inspect.iscoroutinefunction(callback):
                return _sound(await unless_stopped(callback(value)))
            said = await in_a_thread(lambda: callback(value))
            return _sound(await unless_stopped(said) if inspect.isawaitable(said) else said)
    except TimeoutError:
        raise CallbackError(f"it took longer than {timeout_s:g} s" if timeout_s else "TimeoutError") from None
    except Exception as error:  # the program's code may raise anything
        raise CallbackError(f"{type(error).__name__}: {error}") from error


class Answers(msgspec.Struct, frozen=True):
    """The program's callbacks. Without a callback approvals are refused, and questions are left to the model."""

    approve: Approve | None = None
    answer: Answer | None = None
    timeout_s: float | None = None
    """Timeout of a callback in seconds."""

    async def approval(self, event: ApprovalRequested, warn: Warn) -> ApprovalAnswer:
        """Return the decisions on a request; a failure of the callback becomes a warning and a refusal."""
        if self.approve is None:
            return ApprovalAnswer(event.request_id)
        decisions = [await self._decision(self.approve, item, event.agent_name, warn) for item in event.items]
        return ApprovalAnswer(event.request_id, tuple(decisions))

    async def reply(self, event: QuestionAsked, warn: Warn) -> QuestionAnswer:
        """Return the answer to a question; without an answer the turn stops if that is an option."""
        said: str | None = None
        if self.answer is not None:
            asked = Question(event.question, event.options, event.server, event.agent_name)
            try:
                said = _of_type(await called(self.answer, asked, self.timeout_s), str)
            except CallbackError as error:
                warn(f"answer= failed, so the question has no answer: {error}")
        if said is None:
            said = event.refusal or _NOBODY
        return QuestionAnswer(event.request_id, said)

    async def _decision(self, approve: Approve, item: ApprovalItem, agent_name: str, warn: Warn) -> Decision:
        try:
            said = _of_type(await called(approve, _call(item, agent_name), self.timeout_s), Allow | Deny)
            if isinstance(said, Deny):
                return Decision(item.call_id, allow=False, feedback=said.message)
            return Decision(item.call_id, allow=True, grant=_grant(said, item), scope=said.scope)
        except CallbackError as error:
            warn(f"approve= failed, so {item.label or item.tool} {item.title} is refused: {error}")
            return Decision(item.call_id, allow=False)


def _call(item: ApprovalItem, agent_name: str) -> ApprovalCall:
    try:
        arguments = decode_json(item.arguments or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CallbackError(f"the arguments of the call cannot be read: {error}") from error
    return ApprovalCall(
        tool=item.tool,
        arguments=arguments,
        title=item.title,
        preview=item.preview,
        preview_kind=item.preview_kind,
        reason=item.reason,
        rule=item.rule,
        grant=item.grant,
        risk=item.risk,
        reach=item.reach,
        agent_name=agent_name,
    )


def _grant(said: Allow, item: ApprovalItem) -> str:
    """Return the rule to save."""
    from agent_cli.policy.rules.rule import RuleError, join_rules, parse_rule, split_rules

    if said.remember and not item.grant:
        raise CallbackError("no rule can be saved for this call; leave out `remember`")
    try:
        rules = split_rules(said.remember) if said.remember else ()
        return join_rules(parse_rule(rule, "allow", "remember").text for rule in rules)
    except RuleError as error:
        raise CallbackError(f"remember={said.remember!r}: {error}") from error


def _sound(said: Any) -> Any:
    """Return what a callback says, if the fields of an `Allow` or `Deny` have values of their types; nothing else
    has checked them.

    Raises:
        ValidationError: one has not.
    """
    return msgspec.convert(msgspec.structs.asdict(said), type(said)) if isinstance(said, Allow | Deny) else said


def _of_type(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise CallbackError(f"it returned {type(value).__name__}, not {getattr(kind, '__name__', kind)}")
    return value

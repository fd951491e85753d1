"""A tool call on its way from the model to its result: its actions and the policy's verdict on them, the decisions
of hooks and the user, and results that need no tool."""

import contextlib
from collections.abc import Hashable
from typing import Any, Literal

import msgspec

from agent_cli.policy.authorize import combine
from agent_cli.policy.rules.rule import split_rules
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    CallExternal,
    Deny,
    Reach,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
    exceeds,
)
from agent_cli.protocol.events import ApprovalItem, ToolCallFinished
from agent_cli.protocol.messages import ResultKind, ToolCall, ToolResult, ToolStatus, new_id
from agent_cli.tools.kit.base import Preview, Tool, ToolContext, ToolError, ToolOutcome
from agent_cli.tools.registry import ParsedCall, Registry

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
    title: str, tool: Tool, params: Any, context: ToolContext, permissions: Permissions, revision: Hashable
) -> AuthorizedCall:
    """Determine the actions of a call from its parameters, and the policy's verdict on them.

    Raises:
        Exception: any error the tool raises while computing its actions.
    """
    actions = tuple(tool.actions(params, context))
    verdicts = [permissions.authorize(action) for action in actions]
    may_tell = all(
        isinstance(verdict, Allow)
        for action, verdict in zip(actions, verdicts, strict=True)
        if isinstance(action, ReadPath)
    )
    return AuthorizedCall(title, actions, combine(verdicts), may_tell, revision)


def asks_for_more(verdict: Verdict, seen: Verdict) -> bool:
    """Return True if a call needs a new approval since the user saw its verdict: another rule asks, or its reach
    is wider."""
    if not (isinstance(verdict, Ask) and isinstance(seen, Ask)):
        return False
    is_same_rule = verdict.rule == seen.rule or (verdict.by_mode and seen.by_mode)
    return not is_same_rule or exceeds(verdict.reach, seen.reach)


LONGEST_REMAINS = 4_000
"""Number of characters of a stopped call's output to keep."""


class HookRuling(msgspec.Struct, frozen=True):
    """The decision of user hooks on a call that they do not refuse."""

    decision: Literal["allow", "ask", "deny", "changed"]
    """`changed`: hooks have changed it and say no more, so that only a rule allows it."""
    rule: str
    reason: str

    def applied_to(self, verdict: Verdict) -> Verdict:
        """Return the resulting verdict. A hook may require approval by the user, and may answer a question that a
        saved rule could answer. It cannot loosen anything else."""
        if isinstance(verdict, Allow) and self.decision in (("ask", "changed") if verdict.by_mode else ("ask",)):
            return Ask(self.rule, self.reason, reach=verdict.reach)
        if self.decision != "allow" and isinstance(verdict, Ask):
            return msgspec.structs.replace(verdict, reason=f"{verdict.reason}; {self.reason}")
        if self.decision == "allow" and isinstance(verdict, Ask) and verdict.grant and verdict.reach == "inside":
            return Allow(self.rule)
        return verdict


class UserDecision(msgspec.Struct):
    """What the user saw of a call and what they decided."""

    preview: Preview | None = None
    approved_as: tuple[str, AuthorizedCall] | None = None
    """The arguments and actions that they have allowed."""
    edited: bool = False
    """They changed the arguments."""
    hunks: tuple[int, ...] | None = None
    """Numbers of the hunks that they accepted; None for all."""
    waited_s: float = 0.0
    """Seconds spent waiting for them."""
    feedback: str = ""
    """Their words when they refused to let it run outside the sandbox."""


class HookDecisions(msgspec.Struct):
    """What user hooks said about a call."""

    ruling: HookRuling | None = None
    seen_arguments: str = ""
    """The arguments that they last saw."""
    contexts: tuple[str, ...] = ()
    """Text that they add to its result."""
    rewritten_by: str = ""
    """The hook that changed its arguments; empty if none did."""
    rewrite: str = ""
    """Diff of the changes that they made or requested in its arguments."""


class RunOutput(msgspec.Struct):
    """What a call has left besides the outcome of its tool."""

    printed: str = ""
    """The end of its output so far."""
    kept: str = ""
    """A line on how to restore what it might discard, for its result."""
    final: str = ""
    """Final text of the turn, if this call said that the task is done."""
    inserted_source: str = ""
    """Source of untrusted text printed by commands within its result."""


class PendingCall:
    """A tool call in progress: its meaning, the policy's verdict, the decisions on it, and its result."""

    def __init__(self, call: ToolCall, turn_id: str, *, is_inserted: bool = False) -> None:
        self.call = call
        self.turn_id = turn_id
        """The turn in which the model made the call."""
        self.is_inserted = is_inserted
        """True if its output is inserted into a text, so that its result is not a message of the conversation."""
        self.arguments = call.arguments
        """The arguments of the call, perhaps edited by the user or a hook."""
        self.tool: Tool | None = None
        self.params: Any = None
        self.understood: dict[str, Any] = {}
        """The arguments as the tool understands them, under its own names."""
        self.authorized = AuthorizedCall(call.name)
        """The actions and the verdict, as last judged."""
        self.user = UserDecision()
        self.hooks = HookDecisions()
        self.output = RunOutput()
        self.result: ToolResult | None = None

    def understand(self, read: ParsedCall) -> None:
        """Take over what the registry read in the arguments."""
        self.tool, self.params, self.understood, self.arguments = read

    @property
    def name(self) -> str:
        """Name of the tool that runs, which a call may give in its arguments; the call's own name if the tool is
        unknown."""
        return self.call.name if self.tool is None else self.tool.name

    def approve(self, hunks: tuple[int, ...] | None = None) -> None:
        """Record that the user allows it as it is now, or some hunks of it."""
        self.user.approved_as, self.user.hunks = (self.arguments, self.authorized), hunks

    def forget_approval(self) -> None:
        """Forget that the user has allowed it."""
        self.user.approved_as = self.user.hunks = None

    @property
    def approved(self) -> bool:
        """True if the user has allowed it as it is now. An approval lapses if the arguments or the actions change,
        such as the folder of a command after a `cd`, or if the policy asks for more."""
        if self.user.approved_as is None:
            return False
        arguments, seen = self.user.approved_as
        is_same = arguments == self.arguments and seen.actions == self.authorized.actions
        return is_same and not asks_for_more(self.authorized.verdict, seen.verdict)

    @property
    def has_lapsed(self) -> bool:
        """True if the user has allowed it as it was, and it has changed since."""
        return self.user.approved_as is not None and not self.approved

    @property
    def awaits_answer(self) -> bool:
        """True if the user must be asked and has not allowed it yet."""
        return self.result is None and not self.approved and isinstance(self.authorized.verdict, Ask)

    @property
    def may_run(self) -> bool:
        """True if it may run without asking."""
        return isinstance(self.authorized.verdict, Allow)

    @property
    def adjusted(self) -> str:
        """How the user changed the call before allowing it: `edited`, `1 of 2 hunks`; empty if unchanged."""
        hunks, preview = self.user.hunks, self.user.preview
        if hunks is None or preview is None:
            return "edited" if self.user.edited else ""
        return f"{len(hunks)} of {_hunks(preview)} hunks"

    @property
    def succeeded(self) -> bool:
        """True if it ran successfully."""
        return self.result is not None and self.result.status == "ok"

    @property
    def result_kind(self) -> ResultKind:
        """Part of its result that a front end shows."""
        return "text" if self.tool is None else self.tool.result_kind

    @property
    def label(self) -> str:
        """Display name of the tool."""
        return "" if self.tool is None else self.tool.label


def cannot_work(pending: PendingCall, error: Exception) -> ToolResult:
    """Return the result of a call whose preview failed before approval. It must reveal no more of a file than may
    be read without asking."""
    if not pending.authorized.may_tell:
        return failure(
            pending, "failed", "This edit cannot be made as requested. Read the file first to be told why."
        )
    failed = failure(pending, "failed", describe(error), display=shown_for(error))
    return msgspec.structs.replace(failed, seen=files_shown_by(error))


def stopped_outcome(pending: PendingCall) -> ToolOutcome:
    """Return the outcome of a stopped call, with the output so far."""
    text = "Stopped before it ended; it may have had effects."
    if pending.output.printed.strip():
        text = f"{text} It had printed:\n{pending.output.printed}"
    return ToolOutcome(text=text, ok=False, command=pending.authorized.command)


def failure(pending: PendingCall, status: ToolStatus, text: str, rule: str = "", display: str = "") -> ToolResult:
    """Return the result of a call that did not run: `text` is the reason, `display` the part of it for the
    user."""
    if hook := pending.hooks.rewritten_by:
        text = f"[The user's hook {hook} changed this call to: {pending.authorized.title}]\n{text}"
    return ToolResult(
        id=new_id("result"),
        call_id=pending.call.id,
        tool=pending.call.name,
        status=status,
        text=text,
        display=display,
        rule=rule,
    )


def denied(pending: PendingCall, verdict: Deny) -> ToolResult:
    """Return the result of a call that a rule or the mode denies."""
    said = f"Denied: {verdict.reason}. Decided by: {verdict.rule}."
    return failure(pending, "denied", f"{said} Nothing was run.", verdict.rule, said)


def refused_unattended(pending: PendingCall, verdict: Ask) -> ToolResult:
    """Return the result of a call that needs approval when no user is present, and what would allow it."""
    rules = [f"`{rule}`" for rule in split_rules(verdict.grant) if rule]
    ways = [f"the rule{'s' * bool(rules[1:])} {' and '.join(rules)} under permissions.allow"] if rules else []
    ways += ["another --mode"] if verdict.by_mode else []
    allowed = f"It would be allowed by {' or '.join(ways)}. " if ways else "Only the user can allow it. "
    why = f"{verdict.reason}, and nobody is there to approve it (decided by {verdict.rule}). {allowed}".strip()
    advice = "Do not try to work around this; continue without it, or say what the user should allow."
    return failure(pending, "denied", f"Denied: {why} Nothing was run. {advice}", verdict.rule, display=why)


def finished_event(result: ToolResult, title: str, tool: Tool | None, adjusted: str = "") -> ToolCallFinished:
    """Return the event for a result, with the display settings of its tool."""
    return ToolCallFinished(
        call_id=result.call_id,
        tool=tool.name if tool else result.tool,
        title=title,
        status=result.status,
        text=result.text,
        display=result.display,
        duration_s=result.duration_s,
        changes=result.changes,
        command=result.command,
        exit_code=result.exit_code,
        rule=result.rule,
        adjusted=adjusted,
        result_kind=tool.result_kind if tool else "text",
        label=tool.label if tool else "",
        counted=tool.counted if tool else "",
    )


def earlier_event(registry: Registry, result: ToolResult, call: ToolCall) -> ToolCallFinished:
    """Return the event for the result of an earlier turn. Its title is the tool's name if the tool cannot parse
    the call."""
    tool, title = registry.get(call.name), ""
    with contextlib.suppress(Exception):  # raised by a plug-in tool, or by arguments that never ran
        title = tool.title(registry.parse(call.name, call.arguments)[1]) if tool else ""
    return finished_event(result, title or call.name, tool)


def approval_item(pending: PendingCall, risk: str, is_confined: bool, is_edit: bool) -> ApprovalItem:
    """Return the approval item to show the user."""
    verdict, preview = pending.authorized.verdict, pending.user.preview
    assert pending.tool is not None and preview is not None and isinstance(verdict, Ask)
    again = "asked again, because an earlier call has changed what it does" if pending.has_lapsed else ""
    reason = "; ".join(filter(None, (verdict.reason, preview.note, again)))
    return ApprovalItem(
        call_id=pending.call.id,
        tool=pending.name,
        title=pending.authorized.title,
        preview=preview.text,
        preview_kind=preview.kind,
        reason=reason,
        rule=verdict.rule,
        grant=verdict.grant,
        arguments=pending.arguments,
        editable=pending.tool.editable,
        risk=risk,
        reach=pending.authorized.reach if is_confined and pending.authorized.command else "inside",
        hunks=_hunks(preview),
        label=pending.label,
        folder=preview.folder,
        is_edit=is_edit,
        rewrite=pending.hooks.rewrite,
    )


def _hunks(preview: Preview) -> int:
    """Return the number of selectable hunks; 0 if there is only one."""
    shown = preview.text.split("\n")
    is_whole = not any(line.startswith("…") for line in shown)
    found = sum(line.startswith("@@ ") for line in shown) if preview.by_hunk and is_whole else 0
    return found if found > 1 else 0


def describe(error: Exception) -> str:
    """Describe a tool's failure in words for the model."""
    if isinstance(error, ToolError):
        return str(error)
    return f"The tool failed unexpectedly: {type(error).__name__}: {error}"


def shown_for(error: Exception) -> str:
    """Return what the user sees of a failure instead of its description; empty if that is enough."""
    return error.display if isinstance(error, ToolError) else ""


def files_shown_by(error: Exception) -> dict[str, str]:
    """Return path → hash of the files whose current contents a failure showed the model."""
    return dict(error.seen) if isinstance(error, ToolError) else {}

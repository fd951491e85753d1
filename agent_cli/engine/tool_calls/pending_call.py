"""One call on its way from the model to its result, and the results that need no tool."""

from typing import Any, Literal

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Verdict
from agent_cli.protocol.events import ApprovalItem, ToolCallFinished
from agent_cli.protocol.messages import ResultKind, ToolCall, ToolResult, ToolStatus, new_id
from agent_cli.tools.kit.base import Preview, Tool, ToolError, ToolOutcome

from .authorized_call import AuthorizedCall

LONGEST_REMAINS = 4_000
"""Characters kept of what a stopped call had printed."""


class HookRuling(msgspec.Struct, frozen=True):
    """What hooks of the user's say to a call that they do not refuse."""

    decision: Literal["allow", "ask", "deny"]
    rule: str
    reason: str

    def applied_to(self, verdict: Verdict) -> Verdict:
        """Return the verdict that holds: a hook may have the user asked, and may answer a question that a saved
        rule could answer; nothing else is loosened."""
        if self.decision == "ask" and isinstance(verdict, Allow):
            return Ask(self.rule, self.reason, reach=verdict.reach)
        if self.decision == "ask" and isinstance(verdict, Ask):
            return msgspec.structs.replace(verdict, reason=f"{verdict.reason}; {self.reason}")
        if self.decision == "allow" and isinstance(verdict, Ask) and verdict.grant and verdict.reach == "inside":
            return Allow(self.rule)
        return verdict


class PendingCall:
    """One call on its way: what it means, what the policy says, what the user said."""

    def __init__(self, call: ToolCall, turn_id: str) -> None:
        self.call = call
        self.arguments = call.arguments
        """Those of the call, or what the user has made of them."""
        self.turn_id = turn_id
        """The turn in which the model made it."""
        self.tool: Tool | None = None
        self.params: Any = None
        self.authorized = AuthorizedCall(call.name)
        """What it would do and what the policy says, as it was judged last."""
        self.final = ""
        """What the turn ends with, once it has said that the task is done."""
        self.printed = ""
        """The end of what it has shown so far."""
        self.preview: Preview | None = None
        self.approved = False
        self.edited = False
        self.ruling: HookRuling | None = None
        """What hooks say to it."""
        self.hooked_arguments = ""
        """The arguments that hooks were asked about last."""
        self.hook_contexts: tuple[str, ...] = ()
        """What hooks add to its result."""
        self.rewritten_by = ""
        """The hook that changed its arguments; empty when none did."""
        self.rewrite = ""
        """Diff of what hooks changed in its arguments, or wanted to."""
        self.hunks: tuple[int, ...] | None = None
        """Which hunks of its change the person took over; None for all."""
        self.waited_s = 0.0
        """How long the person was waited for over it."""
        self.feedback = ""
        """The user's words when they did not let it out of the sandbox."""
        self.is_inserted = False
        """Whether its output goes into a text, so that its result is no message of the conversation."""
        self.inserted_source = ""
        """Where untrusted text came from that commands within its result printed."""
        self.result: ToolResult | None = None

    @property
    def name(self) -> str:
        """The tool that runs, which a call may name in its arguments; the call's own name when it is unknown."""
        return self.call.name if self.tool is None else self.tool.name

    @property
    def awaits_answer(self) -> bool:
        """Whether the user has to be asked, and has not allowed it."""
        return self.result is None and not self.approved and isinstance(self.authorized.verdict, Ask)

    @property
    def may_run(self) -> bool:
        """Whether nobody has to be asked."""
        return isinstance(self.authorized.verdict, Allow)

    @property
    def adjusted(self) -> str:
        """How the user changed the call before allowing it: `edited`, `1 of 2 hunks`; empty when they did not."""
        if self.hunks is None or self.preview is None:
            return "edited" if self.edited else ""
        return f"{len(self.hunks)} of {_hunks(self.preview)} hunks"

    @property
    def succeeded(self) -> bool:
        """Whether it was done as asked."""
        return self.result is not None and self.result.status == "ok"

    @property
    def result_kind(self) -> ResultKind:
        """What of its result a front end shows."""
        return "text" if self.tool is None else self.tool.result_kind

    @property
    def label(self) -> str:
        """What the tool does, in the word shown to people."""
        return "" if self.tool is None else self.tool.label


def cannot_work(pending: PendingCall, error: Exception) -> ToolResult:
    """Return the result of a call whose preview failed, before anybody was asked: it may say no more of a file
    than what may be read without a question."""
    if not pending.authorized.may_tell:
        return failure(
            pending, "failed", "This edit cannot be made as requested. Read the file first to be told why."
        )
    return msgspec.structs.replace(failure(pending, "failed", describe(error)), seen=files_shown_by(error))


def stopped_outcome(pending: PendingCall) -> ToolOutcome:
    """Return the outcome of a call that was stopped: what it had shown is kept."""
    text = "Stopped before it ended; it may have had effects."
    if pending.printed.strip():
        text = f"{text} It had printed:\n{pending.printed}"
    return ToolOutcome(text=text, ok=False, command=pending.authorized.command)


def failure(pending: PendingCall, status: ToolStatus, text: str, rule: str = "", display: str = "") -> ToolResult:
    """Return a result without a run: the reason is the text; `display` is the part of it that is for people."""
    return ToolResult(
        id=new_id("result"),
        call_id=pending.call.id,
        tool=pending.call.name,
        status=status,
        text=text,
        display=display,
        rule=rule,
    )


def refused_unattended(pending: PendingCall, verdict: Ask) -> ToolResult:
    """Return the result of a call that needed a person where none is: what would allow it."""
    ways = [f"the rule `{verdict.grant}` under permissions.allow"] if verdict.grant else []
    ways += ["another --mode"] if verdict.by_mode else []
    allowed = f"It would be allowed by {' or '.join(ways)}. " if ways else "Only the user can allow it. "
    why = f"{verdict.reason}, and nobody is there to approve it (decided by {verdict.rule}). {allowed}".strip()
    advice = "Do not try to work around this; continue without it, or say what the user should allow."
    return failure(pending, "denied", f"Denied: {why} {advice}", verdict.rule, display=why)


def finished_event(result: ToolResult, title: str, tool: Tool | None, adjusted: str = "") -> ToolCallFinished:
    """Announce a result, with what its tool declares of how it is shown."""
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


def approval_item(pending: PendingCall, risk: str, is_confined: bool, is_edit: bool) -> ApprovalItem:
    """Return what the person is shown."""
    assert pending.tool is not None and pending.preview is not None and isinstance(pending.authorized.verdict, Ask)
    reason = "; ".join(filter(None, (pending.authorized.verdict.reason, pending.preview.note)))
    return ApprovalItem(
        call_id=pending.call.id,
        tool=pending.name,
        title=pending.authorized.title,
        preview=pending.preview.text,
        preview_kind=pending.preview.kind,
        reason=reason,
        rule=pending.authorized.verdict.rule,
        grant=pending.authorized.verdict.grant,
        arguments=pending.arguments,
        editable=pending.tool.editable,
        risk=risk,
        reach=pending.authorized.reach if is_confined and pending.authorized.command else "inside",
        hunks=_hunks(pending.preview),
        label=pending.label,
        folder=pending.preview.folder,
        is_edit=is_edit,
        rewrite=pending.rewrite,
    )


def _hunks(preview: Preview) -> int:
    """Return how many hunks can be chosen from; one is no choice."""
    shown = preview.text.split("\n")
    is_whole = not any(line.startswith("…") for line in shown)
    found = sum(line.startswith("@@ ") for line in shown) if preview.by_hunk and is_whole else 0
    return found if found > 1 else 0


def describe(error: Exception) -> str:
    """Return a tool's failure in words for the model."""
    if isinstance(error, ToolError):
        return str(error)
    return f"The tool failed unexpectedly: {type(error).__name__}: {error}"


def files_shown_by(error: Exception) -> dict[str, str]:
    """Return the files whose present state a failure has shown the model, with their hashes."""
    return dict(error.seen) if isinstance(error, ToolError) else {}

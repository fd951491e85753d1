"""Authorization of tool calls: the actions of a call, the policy's verdict, and the user's decision.

The gate decides whether a call may run. What was shown is what runs: paths and changes are derived again just
before.
"""

import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.policy.rules.rule import RuleError, split_rules
from agent_cli.protocol.actions import Ask, Deny, Reach, Verdict
from agent_cli.protocol.events import ApprovalItem
from agent_cli.protocol.messages import ToolResult, new_id
from agent_cli.protocol.operations import Decision
from agent_cli.protocol.records import Granted
from agent_cli.session.event_bus import TurnScope
from agent_cli.store.session_file import StoreError
from agent_cli.tools.kit.base import NamesTool, ToolContext, ToolError, ToolOutcome

from .call_rules import TurnRules
from .pending_call import (
    PendingCall,
    approval_item,
    asks_for_more,
    authorize_call,
    cannot_work,
    denied,
    describe,
    failure,
    refused_unattended,
)

if TYPE_CHECKING:
    from ..services import SessionServices

_UNASKED = ("auto-edit", "yolo")
"""Modes in which the model may change files without a question."""
_OUTPUT_LINES, _LINE_CHARS = 6, 300
"""Limits of the output that an approval to run a blocked command again shows."""


class ApprovalGate:
    """Decides on the calls of one turn."""

    def __init__(self, services: "SessionServices", rules: TurnRules, scope: TurnScope) -> None:
        self._session = services.session
        self._registry = services.registry
        self._permissions = services.permissions
        self._approvals = services.approvals
        self._parent = services.parent
        self._context = services.tools
        self._session_hooks = services.session_hooks
        self._undo = services.undo
        self._disk = services.settings.session_path
        self._rules = rules
        self._scope = scope
        self._settled = 0
        """Number of calls decided one by one."""

    def judge(self, pending: PendingCall) -> None:
        """Determine the actions of a call and the policy's verdict. If the tool fails at that, its error becomes
        the result."""
        assert pending.tool is not None
        try:
            title = pending.tool.title(pending.params) or pending.tool.name
            pending.authorized = msgspec.structs.replace(pending.authorized, title=title)
            pending.authorized = authorize_call(
                title, pending.tool, pending.params, self._context, self._permissions, self._revision()
            )
        except Exception as error:
            pending.result = failure(pending, "failed", describe(error))
            return
        if pending.hooks.ruling is not None:
            verdict = pending.hooks.ruling.applied_to(pending.authorized.verdict)
            pending.authorized = msgspec.structs.replace(pending.authorized, verdict=verdict)

    def _revision(self) -> Hashable:
        """Return what verdicts depend on. While a call was decided and ran, everything may have changed."""
        return self._permissions.revision(), self._settled

    def _bring_up_to_date(self, pending: PendingCall) -> None:
        if pending.authorized.revision != self._revision():
            self.judge(pending)

    def still_allowed(self, prepared: list[PendingCall]) -> bool:
        """Return True if read-only calls may still run: an earlier call may have changed what a path refers to."""
        for pending in prepared:
            if pending.result is None:
                self._bring_up_to_date(pending)
        return all(pending.result is not None or pending.may_run for pending in prepared)

    async def decide(self, pending: PendingCall, rest: list[PendingCall]) -> None:
        """Decide whether a call may run, asking the user if necessary. A refusal becomes the call's result."""
        self._bring_up_to_date(pending)
        self._settled += 1
        if pending.result is None:
            pending.result = self.out_of_order(pending)
        if pending.result is not None:
            return
        match pending.authorized.verdict:
            case Deny() as verdict:
                pending.result = denied(pending, verdict)
            case Ask() if pending.awaits_answer:
                if self._approvals.interactive:
                    await self._ask_until_settled(pending, rest)
                else:
                    pending.result = refused_unattended(pending, pending.authorized.verdict)
            case _:
                pass

    async def _ask_until_settled(self, pending: PendingCall, rest: list[PendingCall]) -> None:
        before = self._permissions.revision()
        while pending.awaits_answer:
            await self._ask(rest)
        if pending.result is None and self._permissions.revision() != before:
            self.judge(pending)  # the mode may have become stricter since the question was asked
            if isinstance(verdict := pending.authorized.verdict, Deny):
                pending.result = denied(pending, verdict)

    def out_of_order(self, pending: PendingCall) -> ToolResult | None:
        """Return the failure of a call that a rule on the order or number of calls forbids now; None if none
        does."""
        refusal = self._rules.refusal(pending.name, pending.authorized.actions)
        if refusal is None:
            return None
        return failure(pending, "failed", f"Not now: {refusal.reason}. Decided by: {refusal.rule}.", refusal.rule)

    def save_ahead(self, calls: Sequence[PendingCall]) -> None:
        """Start saving the workspace while the model still reads, if the mode lets it change files unasked."""
        if self._permissions.mode in _UNASKED and all(pending.authorized.reads_only for pending in calls):
            self._undo.prepare(self._disk)

    async def _ask(self, rest: list[PendingCall]) -> None:
        """Ask for the first call and, in the same batch, for all later ones that can already be shown."""
        batch: list[PendingCall] = []
        written: set[str] = set()
        for pending in rest:
            if pending.awaits_answer:
                if written.intersection(pending.authorized.writes) or not await self._show(
                    pending, first=not batch
                ):
                    break
                batch.append(pending)
            written.update(pending.authorized.writes)
        batch = [pending for pending in batch if pending.result is None]
        if not batch:
            return
        if not all(pending.authorized.reads_only for pending in batch):
            self._undo.prepare(self._disk)
        items = tuple(map(self._item, batch))
        decisions = await self._ask_user(items, batch[0])
        for pending in batch:
            self._apply(pending, decisions.get(pending.call.id) or Decision(pending.call.id, allow=False))

    async def _ask_user(self, items: tuple[ApprovalItem, ...], over: PendingCall) -> dict[str, Decision]:
        """Ask the user about calls; the waiting time is recorded for `over`. Prompt hooks process the user's words
        to the model, as for all guidance."""
        asked_at = time.monotonic()
        try:
            decisions = await self._approvals.ask(items, self._scope)
        finally:
            over.user.waited_s += time.monotonic() - asked_at
        hooks = self._session_hooks
        said = dict.fromkeys(each.feedback for each in decisions.values() if each.feedback.strip())
        if hooks is None or not said:
            return decisions
        passed = {words: await hooks.on_words(words, self._scope) for words in said}
        return {
            call_id: msgspec.structs.replace(each, feedback=passed.get(each.feedback, each.feedback))
            for call_id, each in decisions.items()
        }

    def _item(self, pending: PendingCall) -> ApprovalItem:
        is_edit = self._permissions.is_workspace_edit(pending.authorized.actions)
        risk = self._risk(pending, pending.authorized.reach)
        return approval_item(pending, risk, self._permissions.is_confining, is_edit)

    async def _show(self, pending: PendingCall, *, first: bool) -> bool:
        """Prepare the preview for the user. A call that cannot work is answered without asking."""
        assert pending.tool is not None
        try:
            pending.user.preview = await pending.tool.preview(pending.params, self._preview_context(pending))
        except Exception as error:  # a tool's own fault must affect only its own call
            if not first:
                return False
            pending.result = cannot_work(pending, error)
        return True

    def _apply(self, pending: PendingCall, decision: Decision) -> None:
        if not decision.allow:
            words = decision.feedback.strip()
            said = f" They said: {decision.feedback}" if words else ""
            shown = f'denied: "{words}"' if words else "denied"
            pending.result = failure(pending, "denied", f"The user refused this call.{said}", "the user", shown)
            return
        if decision.arguments is not None and decision.arguments != pending.arguments:
            seen = pending.authorized.verdict
            self._replace(pending, decision.arguments)
            if asks_for_more(pending.authorized.verdict, seen):
                return  # the edited call asks for more than the user saw: ask again
        if decision.grant and pending.result is None:
            if not self._add_grant(decision, pending.authorized.verdict):
                return  # a rule that cannot be saved is no approval: ask again
            self.judge(pending)
            if isinstance(pending.authorized.verdict, Ask):
                self._scope.notice(f"{decision.grant} does not cover this call: it is allowed this once.")
        pending.approve(decision.hunks)

    def _risk(self, pending: PendingCall, reach: Reach) -> str:
        from agent_cli.policy.risk import risk

        policy = self._permissions.policy()
        risks = (risk(action, policy, is_confined=reach != "outside") for action in pending.authorized.actions)
        return "; ".join(dict.fromkeys(filter(None, risks)))

    async def is_as_approved(self, pending: PendingCall) -> bool:
        """Return True if a call still matches what the user saw: the same paths, the same change."""
        assert pending.tool is not None
        if tuple(pending.tool.actions(pending.params, self._context)) != pending.authorized.actions:
            return False
        if not pending.approved or pending.user.edited or pending.user.preview is None:
            return pending.user.hunks is None or pending.approved  # hunks are those of what the user saw
        return (
            await pending.tool.preview(pending.params, self._preview_context(pending))
        ).text == pending.user.preview.text

    def _preview_context(self, pending: PendingCall) -> ToolContext:
        """Return the context for a preview, restricted to the paths for which the call was judged."""
        leaves = pending.authorized.reach == "outside" and self._permissions.is_confining
        return msgspec.structs.replace(self._context, leaves=leaves, places=pending.authorized.places)

    def _replace(self, pending: PendingCall, arguments: str) -> None:
        """Apply the user's edit of a call and judge it again; deny rules still apply."""
        try:
            named = isinstance(self._registry.get(pending.call.name), NamesTool)  # its arguments name the tool
            pending.understand(self._registry.read(pending.call.name if named else pending.name, arguments))
        except ToolError as error:
            pending.result = failure(pending, "failed", f"The user's edit could not be read: {error}")
            return
        pending.user.edited, pending.hooks.ruling = True, None
        self.judge(pending)

    def _add_grant(self, decision: Decision, verdict: Verdict) -> bool:
        """Save the rules. Return False if one is invalid or cannot be saved, or the call must be approved each
        time."""
        try:
            if isinstance(verdict, Ask) and not verdict.grant:
                raise RuleError("no rule can be saved for this call")
            rules = self._permissions.add_grants(split_rules(decision.grant), decision.scope)
        except (RuleError, StoreError) as error:
            self._scope.notice(f"The rule was not saved, and the call has not run: {error}")
            return False
        for rule in rules:
            self._session.append(Granted(id=new_id("grant"), rule=rule.text, scope=decision.scope))
            if self._parent is not None and decision.scope == "session":
                self._grant_above(self._parent, rule.text)
        where = {"session": "this session", "project": "this project", "user": "all projects"}[decision.scope]
        place = "" if decision.scope == "session" else f" – saved in {rules[0].place.partition(': rule ')[0]}"
        self._scope.notice(f"Allowed for {where}: {', '.join(rule.text for rule in rules)}{place}", "info")
        return True

    def _grant_above(self, parent: "SessionServices", rule: str) -> None:
        """Apply a rule for the session to the top-level conversation too, and thereby to all its sub-agents."""
        while parent.parent is not None:
            parent = parent.parent
        parent.permissions.add_grants((rule,), "session")
        parent.session.append(Granted(id=new_id("grant"), rule=rule, scope="session"))

    async def ask_for_reach(self, pending: PendingCall, outcome: ToolOutcome) -> Reach | None:
        """Ask whether a command that the sandbox blocked may run again, and return its wider reach; None if it may
        not. If only the network was blocked, the new reach is the network alone, still in the sandbox."""
        if not self._approvals.interactive or not pending.authorized.command:
            return None
        actions = pending.authorized.actions
        verdict = self._permissions.authorize_reach(actions, outcome.needs, outcome.blocked_hosts)
        if isinstance(verdict, Deny):
            return None
        assert pending.tool is not None
        shown = await pending.tool.preview(pending.params, self._preview_context(pending))
        where = "with the network" if outcome.needs == "network" else "outside the sandbox"
        twice = " Commands in it that already ran will run again." * self._permissions.repeats_changes(actions)
        item = ApprovalItem(
            call_id=pending.call.id,
            tool=pending.name,
            title=pending.authorized.title,
            preview=pending.authorized.command,
            preview_kind="command",
            reason=f"the sandbox blocked {outcome.blocked}; run it again, {where}?{twice}",
            rule="sandbox",
            grant=verdict.grant if isinstance(verdict, Ask) else "",
            arguments=pending.arguments,
            editable="",
            risk=self._risk(pending, outcome.needs),
            reach=outcome.needs,
            label=pending.label,
            folder=shown.folder,
            output=self._end_of(outcome.display),
        )
        decisions = await self._ask_user((item,), pending)
        decision = decisions.get(pending.call.id) or Decision(pending.call.id, allow=False)
        if not decision.allow:
            pending.user.feedback = decision.feedback.strip()
            return None
        if decision.grant and not self._add_grant(decision, verdict):
            return None
        return outcome.needs

    def _end_of(self, output: str) -> str:
        """Return the last lines of a command's output, masked before they are cut: a part of a secret would not be
        recognised."""
        if (redactor := self._context.redactor) is not None:
            output = redactor.mask(output, assignments=True)
        return "\n".join(line[:_LINE_CHARS] for line in output.split("\n")[-_OUTPUT_LINES:])

    def stays_confined(self, pending: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome of a command that failed because of the sandbox and is not run outside it."""
        if self._approvals.interactive:
            said = f" They said: {pending.user.feedback}" if pending.user.feedback else ""
            who = f"The user did not allow it.{said}"
        else:
            who = "No user is present to allow it; say in your final answer what the user should allow."
        note = f"[The sandbox blocked {outcome.blocked}. {who} Do not try to work around this.]"
        return msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")

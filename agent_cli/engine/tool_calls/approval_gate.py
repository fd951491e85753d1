"""What a call means, what the policy says to it, and what the person does: the middle of the one road.

It settles whether a call may run. What was shown is what runs: places and change are derived again just before.
"""

from typing import TYPE_CHECKING

import msgspec

from agent_cli.policy.authorize import together
from agent_cli.policy.rules.rule import RuleError
from agent_cli.protocol.actions import Allow, Ask, Deny, Reach, ReadPath, RunCommand, Verdict, WritePath
from agent_cli.protocol.events import ApprovalItem
from agent_cli.protocol.messages import ToolResult, new_id
from agent_cli.protocol.operations import Decision
from agent_cli.protocol.records import Granted
from agent_cli.session.turn_scope import TurnScope
from agent_cli.store.session_file import StoreError
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome

from .call_rules import TurnRules
from .pending_call import PendingCall, approval_item, cannot_work, describe, failure, refused_unattended

if TYPE_CHECKING:
    from ..services import SessionServices


class ApprovalGate:
    """Settles the calls of one turn."""

    def __init__(self, services: "SessionServices", rules: TurnRules, scope: TurnScope) -> None:
        self._session = services.session
        self._registry = services.registry
        self._permissions = services.permissions
        self._approvals = services.approvals
        self._context = services.tools
        self._rules = rules
        self._scope = scope

    def judge(self, job: PendingCall) -> None:
        """Derive from the parameters what the call would do, and what the policy says."""
        assert job.tool is not None
        try:
            job.title = job.tool.title(job.params) or job.call.name
            actions = job.tool.actions(job.params, self._context)
        except Exception as error:  # a tool's own fault must answer its own call only
            job.result = failure(job, "failed", describe(error))
            return
        job.writes = tuple(action.path for action in actions if isinstance(action, WritePath))
        job.command = next((action.command for action in actions if isinstance(action, RunCommand)), "")
        job.reads_only = all(isinstance(action, ReadPath) for action in actions)
        verdicts = [self._permissions.authorize(action) for action in actions]
        job.actions = actions
        job.verdict = together(verdicts)
        job.may_tell = all(
            isinstance(verdict, Allow)
            for action, verdict in zip(actions, verdicts, strict=True)
            if isinstance(action, ReadPath)
        )

    def still_allowed(self, jobs: list[PendingCall]) -> bool:
        """Judge readers again just before they run: an earlier call may have moved what a path means."""
        for job in jobs:
            if job.result is None:
                self.judge(job)
        return all(job.result is not None or isinstance(job.verdict, Allow) for job in jobs)

    async def decide(self, job: PendingCall, rest: list[PendingCall]) -> None:
        """Settle whether a call may run, asking the person if need be; a refusal becomes its result."""
        self.judge(job)  # a mode or a rule may have changed since, or an earlier call the files
        if job.result is None:
            job.result = self.out_of_order(job)
        if job.result is not None:
            return
        match job.verdict:
            case Deny(rule=rule, reason=reason):
                job.result = failure(job, "denied", f"Denied: {reason}. Decided by: {rule}.", rule)
            case Ask() if not job.approved and job.result is None:
                if self._approvals.interactive:
                    while isinstance(job.verdict, Ask) and not job.approved and job.result is None:
                        await self._ask(rest)
                else:
                    job.result = refused_unattended(job, job.verdict)
            case _:
                pass

    def out_of_order(self, job: PendingCall) -> ToolResult | None:
        """The result of a call that a rule about the order or number of calls does not let happen now."""
        refusal = self._rules.refusal(job.call.name, job.actions)
        if refusal is None:
            return None
        return failure(job, "failed", f"Not now: {refusal.reason}. Decided by: {refusal.rule}.", refusal.rule)

    async def _ask(self, rest: list[PendingCall]) -> None:
        """Ask for the first job, and in the same batch for all later ones that can be shown already."""
        batch: list[PendingCall] = []
        written: set[str] = set()
        for job in rest:
            if job.result is None and isinstance(job.verdict, Ask) and not job.approved:
                if written.intersection(job.writes) or not await self._show(job, first=not batch):
                    break
                batch.append(job)
            written.update(job.writes)
        batch = [job for job in batch if job.result is None]
        if not batch:
            return
        items = tuple(approval_item(job, self._risk(job), self._permissions.is_confining) for job in batch)
        decisions = await self._approvals.ask(items, self._scope)
        for job in batch:
            self._apply(job, decisions.get(job.call.id) or Decision(job.call.id, allow=False))

    async def _show(self, job: PendingCall, *, first: bool) -> bool:
        """Prepare what the person will see; a call that cannot work is answered without asking."""
        assert job.tool is not None
        try:
            job.preview = await job.tool.preview(job.params, self._shown_in(job))
        except Exception as error:  # a tool's own fault must answer its own call only
            if not first:
                return False
            job.result = cannot_work(job, error)
        return True

    def _apply(self, job: PendingCall, decision: Decision) -> None:
        if not decision.allow:
            said = f" They said: {decision.feedback}" if decision.feedback.strip() else ""
            job.result = failure(job, "denied", f"The user refused this call.{said}", "the user")
            return
        if decision.arguments is not None and decision.arguments != job.arguments:
            seen = job.verdict
            self._replace(job, decision.arguments)
            if _asks_for_more(job.verdict, seen):
                return  # what was seen is not what this would do: it is asked again
        if decision.grant and job.result is None:
            if not self._keep(decision):
                return  # a rule that cannot be kept is no yes: it is asked again
            self.judge(job)
            if isinstance(job.verdict, Ask):
                self._scope.notice(f"{decision.grant} does not cover this call: it is allowed this once.")
        job.approved, job.hunks = True, decision.hunks

    def _risk(self, job: PendingCall) -> str:
        from agent_cli.policy.risk import risk

        return "; ".join(dict.fromkeys(filter(None, map(risk, job.actions))))

    async def is_as_approved(self, job: PendingCall) -> bool:
        """Whether a call still means what the person has seen: the same places, the same change."""
        assert job.tool is not None
        if tuple(job.tool.actions(job.params, self._context)) != job.actions:
            return False
        if not job.approved or job.edited or job.preview is None:
            return True
        return (await job.tool.preview(job.params, self._shown_in(job))).text == job.preview.text

    def _shown_in(self, job: PendingCall) -> ToolContext:
        """The context for a preview: it keeps to the places the call was judged by."""
        leaves = job.reach == "outside" and self._permissions.is_confining
        return self._context.leaving(leaves).within(job.places)

    def _replace(self, job: PendingCall, arguments: str) -> None:
        """The user edited the call: judge what will really run; deny rules still hold."""
        try:
            job.tool, job.params = self._registry.parse(job.call.name, arguments)
        except ToolError as error:
            job.result = failure(job, "failed", f"The user's edit could not be read: {error}")
            return
        job.arguments, job.edited = arguments, True
        self.judge(job)

    def _keep(self, decision: Decision) -> bool:
        """Keep a rule; False when it cannot be read or saved."""
        try:
            rule = self._permissions.keep(decision.grant, decision.scope)
        except (RuleError, StoreError) as error:
            self._scope.notice(f"The rule was not saved, and the call has not run: {error}")
            return False
        self._session.append(Granted(id=new_id("grant"), rule=rule.text, scope=decision.scope))
        return True

    async def lets_out(self, job: PendingCall, outcome: ToolOutcome) -> Reach | None:
        """How much of the machine a command gets, that the sandbox has kept from something, when it runs again;
        None when it does not. The network alone, still in the sandbox, where that is all it was kept from."""
        if not self._approvals.interactive or not job.command:
            return None
        verdict = self._permissions.beyond(job.actions, outcome.needs, outcome.blocked_hosts)
        if isinstance(verdict, Deny):
            return None
        where = "with the network" if outcome.needs == "network" else "outside the sandbox"
        item = ApprovalItem(
            call_id=job.call.id, tool=job.call.name, title=job.title, preview=job.command, preview_kind="command",
            reason=f"the sandbox kept it from {outcome.blocked}; run it again, {where}?", rule="sandbox",
            grant=verdict.grant if isinstance(verdict, Ask) else "", arguments=job.call.arguments, editable="",
            risk=self._risk(job), reach=outcome.needs,
        )  # fmt: skip
        decisions = await self._approvals.ask((item,), self._scope)
        decision = decisions.get(job.call.id)
        if decision is None or not decision.allow:
            job.said = decision.feedback.strip() if decision else ""
            return None
        if decision.grant and not self._keep(decision):
            return None
        return outcome.needs

    def kept_in(self, job: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome of a command that failed because of the sandbox, and stays in it."""
        if self._approvals.interactive:
            said = f" They said: {job.said}" if job.said else ""
            who = f"The user does not let it.{said}"
        else:
            who = "Nobody is there to let it; say in the end what the user should allow."
        note = f"[The sandbox kept it from {outcome.blocked}. {who} Do not try to get round it.]"
        return msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")


def _asks_for_more(verdict: Verdict, seen: Verdict) -> bool:
    """Whether an edited call needs a question of its own: another rule asks, or it would reach further."""
    if not (isinstance(verdict, Ask) and isinstance(seen, Ask)):
        return False
    return (verdict.rule, verdict.reach) != (seen.rule, seen.reach)

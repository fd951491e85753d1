"""The one road to a side effect: parse → authorize → ask → checkpoint → run → record.

Calls are taken in the order the model made them: neighbouring readers run together, everything else alone.
Each call ends in exactly one recorded result, recorded in call order, whatever happens: a bad argument, a
refusal, an exception in a tool, a cancellation. A result that is recorded is never run again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.protocol.actions import Allow, Deny, Reach
from agent_cli.protocol.events import (
    PlanUpdated,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    ToolOutput,
    ToolSilent,
)
from agent_cli.protocol.messages import ToolCall, ToolResult, ToolStatus, new_id
from agent_cli.protocol.records import CallStarted
from agent_cli.session.history import UNKNOWN_OUTCOME, OpenCall
from agent_cli.session.placeholders import marked
from agent_cli.session.turn_scope import TurnScope
from agent_cli.tools.kit.base import Tool, ToolContext, ToolError, ToolOutcome, UnknownTool
from agent_cli.tools.session.finish import Finish

from ..context.recall_results import within_bound
from .approval_gate import ApprovalGate
from .loop_detector import LoopDetector
from .pending_call import LONGEST_REMAINS, PendingCall, describe, failure, shown_by, stopped

if TYPE_CHECKING:
    from ..services import SessionServices


class ToolRunner:
    """Runs the calls of one turn."""

    def __init__(self, services: "SessionServices", guard: LoopDetector, scope: TurnScope) -> None:
        self._session = services.session
        self._registry = services.registry
        self._permissions = services.permissions
        self._approvals = services.approvals
        self._undo = services.undo
        self._context = services.tools
        self._guard = guard
        self.rules = services.turn_rules()
        self._scope = scope
        self._mark = ""
        """The checkpoint after the last call that may have changed files; kept where a rule depends on that."""
        self._consent = ApprovalGate(services, self.rules, scope)

    async def run(self, calls: Sequence[ToolCall]) -> str:
        """Run calls to their results. The text the turn ends with when one of them said that the task is
        done, and none before it failed; else empty."""
        jobs = [self._prepare(call, self._scope.turn_id) for call in calls]
        await self._run(jobs)
        end = self._end(jobs)
        return end.final if end else ""

    async def _run(self, jobs: list[PendingCall]) -> None:
        for job in jobs:
            self._scope.emit(
                ToolCallRequested(
                    call_id=job.call.id, tool=job.call.name, title=job.title, arguments=job.call.arguments
                )
            )
        try:
            if any(job.command for job in jobs):
                await self._know_the_sandbox()
            for together, group in groupby(enumerate(jobs), key=lambda pair: self._group(*pair)):
                batch = [job for _, job in group]
                if end := self._end(jobs):
                    self._close(batch, f"Not run: `{end.call.name}`, called before it, has ended the turn.")
                elif together < 0 and self._consent.still_allowed(batch):
                    await self._run_together(batch)
                else:
                    for job in batch:
                        await self._run_alone(job, jobs)
        except BaseException:
            self._close(jobs, "Not run: the turn was stopped.")
            raise

    @staticmethod
    def _end(jobs: Sequence[PendingCall]) -> PendingCall | None:
        """The call that ends the turn: it said that the task is done, and it and all before it succeeded."""
        for job in jobs:
            if not job.succeeded:
                return None
            if job.final:
                return job
        return None

    def _group(self, index: int, job: PendingCall) -> int:
        """Neighbours with the same key form a group: readers that need no question share one. What may end the
        turn runs alone, since nothing behind it is to run."""
        if job.call.name == Finish.name or self.rules.ended_by(job.call.name, job.actions):
            return index
        together = job.result is not None or (job.reads_only and isinstance(job.verdict, Allow))
        return -1 if together else index

    async def _know_the_sandbox(self) -> None:
        """Measure the sandbox before the first command: what a verdict counts on must be so."""
        if await self._permissions.measured():
            self._scope.notice(
                f"The sandbox is not what it was at the last start; now: {self._permissions.level()}."
            )

    async def finish_open(self, calls: Sequence[OpenCall], *, same_input: bool) -> None:
        """After a crash: calls known to read run again, calls that had begun to act are reported as of
        unknown outcome, the others go the whole road, approval included, under the rules as they stood. With
        `same_input` the turn goes on with what the one before it was asked."""
        if self.rules.any and (calls or same_input):
            from .previous_calls import calls_made

            earlier = [record for record in self._session.whole() if record.turn_id != self._scope.turn_id]
            self.rules.goes_on_after(calls_made(earlier, self._registry, self._context))
        jobs = [self._prepare(each.call, each.turn_id) for each in calls]
        for job, each in zip(jobs, calls, strict=True):
            if each.started and not job.reads_only:
                job.result = failure(job, "unknown", UNKNOWN_OUTCOME)
        await self._run(jobs)
        if not same_input:
            self.rules.forget()

    def _prepare(self, call: ToolCall, turn_id: str) -> PendingCall:
        job = PendingCall(call, turn_id)
        try:
            job.tool, job.params = self._parsed(call)
            self._guard.saw_wellformed()
        except UnknownTool as error:
            job.result = failure(job, "failed", describe(error))
            return job
        except Exception as error:  # whatever is wrong with arguments is answered, never raised
            self._guard.saw_malformed(call.name)
            job.result = failure(job, "failed", describe(error))
            return job
        self._consent.judge(job)
        return job

    def _parsed(self, call: ToolCall) -> tuple[Tool, Any]:
        if not call.problem:
            return self._registry.parse(call.name, call.arguments)
        unknown = "" if call.name in self._registry.names else self._registry.unknown(call.name)
        raise ToolError(f"{call.problem} {unknown}".strip())

    async def _run_together(self, jobs: list[PendingCall]) -> None:
        tasks = [asyncio.create_task(self._execute(job)) for job in jobs if job.result is None]
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for job in jobs:
                if job.result is not None:
                    self._record(job, job.result)

    async def _run_alone(self, job: PendingCall, jobs: list[PendingCall]) -> None:
        if job.result is None:
            await self._consent.decide(job, jobs[jobs.index(job) :])
        try:
            if job.result is None:
                await self._execute(job)
        finally:
            if job.result is not None:
                self._record(job, job.result)

    async def _execute(self, job: PendingCall) -> None:
        """Run an allowed call; its result is always set, cancellation included."""
        assert job.tool is not None
        if isinstance(job.verdict, Deny):
            job.result = failure(job, "denied", f"Denied: {job.verdict.reason}.", job.verdict.rule)
            return
        if (late := self._consent.out_of_order(job)) is not None:
            job.result = late
            return
        self.rules.begins(job.call.name, job.actions)
        started = time.monotonic()
        status: ToolStatus = "cancelled"
        outcome: ToolOutcome | None = None
        try:
            if not job.reads_only and not await self._consent.is_as_approved(job):
                raise ToolError("What it concerns has changed since it was allowed; nothing was done. Look again.")
            if not job.reads_only:
                await self._cover(job, job.reach)
                self._session.append(
                    CallStarted(id=new_id("start"), call_id=job.call.id, turn_id=self._scope.turn_id)
                )
            self._scope.emit(ToolCallStarted(call_id=job.call.id, tool=job.call.name, title=job.title))
            outcome = await self._with_changes(job, await self._outcome(job))
            status = "ok" if outcome.ok else "failed"
            outcome = await self._after_edit(job, outcome)
            ending = self.rules.ended_by(job.call.name, job.actions) if outcome.ok else ""
            job.final = outcome.text if outcome.finished else f"Ended by the rule {ending}." if ending else ""
        except Exception as error:  # a tool that raises answers its own call and harms no sibling
            outcome = ToolOutcome(text=describe(error), ok=False, seen=shown_by(error))
            status = "failed"
        finally:
            job.result = self._result(
                job, outcome or stopped(job), status, time.monotonic() - started - job.waited_s
            )

    async def _outcome(self, job: PendingCall) -> ToolOutcome:
        """Run the tool; a command that failed because of the sandbox once more outside, if the person says so."""
        assert job.tool is not None
        kept = await self._named(job)
        outcome = await job.tool.run(job.params, self._view(job, job.reach).within(job.places))
        if kept:
            note = f"[Before it ran, {kept}]"
            outcome = msgspec.structs.replace(
                outcome, text=f"{outcome.text}\n{note}", display=f"{outcome.display}\n{note}".strip()
            )
        if not outcome.blocked:
            return outcome
        asked_at = time.monotonic()
        reach = await self._consent.lets_out(job, outcome)
        job.waited_s += time.monotonic() - asked_at
        if reach is None:
            return self._consent.kept_in(job, outcome)
        await self._cover(job, reach)
        again = await job.tool.run(job.params, self._view(job, reach).within(job.places))
        return msgspec.structs.replace(again, untrusted=again.untrusted or outcome.untrusted)

    async def _cover(self, job: PendingCall, reach: Reach) -> None:
        """Make sure that what a call is known to write can be undone; what cannot be is noted."""
        is_free = reach == "outside" or not self._permissions.is_confining
        beyond = self._permissions.beyond_undo(job.actions) if is_free else ()
        await self._undo.before_effect(self._scope, (*job.writes, *beyond))

    def _view(self, job: PendingCall, reach: Reach) -> ToolContext:
        """The context for one run of a call, with so much of the machine."""
        return self._context.for_call(
            job.call.id,
            emit=self._live(job),
            silent=self._silent(job),
            confine=partial(self._permissions.confinement, reach),
            ask=self._question if self._approvals.interactive else None,
            hunks=job.hunks,
            leaves=reach == "outside" and self._permissions.is_confining,
        )

    async def _named(self, job: PendingCall) -> str:
        """How to bring back what git keeps beside the files, where a command may throw it away."""
        if not job.command or "git" not in job.command:
            return ""
        from agent_cli.policy.shell.destructive import discards_git_state
        from agent_cli.workspace.git.discarded_state import named_state

        if not discards_git_state(job.command):
            return ""
        return await named_state(
            self._context.processes.run, self._context.shell.start, self._context.workspace.roots
        )

    async def _after_edit(self, job: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """Run what the rules want run after an edit; it is judged as every command is, and its end is added to
        what the model reads of the edit."""
        written = [*(job.writes if outcome.ok else ()), *self._places(outcome)]
        commands = list(self.rules.after_edit(written))
        if commands:
            await self._know_the_sandbox()
        for rule, command in commands:
            call = ToolCall(f"{job.call.id}.after", "shell", msgspec.json.encode({"command": command}).decode())
            after = self._prepare(call, job.turn_id)
            if after.result is None:
                await self._consent.decide(after, [after])
            try:
                done = after.result.text if after.result else (await self._outcome(after)).text
            except ToolError as error:  # the edit is done, whatever became of this
                done = str(error)
            note = f"[{rule.label}: {command}]\n{done}"
            outcome = msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")
        if commands and self.rules.follows_edits:  # what a formatter has changed is no edit of the next call
            self._mark, _ = await self._undo.changed_since(self._scope.turn_id, self._mark)
        return outcome

    async def _with_changes(self, job: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome with the files that the call has changed in truth, where a rule depends on that: a command
        does not say which it writes."""
        if job.reads_only or not self.rules.follows_edits:
            return outcome
        self._mark, found = await self._undo.changed_since(self._scope.turn_id, self._mark)
        named = {change.path for change in outcome.changes}
        more = tuple(change for change in found if change.path not in named and not change.path.endswith("/"))
        return msgspec.structs.replace(outcome, changes=(*outcome.changes, *more))

    def _places(self, outcome: ToolOutcome) -> list[str]:
        root = self._context.workspace.root
        return [str(root / change.path) for change in outcome.changes if change.kind != "deleted"]

    async def _question(self, question: str, options: tuple[str, ...]) -> str:
        return await self._approvals.question(question, options, self._scope)

    def _live(self, job: PendingCall) -> Callable[[str], None]:
        def emit(text: str) -> None:
            job.printed = (job.printed + text)[-LONGEST_REMAINS:]
            self._scope.emit(ToolOutput(call_id=job.call.id, text=text))

        return emit

    def _silent(self, job: PendingCall) -> Callable[[float], None]:
        return lambda silent_s: self._scope.emit(ToolSilent(call_id=job.call.id, silent_s=silent_s))

    def _result(self, job: PendingCall, outcome: ToolOutcome, status: ToolStatus, duration_s: float) -> ToolResult:
        untrusted = outcome.untrusted or job.stranger
        text = within_bound(outcome.text, self._context, job.call.id)
        text = marked(text, untrusted) if untrusted else text
        if job.edited:
            text = f"[The user edited this call before allowing it; what ran: {job.title}]\n{text}"
        return ToolResult(
            id=new_id("result"),
            call_id=job.call.id,
            tool=job.call.name,
            status=status,
            text=text or "(no output)",
            display=outcome.display,
            images=outcome.images,
            duration_s=round(duration_s, 3),
            changes=outcome.changes,
            command=outcome.command,
            exit_code=outcome.exit_code,
            seen=outcome.seen,
            plan=outcome.plan,
            job=outcome.job,
            cwd=outcome.cwd,
            memory=outcome.memory,
            untrusted=untrusted,
        )

    def _close(self, jobs: Sequence[PendingCall], text: str) -> None:
        """Give every call of the batch that has none a result."""
        for job in jobs:
            self._record(job, job.result or failure(job, "cancelled", text))

    def _record(self, job: PendingCall, result: ToolResult) -> None:
        """Save a result once and announce it."""
        if job.call.id in self._session.answered:
            return
        result = msgspec.structs.replace(result, turn_id=job.turn_id)
        self._session.append(result)
        self._context.seen.update(result.seen)
        self._guard.saw(job.call, result)
        if job.tool is not None:
            self.rules.saw(job.call.name, job.actions, result)
        self._scope.emit(
            ToolCallFinished(
                call_id=result.call_id,
                tool=result.tool,
                title=job.title,
                status=result.status,
                text=result.text,
                display=result.display,
                duration_s=result.duration_s,
                changes=result.changes,
                command=result.command,
                exit_code=result.exit_code,
                rule=result.rule,
            )
        )
        if result.plan is not None:
            self._scope.emit(PlanUpdated(items=result.plan))

"""The one road to a side effect: parse → authorize → ask → checkpoint → run → record.

Calls are taken in the order the model made them: neighbouring readers run together, everything else alone.
Each call ends in exactly one recorded result, recorded in call order, whatever happens: a bad argument, a
refusal, an exception in a tool, a cancellation. A result that is recorded is never run again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from ..policy.authorize import together
from ..policy.rules import RuleError
from ..protocol.actions import Allow, Ask, Deny, ReadPath, RunCommand, WritePath
from ..protocol.events import (
    AnyEvent,
    Notice,
    PlanUpdated,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    ToolOutput,
    ToolSilent,
)
from ..protocol.messages import ToolCall, ToolResult, ToolStatus, new_id
from ..protocol.operations import Decision
from ..protocol.records import CallStarted, Granted
from ..store.session_file import StoreError
from ..tools.base import ToolContext, ToolError, ToolOutcome, UnknownTool
from ..tools.registry import Registry
from .approvals import Abandoned, Approvals
from .checkpointing import Checkpointing
from .guards import RepetitionGuard
from .history import UNKNOWN_OUTCOME, OpenCall
from .job import (
    LONGEST_REMAINS,
    Job,
    approval_item,
    cannot_work,
    describe,
    failure,
    refused_unattended,
    shown_by,
    stopped,
)
from .permissions import Permissions
from .recall import within_bound
from .session import Session


class ToolRunner:
    """Runs the calls of one turn."""

    def __init__(
        self,
        session: Session,
        registry: Registry,
        permissions: Permissions,
        approvals: Approvals,
        checkpointing: Checkpointing,
        context: ToolContext,
        guard: RepetitionGuard,
        emit: Callable[[AnyEvent], None],
        *,
        turn_id: str,
        submission_id: str,
    ) -> None:
        self._session = session
        self._registry = registry
        self._permissions = permissions
        self._approvals = approvals
        self._checkpointing = checkpointing
        self._context = context
        self._guard = guard
        self._emit = emit
        self._turn_id = turn_id
        self._submission_id = submission_id

    async def run(self, calls: Sequence[ToolCall]) -> str:
        """Run calls to their results. The text the turn ends with when one of them said that the task is
        done, and none beside it failed; else empty.

        Raises:
            Abandoned: the user went on without answering an approval; every call has a result.
        """
        jobs = [self._prepare(call, self._turn_id) for call in calls]
        await self._run(jobs)
        succeeded = all(job.result is not None and job.result.status == "ok" for job in jobs)
        return next((job.final for job in jobs if job.final), "") if succeeded else ""

    async def _run(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._emit(
                ToolCallRequested(
                    call_id=job.call.id,
                    tool=job.call.name,
                    title=job.title,
                    arguments=job.call.arguments,
                    submission_id=self._submission_id,
                )
            )
        try:
            for together, group in groupby(enumerate(jobs), key=lambda pair: _group(*pair)):
                batch = [job for _, job in group]
                if together < 0 and self._still_allowed(batch):
                    await self._run_together(batch)
                else:
                    for job in batch:
                        await self._run_alone(job, jobs)
        except Abandoned:
            self._close(jobs, "The user went on with a new message instead of answering; not run.")
            raise
        except BaseException:
            self._close(jobs, "Not run: the turn was stopped.")
            raise

    async def finish_open(self, calls: Sequence[OpenCall]) -> None:
        """After a crash: calls known to read run again, calls that had begun to act are reported as of
        unknown outcome, the others go the whole road, approval included."""
        jobs = [self._prepare(each.call, each.turn_id) for each in calls]
        for job, each in zip(jobs, calls, strict=True):
            if each.started and not job.reads_only:
                job.result = failure(job, "unknown", UNKNOWN_OUTCOME)
        await self._run(jobs)

    def _prepare(self, call: ToolCall, turn_id: str) -> Job:
        job = Job(call, turn_id)
        try:
            job.tool, job.params = self._registry.parse(call.name, call.arguments)
            self._guard.saw_wellformed()
        except UnknownTool as error:
            job.result = failure(job, "failed", describe(error))
            return job
        except Exception as error:  # whatever is wrong with arguments is answered, never raised
            self._guard.saw_malformed(call.name)
            job.result = failure(job, "failed", describe(error))
            return job
        self._judge(job)
        return job

    def _judge(self, job: Job) -> None:
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

    def _still_allowed(self, jobs: list[Job]) -> bool:
        """Judge readers again just before they run: an earlier call may have moved what a path means."""
        for job in jobs:
            if job.result is None:
                self._judge(job)
        return all(job.result is not None or isinstance(job.verdict, Allow) for job in jobs)

    async def _run_together(self, jobs: list[Job]) -> None:
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
        if any(isinstance(task.exception(), Abandoned) for task in tasks if not task.cancelled()):
            raise Abandoned

    async def _run_alone(self, job: Job, jobs: list[Job]) -> None:
        if job.result is None:
            await self._decide(job, jobs)
        try:
            if job.result is None:
                await self._execute(job)
        finally:
            if job.result is not None:
                self._record(job, job.result)

    async def _decide(self, job: Job, jobs: list[Job]) -> None:
        """Settle whether a call may run, asking the person if need be; a refusal becomes its result."""
        self._judge(job)  # a mode or a rule may have changed since, or an earlier call the files
        match job.verdict:
            case Deny(rule=rule, reason=reason):
                job.result = failure(job, "denied", f"Denied: {reason}. Decided by: {rule}.", rule)
            case Ask() if not job.approved and job.result is None:
                if self._approvals.interactive:
                    await self._ask(jobs[jobs.index(job) :])
                else:
                    job.result = refused_unattended(job, job.verdict)
            case _:
                pass

    async def _ask(self, rest: list[Job]) -> None:
        """Ask for the first job, and in the same batch for all later ones that can be shown already."""
        batch: list[Job] = []
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
        decisions = await self._approvals.ask(tuple(approval_item(job) for job in batch), self._submission_id)
        for job in batch:
            self._apply(job, decisions.get(job.call.id) or Decision(job.call.id, allow=False))

    async def _show(self, job: Job, *, first: bool) -> bool:
        """Prepare what the person will see; a call that cannot work is answered without asking."""
        assert job.tool is not None
        try:
            job.preview = await job.tool.preview(job.params, self._context)
        except Exception as error:  # a tool's own fault must answer its own call only
            if not first:
                return False
            job.result = cannot_work(job, error)
        return True

    def _apply(self, job: Job, decision: Decision) -> None:
        if not decision.allow:
            said = f" They said: {decision.feedback}" if decision.feedback.strip() else ""
            job.result = failure(job, "denied", f"The user refused this call.{said}", "the user")
            return
        if decision.arguments is not None and decision.arguments != job.call.arguments:
            self._replace(job, decision.arguments)
        if decision.grant and job.result is None:
            self._keep(decision)
        job.approved = True

    async def _is_as_approved(self, job: Job) -> bool:
        """Whether a call still means what the person has seen: the same places, the same change."""
        assert job.tool is not None
        if tuple(job.tool.actions(job.params, self._context)) != job.actions:
            return False
        if not job.approved or job.edited or job.preview is None:
            return True
        return (await job.tool.preview(job.params, self._context)).text == job.preview.text

    def _replace(self, job: Job, arguments: str) -> None:
        """The user edited the call: judge what will really run; deny rules still hold."""
        try:
            job.tool, job.params = self._registry.parse(job.call.name, arguments)
        except ToolError as error:
            job.result = failure(job, "failed", f"The user's edit could not be read: {error}")
            return
        job.edited = True
        self._judge(job)

    def _keep(self, decision: Decision) -> None:
        try:
            rule = self._permissions.keep(decision.grant, decision.scope)
        except (RuleError, StoreError) as error:
            self._notice(f"The rule was not saved: {error}")
            return
        self._session.append(Granted(id=new_id("grant"), rule=rule.text, scope=decision.scope))

    async def _execute(self, job: Job) -> None:
        """Run an allowed call; its result is always set, cancellation included."""
        assert job.tool is not None
        if isinstance(job.verdict, Deny):
            job.result = failure(job, "denied", f"Denied: {job.verdict.reason}.", job.verdict.rule)
            return
        started = time.monotonic()
        status: ToolStatus = "cancelled"
        outcome: ToolOutcome | None = None
        try:
            if not job.reads_only and not await self._is_as_approved(job):
                raise ToolError("What it concerns has changed since it was allowed; nothing was done. Look again.")
            if not job.reads_only:
                await self._checkpointing.before_effect(self._turn_id, job.writes, self._submission_id)
                self._session.append(CallStarted(id=new_id("start"), call_id=job.call.id, turn_id=self._turn_id))
            self._emit(
                ToolCallStarted(
                    call_id=job.call.id,
                    tool=job.call.name,
                    title=job.title,
                    submission_id=self._submission_id,
                )
            )
            view = self._context.for_call(job.call.id, self._live(job), self._silent(job))
            outcome = await job.tool.run(job.params, view)
            status = "ok" if outcome.ok else "failed"
            job.final = outcome.text if outcome.finished else ""
        except Abandoned:
            outcome = ToolOutcome(text="The user went on with something else instead of answering.", ok=False)
            raise
        except Exception as error:  # a tool that raises answers its own call and harms no sibling
            outcome = ToolOutcome(text=describe(error), ok=False, seen=shown_by(error))
            status = "failed"
        finally:
            job.result = self._result(job, outcome or stopped(job), status, time.monotonic() - started)

    def _live(self, job: Job) -> Callable[[str], None]:
        def emit(text: str) -> None:
            job.printed = (job.printed + text)[-LONGEST_REMAINS:]
            self._emit(ToolOutput(call_id=job.call.id, text=text, submission_id=self._submission_id))

        return emit

    def _silent(self, job: Job) -> Callable[[float], None]:
        return lambda silent_s: self._emit(
            ToolSilent(call_id=job.call.id, silent_s=silent_s, submission_id=self._submission_id)
        )

    def _result(self, job: Job, outcome: ToolOutcome, status: ToolStatus, duration_s: float) -> ToolResult:
        text = within_bound(outcome.text, self._context, job.call.id)
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
        )

    def _close(self, jobs: Sequence[Job], text: str) -> None:
        """Give every call of the batch that has none a result."""
        for job in jobs:
            self._record(job, job.result or failure(job, "cancelled", text))

    def _record(self, job: Job, result: ToolResult) -> None:
        """Save a result once and announce it."""
        if job.call.id in self._session.answered:
            return
        result = msgspec.structs.replace(result, turn_id=job.turn_id)
        self._session.append(result)
        self._context.seen.update(result.seen)
        self._guard.saw(job.call, result)
        self._emit(
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
                submission_id=self._submission_id,
            )
        )
        if result.plan is not None:
            self._emit(PlanUpdated(items=result.plan, submission_id=self._submission_id))

    def _notice(self, text: str) -> None:
        self._emit(Notice(level="warning", text=text, submission_id=self._submission_id))


def _group(index: int, job: Job) -> int:
    """Neighbours with the same key form a group: readers that need no question share one."""
    together = job.result is not None or (job.reads_only and isinstance(job.verdict, Allow))
    return -1 if together else index

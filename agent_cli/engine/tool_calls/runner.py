"""The only path to a side effect: parse → authorize → ask → checkpoint → run → record.

Calls are processed in the order in which the model made them: adjacent read-only calls run in parallel, all others
alone. Each call ends in exactly one result, recorded in call order, whatever happens: bad arguments, a refusal, an
exception in a tool, a cancellation. A call with a recorded result is never run again.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol.actions import Allow, Ask, Deny, Reach
from agent_cli.protocol.events import PlanUpdated, ToolCallRequested, ToolCallStarted, ToolOutput, ToolSilent
from agent_cli.protocol.messages import ToolCall, ToolResult, ToolStatus, new_id
from agent_cli.protocol.operations import InsertedCommand
from agent_cli.protocol.records import CallStarted
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.history import UNKNOWN_OUTCOME, OpenCall
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.kit.base import NeedsPreparation, Tool, ToolContext, ToolError, ToolOutcome, UnknownTool
from agent_cli.tools.registry import ParsedCall
from agent_cli.tools.session.turn import Finish

from ..context.recall_results import truncate_result
from .approval_gate import ApprovalGate
from .call_rules import TurnRules, calls_made
from .loop_detector import LoopDetector
from .pending_call import (
    LONGEST_REMAINS,
    PendingCall,
    denied,
    describe,
    failure,
    files_shown_by,
    finished_event,
    shown_for,
    stopped_outcome,
)

if TYPE_CHECKING:
    from ..services import SessionServices
    from .call_hooks import CallHooks
    from .inserted_commands import InsertedText


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
        self.rules = TurnRules(services.rules, str(services.tools.workspace.root))
        self._scope = scope
        self._one_effect = asyncio.Lock()
        """Held before an effect: calls may run in parallel, but checkpoints are taken one by one."""
        self._inserting = asyncio.Lock()
        """Held while commands within a text run: texts are completed one by one."""
        self._recorded: set[str] = set()
        """Ids of finished calls within texts."""
        self._has_run = False
        """True after the first calls of the turn, which tell whether to save the workspace in advance."""
        self._last_checkpoint = ""
        """The checkpoint after the last call that may have changed files; kept if a rule depends on it."""
        self._gate = ApprovalGate(services, self.rules, scope)
        self._hooks = _call_hooks(services, self._gate, scope)

    async def run(self, calls: Sequence[ToolCall]) -> str:
        """Run calls to their results. If one of them said that the task is done, and none before it failed, return
        the final text of the turn; otherwise empty."""
        prepared = [self._prepare(call, self._scope.turn_id) for call in calls]
        await self._run(prepared)
        end = self._ending_call(prepared)
        return end.output.final if end else ""

    async def insert(
        self, text: str, insertions: Sequence[InsertedCommand], allowed: Sequence[str] = ()
    ) -> "InsertedText":
        """Return a text with the output of its commands, which run like calls of the model. `allowed` are rules
        that apply until the turn ends."""
        from .inserted_commands import InsertedText, insert_output

        if allowed and (added := self._permissions.allow_for_turn(allowed)):
            self._scope.notice(f"Allowed until this turn ends: {', '.join(added)}", "info")
        return await insert_output(text, insertions, self._run_inserted) if insertions else InsertedText(text)

    async def _run_inserted(self, commands: Sequence[str]) -> list[ToolResult]:
        calls = [_shell_call(new_id("inserted"), command) for command in commands]
        prepared = [self._prepare(call, self._scope.turn_id, is_inserted=True) for call in calls]
        async with self._inserting:
            await self._run(prepared)
        return [pending.result for pending in prepared if pending.result is not None]

    async def _run(self, prepared: list[PendingCall]) -> None:
        for pending in prepared:
            self._scope.emit(
                ToolCallRequested(
                    call_id=pending.call.id,
                    tool=pending.name,
                    title=pending.authorized.title,
                    arguments=pending.arguments,
                    label=pending.label,
                )
            )
        try:
            if any(pending.authorized.command for pending in prepared):
                await self._measure_sandbox()
            if prepared and not self._has_run:
                self._has_run = True
                self._gate.save_ahead(prepared)
            await self._make_ready(prepared)
            for together, group in groupby(enumerate(prepared), key=lambda pair: self._group(*pair)):
                batch = [pending for _, pending in group]
                if self._hooks is not None:
                    await self._session.flush()
                    await self._hooks.before(batch)
                if end := self._ending_call(prepared):
                    self._close(batch, f"Not run: `{end.call.name}`, called before it, has ended the turn.")
                elif together < 0 and self._gate.still_allowed(batch):
                    await self._run_together(batch)
                else:
                    for pending in batch:
                        await self._run_alone(pending, prepared)
        except BaseException:
            self._close(prepared, "Not run: the turn was interrupted.")
            raise

    @staticmethod
    def _ending_call(prepared: Sequence[PendingCall]) -> PendingCall | None:
        """Return the call that ends the turn: it said that the task is done, and it and all before it
        succeeded."""
        for pending in prepared:
            if not pending.succeeded:
                return None
            if pending.output.final:
                return pending
        return None

    def _group(self, index: int, pending: PendingCall) -> int:
        """Return the group key of a call; adjacent calls with the same key form a group. Read-only calls that need
        no approval share one. A call that may end the turn runs alone, since nothing after it may run."""
        if pending.name == Finish.name or self.rules.ended_by(pending.name, pending.authorized.actions):
            return index
        together = pending.result is not None or (
            pending.authorized.can_run_in_parallel and isinstance(pending.authorized.verdict, Allow)
        )
        return -1 if together else index

    async def _make_ready(self, prepared: Sequence[PendingCall]) -> None:
        """Connect the tools of external servers, then judge their calls by what the servers now offer."""
        waiting = [
            (pending, tool)
            for pending in prepared
            if pending.result is None and (tool := _preparation(pending.tool)) and self._may_begin(pending)
        ]
        if not waiting:
            return
        made = [tool.make_ready(self._context_for(pending, "inside")) for pending, tool in waiting]
        problems = await asyncio.gather(*made, return_exceptions=True)
        for (pending, _), problem in zip(waiting, problems, strict=True):
            if isinstance(problem, Exception):
                pending.result = failure(pending, "failed", describe(problem))
            else:
                self._gate.judge(pending)

    def _may_begin(self, pending: PendingCall) -> bool:
        """Return True if a call may come to run: it is allowed, or a user can be asked."""
        return pending.may_run or (isinstance(pending.authorized.verdict, Ask) and self._approvals.interactive)

    async def _measure_sandbox(self) -> None:
        """Measure the sandbox before the first command, because verdicts rely on it."""
        if await self._permissions.measure_sandbox():
            self._scope.notice(f"The sandbox has changed since the last start; now: {self._permissions.level()}.")

    async def finish_open(self, calls: Sequence[OpenCall], *, same_input: bool) -> None:
        """Finish open calls after a crash. Read-only calls run again, calls that had begun to take effect are
        reported with unknown outcome, and the others take the whole path, including approval, under the rules as
        of then. With `same_input`, the turn continues the previous turn's prompt."""
        if self.rules.any and (calls or same_input):
            earlier = [record for record in self._session.whole() if record.turn_id != self._scope.turn_id]
            self.rules.resume_after(calls_made(earlier, self._registry, self._context))
        prepared = [self._prepare(each.call, each.turn_id) for each in calls]
        for pending, each in zip(prepared, calls, strict=True):
            if each.started and (pending.result or not pending.authorized.reads_only):
                pending.result = failure(pending, "unknown", UNKNOWN_OUTCOME)
        await self._run(prepared)
        if not same_input:
            self.rules.forget()

    def _prepare(self, call: ToolCall, turn_id: str, *, is_inserted: bool = False) -> PendingCall:
        pending = PendingCall(call, turn_id, is_inserted=is_inserted)
        try:
            pending.understand(self._parse(call))
            self._guard.record_wellformed()
        except Exception as error:  # any problem with arguments becomes a result and is never raised
            if not isinstance(error, UnknownTool):
                self._guard.record_malformed(call.name)
            pending.result = failure(pending, "failed", describe(error))
            return pending
        self._gate.judge(pending)
        return pending

    def _parse(self, call: ToolCall) -> ParsedCall:
        if not call.problem:
            return self._registry.read(call.name, call.arguments)
        unknown = "" if call.name in self._registry.names else self._registry.unknown(call.name)
        raise ToolError(f"{call.problem} {unknown}".strip())

    async def _run_together(self, prepared: list[PendingCall]) -> None:
        tasks = [asyncio.create_task(self._execute(pending)) for pending in prepared if pending.result is None]
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pending in prepared:
                if pending.result is not None:
                    self._record(pending, pending.result)

    async def _run_alone(self, pending: PendingCall, prepared: list[PendingCall]) -> None:
        await self._refuse_unsaved(pending)
        if pending.result is None:
            await self._decide(pending, prepared[prepared.index(pending) :])
            await self._refuse_unsaved(pending)  # the user may have typed while being asked
        try:
            if pending.result is None:
                await self._execute(pending)
        finally:
            if pending.result is not None:
                self._record(pending, pending.result)

    async def _refuse_unsaved(self, pending: PendingCall) -> None:
        """Refuse to change a file that has unsaved changes in the user's editor."""
        if self._context.buffers is None or pending.result is not None or pending.authorized.command:
            return
        from agent_cli.tools.kit.editor_buffers import UNSAVED, unsaved_text

        for path in pending.authorized.writes:
            if await unsaved_text(self._context.buffers, path) is not None:
                pending.result = failure(pending, "failed", UNSAVED.format(path))
                return

    async def _show_written(self, pending: PendingCall, outcome: ToolOutcome) -> None:
        """Update the editor's buffers to match the files that a tool has written."""
        if self._context.buffers is None or pending.authorized.command or not outcome.changes:
            return
        from agent_cli.tools.kit.editor_buffers import show_written

        await show_written(self._context.buffers, self._written_paths(outcome))

    async def _decide(self, pending: PendingCall, rest: list[PendingCall]) -> None:
        """Decide whether a call may run. Hooks run again for a call that the user edited, and the user is asked
        again about a call that a hook then changed: what runs is what both have seen."""
        await self._gate.decide(pending, rest)
        while self._hooks is not None and pending.user.edited and self._hooks.is_open(pending):
            await self._hooks.before([pending])
            if pending.result is None:
                await self._gate.decide(pending, rest)

    @property
    def stopped_by_hook(self) -> str:
        """Why a user hook ends the turn; empty while none does."""
        return self._hooks.stop_reason if self._hooks is not None else ""

    async def _execute(self, pending: PendingCall) -> None:
        """Run an allowed call. Its result is always set, even on cancellation."""
        authorized = pending.authorized
        if isinstance(authorized.verdict, Deny):
            pending.result = denied(pending, authorized.verdict)
            return
        if (late := self._gate.out_of_order(pending)) is not None:
            pending.result = late
            return
        self.rules.record_start(pending.name, authorized.actions)
        with nullcontext() if authorized.reads_only else self._undo.effect(self._context.jobs.used_until):
            await self._carry_out(pending)

    async def _carry_out(self, pending: PendingCall) -> None:
        authorized = pending.authorized
        started, waited_before = time.monotonic(), pending.user.waited_s
        status: ToolStatus = "cancelled"
        outcome: ToolOutcome | None = None
        try:
            if not authorized.reads_only:
                async with self._one_effect:
                    await self._before_effect(pending)
            self._scope.emit(
                ToolCallStarted(
                    call_id=pending.call.id,
                    tool=pending.name,
                    title=authorized.title,
                    result_kind=pending.result_kind,
                    label=pending.label,
                )
            )
            outcome = await self._with_changes(pending, await self._outcome(pending))
            status = "ok" if outcome.ok else "failed"
            outcome = await self._after_edit(pending, outcome)
            await self._show_written(pending, outcome)
            if self._hooks is not None:
                outcome = await self._hooks.after(pending, outcome, time.monotonic() - started)
            ending = self.rules.ended_by(pending.name, authorized.actions) if outcome.ok else ""
            final = f"Ended by the rule {ending}." if ending else ""
            pending.output.final = outcome.text if outcome.finished else final
        except Exception as error:  # an exception becomes the result of this call and must not affect others
            outcome = ToolOutcome(describe(error), shown_for(error), ok=False, seen=files_shown_by(error))
            status = "failed"
        finally:
            ran_s = time.monotonic() - started - (pending.user.waited_s - waited_before)
            pending.result = self._result(pending, outcome or stopped_outcome(pending), status, ran_s)

    async def _before_effect(self, pending: PendingCall) -> None:
        """Ensure that a call is what was allowed, that it can be undone, and that its start is on disk."""
        if (workspace := self._context.workspace).is_moved:
            raise ToolError(f"{workspace.root} was moved or replaced since this session began; nothing was done.")
        if not await self._gate.is_as_approved(pending):
            raise ToolError("Its target has changed since it was approved; nothing was done. Look at it again.")
        await self._checkpoint(pending, pending.authorized.reach)
        started = CallStarted(id=new_id("start"), call_id=pending.call.id, turn_id=self._scope.turn_id)
        await self._session.save(started)

    async def _outcome(self, pending: PendingCall) -> ToolOutcome:
        """Run the tool. If a command failed because of the sandbox, run it again with the reach that it needs, as
        often as the user agrees to a wider one."""
        if kept := await self._name_discarded_state(pending):
            pending.output.kept = f"\n[Before it ran, {kept}]"
        shell = self._context.shell
        before = shell.lasting()
        reach = pending.authorized.reach
        outcome = await self._run_tool(pending, reach)
        blocked: list[str] = []
        untrusted = ""
        while outcome.blocked and reach != "outside":
            after = shell.lasting()
            shell.restore(before)  # run again, it starts where it started: its `cd src` must not lead to src/src
            needs: Reach = outcome.needs if reach == "inside" else "outside"
            wider = await self._gate.ask_for_reach(pending, msgspec.structs.replace(outcome, needs=needs))
            if wider is None:
                shell.restore(after)
                outcome = self._gate.stays_confined(pending, outcome)
                break
            reach = wider
            await self._checkpoint(pending, reach)
            blocked.append(outcome.blocked)
            untrusted = untrusted or outcome.untrusted
            outcome = await self._run_tool(pending, reach)
        if not blocked:
            return outcome
        runs = "second run: in the first" if len(blocked) == 1 else f"run {len(blocked) + 1}: in those before"
        twice = "; commands in it that had already run ran again"
        again = twice if self._permissions.repeats_changes(pending.authorized.actions) else ""
        text = f"{outcome.text}\n[this is its {runs}, the sandbox blocked {' and '.join(blocked)}{again}]"
        return msgspec.structs.replace(outcome, text=text, untrusted=outcome.untrusted or untrusted)

    async def _run_tool(self, pending: PendingCall, reach: Reach) -> ToolOutcome:
        """Run the tool with a reach, restricted to the paths for which it was judged.

        Raises:
            ToolError: the call is neither allowed nor approved as it is now.
        """
        assert pending.tool is not None
        if not (pending.may_run or pending.approved):
            raise ToolError("It was not approved as it is now; nothing was done.")
        view = self._context_for(pending, reach).within(pending.authorized.places)
        return await pending.tool.run(pending.params, view)

    async def _checkpoint(self, pending: PendingCall, reach: Reach) -> None:
        """Ensure that the known writes of a call can be undone; exceptions are recorded."""
        is_free = reach == "outside" or not self._permissions.is_confining
        beyond = self._permissions.writes_beyond_undo(pending.authorized.actions) if is_free else ()
        await self._undo.before_effect(self._scope, (*pending.authorized.writes, *beyond))

    def _context_for(self, pending: PendingCall, reach: Reach) -> ToolContext:
        """Return the context for one run of a call with a reach."""
        return self._context.for_call(
            pending.call.id,
            emit=partial(self._printed, pending),
            silent=lambda silent_s: self._scope.emit(ToolSilent(call_id=pending.call.id, silent_s=silent_s)),
            confine=partial(self._permissions.confinement, reach),
            insert=partial(self._insert_into, pending),
            ask=partial(self._ask_user, pending) if self._approvals.interactive else None,
            hunks=pending.user.hunks,
            leaves=reach == "outside" and self._permissions.is_confining,
        )

    async def _insert_into(
        self, pending: PendingCall, text: str, insertions: Sequence[InsertedCommand], allowed: Sequence[str]
    ) -> str:
        """Insert the output of commands, as `insert` does, into a text that becomes the result of a call."""
        inserted = await self.insert(text, insertions, allowed)
        pending.output.inserted_source = pending.output.inserted_source or inserted.untrusted
        return inserted.text

    async def _name_discarded_state(self, pending: PendingCall) -> str:
        """Return how to restore git state outside the files that a command might discard."""
        if not pending.authorized.command or "git" not in pending.authorized.command:
            return ""
        from agent_cli.policy.shell.destructive import discards_git_state
        from agent_cli.workspace.checkpoints.discarded_state import named_state

        if not discards_git_state(pending.authorized.command):
            return ""
        return await named_state(
            self._context.processes.run, self._context.shell.start, self._context.workspace.roots
        )

    async def _after_edit(self, pending: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """Run the commands that rules require after an edit. They are judged like all commands, and their output
        is appended to the result of the edit."""
        written = [*(pending.authorized.writes if outcome.ok else ()), *self._written_paths(outcome)]
        commands = list(self.rules.after_edit(written))
        if commands:
            await self._measure_sandbox()
        for rule, command in commands:
            after = self._prepare(_shell_call(f"{pending.call.id}.after", command), pending.turn_id)
            if self._hooks is not None:
                await self._hooks.before([after])
            if after.result is None:
                await self._gate.decide(after, [after])
            try:
                done = ToolOutcome(after.result.text) if after.result else await self._outcome(after)
            except ToolError as error:  # the edit is done, whatever happens here
                done = ToolOutcome(str(error))
            text = f"{outcome.text}\n[{rule.label}: {command}]\n{done.text}{after.output.kept}"
            untrusted = outcome.untrusted or done.untrusted
            outcome = msgspec.structs.replace(outcome, text=text, untrusted=untrusted)
        if commands and self.rules.follows_edits:  # changes by a formatter are not edits of the next call
            self._last_checkpoint, _ = await self._undo.changed_since(self._scope.turn_id, self._last_checkpoint)
        return outcome

    async def _with_changes(self, pending: PendingCall, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with the files that the call really changed, if a rule depends on them: a command
        does not declare which files it writes."""
        if pending.authorized.reads_only or not self.rules.follows_edits:
            return outcome
        self._last_checkpoint, found = await self._undo.changed_since(self._scope.turn_id, self._last_checkpoint)
        named = {change.path for change in outcome.changes}
        more = tuple(change for change in found if change.path not in named and not change.path.endswith("/"))
        return msgspec.structs.replace(outcome, changes=(*outcome.changes, *more))

    def _written_paths(self, outcome: ToolOutcome) -> list[str]:
        root = self._context.workspace.root
        return [str(root / change.path) for change in outcome.changes if change.kind != "deleted"]

    async def _ask_user(self, pending: PendingCall, question: str, options: tuple[str, ...]) -> str:
        external = pending.authorized.external
        server = external.server if external else ""
        asked_at = time.monotonic()
        try:
            return await self._approvals.question(question, options, self._scope, server=server)
        finally:
            pending.user.waited_s += time.monotonic() - asked_at

    def _printed(self, pending: PendingCall, text: str) -> None:
        pending.output.printed = (pending.output.printed + text)[-LONGEST_REMAINS:]
        self._scope.emit(ToolOutput(call_id=pending.call.id, text=text))

    def _result(
        self, pending: PendingCall, outcome: ToolOutcome, status: ToolStatus, duration_s: float
    ) -> ToolResult:
        untrusted = outcome.untrusted or pending.authorized.untrusted_source
        text = truncate_result(outcome.text, self._context, pending.call.id)
        text = (mark_untrusted(text, untrusted) if untrusted else text) + pending.output.kept
        if hook := pending.hooks.rewritten_by:
            title = pending.authorized.title
            text = f"[The user's hook {hook} changed this call; what ran: {title}]\n{text}"
        if pending.user.edited:
            text = f"[The user edited this call before allowing it; what ran: {pending.authorized.title}]\n{text}"
        return ToolResult(
            id=new_id("result"),
            call_id=pending.call.id,
            tool=pending.call.name,
            status=status,
            text=text or "(no output)",
            display=f"{outcome.display}{pending.output.kept}" if outcome.display else "",
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
            untrusted=untrusted or pending.output.inserted_source,
        )

    def _close(self, prepared: Sequence[PendingCall], text: str) -> None:
        """Record a result for each call of the batch that has none."""
        for pending in prepared:
            self._record(pending, pending.result or failure(pending, "cancelled", text))

    def _record(self, pending: PendingCall, result: ToolResult) -> None:
        """Save a result once and emit it."""
        if pending.call.id in self._recorded or pending.call.id in self._session.answered:
            return
        waited_s = round(pending.user.waited_s, 3)
        result = msgspec.structs.replace(result, turn_id=pending.turn_id, waited_s=waited_s)
        if pending.is_inserted:
            pending.result = result
            self._recorded.add(pending.call.id)
        else:
            self._session.append(result, durable=False)  # the next request or the end of the turn is durable
        self._context.seen.update(result.seen)
        self._guard.record(pending.call, result)
        if pending.tool is not None:
            self.rules.record_result(pending.name, pending.authorized.actions, result)
        adjusted = pending.adjusted if result.status in ("ok", "failed") else ""
        self._scope.emit(finished_event(result, pending.authorized.title, pending.tool, adjusted))
        if result.plan is not None:
            self._scope.emit(PlanUpdated(items=result.plan))


def _call_hooks(services: "SessionServices", gate: ApprovalGate, scope: TurnScope) -> "CallHooks | None":
    if services.hooks is None:
        return None
    from .call_hooks import CallHooks

    return CallHooks(services, services.hooks, gate, scope)


def _shell_call(identifier: str, command: str) -> ToolCall:
    return ToolCall(identifier, "shell", msgspec.json.encode({"command": command}).decode())


def _preparation(tool: Tool | None) -> NeedsPreparation | None:
    return tool if isinstance(tool, NeedsPreparation) else None

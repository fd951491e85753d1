"""Operations on the conversation itself: undo, redo, rewind, compaction, marks and names. They are tasks of the
turn queue, so that they never run concurrently with a tool."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.protocol.events import Renamed, Restored, RestoreReport
from agent_cli.protocol.messages import ToolResult, UserMessage, new_id
from agent_cli.protocol.operations import (
    Compact,
    HistoryOperation,
    KeepSummary,
    MarkMessage,
    Redo,
    Rename,
    Resolve,
    Rewind,
    Rewound,
    Uncompact,
    Undo,
)
from agent_cli.protocol.records import Marked, Named
from agent_cli.session.event_bus import TurnScope
from agent_cli.tools.kit.output import first_of

if TYPE_CHECKING:
    from ..services import SessionServices

_MAX_TITLE = 200


class HistoryOperations:
    """Carries out these operations for one session."""

    def __init__(self, services: "SessionServices") -> None:
        self._session = services.session
        self._undo = services.undo
        self._compactor = services.compactor
        self._context = services.tools
        self._agents = services.agents

    async def carry_out(self, operation: HistoryOperation, scope: TurnScope) -> None:
        """Carry out an operation.

        Raises:
            OperationRefused, NothingToRestore: there was nothing to do; the message says why.
        """
        match operation:
            case Undo(turns=turns):
                first = self._undo.undone_from(turns)
                await self._stop_agents(first, scope)
                await self._restored("undo", self._undo.undo(turns), scope)
                self._tell_of_jobs(first, scope)
            case Redo():
                await self._restored("redo", self._undo.redo(), scope)
            case Rewind(turn_id=turn_id, what=what):
                await self._stop_agents(turn_id if what != "code" else "", scope)
                await self._restored("rewind", self._undo.rewind(turn_id, what), scope, what)
                self._tell_of_jobs(turn_id if what != "code" else "", scope)
            case Resolve(choice=choice, paths=paths):
                report = await self._undo.resolve(choice, paths)
                self._look_again()
                scope.emit(Restored(kind="resolve", turns=0, prompt="", report=report))
            case MarkMessage():
                self._mark(operation)
            case Rename(title=title):
                self._rename(title, scope)
            case Compact() | KeepSummary() | Uncompact():
                await self._compact(operation, scope)

    async def _stop_agents(self, turn_id: str, scope: TurnScope) -> None:
        """Stop the background sub-agents started since a turn, which would go on changing what is restored. The
        changes that others have made between turns are saved."""
        if self._agents is None:
            return
        if turn_id and (names := await self._agents.forget_calls(self._undo.calls_since(turn_id))):
            scope.notice(f"Stopped, because the turn that started it is undone: {', '.join(names)}.")
        await self._agents.end_between()

    def _tell_of_jobs(self, turn_id: str, scope: TurnScope) -> None:
        """Name the background jobs started since a turn that still run: the conversation no longer knows them."""
        calls = self._undo.calls_since(turn_id) if turn_id else frozenset()
        results = (
            each for each in self._session.records if isinstance(each, ToolResult) and each.call_id in calls
        )
        numbers = {each.job for each in results}
        running = [
            f"{job.shown} (/jobs stop {job.id})"
            for job in self._context.jobs
            if job.id in numbers and job.is_running
        ]
        if running:
            scope.notice(f"Still running, although the turn that started it is undone: {', '.join(running)}.")

    async def _restored(
        self,
        kind: Literal["undo", "redo", "rewind"],
        done: Awaitable[tuple[int, str, RestoreReport]],
        scope: TurnScope,
        what: Rewound = "both",
    ) -> None:
        try:
            count, prompt, report = await done
        except asyncio.CancelledError:
            scope.notice(_STOPPED_MIDWAY.format(kind))
            raise
        self._compactor.forget_failure()
        self._look_again()
        if what == "code" and report.restored:
            self._say_files_moved(report)
        scope.emit(Restored(kind=kind, turns=count, prompt=prompt, report=report, what=what))

    def _look_again(self) -> None:
        """Reset the files known to the model and the working directory to what the conversation now says."""
        view, context = self._session.view, self._context
        context.seen.clear()
        context.seen.update(view.known_files)
        context.shell.cwd = Path(view.working_directory or context.workspace.root)

    def _say_files_moved(self, report: RestoreReport) -> None:
        """Tell the model that its files were changed, because the conversation itself is kept."""
        paths = first_of([change.path for change in report.restored], 20)
        text = f"The user has restored files to an earlier state: {paths}. Read them again before you continue."
        self._session.append(UserMessage(id=new_id("msg"), text=text, origin="hint"))

    async def _compact(self, operation: Compact | KeepSummary | Uncompact, scope: TurnScope) -> None:
        match operation:
            case Compact(focus=focus, preview=preview):
                compact = self._compactor.preview if preview else self._compactor.reduce
                if not await compact(focus, scope):
                    has_more = self._compactor.has_older_part()  # then a notice has told what was in the way
                    raise OperationRefused(_NOT_COMPACTED if has_more else _NOTHING_TO_COMPACT)
            case KeepSummary(text=text):
                if not text.strip():
                    raise OperationRefused("An empty summary would lose everything; nothing was changed.")
                if not self._compactor.keep_summary(text.strip(), scope):
                    raise OperationRefused("There is no summary to change; /compact makes one.")
            case Uncompact():
                if not self._compactor.take_back(scope):
                    raise OperationRefused("Nothing is compacted, so there is nothing to revert.")

    def _mark(self, operation: MarkMessage) -> None:
        records = self._session.records
        if not any(each.id == operation.message_id for each in records):
            raise OperationRefused(f"There is no message {operation.message_id} in this session.")
        self._session.append(Marked(id=new_id("mark"), message_id=operation.message_id, mark=operation.mark))

    def _rename(self, title: str, scope: TurnScope) -> None:
        title = " ".join(title.split())[:_MAX_TITLE]
        if not title:
            raise OperationRefused("A name needs at least one character.")
        self._session.append(Named(id=new_id("name"), title=title))
        scope.emit(Renamed(title=title))


_STOPPED_MIDWAY = (
    "Stopped midway: files may be restored in part, and the conversation is as it was. /{} does the rest."
)
_NOT_COMPACTED = "The conversation was not compacted; it is as it was."
_NOTHING_TO_COMPACT = "There is nothing to compact yet: the conversation is as small as it gets."


class OperationRefused(Exception):
    """An operation had nothing to do; the message says why."""

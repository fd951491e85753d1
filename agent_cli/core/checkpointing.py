"""When checkpoints are taken, and what undo and redo do with them.

A turn gets one checkpoint before its first side effect and one when it has ended; both are records. Undo
takes turns back newest first: files by their checkpoints, messages by one record. Redo is its mirror.
"""

from collections.abc import Callable, Collection
from typing import Literal, Protocol

import msgspec

from ..protocol.events import AnyEvent, Conflict, Notice, RestoreReport
from ..protocol.messages import FileChange, ToolResult, UserMessage, new_id
from ..protocol.records import CheckpointTaken, TurnsRedone, TurnsUndone
from ..workspace.checkpoints import CheckpointError
from . import history
from .session import Session

_MOST_NAMED = 5


class NothingToRestore(Exception):
    """There is no turn to undo or redo; the text says so."""


class _Move(msgspec.Struct, frozen=True):
    """From one checkpoint to another; `only` bounds it to known paths. Empty: no file is concerned."""

    left: str
    target: str
    only: frozenset[str] | None


class Snapshots(Protocol):
    """Where checkpoints live; `workspace.Checkpoints` is one. All may raise `CheckpointError`."""

    @property
    def left_out(self) -> tuple[str, ...]: ...
    async def take(self) -> str: ...
    async def cover(self, path: str, checkpoint: str) -> str: ...
    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]: ...
    async def diff(self, before: str, after: str) -> str: ...
    async def restore(self, left: str, target: str, only: Collection[str] | None = None) -> RestoreReport: ...


class Checkpointing:
    """The checkpoints of one session."""

    def __init__(
        self,
        session: Session,
        snapshots: Snapshots,
        emit: Callable[[AnyEvent], None],
    ) -> None:
        self._session = session
        self._snapshots = snapshots
        self._emit = emit
        self._before: dict[str, str] = {}
        """Turn id → checkpoint before its first side effect; empty text when none could be taken."""
        self._told: set[str] = set()
        """Files that are known to be left out."""

    async def before_effect(self, turn_id: str, paths: tuple[str, ...], submission_id: str) -> None:
        """Make sure the turn can be undone, before something changes. `paths` are the files about to be
        written. What cannot be covered is told and does not stop the call."""
        if self._before.get(turn_id) == "":
            return
        try:
            checkpoint = self._before.get(turn_id) or await self._snapshots.take()
        except CheckpointError as error:
            self._before[turn_id] = ""
            self._warn(f"This turn cannot be undone: {error}.", submission_id)
            return
        self._tell_left_out(submission_id)
        for path in paths:
            try:
                checkpoint = await self._snapshots.cover(path, checkpoint)
            except CheckpointError as error:
                self._warn(f"Undo will not bring this file back: {error}.", submission_id)
        if self._before.get(turn_id) != checkpoint:
            self._before[turn_id] = checkpoint
            self._save(turn_id, "before", checkpoint)

    async def after_turn(self, turn_id: str, *, late: bool = False) -> tuple[FileChange, ...]:
        """Save the state a turn left behind; returns what it changed."""
        before = self._before.get(turn_id) or ""
        if not before:
            return ()
        try:
            after = await self._snapshots.take()
            self._tell_left_out("")
            changes = await self._snapshots.changes(before, after)
        except CheckpointError as error:
            self._warn(f"This turn cannot be undone: {error}.", "")
            return ()
        self._save(turn_id, "after", after, late=late)
        return changes

    async def close_crashed_turns(self) -> None:
        """After a crash: the state found now is the state the torn turn left behind."""
        for turn_id, (before, after) in self._pairs().items():
            if before and not after and turn_id not in self._before:
                self._before[turn_id] = before
                try:
                    await self.after_turn(turn_id, late=True)
                except BaseException:  # interrupted: the next call tries again
                    del self._before[turn_id]
                    raise

    async def undo(self, turns: int) -> tuple[int, str, RestoreReport]:
        """Take back the last turns; returns how many, the first one's prompt, and what happened to the
        files.

        Raises:
            NothingToRestore: no turn is left.
        """
        await self.close_crashed_turns()
        chosen = self._newest(turns)
        if not chosen:
            raise NothingToRestore("there is no turn to undo")
        moves = [self._move_of(turn_id, undo=True) for turn_id in reversed(chosen)]
        count = len(self._prompted(chosen))
        report = await self._carry_out(moves)
        self._session.append(TurnsUndone(id=new_id("undo"), turn_ids=chosen))
        return count, self._prompt_of(chosen[0]), report

    async def redo(self) -> tuple[int, str, RestoreReport]:
        """Bring back what the last undo took; returns as `undo` does.

        Raises:
            NothingToRestore: nothing was undone, or something was done since.
        """
        chosen = self._redoable()
        if not chosen:
            raise NothingToRestore("there is nothing to redo")
        report = await self._carry_out([self._move_of(turn_id, undo=False) for turn_id in chosen])
        self._session.append(TurnsRedone(id=new_id("redo"), turn_ids=chosen))
        return len(self._prompted(chosen)), self._prompt_of(chosen[0]), report

    def has_checkpoint(self, turn_id: str) -> bool:
        """Whether a turn changed files and can be undone."""
        before, after = self._pairs().get(turn_id, ("", ""))
        return bool(before and after)

    async def would_change(self, kind: str) -> tuple[str, tuple[FileChange, ...]]:
        """The prompt that the next undo or redo concerns, and what it would do to the files.

        Raises:
            NothingToRestore: nothing would happen.
        """
        await self.close_crashed_turns()
        chosen = self._newest(1) if kind == "undo" else self._redoable()
        if not chosen:
            raise NothingToRestore(f"there is nothing to {kind}")
        changes: tuple[FileChange, ...] = ()
        for turn_id in chosen:
            move = self._move_of(turn_id, undo=kind == "undo")
            if move.left:
                changes += await self._snapshots.changes(move.left, move.target)
        return self._prompt_of(chosen[0]), changes

    async def session_diff(self) -> str:
        """Unified diff from before the session's first change to now; empty when nothing changed."""
        first = next((before for before, _ in self._pairs().values() if before), "")
        if not first:
            return ""
        return await self._snapshots.diff(first, await self._snapshots.take())

    def _move_of(self, turn_id: str, *, undo: bool) -> "_Move":
        """What undoing or redoing a turn does to the files.

        Raises:
            NothingToRestore: the turn changed files and its checkpoints are not complete.
        """
        before, after = self._pairs().get(turn_id, ("", ""))
        if bool(before) != bool(after):
            raise NothingToRestore("the files of this turn cannot be restored: its checkpoint is not complete")
        only = self._written_by(turn_id) if turn_id in self._late() else None
        return _Move(after, before, only) if undo else _Move(before, after, only)

    async def _carry_out(self, moves: "list[_Move]") -> RestoreReport:
        report = RestoreReport()
        for move in moves:
            if not move.left:
                continue
            try:
                done = await self._snapshots.restore(move.left, move.target, move.only)
            except CheckpointError as error:
                done = RestoreReport(conflicts=(Conflict("(workspace)", str(error)),))
            report = _joined(report, done)
        return report

    def _newest(self, turns: int) -> tuple[str, ...]:
        """Ids of the last turns that began with a prompt, and of every turn that carried on with them."""
        prompts = list(self.turn_prompts())[-turns:] if turns > 0 else []
        if not prompts:
            return ()
        undone = history.undone_turns(self._session.records)
        ids = dict.fromkeys(r.turn_id for r in self._session.records if r.turn_id and r.turn_id not in undone)
        order = list(ids)
        return tuple(order[order.index(prompts[0]) :])

    def _prompted(self, turn_ids: tuple[str, ...]) -> set[str]:
        """Those of some turns that count and began with a prompt."""
        return {message.turn_id for message in self._session.prompts()}.intersection(turn_ids)

    def _late(self) -> set[str]:
        records = self._session.records
        return {record.turn_id for record in records if isinstance(record, CheckpointTaken) and record.late}

    def _written_by(self, turn_id: str) -> frozenset[str]:
        """Files that a turn's own tools are known to have changed."""
        return frozenset(
            change.path
            for record in self._session.records
            if isinstance(record, ToolResult) and record.turn_id == turn_id
            for change in record.changes
        )

    def _save(
        self, turn_id: str, when: Literal["before", "after"], checkpoint: str, *, late: bool = False
    ) -> None:
        self._session.append(
            CheckpointTaken(id=new_id("cp"), turn_id=turn_id, when=when, checkpoint=checkpoint, late=late)
        )

    def _tell_left_out(self, submission_id: str) -> None:
        """Name what no checkpoint holds because of its size, each file once."""
        new = [path for path in self._snapshots.left_out if path not in self._told]
        self._told.update(new)
        if new:
            named = ", ".join(new[:_MOST_NAMED]) + (
                f" and {len(new) - _MOST_NAMED} more" * (len(new) > _MOST_NAMED)
            )
            self._warn(f"Undo will not bring back what is too large: {named}.", submission_id)

    def _warn(self, text: str, submission_id: str) -> None:
        self._emit(Notice(level="warning", text=text, submission_id=submission_id))

    def _pairs(self) -> dict[str, tuple[str, str]]:
        pairs: dict[str, tuple[str, str]] = {}
        for record in self._session.records:
            if isinstance(record, CheckpointTaken):
                before, after = pairs.get(record.turn_id, ("", ""))
                pair = (record.checkpoint, after) if record.when == "before" else (before, record.checkpoint)
                pairs[record.turn_id] = pair
        return pairs

    def turn_prompts(self) -> dict[str, str]:
        """Turn id → prompt of the turns that count and began with a human, in order."""
        prompts: dict[str, str] = {}
        for message in self._session.prompts():
            prompts.setdefault(message.turn_id, message.text)
        return prompts

    def _prompt_of(self, turn_id: str) -> str:
        """The first human text of a turn, undone or not."""
        for record in self._session.records:
            if isinstance(record, UserMessage) and record.origin == "human" and record.turn_id == turn_id:
                return record.text
        return ""

    def _redoable(self) -> tuple[str, ...]:
        undone = history.undone_turns(self._session.records)
        stack: list[tuple[str, ...]] = []
        for record in self._session.records:
            match record:
                case TurnsUndone(turn_ids=ids):
                    stack.append(ids)
                case TurnsRedone(turn_ids=ids):
                    stack = [entry for entry in stack if entry != ids]
                case UserMessage(origin="human", turn_id=turn_id) if turn_id not in undone:
                    stack.clear()
                case _:
                    pass
        return stack[-1] if stack else ()


def _joined(first: RestoreReport, second: RestoreReport) -> RestoreReport:
    return RestoreReport(
        first.restored + second.restored, first.conflicts + second.conflicts, first.notes + second.notes
    )

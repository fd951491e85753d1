"""Taking checkpoints of turns, and undo, redo and rewind based on them.

A turn gets one checkpoint before its first side effect and one after its end; both are records. Undo reverts turns
newest first: files by their checkpoints, messages by one record. Redo is its mirror: an undo has two checkpoints
around it. A decision on a file that undo did not change has two checkpoints as well, and redo reverts it.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from agent_cli.protocol.client import RewindPoint
from agent_cli.protocol.events import AnyEvent, Conflict, RestoreReport
from agent_cli.protocol.messages import AssistantMessage, FileChange, MemoryChange, new_id
from agent_cli.protocol.operations import Choice, Rewound
from agent_cli.protocol.paths import is_in_cache
from agent_cli.protocol.records import CheckpointTaken, TurnsRedone, TurnsUndone, storable_text
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.session import Session
from agent_cli.session.undo_state import AROUND, RESOLVED, Undoing, taken_back
from agent_cli.session.undo_state import NothingToRestore as NothingToRestore
from agent_cli.tools.kit.output import first_of
from agent_cli.workspace.checkpoints.types import CheckpointError, Move
from agent_cli.workspace.checkpoints.types import Snapshots as Snapshots

from .turn_checkpoints import (
    Saved,
    checkpoint_pairs,
    is_at,
    is_torn,
    is_turn,
    known_until,
    last_moves,
    list_rewind_points,
    memory_changes,
    named_changes,
    prompt_of,
    redo_moves,
    refuse_elsewhere,
    root_of,
    saved,
    uncovered_in,
    undo_moves,
    written_files,
)

if TYPE_CHECKING:
    from agent_cli.workspace.memory import Memory

    from .effect_times import EffectTimes, JobsUntil

_MOST_NAMED = 5
_SILENT_S = 1.0
"""Seconds after which the user is told what the turn waits for."""
_UNWRITABLE = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("your disk quota is used up", "Free some space"),
    errno.EROFS: ("the disk is read-only", "Make it writable"),
}
"""Errors that concern a disk, not a file: an undo is not done with them."""
_ROOM_BYTES = 200_000_000
_SAVING = "Saving the workspace for undo; a large one takes a while the first time."


class TurnUndo:
    """The checkpoints of one session."""

    def __init__(
        self,
        session: Session,
        snapshots: Callable[[], Snapshots],
        emit: Callable[[AnyEvent], None],
        memory: "Memory",
    ) -> None:
        """`snapshots` is called when the first snapshot is needed. Only blocks of `memory` are restored."""
        self._session = session
        self._memory = memory
        self._made: Snapshots | None = None
        self._make = snapshots
        self._scope = TurnScope(emit)
        self._before: dict[str, str] = {}
        """Turn id → checkpoint before its first side effect; empty if none could be taken."""
        self._uncovered: dict[str, dict[str, None]] = {}
        """Turn id → files it was about to write that no checkpoint contains, in order."""
        self._reported: set[str] = set()
        """Files already reported as not covered."""
        self._left_alone: frozenset[str] | None = None
        """Files that the last restore did not change; None if that was before this program started."""
        self._background: set[asyncio.Task[None]] = set()
        self._is_maintained = False
        self._taking = asyncio.Lock()
        """Held while a checkpoint before an effect is taken: sub-agents take theirs for the same turn."""

    @property
    def _snapshots(self) -> Snapshots:
        if self._made is None:
            self._made = self._make()
        return self._made

    @cached_property
    def _effects(self) -> "EffectTimes":
        from .effect_times import EffectTimes

        return EffectTimes()

    def effect(self, jobs_until: "JobsUntil | None" = None) -> AbstractContextManager[None]:
        """Return a context for an effect of the agent: what changes during a turn at other times, and not while
        jobs that the turn has used run, somebody else changes."""
        return self._effects.effect(jobs_until)

    def prepare(self, disk: str) -> None:
        """Start saving the workspace while the user decides or the model reads: the first time, a large one takes
        a while. What it finds is only a start; the checkpoint is still taken just before the effect. `disk` is a
        path on the disk it is saved to: what little is left there is kept for the records."""
        if self._made is None and _free_bytes(disk) > _ROOM_BYTES:
            self._in_background(self._snapshots.take)

    async def before_effect(self, scope: TurnScope, paths: tuple[str, ...]) -> None:
        """Ensure that the turn can be undone before something changes. `paths` are the files about to be written.
        Files that cannot be covered are reported and do not stop the call."""
        async with self._taking:
            await self._before_effect(scope, paths)

    async def _before_effect(self, scope: TurnScope, paths: tuple[str, ...]) -> None:
        turn_id = scope.turn_id
        if self._before.get(turn_id) == "":
            return
        if turn_id not in self._before:
            self._effects.forget()
        try:
            checkpoint = self._before.get(turn_id) or await self._take(scope)
        except CheckpointError as error:
            self._before[turn_id] = ""
            scope.notice(f"This turn cannot be undone: {error}.")
            return
        self._report_left_out(scope)
        beyond = self._uncovered.setdefault(turn_id, {})
        known = len(beyond)
        for path in paths:
            try:
                checkpoint = await self._snapshots.cover(path, checkpoint)
            except CheckpointError as error:
                if path not in beyond:
                    scope.notice(f"Undo will not restore this file: {error}.")
                beyond[path] = None
        if self._before.get(turn_id) != checkpoint or len(beyond) > known:
            self._before[turn_id] = checkpoint
            await self._session.save(self._record(turn_id, "before", checkpoint, uncovered=tuple(beyond)))

    async def _take(self, scope: TurnScope) -> str:
        """Take a checkpoint. If it takes long, as the first one of a large workspace does, say so."""
        telling = asyncio.get_running_loop().call_later(_SILENT_S, scope.notice, _SAVING, "info")
        try:
            return await self._snapshots.take()
        finally:
            telling.cancel()

    async def changed_since(self, turn_id: str, mark: str) -> tuple[str, tuple[FileChange, ...]]:
        """Return the current state, and the files that differ from an earlier one (empty: before the first side
        effect); nothing if no checkpoint can be taken."""
        before = mark or self._before.get(turn_id) or ""
        if not before:
            return "", ()
        try:
            now = await self._snapshots.take([Move(before, before)])
            return now, () if now == before else await self._snapshots.changes(before, now)
        except CheckpointError:
            return "", ()

    async def after_turn(self, turn_id: str, *, late: bool = False) -> tuple[FileChange, ...]:
        """Save the state after a turn and return its changes; without checkpoints those that its results name."""
        before = self._before.get(turn_id) or ""
        if not before:
            return named_changes(self._session.records, turn_id)
        try:
            after = await self._snapshots.take([Move(before, before)])
            if late:
                until_s = known_until(self._session.records, turn_id)
                after = await self._snapshots.mark_own_changes(before, after, until_s)
            self._report_left_out(self._scope)
            changes = await self._snapshots.changes(before, after)
        except CheckpointError as error:
            del self._before[turn_id]  # the next undo saves the state, as after a crash
            self._scope.notice(f"The state after this turn could not be saved: {error}. Undo will try again.")
            return named_changes(self._session.records, turn_id)
        foreign = self._late_foreign(turn_id) if late else self._effects.foreign(self._session.root, changes)
        await self._session.save(self._record(turn_id, "after", after, late=late, foreign=foreign))
        self._maintain_soon()
        left = set(foreign)
        both = {each.path: each for each in named_changes(self._session.records, turn_id) if each.path in left}
        if both:
            names = first_of(sorted(both), _MOST_NAMED)
            self._scope.notice(f"Changed by something else after the agent, so undo leaves it alone: {names}.")
        return tuple(both.get(each.path, each) for each in changes if each.path in both or each.path not in left)

    def _late_foreign(self, turn_id: str) -> tuple[str, ...]:
        """Return the files that a crashed turn wrote and somebody else has changed since."""
        from ..context.changed_files import changed_by_others, last_seen

        records = self._session.records
        written = sorted(written_files(records).get(turn_id, ()))
        return changed_by_others(self._session.root, written, last_seen(records), known_until(records, turn_id))

    async def close_crashed_turns(self) -> None:
        """After a crash, save the current state as the state after the crashed turn."""
        for turn_id, (before, after) in checkpoint_pairs(self._session.records).items():
            if before and not after and turn_id not in self._before and self._is_here(turn_id):
                self._before[turn_id] = before
                try:
                    await self.after_turn(turn_id, late=True)
                except BaseException:  # interrupted: the next call retries
                    self._before.pop(turn_id, None)
                    raise

    def _is_here(self, turn_id: str) -> bool:
        """Return True for a turn that changed files in the directory that the session is in now."""
        return is_turn(turn_id) and is_at(root_of(self._session.records, turn_id), self._session.root)

    @cached_property
    def _other_root(self) -> str:
        """The directory that the session is in now; empty if it is the one that it began in."""
        root = self._session.root
        return "" if is_at(self._session.header.cwd, root) else storable_text(str(root))

    async def undo(self, turns: int) -> tuple[int, str, RestoreReport]:
        """Undo the last turns. Return their number, the first one's prompt, and what happened to the files.

        Raises:
            NothingToRestore: no turn is left, or its files cannot be restored.
        """
        return await self.rewind(self.undone_from(turns), "both")

    def undone_from(self, turns: int) -> str:
        """Return the first of the turns that an undo reverts.

        Raises:
            NothingToRestore: no turn is left.
        """
        prompts = list(self.turn_prompts())[-turns:] if turns > 0 else []
        if not prompts:
            raise NothingToRestore("There is no turn to undo.")
        return prompts[0]

    async def rewind(self, turn_id: str, what: Rewound) -> tuple[int, str, RestoreReport]:
        """Rewind to before the prompt of a turn: files, conversation or both. Return values as in `undo`. If only
        the files are rewound, the report lists the files that changed although the conversation is kept.

        Raises:
            NothingToRestore: there is no such prompt, nothing is left to revert, or files cannot be restored.
        """
        await self.close_crashed_turns()
        chosen, files = self._way_back(turn_id, what)
        count = len(self._prompted(chosen))
        records = self._session.records
        moves = undo_moves(records, files, undo=True)
        around = await self._before_undo(moves)
        report = _with_uncovered(
            uncovered_in(records, files), await self._carry_out(moves, memory_changes(records, files, undo=True))
        )
        self._session.append(
            *await self._after_undo(around, moves), TurnsUndone(id=new_id("undo"), turn_ids=chosen, what=what)
        )
        return count, prompt_of(self._session.records, turn_id), report

    async def redo(self) -> tuple[int, str, RestoreReport]:
        """Redo what the last undo or rewind reverted. Return values as in `undo`. Decisions on its conflicts are
        reverted first.

        Raises:
            NothingToRestore: nothing was undone, or something was done since.
        """
        undoing = self._next_redo()
        records = self._session.records
        report = await self._carry_out(
            redo_moves(records, undoing), memory_changes(records, undoing.files, undo=False)
        )
        self._session.append(TurnsRedone(id=new_id("redo"), turn_ids=undoing.turn_ids))
        return len(self._prompted(undoing.turn_ids)), prompt_of(self._session.records, undoing.turn_ids[0]), report

    async def resolve(self, choice: Choice, paths: Collection[str] = ()) -> RestoreReport:
        """Resolve files that the last undo, redo or rewind did not change: the given `paths` as in its report, or
        all. What a choice replaces is saved first, and the redo of that undo restores it. After a restart, every
        file that differs from what the undo would have made counts as unresolved.

        Raises:
            NothingToRestore: there is nothing to resolve.
        """
        moves = last_moves(self._session.records)
        left_alone = self._left_alone
        if left_alone is None:
            pending = await self._dry_run(moves)
            could_not = {change.path for change in pending.restored if not change.path.endswith("/")}
            left_alone = _decidable(pending) | could_not
        if not left_alone:
            raise NothingToRestore("There is no file to resolve: none was skipped.")
        if unknown := sorted(set(paths) - left_alone):
            known = f"{len(left_alone)} were: {first_of(sorted(left_alone), _MOST_NAMED)}"
            raise NothingToRestore(f"Not skipped: {first_of(unknown, _MOST_NAMED)}; {known}")
        chosen = left_alone.intersection(paths or left_alone)
        self._left_alone = left_alone - chosen
        if choice == "mine":
            return RestoreReport()
        turn_id = new_id(RESOLVED)
        try:
            saved = await self._snapshots.take(moves)
            report = await self._snapshots.resolve(moves, choice, chosen, saved)
            if report.restored:
                await self._session.save(self._record(turn_id, "before", saved))
                await self._session.save(self._record(turn_id, "after", await self._snapshots.take(moves)))
        except CheckpointError as error:
            raise NothingToRestore(f"Nothing was resolved: {error}") from error
        self._left_alone = left_alone - {change.path for change in report.restored}
        return report

    def calls_since(self, turn_id: str) -> frozenset[str]:
        """Return the ids of the calls made in a turn and in all later ones."""
        records = self._session.records
        first = next((at for at, record in enumerate(records) if record.turn_id == turn_id), len(records))
        said = (record for record in records[first:] if isinstance(record, AssistantMessage))
        return frozenset(call.id for record in said for call in record.calls)

    def points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that the session can be rewound to, oldest first."""
        return list_rewind_points(self._session.records, self._session.view.prompts)

    def saved(self, turn_ids: Iterable[str]) -> dict[str, Saved]:
        """Return turn id → how far the files of that turn are saved."""
        return saved(self._session.records, turn_ids)

    def redo_prompts(self) -> list[tuple[str, Rewound]]:
        """Return what can be redone, the next one first: its first prompt, and what was reverted."""
        redoable = taken_back(self._session.records).redoable
        return [(prompt_of(self._session.records, each.turn_ids[0]), each.what) for each in reversed(redoable)]

    async def would_undo(self, turn_id: str, what: Rewound, *, close: bool = True) -> tuple[str, RestoreReport]:
        """Return the prompt of a rewind and its effect on the files, without changing them. Without `close`,
        crashed turns are not closed, and nothing at all is written.

        Raises:
            NothingToRestore: nothing would happen.
        """
        if close:
            await self.close_crashed_turns()
        records = self._session.records
        _, files = self._way_back(turn_id, what)
        report = await self._dry_run(undo_moves(records, files, undo=True))
        return prompt_of(records, turn_id), _with_uncovered(uncovered_in(records, files), report)

    async def would_redo(self) -> tuple[str, RestoreReport]:
        """Return the prompt of the next redo and its effect on the files, without changing them.

        Raises:
            NothingToRestore: there is nothing to redo.
        """
        undoing = self._next_redo()
        records = self._session.records
        return prompt_of(records, undoing.turn_ids[0]), await self._dry_run(redo_moves(records, undoing))

    async def aclose(self) -> None:
        """Stop what goes on in the background."""
        for task in (tasks := [*self._background]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def session_diff(self) -> str:
        """Return a unified diff from before the session's first change to now; empty if nothing changed."""
        pairs = checkpoint_pairs(self._session.records)
        first = next((before for turn, (before, _) in pairs.items() if before and self._is_here(turn)), "")
        if not first:
            return ""
        return await self._snapshots.diff(first, await self._snapshots.take())

    def _way_back(self, turn_id: str, what: Rewound) -> tuple[tuple[str, ...], list[str]]:
        """Return the turns that a rewind reverts, and those whose files it reverts, newest first."""
        if turn_id not in self.turn_prompts():
            raise NothingToRestore("There is no such prompt to go back to.")
        taken = taken_back(self._session.records)
        order = list(dict.fromkeys(record.turn_id for record in self._session.records if record.turn_id))
        later = [turn for turn in order[order.index(turn_id) :] if is_turn(turn)]
        files = [turn for turn in later if turn not in taken.files] if what != "conversation" else []
        words = [turn for turn in later if turn not in taken.messages] if what != "code" else []
        chosen = tuple(turn for turn in later if turn in files or turn in words)
        if not chosen:
            raise NothingToRestore("The files are already as they were before this prompt.")
        refuse_elsewhere(self._session.records, files, self._session.root)
        return chosen, files[::-1]

    async def _before_undo(self, moves: Sequence[Move]) -> str:
        """Save the state before an undo, for its redo. Return the id of the checkpoint; empty if nothing was
        saved."""
        if not moves or is_torn(self._session.records):
            return ""
        turn_id = new_id(AROUND)
        try:
            await self._session.save(self._record(turn_id, "before", await self._snapshots.take(moves)))
        except CheckpointError:  # the redo then goes turn by turn
            return ""
        return turn_id

    async def _after_undo(self, turn_id: str, moves: Sequence[Move]) -> list[CheckpointTaken]:
        """Return the record of the state after the undo, to be saved together with the record of the undo."""
        if not turn_id:
            return []
        try:
            return [self._record(turn_id, "after", await self._snapshots.take(moves))]
        except CheckpointError:
            return []

    def _next_redo(self) -> Undoing:
        redoable = taken_back(self._session.records).redoable
        if not redoable:
            raise NothingToRestore("There is nothing to redo.")
        refuse_elsewhere(self._session.records, redoable[-1].files, self._session.root)
        return redoable[-1]

    async def _carry_out(self, moves: list[Move], memory: Sequence[MemoryChange]) -> RestoreReport:
        try:
            report = await self._snapshots.carry_out(moves) if moves else RestoreReport()
        except CheckpointError as error:
            raise NothingToRestore(f"The files cannot be restored: {error}") from error
        reasons = {each.reason for each in report.conflicts}
        for code, (what, remedy) in _UNWRITABLE.items():
            if os.strerror(code) in reasons:
                done, count = len(report.restored), len(report.restored) + len(report.conflicts)
                raise NothingToRestore(
                    f"{what}: {done} of {count} file{'s' * (count != 1)} restored. {remedy} and try again: what "
                    "is restored stays so"
                )
        self._left_alone = _decidable(report)
        report = _caches_last(report)
        if not memory:
            return report
        blocks = self._memory.put_all_back(memory)
        conflicts = tuple(Conflict(each.path, each.reason, decidable=False) for each in blocks.conflicts)
        return msgspec.structs.replace(
            report, restored=report.restored + blocks.restored, conflicts=report.conflicts + conflicts
        )

    async def _dry_run(self, moves: list[Move]) -> RestoreReport:
        """Return what moves would do, with line counts."""
        if not moves:
            return RestoreReport()
        try:
            report = await self._snapshots.carry_out(moves, dry_run=True)
            changes = await self._snapshots.changes(moves[0].left, moves[-1].target)
        except CheckpointError as error:
            raise NothingToRestore(f"The files cannot be restored: {error}") from error
        counts = {change.path: (change.added, change.removed) for change in changes}
        restored = tuple(
            FileChange(each.path, each.kind, *counts.get(each.path, (0, 0))) for each in report.restored
        )
        return _caches_last(msgspec.structs.replace(report, restored=restored))

    def _prompted(self, turn_ids: tuple[str, ...]) -> set[str]:
        """Return those of the turns that count and began with a prompt."""
        return {message.turn_id for message in self._session.view.prompts}.intersection(turn_ids)

    def _record(
        self,
        turn_id: str,
        when: Literal["before", "after"],
        checkpoint: str,
        *,
        late: bool = False,
        uncovered: tuple[str, ...] = (),
        foreign: tuple[str, ...] = (),
    ) -> CheckpointTaken:
        return CheckpointTaken(
            id=new_id("cp"), turn_id=turn_id, when=when, checkpoint=checkpoint, late=late, uncovered=uncovered,
            foreign=foreign, root=self._other_root,
        )  # fmt: skip

    def _report_left_out(self, scope: TurnScope) -> None:
        """Report files that no checkpoint contains because of their size, each once."""
        if large := [path for path in self._snapshots.left_out if path not in self._reported]:
            scope.notice(f"Undo will not restore files that are too large: {first_of(large, _MOST_NAMED)}.")
        self._reported.update(large)
        if other := [each for each in self._snapshots.uncovered if each not in self._reported]:
            scope.notice(f"Undo will not restore: {first_of(other, _MOST_NAMED)}.", "info")
        self._reported.update(other)

    def _maintain_soon(self) -> None:
        """Maintain the store in the background, once; nothing waits for it. If it fails, the next session
        retries."""
        if self._snapshots.needs_maintenance and not self._is_maintained:
            self._is_maintained = True
            self._in_background(self._snapshots.maintain)

    def _in_background(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do work whose failure concerns nobody: who needs its result does it again."""

        async def working() -> None:
            with contextlib.suppress(CheckpointError, OSError):
                await work()

        task = asyncio.create_task(working())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def turn_prompts(self) -> dict[str, str]:
        """Return turn id → prompt of the turns that count and began with a human message, in order."""
        prompts: dict[str, str] = {}
        for message in self._session.view.prompts:
            prompts.setdefault(message.turn_id, message.text)
        return prompts


def _free_bytes(path: str) -> int:
    try:
        found = os.statvfs(os.path.dirname(path) or os.sep)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _with_uncovered(uncovered: Sequence[str], report: RestoreReport) -> RestoreReport:
    """Return an undo report with the files that the turns wrote and no checkpoint contains."""
    more = tuple(Conflict(path, "undo does not cover it", decidable=False) for path in uncovered)
    return msgspec.structs.replace(report, conflicts=report.conflicts + more)


def _decidable(report: RestoreReport) -> frozenset[str]:
    return frozenset(conflict.path for conflict in report.conflicts if conflict.decidable)


def _caches_last(report: RestoreReport) -> RestoreReport:
    """Return the report with files in caches last, since lists of it are truncated."""
    restored = tuple(sorted(report.restored, key=lambda change: is_in_cache(change.path)))
    return msgspec.structs.replace(report, restored=restored)

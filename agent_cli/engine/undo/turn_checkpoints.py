"""What the records of a session say of the files of its turns: their checkpoints, what their tools wrote, and the
moves that take a turn back or bring it again. Apart, since all of it is computed from records alone."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from agent_cli.protocol.client import RewindPoint
from agent_cli.protocol.messages import MemoryChange, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CallStarted, CheckpointTaken, TurnsRedone, TurnsUndone
from agent_cli.session.undo_state import AROUND, RESOLVED, NothingToRestore, Undoing, taken_back
from agent_cli.workspace.checkpoints.types import Move

_CLOCK_S = 0.01
"""How far behind the clock the times of files may be."""


def checkpoint_pairs(records: Iterable[AnyRecord]) -> dict[str, tuple[str, str]]:
    """Turn id → its checkpoints before and after; an empty text where there is none."""
    pairs: dict[str, tuple[str, str]] = {}
    for record in records:
        if isinstance(record, CheckpointTaken):
            before, after = pairs.get(record.turn_id, ("", ""))
            pair = (record.checkpoint, after) if record.when == "before" else (before, record.checkpoint)
            pairs[record.turn_id] = pair
    return pairs


def uncovered_in(records: Iterable[AnyRecord], turn_ids: Collection[str]) -> tuple[str, ...]:
    """Find the files that turns were about to write and that their checkpoints do not hold, in order."""
    found = (
        path
        for record in records
        if isinstance(record, CheckpointTaken) and record.turn_id in turn_ids
        for path in record.uncovered
    )
    return tuple(dict.fromkeys(found))


Saved = Literal["whole", "begun", "lost", "none"]
"""How far the files of a turn are saved: at both its ends, only before it, not although it acted, or it did
nothing."""


def saved(records: Iterable[AnyRecord], turn_id: str) -> Saved:
    """That of one turn."""
    given = list(records)
    before, after = checkpoint_pairs(given).get(turn_id, ("", ""))
    if before:
        return "whole" if after else "begun"
    acted = any(isinstance(each, CallStarted) and each.turn_id == turn_id for each in given)
    return "lost" if acted else "none"


def written_files(records: Iterable[AnyRecord]) -> dict[str, frozenset[str]]:
    """Turn id → files that the turn's own tools are known to have changed."""
    written: dict[str, frozenset[str]] = {}
    for record in records:
        if isinstance(record, ToolResult) and record.changes:
            paths = (change.path for change in record.changes)
            written[record.turn_id] = written.get(record.turn_id, frozenset()).union(paths)
    return written


def known_until(records: Iterable[AnyRecord], turn_id: str) -> float:
    """Until when, in seconds since the epoch, a turn that a crash tore was surely at work itself: until the first
    of its calls began that never came to an end; where there is none, until its last result. 0: it is not known.
    """
    begun, ended = dict[str, float](), dict[str, float]()
    for record in records:
        if record.turn_id not in (turn_id, "") and (begun or ended):
            break
        if record.turn_id == turn_id and isinstance(record, CallStarted):
            begun[record.call_id] = record.time
        elif record.turn_id == turn_id and isinstance(record, ToolResult) and record.status != "unknown":
            ended[record.call_id] = record.time
    open_since = [time for call_id, time in begun.items() if call_id not in ended]
    return min(open_since) - _CLOCK_S if open_since else max(ended.values(), default=0.0)


def list_rewind_points(records: Sequence[AnyRecord], prompts: Sequence[UserMessage]) -> tuple[RewindPoint, ...]:
    """Return where one can go back to: before each turn that began with one of `prompts`, oldest first."""
    pairs, written = checkpoint_pairs(records), written_files(records)
    humans = [r for r in records if isinstance(r, UserMessage) and r.origin == "human"]
    numbers = {message.turn_id: number for number, message in reversed([*enumerate(humans, start=1)])}
    first: dict[str, UserMessage] = {}
    for message in prompts:
        first.setdefault(message.turn_id, message)
    return tuple(
        RewindPoint(
            turn_id, numbers[turn_id], message.text, message.time, tuple(sorted(written.get(turn_id, ()))),
            all(pairs.get(turn_id, ("", ""))),
        )
        for turn_id, message in first.items()
    )  # fmt: skip


def memory_changes(records: Iterable[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[MemoryChange]:
    """Return what undoing or redoing turns, in this order, does to the blocks of the agent's memory."""
    made: dict[str, list[MemoryChange]] = {}
    for record in records:
        if isinstance(record, ToolResult) and record.memory:
            made.setdefault(record.turn_id, []).extend(record.memory)
    found: list[MemoryChange] = []
    for turn_id in turn_ids:
        changes = made.get(turn_id, [])
        found += [MemoryChange(c.path, c.after, c.before) for c in reversed(changes)] if undo else changes
    return found


def prompt_of(records: Iterable[AnyRecord], turn_id: str) -> str:
    """Return the first human text of a turn, undone or not; empty where it has none."""
    for record in records:
        if isinstance(record, UserMessage) and record.origin == "human" and record.turn_id == turn_id:
            return record.text
    return ""


def undo_moves(records: Sequence[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[Move]:
    """Return what undoing or redoing turns, in this order, does to the files.

    Raises:
        NothingToRestore: a turn changed files and its checkpoints are not complete.
    """
    pairs, moves = checkpoint_pairs(records), list[Move]()
    late = {each.turn_id for each in records if isinstance(each, CheckpointTaken) and each.late}
    written = written_files(records)
    acted = {each.turn_id for each in records if isinstance(each, CallStarted)}
    for turn_id in turn_ids:
        before, after = pairs.get(turn_id, ("", ""))
        if bool(before) != bool(after) or (not before and turn_id in acted):
            words = prompt_of(records, turn_id).strip().partition("\n")[0][:60]
            raise NothingToRestore(
                f"the files of this turn cannot be restored because its checkpoint is incomplete: “{words}”; "
                "only the conversation can be undone"
            )
        if before:
            only = written.get(turn_id, frozenset()) if turn_id in late else None
            moves.append(Move(after, before, only) if undo else Move(before, after, only))
    return moves


def is_turn(turn_id: str) -> bool:
    """Return whether it is the id of a turn, and not one under which an undo has its own checkpoints."""
    return not turn_id.startswith((RESOLVED, AROUND))


def redo_moves(records: Sequence[AnyRecord], undoing: Undoing) -> list[Move]:
    """Return the moves of a redo: decisions on what the undo left alone are taken back, then the undo itself.

    Raises:
        NothingToRestore: as `undo_moves`.
    """
    taken = taken_back(records)
    decided = [turn for turn in _decided(records, undoing.at) if turn not in taken.files]
    return undo_moves(records, decided, undo=True) + _mirror(records, undoing)


def last_moves(records: Sequence[AnyRecord]) -> list[Move]:
    """Return those of the last undo, redo or rewind, if nothing has happened since.

    Raises:
        NothingToRestore: it was none of these, or as `undo_moves`.
    """
    at = max((at for at, each in enumerate(records) if isinstance(each, TurnsUndone | TurnsRedone)), default=-1)
    new = [each for each in records[at + 1 :] if isinstance(each, UserMessage) and each.origin == "human"]
    record = records[at]
    if at >= 0 and not new:
        if isinstance(record, TurnsUndone):
            return undo_moves(records, reversed(taken_back(records).redoable[-1].files), undo=True)
        if isinstance(record, TurnsRedone):
            earlier = taken_back(records[:at]).redoable
            return _mirror(records, next(e for e in earlier[::-1] if e.turn_ids == record.turn_ids))
    raise NothingToRestore("there is nothing to decide: the last operation was not an undo, redo or rewind")


def is_torn(records: Sequence[AnyRecord]) -> bool:
    """Return whether an undo was begun and never finished: part of what it does may be done."""
    for record in reversed(records):
        if isinstance(record, TurnsUndone):
            return False
        if isinstance(record, CheckpointTaken) and record.turn_id.startswith(AROUND):
            return True
    return False


def _decided(records: Sequence[AnyRecord], at: int) -> list[str]:
    """Return the decisions on what the undo at an index left alone, the newest first."""
    found: list[str] = []
    for record in records[at + 1 :]:
        if isinstance(record, TurnsUndone | TurnsRedone):
            break
        if isinstance(record, CheckpointTaken) and record.turn_id.startswith(RESOLVED) and record.when == "after":
            found.insert(0, record.turn_id)
    return found


def _mirror(records: Sequence[AnyRecord], undoing: Undoing) -> list[Move]:
    """From what an undo made to what it found. What it left alone is the same in both, so it stays. An undo
    without checkpoints around it is mirrored turn by turn."""
    turns = undo_moves(records, undoing.files, undo=False)
    saved = records[undoing.at - 1] if undoing.at else None
    if not turns or not isinstance(saved, CheckpointTaken) or not saved.turn_id.startswith(AROUND):
        return turns
    before, after = checkpoint_pairs(records)[saved.turn_id]
    return [Move(after, before, within=tuple(turns))] if before and after else turns

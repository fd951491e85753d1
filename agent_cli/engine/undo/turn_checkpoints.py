"""File state of turns as recorded in a session: checkpoints, files written by tools, and the moves that undo or
redo a turn. A separate module, because all of it is computed from records alone."""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

from agent_cli.protocol.client import RewindPoint
from agent_cli.protocol.messages import FileChange, MemoryChange, ToolResult, UserMessage, is_prompt, sum_changes
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CheckpointTaken,
    TurnsRedone,
    TurnsUndone,
    header_of,
    storable_text,
)
from agent_cli.session.undo_state import (
    AROUND,
    BETWEEN,
    RESOLVED,
    FilesNotSaved,
    NothingToRestore,
    Undoing,
    taken_back,
)
from agent_cli.workspace.checkpoints.types import Move

_CLOCK_S = 0.01
"""Seconds by which file times may lag behind the clock."""


def checkpoint_pairs(records: Iterable[AnyRecord]) -> dict[str, tuple[str, str]]:
    """Return turn id → checkpoints before and after; an empty text if there is none."""
    pairs: dict[str, tuple[str, str]] = {}
    for record in records:
        if isinstance(record, CheckpointTaken):
            before, after = pairs.get(record.turn_id, ("", ""))
            pair = (record.checkpoint, after) if record.when == "before" else (before, record.checkpoint)
            pairs[record.turn_id] = pair
    return pairs


def root_of(records: Sequence[AnyRecord], turn_id: str = "") -> str:
    """Return the directory whose files a turn's checkpoints contain, or without an id those of the newest."""
    for record in reversed(records):
        if isinstance(record, CheckpointTaken) and turn_id in ("", record.turn_id):
            return record.root or header_of(records).cwd
    return header_of(records).cwd


def root_of_next(records: Sequence[AnyRecord], what: Literal["undo", "redo"]) -> str:
    """Return the directory whose files the next undo or redo restores."""
    taken = taken_back(records)
    if what == "undo":
        turns = [turn for turn in checkpoint_pairs(records) if is_turn(turn) and turn not in taken.files]
    else:
        turns = [turn for undoing in taken.redoable[-1:] for turn in undoing.files]
    return root_of(records, turns[-1] if turns else "")


def refuse_elsewhere(records: Sequence[AnyRecord], turn_ids: Iterable[str], root: Path) -> None:
    """Refuse to undo or redo turns that changed another directory.

    Raises:
        FilesNotSaved: one did; the message names the directory.
    """
    pairs = checkpoint_pairs(records)
    for turn_id in turn_ids:
        before, after = pairs.get(turn_id, ("", ""))
        if before == after or is_at(there := root_of(records, turn_id), root):
            continue
        now = f"and the session is in {root} now"
        if not os.path.isdir(there):
            now = "which is gone; they can be restored when it is back"
        raise FilesNotSaved(f"the turn {_first_words(records, turn_id)} changed files in {there}, {now}")


def is_at(place: str, root: Path) -> bool:
    """Return True if a recorded directory is `root`."""
    return place in (str(root), storable_text(str(root))) or os.path.realpath(place) == os.path.realpath(root)


def uncovered_in(records: Iterable[AnyRecord], turn_ids: Collection[str]) -> tuple[str, ...]:
    """Return the files that turns were about to write and their checkpoints do not contain, in order."""
    found = (
        path
        for record in records
        if isinstance(record, CheckpointTaken) and record.turn_id in turn_ids
        for path in record.uncovered
    )
    return tuple(dict.fromkeys(found))


Saved = Literal["whole", "begun", "lost", "none"]
"""How far the files of a turn are saved: before and after it, only before it, not although it had effects, or it
had none."""


def saved(records: Sequence[AnyRecord], turn_ids: Iterable[str]) -> dict[str, Saved]:
    """Return turn id → how far the files of that turn are saved."""
    pairs, afterwards = checkpoint_pairs(records), _changed_afterwards(records)
    acted = {each.turn_id for each in records if isinstance(each, CallStarted)}

    def one(turn_id: str) -> Saved:
        before, after = pairs.get(turn_id, ("", ""))
        if before:
            return "whole" if after else "begun"
        if turn_id in acted:
            return "lost"
        return "whole" if turn_id in afterwards else "none"

    return {turn_id: one(turn_id) for turn_id in turn_ids}


def _changed_afterwards(records: Iterable[AnyRecord]) -> frozenset[str]:
    """Return the turns after which background sub-agents have changed something, before the next turn."""
    found: set[str] = set()
    turn_id = ""
    for record in records:
        if not record.turn_id.startswith(BETWEEN):
            turn_id = record.turn_id if record.turn_id and is_turn(record.turn_id) else turn_id
        elif isinstance(record, CheckpointTaken) and record.when == "after":
            found.add(turn_id)
    return frozenset(found)


def written_files(records: Iterable[AnyRecord]) -> dict[str, frozenset[str]]:
    """Return turn id → files that the turn's own tools are known to have changed."""
    written: dict[str, frozenset[str]] = {}
    for record in records:
        if isinstance(record, ToolResult) and record.changes:
            paths = (change.path for change in record.changes)
            written[record.turn_id] = written.get(record.turn_id, frozenset()).union(paths)
    return written


def named_changes(records: Iterable[AnyRecord], turn_id: str) -> tuple[FileChange, ...]:
    """Return the changes that the results of a turn name, each file once. Commands name none."""
    found: dict[str, FileChange] = {}
    for record in records:
        if isinstance(record, ToolResult) and record.turn_id == turn_id:
            for change in record.changes:
                found[change.path] = sum_changes(found.get(change.path), change)
    return tuple(found.values())


def known_until(records: Iterable[AnyRecord], turn_id: str) -> float:
    """Return the time (seconds since the epoch) until which a crashed turn was certainly at work: the start of its
    first unfinished call, or else its last result. 0 if unknown."""
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
    """Return the points to rewind to: before each turn that began with one of `prompts`, oldest first."""
    pairs, written, afterwards = checkpoint_pairs(records), written_files(records), _changed_afterwards(records)
    undone = taken_back(records).files
    beyond = {each.turn_id for each in records if isinstance(each, CheckpointTaken) and each.uncovered}
    humans = [r for r in records if is_prompt(r)]
    numbers = {message.turn_id: number for number, message in reversed([*enumerate(humans, start=1)])}
    first: dict[str, UserMessage] = {}
    for message in prompts:
        first.setdefault(message.turn_id, message)

    def files_of(turn_id: str) -> Literal["changed", "unchanged", "undone"]:
        before, after = pairs.get(turn_id, ("", ""))
        if before == after and turn_id not in afterwards | beyond and (before or turn_id not in written):
            return "unchanged"
        return "undone" if turn_id in undone else "changed"

    return tuple(
        RewindPoint(
            turn_id, numbers[turn_id], message.text, message.time, tuple(sorted(written.get(turn_id, ()))),
            all(pairs.get(turn_id, ("", ""))) or turn_id in afterwards, files_of(turn_id),
        )
        for turn_id, message in first.items()
    )  # fmt: skip


def memory_changes(records: Iterable[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[MemoryChange]:
    """Return the changes to the agent's memory blocks when undoing or redoing turns in this order."""
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
    """Return the first human text of a turn, undone or not; empty if there is none."""
    for record in records:
        if is_prompt(record) and record.turn_id == turn_id:
            return record.text
    return ""


def _first_words(records: Iterable[AnyRecord], turn_id: str) -> str:
    """Return the beginning of a turn's prompt in quotation marks."""
    first, _, _ = prompt_of(records, turn_id).strip().partition("\n")
    return f"“{first[:60]}”"


def undo_moves(records: Sequence[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[Move]:
    """Return the file moves for undoing or redoing turns in this order.

    Raises:
        NothingToRestore: a turn changed files and its checkpoints are incomplete.
    """
    pairs, moves = checkpoint_pairs(records), list[Move]()
    late = {each.turn_id for each in records if isinstance(each, CheckpointTaken) and each.late}
    foreign = {each.turn_id: frozenset(each.foreign) for each in records if isinstance(each, CheckpointTaken)}
    written = written_files(records)
    acted = {each.turn_id for each in records if isinstance(each, CallStarted)}
    for turn_id in turn_ids:
        before, after = pairs.get(turn_id, ("", ""))
        if turn_id.startswith(BETWEEN) and not after:
            continue  # still going on
        if bool(before) != bool(after) or (not before and turn_id in acted):
            words = _first_words(records, turn_id)
            raise FilesNotSaved(
                f"the files of this turn cannot be restored because its checkpoint is incomplete: {words}"
            )
        if before != after:
            only = written.get(turn_id, frozenset()) if turn_id in late else None
            left, target = (after, before) if undo else (before, after)
            moves.append(Move(left, target, only, foreign=foreign.get(turn_id, frozenset())))
    return moves


def is_turn(turn_id: str) -> bool:
    """Return True for the id of a turn, False for an id of checkpoints made by undo."""
    return not turn_id.startswith((RESOLVED, AROUND))


def redo_moves(records: Sequence[AnyRecord], undoing: Undoing) -> list[Move]:
    """Return the moves of a redo: first decisions on conflicts of the undo are reverted, then the undo itself.

    Raises:
        NothingToRestore: as in `undo_moves`.
    """
    taken = taken_back(records)
    decided = [turn for turn in _decided(records, undoing.at) if turn not in taken.files]
    return undo_moves(records, decided, undo=True) + _mirror(records, undoing)


def last_moves(records: Sequence[AnyRecord]) -> list[Move]:
    """Return the moves of the last undo, redo or rewind, if nothing has happened since.

    Raises:
        NothingToRestore: the last action was none of these, or as in `undo_moves`.
    """
    at = max((at for at, each in enumerate(records) if isinstance(each, TurnsUndone | TurnsRedone)), default=-1)
    new = [each for each in records[at + 1 :] if is_prompt(each)]
    record = records[at]
    if at >= 0 and not new:
        if isinstance(record, TurnsUndone):
            return undo_moves(records, reversed(taken_back(records).redoable[-1].files), undo=True)
        if isinstance(record, TurnsRedone):
            earlier = taken_back(records[:at]).redoable
            return _mirror(records, next(e for e in earlier[::-1] if e.turn_ids == record.turn_ids))
    raise NothingToRestore("There is nothing to resolve: the last operation was not an undo, redo or rewind.")


def is_torn(records: Sequence[AnyRecord]) -> bool:
    """Return True if an undo was begun and never finished: some of its changes may have been made."""
    for record in reversed(records):
        if isinstance(record, TurnsUndone):
            return False
        if isinstance(record, CheckpointTaken) and record.turn_id.startswith(AROUND):
            return True
    return False


def _decided(records: Sequence[AnyRecord], at: int) -> list[str]:
    """Return the decisions on conflicts of the undo at an index, newest first."""
    found: list[str] = []
    for record in records[at + 1 :]:
        if isinstance(record, TurnsUndone | TurnsRedone):
            break
        if isinstance(record, CheckpointTaken) and record.turn_id.startswith(RESOLVED) and record.when == "after":
            found.insert(0, record.turn_id)
    return found


def _mirror(records: Sequence[AnyRecord], undoing: Undoing) -> list[Move]:
    """Return the moves from the state after an undo to the state before it. Conflicting files are the same in
    both, so they stay. An undo without checkpoints around it is mirrored turn by turn."""
    turns = undo_moves(records, undoing.files, undo=False)
    saved = records[undoing.at - 1] if undoing.at else None
    if not turns or not isinstance(saved, CheckpointTaken) or not saved.turn_id.startswith(AROUND):
        return turns
    before, after = checkpoint_pairs(records)[saved.turn_id]
    return [Move(after, before, within=tuple(turns))] if before and after else turns

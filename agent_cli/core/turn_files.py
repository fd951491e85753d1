"""What the records of a session say of the files of its turns: their checkpoints, what their tools wrote, and the
moves that take a turn back or bring it again. Apart, since all of it is computed from records alone."""

from collections.abc import Iterable, Sequence

from ..protocol.messages import MemoryChange, ToolResult, UserMessage
from ..protocol.records import AnyRecord, CallStarted, CheckpointTaken
from ..workspace.moves import Move
from .rewinding import NothingToRestore


def checkpoint_pairs(records: Iterable[AnyRecord]) -> dict[str, tuple[str, str]]:
    """Turn id → its checkpoints before and after; an empty text where there is none."""
    pairs: dict[str, tuple[str, str]] = {}
    for record in records:
        if isinstance(record, CheckpointTaken):
            before, after = pairs.get(record.turn_id, ("", ""))
            pair = (record.checkpoint, after) if record.when == "before" else (before, record.checkpoint)
            pairs[record.turn_id] = pair
    return pairs


def written_by(records: Iterable[AnyRecord]) -> dict[str, frozenset[str]]:
    """Turn id → files that the turn's own tools are known to have changed."""
    written: dict[str, frozenset[str]] = {}
    for record in records:
        if isinstance(record, ToolResult) and record.changes:
            paths = (change.path for change in record.changes)
            written[record.turn_id] = written.get(record.turn_id, frozenset()).union(paths)
    return written


def memory_of(records: Iterable[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[MemoryChange]:
    """What undoing or redoing turns, in this order, does to the blocks of the agent's memory."""
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
    """The first human text of a turn, undone or not; empty where it has none."""
    for record in records:
        if isinstance(record, UserMessage) and record.origin == "human" and record.turn_id == turn_id:
            return record.text
    return ""


def moves_of(records: Sequence[AnyRecord], turn_ids: Iterable[str], *, undo: bool) -> list[Move]:
    """What undoing or redoing turns, in this order, does to the files.

    Raises:
        NothingToRestore: a turn changed files and its checkpoints are not complete.
    """
    pairs, moves = checkpoint_pairs(records), list[Move]()
    late = {each.turn_id for each in records if isinstance(each, CheckpointTaken) and each.late}
    written = written_by(records)
    acted = {each.turn_id for each in records if isinstance(each, CallStarted)}
    for turn_id in turn_ids:
        before, after = pairs.get(turn_id, ("", ""))
        if bool(before) != bool(after) or (not before and turn_id in acted):
            words = prompt_of(records, turn_id).strip().partition("\n")[0][:60]
            raise NothingToRestore(
                f"the files of this turn cannot be restored, its checkpoint is not complete: “{words}”; "
                "only the conversation can be taken back"
            )
        if before:
            only = written.get(turn_id, frozenset()) if turn_id in late else None
            moves.append(Move(after, before, only) if undo else Move(before, after, only))
    return moves

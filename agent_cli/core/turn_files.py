"""What the records of a session say of the files of its turns: their checkpoints, what their tools wrote, and the
moves that take a turn back or bring it again. Apart, since all of it is computed from records alone."""

from collections.abc import Iterable, Sequence

from ..protocol.messages import ToolResult, UserMessage
from ..protocol.records import AnyRecord, CallStarted, CheckpointTaken
from ..workspace.restore import Move
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


def written_by(records: Iterable[AnyRecord], turn_id: str) -> frozenset[str]:
    """Files that a turn's own tools are known to have changed."""
    return frozenset(
        change.path
        for record in records
        if isinstance(record, ToolResult) and record.turn_id == turn_id
        for change in record.changes
    )


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
            only = written_by(records, turn_id) if turn_id in late else None
            moves.append(Move(after, before, only) if undo else Move(before, after, only))
    return moves

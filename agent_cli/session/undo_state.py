"""Undo and redo state, computed from the records of a session. A separate module, because messages and files of a
turn may be reverted separately, and the history and the checkpoints must agree on both."""

from collections.abc import Iterable

import msgspec

from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import is_prompt
from agent_cli.protocol.operations import Rewound
from agent_cli.protocol.records import AnyRecord, TurnsRedone, TurnsUndone

RESOLVED = "resolve"
"""Prefix of the turn ids under which conflict resolutions have their checkpoints."""
AROUND = "around"
"""Prefix of the turn ids of checkpoints around an undo, which its redo is based on."""

BETWEEN = "between"
"""Prefix of the turn ids of what background sub-agents change between turns; undone with the turn before."""


class NothingToRestore(Exception):
    """There is no turn to undo or redo, or the operation is not possible; the message says why."""

    hints: tuple[Hint, ...] = ()


class FilesNotSaved(NothingToRestore):
    """A turn changed files that cannot be restored; what was said can still be undone."""

    hints = (Hint("undo_conversation"),)


class Undoing(msgspec.Struct, frozen=True):
    """An undo or rewind in force."""

    turn_ids: tuple[str, ...]
    what: Rewound
    messages: frozenset[str]
    """Turns whose messages this undo reverted, not an earlier one."""
    files: tuple[str, ...]
    """Turns whose files this undo reverted, not an earlier one; oldest first."""
    at: int
    """Index of its record."""


class TakenBack(msgspec.Struct, frozen=True):
    """Undo state of all turns after a list of records."""

    messages: frozenset[str]
    """Turns whose messages do not count."""
    files: frozenset[str]
    """Turns whose files are reverted."""
    redoable: tuple[Undoing, ...]
    """Undos that can be redone; the next one is last."""


def taken_back(records: Iterable[AnyRecord]) -> TakenBack:
    """Replay all undos and redos. An undo reverts what is not reverted yet; its redo restores exactly that."""
    given = list(records)
    force: list[Undoing] = []
    for at, record in enumerate(given):
        if isinstance(record, TurnsUndone):
            force.append(_undoing(record, at, force))
        elif isinstance(record, TurnsRedone):
            same = [each for each in force if each.turn_ids == record.turn_ids]
            if same:
                force.remove(same[-1])
    messages = frozenset(turn for each in force for turn in each.messages)
    files = frozenset(turn for each in force for turn in each.files)
    since = _last_new_prompt(given, messages)
    return TakenBack(messages, files, tuple(each for each in force if each.at > since))


def _undoing(record: TurnsUndone, at: int, force: list[Undoing]) -> Undoing:
    messages = {turn for each in force for turn in each.messages}
    files = {turn for each in force for turn in each.files}
    ids = record.turn_ids
    return Undoing(
        ids,
        record.what,
        frozenset(ids) - messages if record.what != "code" else frozenset(),
        tuple(turn for turn in ids if turn not in files) if record.what != "conversation" else (),
        at,
    )


def _last_new_prompt(records: list[AnyRecord], undone: frozenset[str]) -> int:
    """Return the index of the newest human prompt that counts, or -1. Undos before it cannot be redone."""
    for at in range(len(records) - 1, -1, -1):
        record = records[at]
        if is_prompt(record) and record.turn_id not in undone:
            return at
    return -1

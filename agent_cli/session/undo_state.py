"""What was taken back and can be brought again, computed from the records of a session. Apart, since messages and
files of a turn may be taken back separately, and both the history and the checkpoints must agree on it."""

from collections.abc import Iterable

import msgspec

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Rewound
from agent_cli.protocol.records import AnyRecord, TurnsRedone, TurnsUndone

RESOLVED = "resolve"
"""How the turn ids begin under which decisions on conflicts have their checkpoints."""
AROUND = "around"
"""The same for the checkpoints around an undo, of which its redo is made."""


class NothingToRestore(Exception):
    """There is no turn to undo or redo, or it cannot be done; the text says why."""


class Undoing(msgspec.Struct, frozen=True):
    """One undo or rewind that is in force."""

    turn_ids: tuple[str, ...]
    what: Rewound
    messages: frozenset[str]
    """Turns whose messages it has taken back, and no earlier one."""
    files: tuple[str, ...]
    """The same of files, oldest first."""
    at: int
    """Index of its record."""


class TakenBack(msgspec.Struct, frozen=True):
    """The state of all turns after some records."""

    messages: frozenset[str]
    """Turns whose messages do not count."""
    files: frozenset[str]
    """Turns whose files are taken back."""
    redoable: tuple[Undoing, ...]
    """What can be brought back, the next one last."""


def taken_back(records: Iterable[AnyRecord]) -> TakenBack:
    """Replay every undo and redo. An undo takes what is not taken yet; its redo gives back exactly that."""
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
    """Index of the newest human prompt that counts: what was undone before it cannot be redone."""
    for at in range(len(records) - 1, -1, -1):
        record = records[at]
        if isinstance(record, UserMessage) and record.origin == "human" and record.turn_id not in undone:
            return at
    return -1

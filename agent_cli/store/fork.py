"""Fork a conversation: build the records of a new session that continues from before a prompt of another. Pure."""

from collections.abc import Sequence

import msgspec

from agent_cli.protocol.messages import is_prompt
from agent_cli.protocol.records import AnyRecord, InputDequeued, InputQueued, Named, header_of

from .session_file import StoreError


class NoPrompt(StoreError):
    """The session has no such prompt; the text gives the number of prompts."""


def forked(records: Sequence[AnyRecord], identifier: str, at: str | int | None = None) -> tuple[AnyRecord, ...]:
    """Return the records of a new session, renumbered: everything recorded before the prompt `at` (a turn id, or a
    prompt number counted from 1), or everything. Records of later turns are left out, as are the name, which
    belongs to the original, and queued prompts that were sent only later.

    Raises:
        NoPrompt: there is no such prompt.
    """
    header = header_of(records)
    kept = records if at is None else _before(records, at)
    taken = {name for record in kept if isinstance(record, InputDequeued) for name in record.queued_ids}
    waiting = {record.id for record in kept if isinstance(record, InputQueued)} - taken
    if at is not None:
        kept = [record for record in kept if record.id not in waiting]
    copy = msgspec.structs.replace(header, session_id=identifier, forked_from=header.session_id)
    rest = (record for record in kept[1:] if not isinstance(record, Named))
    return tuple(
        msgspec.structs.replace(record, seq=number) for number, record in enumerate((copy, *rest), start=1)
    )


def prompts(records: Sequence[AnyRecord]) -> list[int]:
    """Return the indexes of the user prompts in order; the first is number 1."""
    return [place for place, record in enumerate(records) if is_prompt(record)]


def _before(records: Sequence[AnyRecord], at: str | int) -> list[AnyRecord]:
    places = prompts(records)
    if isinstance(at, int):
        if not 1 <= at <= len(places):
            amount = "1 prompt" if len(places) == 1 else f"{len(places)} prompts"
            raise NoPrompt(f"the session has {amount}, no {at}; `agent sessions show` numbers them")
        place = places[at - 1]
    else:
        found = [place for place in places if records[place].turn_id == at]
        if not found:
            raise NoPrompt(f"the session has no turn {at!r} with a prompt; `agent sessions show` numbers them")
        place = found[0]
    turn_id = records[place].turn_id
    begins_turn = not any(records[other].turn_id == turn_id for other in places if other < place)
    return [record for record in records[:place] if not (begins_turn and turn_id and record.turn_id == turn_id)]

"""Import sessions from elsewhere, and repair damaged ones.

Only the conversation is imported: permissions granted there, commands that ran there, queued prompts and file
checkpoints are left out, and the mode is set to the one that asks.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import DISK, Disk, read_regular, replace_file, sync_folder
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage, Attachment, ToolResult, UserMessage, new_id
from agent_cli.protocol.records import (
    AnyRecord,
    CheckpointTaken,
    Granted,
    InputDequeued,
    InputQueued,
    JobStateChanged,
    ModelCalled,
    SettingsSet,
    header_of,
)

from .catalog import NoSession, Sessions
from .file_names import GIVEN_ID, id_in
from .migrate import is_inside
from .salvage import by_lines
from .session_file import Loaded, SessionFile, StoreError, parse_session, write_session

LARGEST_BYTES = 200_000_000
_DEAREST_USD = 1e6
_MOST_TOKENS = 10**12
_LEFT_BEHIND = (Granted, JobStateChanged, InputQueued, InputDequeued, CheckpointTaken)


class Imported(msgspec.Struct, frozen=True):
    """An imported session."""

    path: Path
    id: str
    came_from: str
    """The directory it worked in before."""
    problems: tuple[str, ...]
    """Parts of the file that could not be read."""
    new_id: bool
    """True if its own id was taken or invalid."""


class Repaired(msgspec.Struct, frozen=True):
    """A repaired session, or an intact one: then `copy` is None."""

    path: Path
    copy: Path | None
    """Copy of the file as it was."""
    problems: tuple[str, ...]
    records: int


def import_session(sessions: Sessions, file: Path, cwd: Path) -> Imported:
    """Import a session file or a JSON export, to continue in `cwd`.

    Raises:
        NoSession: it cannot be read or is not a session.
        StoreError: the new session cannot be written.
    """
    loaded = _read(file)
    header = header_of(loaded.records)
    given = header.session_id
    taken = {id_in(path) for path in sessions.paths()}
    usable = given not in taken and GIVEN_ID.fullmatch(given) is not None
    began = header.time if 0 < header.time <= time.time() else None
    identifier, path = sessions.new_path(cwd, given if usable else "", began)
    write_session(path, move_records(loaded.records, identifier, cwd))
    return Imported(path, identifier, header.cwd, loaded.problems(), not usable)


def _read(file: Path) -> Loaded:
    try:
        data = read_regular(file, LARGEST_BYTES + 1, follow=True)
    except OSError as error:
        raise NoSession(f"cannot read {file}: {error.strerror}; {_WHAT}") from error
    if len(data) > LARGEST_BYTES:
        raise NoSession(f"{file} is larger than {LARGEST_BYTES // 10**6} MB; it is not imported")
    try:
        return parse_session(by_lines(data), file)
    except StoreError as error:
        raise NoSession(f"{str(error).partition('. `agent')[0]}; {_WHAT}") from error


_WHAT = "name a session file, or what `agent sessions export --format json` wrote"


def move_records(records: Sequence[AnyRecord], identifier: str, cwd: Path) -> tuple[AnyRecord, ...]:
    """Return the records of a session from elsewhere as one that continues in `cwd`, renumbered. The model is told
    of the move, and the session counts as containing untrusted text, because any of it may be."""
    header = header_of(records)
    here = [_here(record) for record in records[1:] if not isinstance(record, _LEFT_BEHIND)]
    origin = (Attachment("imported session", "", untrusted="an imported session"),)
    mark = "[What follows up to the note about its move was imported from another place.]"
    kept: list[AnyRecord] = [
        msgspec.structs.replace(header, session_id=identifier, cwd=str(cwd), mode="ask"),
        # at the beginning, which every fork keeps
        UserMessage(id=new_id("msg"), time=header.time, text=mark, origin="hint", attachments=origin),
        *_closed(here),
    ]
    told = (
        f"[This conversation was moved from another place. Its workspace was {header.cwd} and is now {cwd}; "
        "paths from before mean files below the new one. Files may differ from what was seen: read before "
        "editing.]"
    )
    kept.append(UserMessage(id=new_id("msg"), time=time.time(), text=told, origin="hint"))
    return tuple(msgspec.structs.replace(record, seq=number) for number, record in enumerate(kept, start=1))


def _here(record: AnyRecord) -> AnyRecord:
    """Return a record without values that would take effect outside the conversation."""
    if isinstance(record, ToolResult):
        seen = {path: known for path, known in record.seen.items() if is_inside(path)}
        cwd = record.cwd if is_inside(record.cwd) else ""
        return msgspec.structs.replace(record, memory=(), seen=seen, cwd=cwd)
    if isinstance(record, ModelCalled):
        return _believable(record)
    return msgspec.structs.replace(record, mode="ask") if isinstance(record, SettingsSet) else record


def _closed(records: Sequence[AnyRecord]) -> Iterator[AnyRecord]:
    """Yield the records, adding a result for each call without one, because no call from elsewhere continues
    here."""
    answered = {record.call_id for record in records if isinstance(record, ToolResult)}
    for record in records:
        yield record
        if isinstance(record, AssistantMessage):
            for call in record.calls:
                if call.id not in answered:
                    answered.add(call.id)
                    yield ToolResult(
                        id=new_id("res"), time=record.time, turn_id=record.turn_id, call_id=call.id,
                        tool=call.name, status="cancelled", text="cancelled: imported",
                    )  # fmt: skip


def _believable(call: ModelCalled) -> ModelCalled:
    """Return the record without token counts and costs that no model call can have."""
    cost = call.cost_usd
    counts = msgspec.structs.astuple(call.usage) if call.usage is not None else ()
    if any(count is not None and not 0 <= count <= _MOST_TOKENS for count in counts):
        call = msgspec.structs.replace(call, usage=None)
    if not 0 <= (call.at_most_usd or 0) <= _DEAREST_USD:
        call = msgspec.structs.replace(call, at_most_usd=None)
    return call if cost is None or 0 <= cost <= _DEAREST_USD else msgspec.structs.replace(call, cost_usd=None)


def repair(path: Path, disk: Disk = DISK) -> Repaired:
    """Repair a damaged session: rewrite what can be read and keep a copy of the original file next to it. The
    modification time stays the same.

    Raises:
        SessionLocked: another process is writing it.
        StoreError: it cannot be read or written; nothing was changed.
    """
    file, loaded = SessionFile.open(path, to_append=False)
    try:
        problems = loaded.problems() or (() if _is_json(path) else ("the file is not valid JSON",))
        if not problems:
            return Repaired(path, None, (), len(loaded.records))
        before = path.stat()
        copy = _free_name(path)
        replace_file(copy, read_regular(path), durable=True, disk=disk)
        sync_folder(copy.parent, disk)  # else a power failure could leave neither the old file nor its copy
        records = [
            msgspec.structs.replace(each, seq=number) for number, each in enumerate(loaded.records, start=1)
        ]
        write_session(path, records, disk, instead=True)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    except OSError as error:
        raise StoreError(f"cannot repair {path}: {error.strerror}. Nothing was changed.") from error
    finally:
        file.close()
    return Repaired(path, copy, problems, len(records))


def _is_json(path: Path) -> bool:
    try:
        decode_json(read_regular(path))
    except msgspec.DecodeError:
        return False
    return True


def _free_name(path: Path) -> Path:
    """Return an unused name for the copy."""
    copy = path.with_name(f"{path.name}.damaged")
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.damaged-{number}")
    return copy

"""A session from elsewhere made one of ours, and a damaged one made whole.

What comes from elsewhere is a conversation and nothing more: permissions that were granted there, commands that
ran there, prompts that waited and checkpoints of files stay behind, and the mode is the one that asks.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..protocol.messages import Attachment, ToolResult, UserMessage, new_id
from ..protocol.records import (
    AnyRecord,
    CheckpointTaken,
    Granted,
    Header,
    InputQueued,
    InputTaken,
    JobNoted,
    SettingsSet,
)
from .session_file import NAME, SessionFile, StoreError, parse_session, write_session
from .sessions import Sessions

LARGEST_BYTES = 2_000_000_000
_LEFT_BEHIND = (Granted, JobNoted, InputQueued, InputTaken, CheckpointTaken)


class Imported(msgspec.Struct, frozen=True):
    """A session that was taken in."""

    path: Path
    id: str
    came_from: str
    """The directory it worked in before."""
    problems: tuple[str, ...]
    """What of the file could not be read."""
    new_id: bool
    """Its own id was taken, or was none."""


class Repaired(msgspec.Struct, frozen=True):
    """A session that was made whole, or was whole: then `copy` is None."""

    path: Path
    copy: Path | None
    """The file as it was."""
    problems: tuple[str, ...]
    records: int


def import_session(sessions: Sessions, file: Path, cwd: Path) -> Imported:
    """Take in a session file or a JSON export, to go on with in `cwd`.

    Raises:
        StoreError: it cannot be read or is no session, or ours cannot be written.
    """
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise StoreError(f"{file} is larger than {LARGEST_BYTES // 10**9} GB; it is not imported")
        data = file.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error.strerror}") from error
    loaded = parse_session(_by_lines(data), file)
    header = loaded.records[0]
    assert isinstance(header, Header)
    given = header.session_id
    taken = {path.stem.rpartition("-")[2] for path in sessions.paths()}
    usable = given not in taken and NAME.fullmatch(f"20260101T000000Z-{given}.json") is not None
    began = header.time if 0 < header.time <= time.time() else None
    identifier, path = sessions.new_path(cwd, given if usable else "", began)
    write_session(path, moved(loaded.records, identifier, cwd))
    return Imported(path, identifier, header.cwd, loaded.problems(), not usable)


def moved(records: Sequence[AnyRecord], identifier: str, cwd: Path) -> tuple[AnyRecord, ...]:
    """The records of a session from elsewhere as one that goes on in `cwd`, numbered anew. The model is told of
    the move, and the session counts as one that has read text of strangers, which all of it may be."""
    header = records[0]
    assert isinstance(header, Header)
    kept: list[AnyRecord] = [
        msgspec.structs.replace(header, session_id=identifier, cwd=str(cwd), mode="ask"),
        *(_here(record) for record in records[1:] if not isinstance(record, _LEFT_BEHIND)),
    ]
    told = (
        f"[This conversation was moved from another place. Its workspace was {header.cwd} and is now {cwd}; "
        "paths from before mean files below the new one. Files may differ from what was seen: read before "
        "editing.]"
    )
    origin = (Attachment("imported session", "", untrusted="an imported session"),)
    kept.append(UserMessage(id=new_id("msg"), time=time.time(), text=told, origin="hint", attachments=origin))
    return tuple(msgspec.structs.replace(record, seq=number) for number, record in enumerate(kept, start=1))


def _here(record: AnyRecord) -> AnyRecord:
    """A record without what would reach beyond the conversation here."""
    if isinstance(record, ToolResult):
        seen = {path: known for path, known in record.seen.items() if not path.startswith("/")}
        cwd = "" if record.cwd.startswith("/") else record.cwd
        return msgspec.structs.replace(record, memory=(), seen=seen, cwd=cwd)
    return msgspec.structs.replace(record, mode="ask") if isinstance(record, SettingsSet) else record


def repair(path: Path) -> Repaired:
    """Make a damaged session whole: what can be read is written anew, and the file as it was is kept beside it.
    The time of its last change stays.

    Raises:
        SessionLocked: another process writes it.
        StoreError: it cannot be read or written; nothing was changed.
    """
    file, loaded = SessionFile.open(path)
    try:
        problems = loaded.problems() or (() if _is_json(path) else ("the file is not valid JSON",))
        if not problems:
            return Repaired(path, None, (), len(loaded.records))
        before = path.stat()
        copy = _free_name(path)
        copy.touch(mode=0o600)
        copy.write_bytes(path.read_bytes())
        records = [
            msgspec.structs.replace(each, seq=number) for number, each in enumerate(loaded.records, start=1)
        ]
        write_session(path, records, instead=True)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    except OSError as error:
        raise StoreError(f"cannot repair {path}: {error.strerror}. Nothing was changed.") from error
    finally:
        file.close()
    return Repaired(path, copy, problems, len(records))


def _by_lines(data: bytes) -> bytes:
    """One record a line, as a session file has it, whatever another program has made of the spaces."""
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data  # damaged, to be read line by line
    if isinstance(value, dict):
        value = value.get("records")
    if not isinstance(value, list):
        return data
    return b"[\n" + b",\n".join(map(msgspec.json.encode, value)) + b"\n]\n"


def _is_json(path: Path) -> bool:
    try:
        msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _free_name(path: Path) -> Path:
    """A name for the copy that is not taken."""
    copy = path.with_name(f"{path.name}.damaged")
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.damaged-{number}")
    return copy

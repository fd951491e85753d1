"""Recover data from a damaged line: the records in it and, for the first line of a session, the intact header
fields. Separate because intact files do not need it. Pure except for `_neighbour`, which reads other sessions of
the same directory."""

import calendar
import contextlib
import os
import re
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, SettingsSet, decode

from .file_names import NAME, id_in

_RECORD = re.compile(rb'\{"type":"')
_STRINGS = ("id", "session_id", "cwd", "model", "mode", "created_by", "system", "effort", "forked_from")
_MOST_NEIGHBOURS = 20


def pieces(line: bytes) -> list[bytes]:
    """Return the parts of a damaged line that may be records. Inside a text every quote is escaped, so the start
    of a record cannot occur there."""
    starts = [found.start() for found in _RECORD.finditer(line)]
    found = [line[at:end] for at, end in pairwise([*starts, len(line)])]
    return [piece[: piece.rfind(b"}") + 1] for piece in found]


def header_from(data: bytes, path: Path, records: Sequence[AnyRecord]) -> tuple[Header | None, tuple[str, ...]]:
    """Return the header of a session whose first line is damaged, and the names of the fields that were found in
    it or inferred; None if nothing indicates that this is a session. `records` are the readable lines."""
    line = next((raw for raw in data.split(b"\n") if len(raw.strip()) > 2), b"")
    fields = {} if _is_record(line) else _fields(line)
    named = NAME.fullmatch(path.name)
    if len(fields) < 2 and not (named and records):
        return None, ()
    if named:
        fields["session_id"] = named.group(2)
    fields.setdefault("session_id", id_in(path))
    if "cwd" not in fields and (cwd := _neighbour(path)):
        fields["cwd"] = cwd
    settings = next((each for each in records if isinstance(each, SettingsSet)), None)
    answer = next((each for each in records if isinstance(each, AssistantMessage) and each.model), None)
    fields.setdefault("model", settings.model if settings else answer.model if answer else "")
    if fields.get("mode") not in get_args(Mode):
        fields["mode"] = "ask"
    header = Header(
        id=fields.pop("id", "") or "session_recovered",
        seq=1,
        time=_began(named.group(1)) if named else records[0].time if records else 0.0,
        version=FORMAT_VERSION,
        cwd=fields.pop("cwd", "") or os.path.realpath(os.curdir),
        created_by=fields.pop("created_by", "") or "agent-cli",
        **fields,
    )
    return header, tuple(name for name in _STRINGS[1:] if getattr(header, name))


def by_lines(data: bytes) -> bytes:
    """Convert a session to one record per line, whatever another program has done to the whitespace; unchanged if
    the whole is not valid JSON."""
    try:
        value: Any = decode_json(data)
    except msgspec.DecodeError:
        return data  # damaged, to be read line by line
    if isinstance(value, dict):
        value = value.get("records")
    if not isinstance(value, list):
        return data
    return b"[\n" + b",\n".join(map(msgspec.json.encode, value)) + b"\n]\n"


def _is_record(line: bytes) -> bool:
    """Return True if a line is an intact record, so that its fields are not those of a header."""
    try:
        decode(line.strip().removesuffix(b","))
    except msgspec.DecodeError:
        return False
    return True


def _fields(line: bytes) -> dict[str, Any]:
    """Return the intact text fields of a header. A field with a damaged byte keeps the rest of its text."""
    text = line.decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for name in _STRINGS:
        match = re.search(rf'"{name}":"((?:[^"\\]|\\.)*)"', text)
        if match:
            with contextlib.suppress(msgspec.DecodeError):
                plain = re.sub(r"[\x00-\x1f]", "\ufffd", match.group(1))
                found[name] = decode_json(f'"{plain}"'.encode(), type=str)
    return found


def _began(stamp: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0


def _neighbour(path: Path) -> str:
    """Return the directory of another session in the same folder; all of them worked in the same one."""
    with contextlib.suppress(OSError):
        others = sorted(name for name in os.listdir(path.parent) if NAME.fullmatch(name) and name != path.name)
        for name in others[-_MOST_NEIGHBOURS:]:
            with contextlib.suppress(OSError):
                if cwd := _fields(read_regular(path.parent / name, 4096)).get("cwd"):
                    return str(cwd)
    return ""

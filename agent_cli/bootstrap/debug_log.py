"""Write the log of `--debug`: a line for each event and each request, with its time, as `name=value`, readable for
users and `grep`. Imported only if the option is given.

The size of a log is bounded: a full log becomes `….log.1`, the one before `….log.2`, and the oldest is removed.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.fs.files import make_private
from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import clean
from agent_cli.redaction.redactor import Redactor

_LISTS = ("messages", "input")
"""Fields of a request body that contain the conversation, the growing part."""
_MOST_BYTES = 10_000_000
_MOST_OLD = 3
_MOST_SESSIONS = 30
"""Number of sessions whose logs are kept, latest first."""
_BARE = lazy_regex(r"(?!(?:true|false|null)$)[^\W\d][\w./:@+-]*")
"""Texts that are unambiguous without quotes."""


class DebugLog:
    """A log file, readable only by the user. Everything is written through a redactor."""

    def __init__(self, path: Path, redactor: Callable[[], Redactor], most_bytes: int = _MOST_BYTES) -> None:
        """The file is created, and `redactor` called, when there is something to write. `most_bytes` is the size
        at which a new file is started."""
        self.path = path
        self._redactor = redactor
        self._most_bytes = most_bytes
        self._before: dict[str, Any] = {}
        self._descriptor = -1
        self._size = 0

    @cached_property
    def _secrets(self) -> Redactor:
        return self._redactor()

    def event(self, event: AnyEvent) -> None:
        """Write an event, which is redacted already."""
        fields = msgspec.to_builtins(event)
        name, moment = fields.pop("type"), fields.pop("time", 0.0)
        self._write(_line(moment or time.time(), name, fields))

    def request(self, model: str, body: dict[str, Any]) -> None:
        """Write a request: only new messages of its conversation, and other fields that have changed, one per
        line. `unchanged` counts the omitted messages."""
        before, self._before = self._before, body
        shown = {name: value for name, value in body.items() if before.get(name) != value}
        kept = 0
        for name in (each for each in _LISTS if isinstance(shown.get(each), list)):
            earlier = before.get(name, [])
            while kept < len(earlier) and shown[name][kept : kept + 1] == earlier[kept : kept + 1]:
                kept += 1
            shown[name] = shown[name][kept:]
        head = _line(time.time(), "model_request", {"model": model, "unchanged": kept})
        self._write(self._secrets.mask("\n".join([head, *_of_body(shown)])))

    def _write(self, text: str) -> None:
        data = "".join(f"{clean(line)}\n" for line in text.split("\n")).encode("utf-8", "replace")
        if self._descriptor < 0 or self._size > self._most_bytes:
            self._open()
        os.write(self._descriptor, data)
        self._size += len(data)

    def _open(self) -> None:
        """Open a file: a new one, or an existing one that is not full."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._rotate()
        else:
            make_private(self.path.parent)
            remove_old_logs(self.path.parent, _MOST_SESSIONS - 1)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        for number in range(_MOST_OLD, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            with contextlib.suppress(OSError):
                os.replace(newer, older)


def remove_old_logs(folder: Path, most: int) -> None:
    """Remove the logs of all sessions except the `most` latest. Errors are ignored."""
    by_session: dict[str, list[Path]] = {}
    written: dict[str, float] = {}
    for path in folder.glob("*.log*"):
        session = path.name.partition(".")[0]
        with contextlib.suppress(OSError):
            written[session] = max(written.get(session, 0.0), path.lstat().st_mtime)
            by_session.setdefault(session, []).append(path)
    for session in sorted(by_session, key=lambda each: written[each], reverse=True)[most:]:
        for path in by_session[session]:
            with contextlib.suppress(OSError):
                path.unlink()


def _line(moment: float, name: str, fields: dict[str, Any]) -> str:
    told = "".join(f" {key}={_value(value)}" for key, value in fields.items())
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    return f"{clock}.{int(moment * 1000) % 1000:03} {name}{told}"


def _value(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value):
        return value
    return msgspec.json.encode(value).decode("utf-8", "replace")


def _of_body(body: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of a request, with each message of the conversation on a separate line."""
    for name, value in body.items():
        if name in _LISTS and isinstance(value, list):
            yield from (f"    {name}+ {msgspec.json.encode(each).decode('utf-8', 'replace')}" for each in value)
        else:
            yield f"    {name}={_value(value)}"

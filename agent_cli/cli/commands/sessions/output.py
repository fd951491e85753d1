"""Common parts of the session commands: parsing and formatting of times, masked output, and progress messages."""

import contextlib
import re
import sys
import time
from collections.abc import Iterable

import msgspec

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.records import storable_json

_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_QUIET_S = 1.0
_EVERY_S = 2.0


def setup_for_sessions() -> Setup:
    """Return the setup of a session command, which reports progress while reading takes long."""
    setup = Setup()
    setup.sessions.progress = Progress()
    return setup


class Progress:
    """Reports on standard error how many sessions were read, once that has taken a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET_S

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            print(f"agent: read {done:,} of {total:,} sessions", file=sys.stderr, flush=True)


def emit(lines: Iterable[str]) -> None:
    """Print lines. A reader that closes the pipe early, such as `head`, is not an error."""
    with contextlib.suppress(BrokenPipeError):
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def print_json(value: object) -> None:
    """Print a value as indented JSON; in names that are not valid UTF-8, lone surrogates are replaced."""
    print(msgspec.json.format(storable_json(value), indent=2).decode())


def when(seconds: float) -> str:
    """Return date and time of day, local."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def size(count: float) -> str:
    """Return a size in bytes as text, such as `1.2 MB`."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count:.0f} B"


def parse_moment(option: str, text: str | None, *, end: bool = False) -> float | None:
    """Return the seconds since the epoch of `7d` (ago; also m, h, w), `today`, `yesterday`, `2026-11-21` or
    `2026-11-21 14:30`; with `end` the end of a named day.

    Raises:
        UsageError: the text has another form.
    """
    if text is None:
        return None
    now = time.time()
    if ago := re.fullmatch(r"(\d{1,6})([mhdw])", text.strip()):
        return now - int(ago.group(1)) * _UNITS_S[ago.group(2)]
    days = {"today": 0, "yesterday": 1}
    named = text.strip().lower()
    if named in days:
        named = time.strftime("%Y-%m-%d", time.localtime(now - days[named] * 86_400))
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"):
        try:
            parsed = time.strptime(named.upper() if "T" in form else named, form)
            found = time.mktime(parsed)
        except (ValueError, OverflowError):
            continue
        return found + 86_399.999 if end and form == "%Y-%m-%d" else found
    raise UsageError(f"{option}: {text!r} is not a moment; write 7d, 12h, today, yesterday or 2026-11-21")

"""Process output: sanitized, shown live in small pieces, reduced to head and tail for the model, and saved in full
in a file if too long. Also defines the limit for the result of every tool."""

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.fs.files import create_file, make_private, read_regular
from agent_cli.protocol.sanitize import Sanitizer
from agent_cli.protocol.usage import CHARS_PER_TOKEN

if TYPE_CHECKING:
    from agent_cli.redaction.redactor import Redactor

BUDGET = 30_000
"""Maximum characters of a command's output for the model."""
MAX_RESULT_TOKENS = 12_500
"""Maximum estimated tokens of any tool's result; smaller for models with a small window."""
PAGE_BYTES_PER_TOKEN = 0.9 * CHARS_PER_TOKEN
"""Bytes per token for a page: slightly below the limit of a result, leaving space for line numbers and notes."""
_NOTES_TOKENS = 300
"""Tokens left in a result for what is said about the output: its end, its file, changes."""
_HEAD_SHARE = 0.2
_MAX_SPILL_BYTES = 64_000_000
_LIVE_EVERY_S = 0.05
_MAX_LIVE = 4000
"""Maximum characters shown live at a time; more output is dropped from the live view."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number with a noun: `1 line`, `2 lines`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return at most `most` names on one line, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _head(text: str, size: int) -> str:
    cut = text[:size]
    at = cut.rfind("\n", size // 2)
    return cut[: at + 1] if at >= 0 else cut


def _tail(text: str, size: int) -> str:
    cut = text[-size:]
    at = cut.find("\n", 0, size // 2)
    return cut[at + 1 :] if at >= 0 else cut


def _joined(head: str, tail: str, chars: int, breaks: int, where: str) -> str:
    lines = breaks - head.count("\n") - tail.count("\n")
    left_out = f"{chars - len(head) - len(tail)} characters"
    if lines > 0:
        left_out = f"{lines} of {breaks} lines ({left_out})"
    whole = f"; the whole output is in {where}" if where else ""
    gap = "" if head.endswith("\n") else "\n"
    return f"{head}{gap}[… {left_out} left out here{whole} …]\n{tail}"


def result_tokens(text: str) -> int:
    """Estimate tokens as four bytes of UTF-8 each, which holds for code as well as for scripts with about one
    token per character."""
    return -(-len(text.encode("utf-8", "replace")) // CHARS_PER_TOKEN)


def bounded(text: str, max_tokens: int, where: str) -> str:
    """Return `text`, or its head and tail if it has more than `max_tokens`; `where` says how to get all of it."""
    tokens = result_tokens(text)
    if tokens <= max_tokens:
        return text
    room = len(text) * max_tokens // tokens
    tail = _tail(text, int(room * (1 - _HEAD_SHARE)))
    return _joined(_head(text, int(room * _HEAD_SHARE)), tail, len(text), text.count("\n"), where)


def file_stem(call_id: str) -> str:
    """Return a unique file name for a call: the id itself if it is plain, otherwise its readable part and a hash.
    At most 80 ASCII characters, never beginning with a dot."""
    if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}", call_id):
        return call_id
    import hashlib

    digest = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    # A plain id never contains a tilde.
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:40]}~{digest}"


def spill_path(folder: Path, name: str) -> Path:
    """Return the path of the file with the full output of the call `name`."""
    return folder / f"{file_stem(name)}.txt"


def opened_by(path: Path) -> str:
    """Return a path for the model with the tools that open it: commands in the sandbox do not see these files."""
    return f"{path} (for read_file and grep)"


def was_cut(text: str) -> bool:
    """Return True if the middle of a result was left out."""
    return re.search(r"^\[… .{1,80} left out here.* …\]$", text, re.MULTILINE) is not None


def keep_whole(folder: Path, name: str, text: str, redactor: "Redactor | None" = None) -> Path | None:
    """Save a long result in a file, with secrets masked, unless the file exists. Return None if it cannot be
    saved."""
    path = spill_path(folder, name)
    try:
        make_private(folder)
        if not path.exists():
            masked = redactor.mask(text) if redactor else text
            create_file(path, masked.encode("utf-8", "replace")[:_MAX_SPILL_BYTES])
    except FileExistsError:
        return path
    except OSError:
        return None
    return path


class OutputLog:
    """Collects a command's output as it arrives; never raises, even on disk errors.

    `folder` receives `<name>.txt` if the output is longer than `budget` characters or continues after `close`.
    Secrets in the file are masked. `max_tokens` is the limit of the result that has the output: it is cut once,
    so that the counts of what was left out are true.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        emit: Callable[[str], None],
        budget: int = BUDGET,
        redactor: "Redactor | None" = None,
        max_tokens: int = MAX_RESULT_TOKENS,
    ) -> None:
        self._folder = folder
        self._masking = redactor.stream() if redactor else None
        self._wanted = spill_path(folder, name)
        self._budget = budget
        self._max_tokens = max_tokens - min(_NOTES_TOKENS, max_tokens // 2)
        self._head = ""
        self._tail = ""
        self._chars = 0
        self._breaks = 0
        self._sanitizer = Sanitizer()
        self._live = _Live(emit)
        self._spill: int | None = None
        self._spilled_bytes = 0
        self._read_bytes = 0
        """Number of bytes of the file already given or reported to the model."""
        self._unread_chars = 0
        """Number of characters received since the model was last given output."""
        self._closed = False
        self.path: Path | None = None
        """File with the full output, once there is one."""
        self.error = ""
        """Why the full output could not be saved."""
        self.last_at = time.monotonic()
        """Time of the last output, on the monotonic clock."""

    def feed(self, chunk: bytes, final: bool = False) -> None:
        """Add output."""
        text = self._sanitizer.feed(chunk, final)
        if not text:
            return
        self.last_at = time.monotonic()
        if self._closed:
            self._tail = (self._tail + text)[-4 * self._budget :]
            self._unread_chars += len(text)
            self._write(text)
            return
        self._live.show(text)
        self._keep(text)

    def close(self, *, goes_on: bool = False) -> None:
        """End the output. With `goes_on`, remaining child processes keep writing to the file."""
        if self._closed:
            return
        if not goes_on:
            self.feed(b"", final=True)
        self._live.close()
        if goes_on and self.path is None:
            self._open_spill()
        self._closed = True
        if not goes_on:
            self.flush()
        if self._spill is not None:
            os.close(self._spill)
            self._spill = None

    def text(self) -> str:
        """Return the output for the model, truncated if necessary."""
        if self._chars <= self._budget:
            return self._head
        head, tail = self._head, _tail(self._tail, int(self._budget * (1 - _HEAD_SHARE)))
        if (tokens := result_tokens(head + tail)) > self._max_tokens:
            room = len(head + tail) * self._max_tokens // tokens
            head, tail = _head(head, int(room * _HEAD_SHARE)), _tail(tail, int(room * (1 - _HEAD_SHARE)))
        where = opened_by(self.path) if self.path else ""
        if self.error or self._spilled_bytes >= _MAX_SPILL_BYTES:
            where = f"{where or 'nowhere'} ({self.error or 'its first 64 MB only'})"
        return _joined(head, tail, self._chars, self._breaks, where)

    def goes_on(self) -> None:
        """Switch to background mode: the call returns while its command continues, and `unread` returns later
        output."""
        self.close(goes_on=True)
        self._read_bytes = self._spilled_bytes
        self._tail, self._unread_chars = "", 0

    def flush(self) -> None:
        """Write text held back because it may be the beginning of a secret."""
        self._write("", final=True)

    def unread(self) -> str:
        """Return the output since the model was last given some, truncated if necessary, and count it as read."""
        self.flush()
        if self.path is None or self.error or self._spilled_bytes >= _MAX_SPILL_BYTES:
            return self._unread_end()
        try:
            data = read_regular(self.path, _MAX_SPILL_BYTES, start=self._read_bytes)
        except OSError as error:
            return f"[its output cannot be read: {error.strerror or error}]"
        self._read_bytes += len(data)
        self._tail, self._unread_chars = "", 0
        return bounded(data.decode("utf-8", "replace"), self._unread_tokens(), opened_by(self.path))

    def _unread_end(self) -> str:
        """Return the end of the unread output when the file does not contain it, with a note on what is
        missing."""
        text, lost = self._tail, self._unread_chars - len(self._tail)
        self._tail, self._unread_chars = "", 0
        end = bounded(text, self._unread_tokens(), "")
        where = self.error or f"{self.path} holds the first {_MAX_SPILL_BYTES // 1_000_000} MB only"
        return f"[… {counted(lost, 'character')} before this left out; {where} …]\n{end}" if lost else end

    def _unread_tokens(self) -> int:
        return min(self._budget // CHARS_PER_TOKEN, self._max_tokens)

    def _keep(self, text: str) -> None:
        was_short = self._chars <= self._budget
        self._chars += len(text)
        self._breaks += text.count("\n")
        if not was_short:
            self._tail += text
            self._write(text)
        else:
            self._head += text
            if self._chars > self._budget:
                self._open_spill()
                self._tail = self._head
                self._head = _head(self._head, int(self._budget * _HEAD_SHARE))
                self._tail = self._tail[len(self._head) :]
        if len(self._tail) > 4 * self._budget:
            self._tail = self._tail[-self._budget :]

    def _open_spill(self) -> None:
        """Create the file with all output so far, which is all in `_head`."""
        try:
            make_private(self._folder)
            for suffix in ("", *(f"-{os.urandom(4).hex()}" for _ in range(3))):
                path = self._wanted.with_stem(f"{self._wanted.stem}{suffix}")
                if not path.exists():
                    break
            self._spill = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self.path = path
        except OSError as error:
            self.error = f"it could not be kept: {error.strerror or error}"
        self._write(self._head)

    def _write(self, text: str, *, final: bool = False) -> None:
        if self.path is None or self.error or self._spilled_bytes >= _MAX_SPILL_BYTES:
            return
        if self._masking is not None:
            text = self._masking.feed(text, final)
        if not text:
            return
        data = text.encode("utf-8", "replace")
        try:
            if self._spill is None:
                with self.path.open("ab") as file:
                    file.write(data)
            else:
                os.write(self._spill, data)
            self._spilled_bytes += len(data)
        except OSError as error:
            self.error = f"incomplete: {error.strerror or error}"


class _Live:
    """Emits text at most 20 times a second. If there is too much, only the newest part is emitted."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    def show(self, text: str) -> None:
        self._pending += text
        if len(self._pending) > 4 * _MAX_LIVE:
            self._pending = "…" + self._pending[-_MAX_LIVE:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LIVE_EVERY_S, self._flush)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        text, self._pending = self._pending, ""
        if len(text) > _MAX_LIVE:
            text = f"…{text[-_MAX_LIVE:]}"
        if text:
            self._emit(text)

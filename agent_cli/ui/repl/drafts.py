"""Keep the draft in the input line: its long pastes behind labels, and all of it in a file while it is typed, so
that even SIGKILL does not lose it.

Each running program has one file and holds a lock on it; an unlocked file was left by a program that was killed.
"""

import fcntl
import os
import re
import time
from pathlib import Path

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.fs.files import make_private
from agent_cli.protocol.json_text import decode_json

from ..text import lines

_MAX_CHARS = 8 << 20
_MAX_BYTES = 64 << 20
_KEPT_S = 30 * 86400.0


class _Saved(msgspec.Struct, frozen=True):
    """Contents of a draft file."""

    directory: str
    text: str


class DraftFile:
    """The draft of this program. If the folder cannot be written, drafts are not saved."""

    def __init__(self, folder: Path, directory: str) -> None:
        self._folder, self._directory = folder, directory
        self._descriptor: int | None = None
        self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
        self._saved_text = ""

    def left_behind(self) -> list[str]:
        """Return the drafts in this directory whose programs are gone, oldest first, and remove them."""
        found = (_claim(path, self._directory) for path in self._folder.glob("*.json"))
        return [text for _, text in sorted(saved for saved in found if saved is not None)]

    def keep(self, text: str) -> None:
        """Save the draft if it has changed since the last call."""
        if text == self._saved_text:
            return
        self._saved_text = text
        if not text.strip():
            self.close()
            return
        try:
            data = msgspec.json.encode(_Saved(self._directory, text[:_MAX_CHARS])) + b"\n"
            if self._descriptor is None:
                self._descriptor = self._open()
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Remove the file: the draft was sent or given up."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass
            os.close(descriptor)

    def _open(self) -> int:
        make_private(self._folder)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor


def _claim(path: Path, directory: str) -> tuple[float, str] | None:
    """Return the time and text of a draft and remove its file, if no program holds it and it belongs to this
    directory; a very old file is always removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        written = os.fstat(descriptor).st_mtime
        text = _text(os.read(descriptor, _MAX_BYTES), directory)
        if text or time.time() - written > _KEPT_S:
            path.unlink(missing_ok=True)
        return (written, text) if text else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _text(data: bytes, directory: str) -> str:
    """Return the text saved for a directory. Only the first line is read: a killed program may have left the end
    of a longer text after it."""
    try:
        saved = decode_json(data.partition(b"\n")[0], type=_Saved)
    except msgspec.MsgspecError:
        return ""
    return saved.text if saved.directory == directory else ""


class Draft(Buffer):
    """The buffer of the input line. While completions are being searched, Up and Down move as without any:
    prompt_toolkit would move in the empty menu, which loses the key."""

    @property
    def has_completions(self) -> bool:
        """True if there are completions to choose from; False while they are being searched."""
        return self.complete_state is not None and bool(self.complete_state.completions)

    def auto_up(self, count: int = 1, go_to_start_of_line_if_history_changes: bool = False) -> None:
        """Move to the previous completion, line or history entry."""
        self._end_search()
        super().auto_up(count, go_to_start_of_line_if_history_changes)

    def auto_down(self, count: int = 1, go_to_start_of_line_if_history_changes: bool = False) -> None:
        """Move to the next completion, line or history entry."""
        self._end_search()
        super().auto_down(count, go_to_start_of_line_if_history_changes)

    def _end_search(self) -> None:
        if not self.has_completions:
            self.complete_state = None


_KEPT_CHARS = 16 << 20


class PasteLabels:
    """The long pastes of a session, each shown in the draft by a label. The cursor does not enter a label, and a
    key that deletes a part of one deletes the whole: with a damaged label the paste would silently not be sent.
    Pastes are kept when the draft is sent or cleared, because a deleted label can be brought back (Ctrl-Y, Up)."""

    def __init__(self, draft: Buffer) -> None:
        self._draft = draft
        self._pastes: dict[str, str] = {}
        self._count = 0
        self._before = (0, "", 0)
        """Entry of the history, text and cursor after the last change."""
        draft.on_text_changed += lambda _: self._changed()
        draft.on_cursor_position_changed += lambda _: self._moved()

    def label(self, text: str) -> str:
        """Keep a paste and return its label. The oldest pastes are dropped when all together are too long."""
        self._count += 1
        label = f"[paste {self._count}: {lines.number(len(text.splitlines()), 'line')}]"
        self._pastes[label] = text
        total = sum(map(len, self._pastes.values()))
        for old in [each for each in self._pastes if each != label and each not in self._draft.text]:
            if total <= _KEPT_CHARS:
                break
            total -= len(self._pastes.pop(old))
        return label

    def expanded(self, text: str) -> str:
        """Return a text with the pastes in place of their labels."""
        if not self._pastes:
            return text
        either = "|".join(map(re.escape, self._pastes))
        return re.sub(either, lambda found: self._pastes[found.group()], text)

    def _changed(self) -> None:
        """Delete the rest of a label of which a part was deleted."""
        index, before, _ = self._before
        now = self._draft.text
        self._remember()
        at, lost = self._draft.cursor_position, len(before) - len(now)
        is_deletion = lost > 0 and before[:at] == now[:at] and before[at + lost :] == now[at:]
        if not is_deletion or index != self._draft.working_index:
            return
        for label in self._pastes:
            if lost < len(label) and before.count(label) > now.count(label):
                start = before.find(label, max(0, at - len(label) + 1))
                if 0 <= start < at + lost:
                    begin, end = min(start, at), max(start + len(label), at + lost)
                    self._draft.document = Document(before[:begin] + before[end:], begin)

    def _moved(self) -> None:
        """Move a cursor that is inside a label to the end towards which it was going."""
        cursor = self._draft.cursor_position
        text, came_from = self._draft.text, self._before[2]
        for label in self._pastes:
            start = text.rfind(label, 0, cursor + len(label) - 1)
            if 0 <= start < cursor < start + len(label):
                cursor = start if came_from > cursor else start + len(label)
                self._draft.cursor_position = cursor
        self._remember()

    def _remember(self) -> None:
        self._before = (self._draft.working_index, self._draft.text, self._draft.cursor_position)

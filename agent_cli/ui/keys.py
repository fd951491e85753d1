"""Keys of the REPL: which key does what, and nothing about how it is done."""

import asyncio
import time
from typing import TYPE_CHECKING

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .commands import is_command

if TYPE_CHECKING:
    from .prompt import Screen

_TWICE_S = 1.0
_BURST_KEYS = 24


def bindings(screen: "Screen", burst: "Burst") -> KeyBindings:
    """All bindings; what is not here keeps prompt_toolkit's own meaning."""
    keys = KeyBindings()
    _bind_input(keys, screen, burst)
    _bind_always(keys, screen)
    _bind_dialog(keys, screen)
    return keys


def _bind_input(keys: KeyBindings, screen: "Screen", burst: "Burst") -> None:
    """Keys of the draft."""
    free = Condition(lambda: screen.controller.dialog is None) & ~is_searching
    working = Condition(lambda: screen.controller.busy() and screen.draft.complete_state is None)
    drafted = Condition(lambda: bool(screen.draft.text.strip()) and not screen.draft.text.startswith("/"))
    empty = Condition(lambda: not screen.draft.text)

    @keys.add("enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        buffer = screen.draft
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if burst.goes_on(event):
            buffer.insert_text("\n")
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif chosen and not buffer.text.startswith("/"):
            buffer.complete_state = None
        elif buffer.text.strip():
            screen.controller.send(screen.take_draft())

    @keys.add("c-j", filter=free)
    @keys.add("escape", "enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        screen.draft.insert_text("\n")

    @keys.add("tab", filter=free & ~(working & drafted))
    def _(event: KeyPressEvent) -> None:
        if screen.draft.complete_state:
            screen.draft.complete_next()
        else:
            screen.draft.start_completion(select_first=True)

    @keys.add("tab", filter=free & working & drafted)
    def _(event: KeyPressEvent) -> None:
        text = screen.take_draft()
        (screen.controller.send if is_command(text) else screen.controller.queue)(text)

    @keys.add("s-tab", filter=free)
    def _(event: KeyPressEvent) -> None:
        screen.controller.cycle_mode()

    @keys.add("c-d", filter=free & empty)
    def _(event: KeyPressEvent) -> None:
        screen.controller.leave()


def _bind_always(keys: KeyBindings, screen: "Screen") -> None:
    """Stopping, leaving, editing, pasting."""
    free = Condition(lambda: screen.controller.dialog is None) & ~is_searching
    choosing = Condition(lambda: bool(screen.controller.dialog and screen.controller.dialog.entry is None))
    last = [0.0]

    @keys.add("escape", filter=~is_searching & (~vi_mode | ~vi_insert_mode))
    def _(event: KeyPressEvent) -> None:
        if not screen.controller.back() and not screen.controller.stop():
            screen.draft.cancel_completion()

    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        if screen.controller.stop():
            return
        if screen.draft.text:
            screen.draft.reset()
        elif time.monotonic() - last[0] <= _TWICE_S:
            screen.controller.leave()
        else:
            last[0] = time.monotonic()
            _hint(screen, "Ctrl-C again leaves")

    @keys.add("c-g", filter=~choosing & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        screen.edit()

    @keys.add("c-v", filter=free)
    @keys.add("escape", "v", filter=free)
    def _(event: KeyPressEvent) -> None:
        screen.controller.paste_picture()

    @keys.add("escape", "a", filter=free)
    def _(event: KeyPressEvent) -> None:
        screen.controller.answer_now()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        screen.controller.expand()

    @keys.add("c-l", filter=free)
    def _(event: KeyPressEvent) -> None:
        get_app().renderer.erase()

    @keys.add(Keys.BracketedPaste, filter=~choosing)
    def _(event: KeyPressEvent) -> None:
        screen.paste(event.data)


def _bind_dialog(keys: KeyBindings, screen: "Screen") -> None:
    """Keys while a question stands."""
    choosing = Condition(lambda: bool(screen.controller.dialog and screen.controller.dialog.entry is None))
    entering = Condition(lambda: bool(screen.controller.dialog and screen.controller.dialog.entry is not None))

    @keys.add(Keys.Any, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        text = event.data + _rest_of_burst(event)
        if text.isprintable() or len(text) > 1:
            screen.controller.press(text)

    @keys.add(Keys.BracketedPaste, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
        screen.controller.press(pasted if len(pasted) > 1 else pasted + " ")  # never a single key

    @keys.add("up", filter=choosing)
    @keys.add("down", filter=choosing)
    @keys.add("enter", filter=choosing)
    def _(event: KeyPressEvent) -> None:
        names = {Keys.Up: "up", Keys.Down: "down"}
        key = event.key_sequence[0].key
        screen.controller.press(names.get(key, "enter") if isinstance(key, Keys) else "enter")

    @keys.add("enter", filter=entering)
    def _(event: KeyPressEvent) -> None:
        screen.controller.entered(screen.line.text)

    blank = Condition(lambda: not screen.line.text)

    @keys.add("backspace", filter=entering & blank)
    def _(event: KeyPressEvent) -> None:
        screen.controller.back()

    @keys.add("c-j", filter=entering)
    @keys.add("escape", "enter", filter=entering)
    def _(event: KeyPressEvent) -> None:
        screen.line.insert_text("\n")


class Burst:
    """Tells Enter from a line break in a paste of a terminal that does not bracket pastes.

    Such a paste arrives as many keys in one piece; a person's keys do so only when the program was late,
    and then there are few.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._open = False

    def key(self) -> None:
        """A key is about to be handled."""
        if not self._seen:
            asyncio.get_running_loop().call_soon(self._over)
        self._seen += 1

    def goes_on(self, event: KeyPressEvent) -> bool:
        """Whether this Enter is part of a paste."""
        waiting = len(event.key_processor.input_queue)
        self._open = self._open or (waiting > 0 and self._seen + waiting >= _BURST_KEYS)
        return self._open

    def _over(self) -> None:
        self._seen, self._open = 0, False


def _rest_of_burst(event: KeyPressEvent) -> str:
    """Keys that arrived together with this one, as text: a paste, not a choice."""
    waiting = event.key_processor.input_queue
    text = ""
    while waiting and (len(waiting[0].key) == 1 or waiting[0].key in (Keys.Enter, Keys.ControlM)):
        text += "\n" if waiting[0].key in (Keys.Enter, Keys.ControlM) else waiting[0].data
        waiting.popleft()
    return "" if text == "\n" else text


def _hint(screen: "Screen", text: str) -> None:
    """Show a hint in the status line for a moment."""

    def clear() -> None:
        screen.hint = ""
        screen.repaint()

    screen.hint = text
    asyncio.get_running_loop().call_later(_TWICE_S, clear)

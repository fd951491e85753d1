"""Keys of the REPL: which key does what, and nothing about how it is done."""

import asyncio
import time
from typing import TYPE_CHECKING

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .commands import is_command
from .picker import Picker
from .terminal import FOCUS_IN, FOCUS_OUT

if TYPE_CHECKING:
    from .prompt import Screen

_TWICE_S = 1.0


def bindings(screen: "Screen") -> KeyBindings:
    """All bindings; what is not here keeps prompt_toolkit's own meaning."""
    keys = KeyBindings()
    _bind_input(keys, screen)
    _bind_always(keys, screen)
    _bind_terminal(keys, screen)
    _bind_dialog(keys, screen)
    return keys


def _bind_input(keys: KeyBindings, screen: "Screen") -> None:
    """Keys of the draft."""
    free = Condition(lambda: screen.controller.asking.dialog is None) & ~is_searching
    working = Condition(lambda: screen.controller.busy() and not _has_completions(screen))
    drafted = Condition(lambda: bool(screen.draft.text.strip()) and not screen.draft.text.startswith("/"))
    empty = Condition(lambda: not screen.draft.text)

    @keys.add("enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        buffer = screen.draft
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if buffer.document.text_before_cursor.endswith("\\"):
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

    @keys.add("up", filter=free & empty & working)
    @keys.add("escape", "up", filter=free)
    def _(event: KeyPressEvent) -> None:
        if not screen.controller.take_back():
            screen.draft.auto_up()

    @keys.add("s-tab", filter=free)
    def _(event: KeyPressEvent) -> None:
        screen.controller.cycle_mode()

    @keys.add("c-d", filter=free & empty)
    def _(event: KeyPressEvent) -> None:
        screen.controller.leave()


def _has_completions(screen: "Screen") -> bool:
    """Whether there is something to choose from; while that is being looked for, there is not."""
    state = screen.draft.complete_state
    return state is not None and bool(state.completions)


def _bind_always(keys: KeyBindings, screen: "Screen") -> None:
    """Stopping, leaving, editing, pasting."""
    free = Condition(lambda: screen.controller.asking.dialog is None) & ~is_searching
    choosing = Condition(
        lambda: bool(screen.controller.asking.dialog and screen.controller.asking.dialog.entry is None)
    )
    last = [0.0]

    @keys.add("escape", filter=~is_searching & (~vi_mode | ~vi_insert_mode))
    def _(event: KeyPressEvent) -> None:
        if not screen.controller.asking.back() and not screen.controller.stop():
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
        screen.controller.asking.answer_now()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        screen.controller.expand()

    @keys.add("c-l", filter=free)
    def _(event: KeyPressEvent) -> None:
        get_app().renderer.erase()

    @keys.add(Keys.BracketedPaste, filter=~choosing)
    def _(event: KeyPressEvent) -> None:
        screen.paste(event.data)


def _bind_terminal(keys: KeyBindings, screen: "Screen") -> None:
    """What is no key of the line: stopping as a job, the window's focus, the mouse."""

    @keys.add(Keys.Vt100MouseEvent)
    def _(event: KeyPressEvent) -> None:
        """Nobody asked for them; some pastes look like one."""

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        screen.jobs.stop()

    @keys.add(FOCUS_IN)
    @keys.add(FOCUS_OUT)
    def _(event: KeyPressEvent) -> None:
        screen.controller.attention.focus(event.key_sequence[0].key == FOCUS_IN)


def _bind_dialog(keys: KeyBindings, screen: "Screen") -> None:
    """Keys while a question stands."""
    choosing = Condition(
        lambda: bool(screen.controller.asking.dialog and screen.controller.asking.dialog.entry is None)
    )
    entering = Condition(
        lambda: bool(screen.controller.asking.dialog and screen.controller.asking.dialog.entry is not None)
    )

    @keys.add(Keys.Any, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        if isinstance(event.key_sequence[0].key, Keys):  # a key that is no sign, such as an arrow
            return
        text = event.data + _rest_of_burst(event)
        if text.isprintable() or len(text) > 1:
            screen.controller.asking.press(text)

    @keys.add(Keys.BracketedPaste, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
        screen.controller.asking.press(pasted if len(pasted) > 1 else pasted + " ")  # never a single key

    @keys.add("up", filter=choosing)
    @keys.add("down", filter=choosing)
    @keys.add("enter", filter=choosing)
    def _(event: KeyPressEvent) -> None:
        names = {Keys.Up: "up", Keys.Down: "down"}
        key = event.key_sequence[0].key
        screen.controller.asking.press(names.get(key, "enter") if isinstance(key, Keys) else "enter")

    _bind_picker(keys, screen)

    @keys.add("enter", filter=entering)
    def _(event: KeyPressEvent) -> None:
        screen.follow()
        screen.controller.asking.entered(screen.line.text)

    blank = Condition(lambda: not screen.line.text)

    @keys.add("backspace", filter=entering & blank)
    def _(event: KeyPressEvent) -> None:
        screen.controller.asking.back()

    @keys.add("c-j", filter=entering)
    @keys.add("escape", "enter", filter=entering)
    def _(event: KeyPressEvent) -> None:
        screen.line.insert_text("\n")


def _bind_picker(keys: KeyBindings, screen: "Screen") -> None:
    """Keys that only a list to pick from knows."""
    picking = Condition(lambda: isinstance(screen.controller.asking.dialog, Picker))
    names = {Keys.Backspace: "backspace", Keys.PageUp: "pageup", Keys.PageDown: "pagedown"}

    @keys.add("backspace", filter=picking)
    @keys.add("pageup", filter=picking)
    @keys.add("pagedown", filter=picking)
    def _(event: KeyPressEvent) -> None:
        key = event.key_sequence[0].key
        screen.controller.asking.press(names.get(key, "") if isinstance(key, Keys) else "")


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

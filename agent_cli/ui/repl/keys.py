"""Key bindings of the REPL: they map keys to actions and contain no implementation."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, FilterOrBool, has_selection, is_searching, vi_insert_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from ..commands.registry import is_command, is_note, parse
from ..dialogs.picker import Picker
from ..text import lines
from .first_paint import AGAIN_QUITS
from .terminal import FOCUS_IN, FOCUS_OUT

if TYPE_CHECKING:
    from .screen import Screen

_TWICE_S = 1.0


def bindings(screen: "Screen") -> KeyBindings:
    """Return all bindings; other keys keep prompt_toolkit's defaults."""
    keys = KeyBindings()
    _bind_graphemes(keys)
    _bind_input(keys, screen)
    _bind_always(keys, screen)
    _bind_terminal(keys, screen)
    _bind_dialog(keys, screen)
    _bind_picker(keys, screen)
    return keys


def _bind(keys: KeyBindings, pressed: str, when: FilterOrBool, act: Callable[[], object]) -> None:
    """Bind an action to a key, or to several keys after one another."""

    @keys.add(*pressed.split(), filter=when)
    def _(event: KeyPressEvent) -> None:
        act()


def _ignore() -> None:
    """Do nothing, in place of prompt_toolkit's default."""


def _bind_graphemes(keys: KeyBindings) -> None:
    """Bind the keys that move over or delete one character: code points that are drawn as one sign, such as an
    emoji sequence, count as one."""
    typing = ~is_searching & ~has_selection & (~vi_mode | vi_insert_mode)
    beyond_ascii = typing & Condition(lambda: not get_app().current_buffer.document.current_line.isascii())

    @keys.add("left", filter=beyond_ascii)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.cursor_position -= _grapheme_before(event.current_buffer)

    @keys.add("right", filter=beyond_ascii)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.cursor_position += _grapheme_after(event.current_buffer)

    @keys.add("backspace", filter=beyond_ascii)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor(_grapheme_before(event.current_buffer) or 1)

    @keys.add("delete", filter=beyond_ascii)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.delete(_grapheme_after(event.current_buffer) or 1)


def _grapheme_before(buffer: Buffer) -> int:
    """Return the length of the grapheme before the cursor; 0 at the beginning of a line."""
    found = [grapheme for grapheme, _ in lines.graphemes(buffer.document.current_line_before_cursor)]
    return len(found[-1]) if found else 0


def _grapheme_after(buffer: Buffer) -> int:
    """Return the length of the grapheme after the cursor; 0 at the end of a line."""
    return next((len(grapheme) for grapheme, _ in lines.graphemes(buffer.document.current_line_after_cursor)), 0)


def _bind_input(keys: KeyBindings, screen: "Screen") -> None:
    """Bind the keys of the draft."""
    free = Condition(lambda: screen.dialogs.dialog is None) & ~is_searching
    working = Condition(lambda: screen.controller.busy() and not screen.draft.has_completions)
    drafted = Condition(lambda: bool(screen.draft.text.strip()) and not screen.draft.text.startswith("/"))
    empty = Condition(lambda: not screen.draft.text)

    @keys.add("enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        from .menu import complete_name, complete_path

        buffer = screen.draft
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif chosen and not buffer.text.startswith("/"):
            buffer.complete_state = None
        elif not complete_path(buffer) and buffer.text.strip() and complete_name(buffer):
            screen.controller.send(screen.take_draft())

    for pressed in ("c-j", "escape enter"):
        _bind(keys, pressed, free, lambda: screen.draft.insert_text("\n"))

    @keys.add("tab", filter=free & ~(working & drafted))
    def _(event: KeyPressEvent) -> None:
        if screen.draft.has_completions:
            screen.draft.complete_next()
        else:
            from .menu import complete_first

            complete_first(screen.draft)

    @keys.add("tab", filter=free & working & drafted)
    def _(event: KeyPressEvent) -> None:
        text = screen.take_draft()
        (screen.controller.send if is_command(text) else screen.controller.queue)(text)

    @keys.add("up", filter=free & empty & working)
    @keys.add("escape", "up", filter=free)
    def _(event: KeyPressEvent) -> None:
        if not screen.controller.take_back():
            screen.draft.auto_up()

    _bind(keys, "s-tab", free, lambda: screen.controller.cycle_mode())
    _bind(keys, "c-d", free & empty, lambda: screen.controller.exit_repl())


def _bind_always(keys: KeyBindings, screen: "Screen") -> None:
    """Bind the keys for stopping, leaving, editing and pasting."""
    free = Condition(lambda: screen.dialogs.dialog is None) & ~is_searching
    choosing = Condition(lambda: isinstance(screen.dialogs.dialog, Picker))
    last, escaped = [0.0], [0.0]

    @keys.add("escape", filter=~is_searching & (~vi_mode | ~vi_insert_mode))
    def _(event: KeyPressEvent) -> None:
        before, escaped[0] = escaped[0], 0.0
        if screen.dialogs.back() or screen.controller.stop():
            return
        if screen.draft.text or screen.draft.complete_state:
            screen.draft.cancel_completion()
        elif time.monotonic() - before <= _TWICE_S:
            screen.controller.send("/rewind")
        else:
            escaped[0] = time.monotonic()
            _hint(screen, "Esc again rewinds")

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        if screen.controller.stop():
            return
        if screen.draft.text:
            screen.clear_draft()
            _hint(screen, "Up brings it back")
        elif time.monotonic() - last[0] <= _TWICE_S:
            screen.controller.exit_repl()
        else:
            last[0] = time.monotonic()
            _hint(screen, AGAIN_QUITS)

    _bind(keys, "c-g", ~choosing & ~is_searching, lambda: screen.edit())
    for pressed in ("c-v", "escape v"):
        _bind(keys, pressed, free, lambda: screen.controller.paste_picture())
    _bind(keys, "escape a", free, lambda: screen.dialogs.answer_now())
    _bind(keys, "c-o", True, lambda: screen.controller.expand())

    @keys.add("c-l", filter=free)
    def _(event: KeyPressEvent) -> None:
        renderer, output = get_app().renderer, get_app().output
        renderer.erase()
        output.write_raw("\n" * output.get_size().rows)  # into the scrollback: clearing would lose it
        renderer.clear()

    @keys.add(Keys.BracketedPaste, filter=~choosing)
    def _(event: KeyPressEvent) -> None:
        screen.paste(event.data)


def _bind_terminal(keys: KeyBindings, screen: "Screen") -> None:
    """Bind job control, focus reports and mouse events, which are not keys of the line."""
    running = Condition(lambda: screen.dialogs.dialog is None and screen.controller.runs_own_command())

    _bind(keys, Keys.Vt100MouseEvent.value, True, _ignore)  # none are enabled, but some pastes look like one
    _bind(keys, "c-@", True, _ignore)  # would set the editor's mark and lose characters typed after it
    for pressed in ("c-s", "c-q"):  # of people used to flow control; would search, and take the next key literally
        _bind(keys, pressed, ~is_searching, _ignore)
    _bind(keys, "c-b", running & ~is_searching, lambda: screen.controller.move_to_background())
    _bind(keys, "c-z", True, lambda: screen.jobs.stop())

    @keys.add(FOCUS_IN)
    @keys.add(FOCUS_OUT)
    def _(event: KeyPressEvent) -> None:
        screen.controller.attention.focus(event.key_sequence[0].key == FOCUS_IN)


def _bind_dialog(keys: KeyBindings, screen: "Screen") -> None:
    """Bind the keys for an open question."""
    _bind_early(keys, screen)
    entering = Condition(
        lambda: bool((dialog := screen.dialogs.dialog) and dialog.entry is not None and not screen.dialogs.is_new)
    )
    blank = Condition(lambda: not screen.line.text)
    answering = Condition(
        lambda: bool((dialog := screen.dialogs.dialog) and (entry := dialog.entry) and entry.purpose == "answer")
    )
    for name in ("up", "down", "left", "right"):
        _bind(keys, name, entering & blank, partial(_press, screen, name))

    @keys.add("enter", filter=entering)
    def _(event: KeyPressEvent) -> None:
        screen.follow()
        if answering():
            _enter_answer(screen, screen.line.text)
        else:
            screen.dialogs.entered(screen.line.text)

    _bind(keys, "tab", entering & answering & ~blank, lambda: _queue(screen, screen.line.text))

    @keys.add("escape", "y", filter=entering)
    @keys.add("escape", "n", filter=entering)
    def _(event: KeyPressEvent) -> None:
        if screen.line.text:
            _hint(screen, "The line is not empty: Enter sends it")
        else:
            screen.dialogs.press("yes" if event.key_sequence[-1].key == "y" else "no")

    @keys.add("s-tab", filter=entering & answering & blank)
    def _(event: KeyPressEvent) -> None:
        from ..dialogs.approval import ApprovalDialog

        dialog = screen.dialogs.dialog
        if isinstance(dialog, ApprovalDialog) and dialog.may_accept_edits:
            screen.dialogs.press("accept edits")
        else:
            screen.controller.cycle_mode()

    _bind(keys, "backspace", entering & blank, lambda: screen.dialogs.back())
    for pressed in ("c-j", "escape enter"):
        _bind(keys, pressed, entering, lambda: screen.line.insert_text("\n"))


def _enter_answer(screen: "Screen", text: str) -> None:
    """Handle Enter in the answer line: a command that can run while a question is open leaves it open."""
    from ..dialogs.answers import runs_now
    from ..dialogs.approval import ApprovalDialog

    command = parse(text)
    if command and command[0] == "queue" and command[1]:
        _queue(screen, command[1])
    elif runs_now(text) or (isinstance(screen.dialogs.dialog, ApprovalDialog) and is_note(text)):
        screen.line.reset()
        screen.controller.send(text)
    else:
        screen.dialogs.entered(text)


def _press(screen: "Screen", key: str) -> None:
    screen.dialogs.press(key)


def _queue(screen: "Screen", text: str) -> None:
    """Queue a text typed at a question for after the turn; the question stays open."""
    screen.line.reset()
    screen.controller.queue(text)


def _bind_early(keys: KeyBindings, screen: "Screen") -> None:
    """Bind the keys for a question too new to have been read: text goes to the draft, other keys are ignored."""
    early = Condition(
        lambda: bool(screen.dialogs.dialog and screen.dialogs.dialog.entry is not None and screen.dialogs.is_new)
    )

    @keys.add(Keys.Any, filter=early)
    def _(event: KeyPressEvent) -> None:
        if not isinstance(event.key_sequence[0].key, Keys) and event.data.isprintable():
            screen.dialogs.type_early(event.data)

    @keys.add("enter", filter=early)
    @keys.add(Keys.BracketedPaste, filter=early)
    def _(event: KeyPressEvent) -> None:
        screen.dialogs.type_early(_pasted(event) or "\n")

    for pressed in ("escape y", "escape n"):
        _bind(keys, pressed, early, _ignore)  # nothing is decided by reflex


def _bind_picker(keys: KeyBindings, screen: "Screen") -> None:
    """Bind the keys of a list to pick from, which has no input line."""
    picking = Condition(lambda: isinstance(screen.dialogs.dialog, Picker))

    @keys.add(Keys.Any, filter=picking)
    def _(event: KeyPressEvent) -> None:
        if isinstance(event.key_sequence[0].key, Keys):  # a key without a character, such as an arrow
            return
        text = event.data + _rest_of_burst(event)
        if len(text) > 1:
            screen.dialogs.entered(text)
        elif text.isprintable():
            screen.dialogs.press(text)

    @keys.add(Keys.BracketedPaste, filter=picking)
    def _(event: KeyPressEvent) -> None:
        screen.dialogs.entered(_pasted(event))

    for name in ("up", "down", "enter", "backspace", "pageup", "pagedown"):
        _bind(keys, name, picking, partial(_press, screen, name))


def _pasted(event: KeyPressEvent) -> str:
    """Return the text of a paste with normalized line breaks; empty for another key."""
    if event.key_sequence[0].key != Keys.BracketedPaste:
        return ""
    return event.data.replace("\r\n", "\n").replace("\r", "\n")


def _rest_of_burst(event: KeyPressEvent) -> str:
    """Return the keys that arrived together with this one, as text. A single Enter after them is a separate key,
    as for a typed line; several are a paste."""
    waiting = event.key_processor.input_queue
    text = ""
    for press in waiting:
        if len(press.key) != 1 and press.key != Keys.ControlM:
            break
        text += "\n" if press.key == Keys.ControlM else press.data
    if text.endswith("\n") and text.count("\n") == 1:
        text = text[:-1]
    for _ in text:
        waiting.popleft()
    return text


def _hint(screen: "Screen", text: str) -> None:
    """Show a hint in the status line for a moment."""

    def clear() -> None:
        screen.hint = ""
        screen.repaint()

    screen.hint = text
    asyncio.get_running_loop().call_later(_TWICE_S, clear)

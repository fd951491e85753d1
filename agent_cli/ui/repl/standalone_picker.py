"""Prompts outside the REPL: a list to pick from, such as the session to resume, and a secret."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from ..commands.api import Choice
from ..dialogs.picker import Picker
from ..signals import ENDING, signal_handlers
from ..text.theme import Theme
from .terminal import Keyboard, Terminal, open_terminal


async def choose(title: str, choices: Sequence[Choice], theme: Theme) -> str:
    """Have the user pick a choice on the terminal; return its value, empty for none. The list is erased.

    Raises:
        SystemExit: a signal has ended the program.
    """
    picker, terminal = Picker(title, choices, time.monotonic()), open_terminal()

    def drawn() -> ANSI:
        size = terminal.get_size()
        return ANSI("\n".join(picker.draw(theme, size.columns, size.rows - 1)))

    control = FormattedTextControl(drawn, focusable=True, show_cursor=False)
    app = _application(control, _bindings(picker), terminal, erase_when_done=True)
    picker.picked.add_done_callback(lambda _: app.exit())
    if not await _ended_well(app, picker.back):
        return ""
    return picker.picked.result()


async def read_secret(prompt: str) -> str:
    """Have the user type or paste a line on the terminal without echo; return it, empty if cancelled by Esc,
    Ctrl-C or Ctrl-D.

    Raises:
        SystemExit: a signal has ended the program.
    """
    typed: list[str] = []
    keys = KeyBindings()
    control = FormattedTextControl(prompt, focusable=True, show_cursor=False)
    app = _application(control, keys, open_terminal(), erase_when_done=False)

    def cancel() -> None:
        typed.clear()
        app.exit()

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if not isinstance(event.key_sequence[0].key, Keys):
            typed.append(event.data)

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        typed.append(event.data)

    @keys.add("backspace")
    def _(_: KeyPressEvent) -> None:
        typed[:] = "".join(typed)[:-1]

    keys.add("c-u")(lambda _: typed.clear())
    keys.add("enter")(lambda _: app.exit())
    keys.add("c-z")(lambda event: event.app.suspend_to_background())
    for name in ("escape", "c-c", "c-d"):
        keys.add(name)(lambda _: cancel())
    return "".join(typed) if await _ended_well(app, cancel) else ""


def _application(
    control: FormattedTextControl, keys: KeyBindings, terminal: Terminal, *, erase_when_done: bool
) -> Application[None]:
    app: Application[None] = Application(
        layout=Layout(Window(control)),
        key_bindings=keys,
        erase_when_done=erase_when_done,
        include_default_pygments_style=False,
        input=Keyboard(sys.stdin),
        output=terminal,
    )
    app.ttimeoutlen, app.timeoutlen = 0.05, 0.1
    return app


async def _ended_well(app: Application[None], cancel: Callable[[], object]) -> bool:
    """Run an application; return False if its input has ended."""
    ended: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        ended.append(number)
        cancel()

    try:
        with signal_handlers({number: partial(end, number) for number in ENDING}):
            await app.run_async(handle_sigint=False)
    except (EOFError, asyncio.CancelledError):
        return False
    if ended:
        raise SystemExit(128 + ended[0])
    return True


def _bindings(picker: Picker) -> KeyBindings:
    keys = KeyBindings()
    names = {
        Keys.Up: "up", Keys.Down: "down", Keys.PageUp: "pageup", Keys.PageDown: "pagedown",
        Keys.Backspace: "backspace", Keys.ControlM: "enter",
    }  # fmt: skip

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        key = event.key_sequence[0].key
        name = names.get(key, "") if isinstance(key, Keys) else key
        if name:
            picker.press(name, time.monotonic())

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        picker.back()

    return keys

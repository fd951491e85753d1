"""A list to pick from before there is a REPL, such as the session to go on with."""

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from ..commands.api import Choice
from ..dialogs.picker import Picker
from ..signals import signal_handlers
from ..text.theme import Theme
from .terminal import Keyboard, open_terminal

_ENDING = (signal.SIGTERM, signal.SIGHUP)


async def choose(title: str, choices: Sequence[Choice], theme: Theme) -> str:
    """Have the user pick one on the terminal; gives its value, empty for none. Nothing of it stays on screen.

    Raises:
        SystemExit: a signal has ended it.
    """
    picker, terminal = Picker(title, choices, time.monotonic()), open_terminal()

    def drawn() -> ANSI:
        size = terminal.get_size()
        return ANSI("\n".join(picker.draw(theme, size.columns, size.rows - 1)))

    app: Application[None] = Application(
        layout=Layout(Window(FormattedTextControl(drawn, focusable=True, show_cursor=False))),
        key_bindings=_bindings(picker),
        erase_when_done=True,
        include_default_pygments_style=False,
        input=Keyboard(sys.stdin),
        output=terminal,
    )
    app.ttimeoutlen, app.timeoutlen = 0.05, 0.1
    picker.picked.add_done_callback(lambda _: app.exit())
    ended: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        ended.append(number)
        picker.back()

    try:
        with signal_handlers({number: partial(end, number) for number in _ENDING}):
            await app.run_async()
    except (EOFError, asyncio.CancelledError):
        return ""
    if ended:
        raise SystemExit(128 + ended[0])
    return picker.picked.result()


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

"""Output for a terminal that is gone, and for one that cannot be written."""

import os

import pytest
from prompt_toolkit.data_structures import Size

from agent_cli.ui.repl.terminal import Terminal


def terminal_on(descriptor: int) -> Terminal:
    stream = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return Terminal(stream, lambda: Size(24, 80))


def test_a_terminal_that_is_gone_is_no_error() -> None:
    ours, theirs = os.openpty()
    os.close(ours)
    terminal = terminal_on(theirs)
    terminal.write_raw("text")
    terminal.flush()
    terminal.give_back()
    os.close(theirs)


def test_other_errors_are_told() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    terminal = terminal_on(full)
    terminal.write_raw("text")
    with pytest.raises(OSError, match="No space"):
        terminal.flush()
    os.close(full)

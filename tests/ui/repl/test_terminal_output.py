"""Output for a terminal that is gone, and for one that cannot be written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size

from agent_cli.ui.repl.terminal import Terminal


@contextmanager
def terminal_on(file: int | Path) -> Iterator[Terminal]:
    stream = open(file, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        yield Terminal(stream, lambda: Size(24, 80))
    finally:
        with suppress(OSError):  # what could not be written
            stream.close()


def test_a_terminal_that_is_gone_is_no_error() -> None:
    ours, theirs = os.openpty()
    os.close(ours)
    with terminal_on(theirs) as terminal:
        terminal.write_raw("text")
        terminal.flush()
        terminal.give_back()


def test_other_errors_are_told() -> None:
    with terminal_on(Path("/dev/full")) as terminal:
        terminal.write_raw("text")
        with pytest.raises(OSError, match="No space"):
            terminal.flush()

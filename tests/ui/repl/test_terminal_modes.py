"""The keyboard before the line editor reads it: what waits, what leaves, and whose the terminal's modes are."""

import pytest

from tests.rows import each_row
from tests.ui.terminal import Terminal

PROGRAM = """
import asyncio, sys
from agent_cli.ui.repl.terminal_modes import TypeAhead

async def main():
    ahead, over = TypeAhead(), asyncio.Event()
    ahead.acquire()
    print("taken", flush=True)
    asyncio.get_running_loop().call_later(30, over.set)
    ahead.watch(asyncio.get_running_loop(), lambda: (print("left"), over.set()), lambda: print("hint", flush=True))
    await over.wait()
    ahead.give_back()
    print(repr(ahead.hand_to_editor()))

asyncio.run(main())
"""
HANDED = """
import select
from agent_cli.ui.repl.terminal_modes import TypeAhead

ahead = TypeAhead()
ahead.acquire()
print("taken", flush=True)
select.select([0], [], [], 30)
text = ahead.hand_to_editor()
ahead.give_back()
print(repr(text))
"""


@each_row("keys", ["\x04", "\x03\x03", "lost\x03\x04", "lost\x03\x03\x03", "lost\r\x03\x03"])
def test_ctrl_d_and_ctrl_c_twice_leave_before_there_is_a_line_editor(keys: str) -> None:
    with Terminal(PROGRAM) as terminal:
        before = terminal.modes()
        terminal.wait("taken")
        terminal.send(keys)
        terminal.wait("left")
        assert terminal.finish() == 0 and terminal.modes() == before
        assert terminal.text.count("hint") == keys.endswith("\x03")


@pytest.mark.parametrize(
    ("before", "then", "handed"),
    [
        ("one\r", "two\x03three\r\x1a", "one\rtwo\x03three\r\x1a"),
        ("", "\x1b[200~one\rtwo\x1b[201~\r", "\x1b[200~one\rtwo\x1b[201~\r"),
        ("one\r\x04", "\x7f", "one\r\x04\x7f"),
        ("a\rb\r", "c\rd\rgrün", "\x1b[200~a\rb\rc\rd\rgrün\x1b[201~"),
    ],
    ids=["keys", "paste", "end of input", "many lines"],
)
def test_keys_are_handed_over_in_their_order_and_none_is_echoed(before: str, then: str, handed: str) -> None:
    with Terminal(HANDED, typed_ahead=before) as terminal:
        terminal.wait("taken")
        terminal.send(then)
        assert terminal.finish() == 0
        assert terminal.text.partition("taken\n")[2].rstrip() == repr(handed)


def test_a_ctrl_c_that_was_answered_with_the_hint_counts_for_the_line_editor_too() -> None:
    """The second one may come when the first is answered and the line editor does not read yet."""
    program = PROGRAM.replace(
        'print("hint", flush=True)', '(ahead.unwatch(), print("hint", flush=True), over.set())'
    )
    waiting = "    __import__('select').select([0], [], [], 30)\n    print(repr(ahead.hand_to_editor()))\n    ahead.give_back()\n"
    with Terminal(
        program.replace("    ahead.give_back()\n    print(repr(ahead.hand_to_editor()))\n", waiting)
    ) as terminal:
        terminal.wait("taken")
        terminal.send("\x03")
        terminal.wait("hint")
        terminal.send("\x03")
        assert terminal.finish() == 0
        assert terminal.text.rstrip().endswith(repr("\x03\x03"))

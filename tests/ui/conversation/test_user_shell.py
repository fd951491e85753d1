"""The user's own commands: their output is printed as it comes."""

import asyncio
from collections.abc import Callable

from agent_cli.ui.conversation.user_shell import run_shell_command
from agent_cli.ui.services import CommandEnd
from tests.ui.commands.test_registry import Desk
from tests.ui.fake_client import FakeHost


class Endless(FakeHost):
    """Its command prints a line of three million characters."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.desk: Desk

    async def run_command(
        self, command: str, emit: Callable[[str], None], background: asyncio.Event | None = None
    ) -> CommandEnd:
        for _ in range(100):
            said = self.desk.text.count("z")
            emit("z" * 30_000)
            self.held += 30_000 - self.desk.text.count("z") + said
        emit("end\nnext\n")
        return CommandEnd()


async def test_a_line_without_an_end_is_printed_as_it_comes_and_sent_whole() -> None:
    host = Endless()
    host.desk = Desk(host=host)
    done = await run_shell_command("dump", host.desk, asyncio.Event())
    assert host.held == 0, "nothing is held back"
    assert host.desk.text.count("z") == 3_000_000 and "\nend\nnext\n" in host.desk.text
    assert done.output.endswith("zend\nnext\n") and done.output.count("\n") == 4, "the middle is left out"

"""`agent replay`: the recorded prompts and answers of a session with real tools, in this directory. Also the
watching front end, which the demo shares."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import NON_INTERACTIVE, OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.events import TERMINAL, ToolCallFinished
from agent_cli.protocol.messages import is_prompt
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.stop_reason import DENIED, exit_code
from agent_cli.store.session_file import StoreError, read_session
from agent_cli.ui.headless.watcher import Watcher


def run_replay(file: Path, cd: str | None, mode: str | None) -> int:
    """Replay a session in the user's own mode, because the file may come from anybody; requests for approval are
    denied. Return the exit code of the last turn.

    Raises:
        UsageError: the file is not a session.
    """
    try:
        prompts = _prompts(read_session(file).records)
    except StoreError as error:
        raise UsageError(str(error)) from error
    values = {"model": f"replay/{file.absolute()}", "mode": mode, "no_session": True, "cd": cd}
    chosen = ParsedOptions("agent", {key: value for key, value in values.items() if value is not None})
    return asyncio.run(watch(Setup(chosen), prompts))


def _prompts(records: Sequence[AnyRecord]) -> list[str]:
    """Return the first prompt of each turn; text that steered a turn is not submitted again, because the answers
    to it are recorded."""
    first: dict[str, str] = {}
    for record in records:
        if is_prompt(record):
            first.setdefault(record.turn_id, record.text)
    return list(first.values())


async def watch(setup: Setup, prompts: list[str]) -> int:
    """Submit prompts one after another and print the events; return the exit code of the last turn."""
    opened = await open_session(setup, NON_INTERACTIVE)
    async with opened.running():
        return await _consume(opened, prompts, Watcher(setup.config.ui, sys.stdout, opened.agent.snapshot))


async def _consume(opened: OpenSession, prompts: list[str], watcher: Watcher) -> int:
    waiting = list(prompts)
    code = 0
    denied = False
    submission = ""
    async for event in opened.agent.events():
        watcher.show(event)
        denied = denied or (isinstance(event, ToolCallFinished) and event.status == "denied")
        if isinstance(event, TERMINAL) and event.submission_id == submission:
            code = exit_code(getattr(event, "stop_reason", "end_turn"), denied=denied)
            submission = ""
        if not submission:
            if not waiting or code not in (0, DENIED):
                return code
            submission = await opened.agent.submit(UserInput(waiting.pop(0)))
    return code

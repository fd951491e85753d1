"""`agent demo`: the real engine, tools and files on a temporary copy of a small broken project; only the model is
a recording, so that it needs no key and no network. `agent replay`: the recorded prompts and answers of a session
with real tools, in this directory."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import NON_INTERACTIVE, OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.events import TERMINAL, ToolCallFinished
from agent_cli.protocol.messages import is_prompt
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.stop_reason import DENIED, exit_code
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.store.session_file import StoreError, read_session
from agent_cli.ui.headless.watcher import Watcher

from ...services.serving import until_stopped

_HERE = Path(__file__).parent
PROJECT = _HERE / "demo_project"
RECORDING = _HERE / "demo.json"
PROMPT = "The tests of this project fail. Find out why, fix the code, and prove it."


def run_demo() -> int:
    """Run the demo; return 0 if the project was fixed."""
    with tempfile.TemporaryDirectory(prefix="agent-demo-") as folder:
        root = Path(folder) / "basket"
        shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        chosen = ParsedOptions(
            "agent",
            {
                "model": f"replay/{RECORDING}",
                "mode": "auto-edit",
                "no_session": True,
                "cd": str(root),
                "set": ["permissions.allow=[shell(python3 -m unittest *)]"],
            },
        )
        setup = Setup(chosen, own=Path(folder) / "own")
        print(f"A throw-away copy of a broken project: {root}\n", flush=True)
        code = asyncio.run(until_stopped(_watch(setup, [PROMPT])))
        if code == 0 and not asyncio.run(_is_fixed(root)):
            print("\nThe project is not fixed: its tests could not be run, or still fail. Is python3 installed?")
            return 1
        if code == 0:
            print("\nThat was a recording for the model, everything else was real. Now in your own project:")
            print('  agent              a conversation\n  agent run "…"      one task')
        return code


async def _is_fixed(root: Path) -> bool:
    try:
        done = await ProcessRunner().run(["python3", "-m", "unittest"], cwd=root, timeout_s=30.0)
    except (ProcessError, TimeoutError):
        return False
    return done.exit_code == 0


def run_replay(file: Path, given: dict[str, Any]) -> int:
    """Replay a session in the user's own mode, because the file may come from anybody; requests for approval are
    denied. Return the exit code of the last turn.

    Raises:
        UsageError: the file is not a session.
    """
    try:
        prompts = _prompts(read_session(file).records)
    except StoreError as error:
        raise UsageError(str(error)) from error
    chosen = ParsedOptions("agent", {"model": f"replay/{file.absolute()}", "no_session": True, **given})
    return asyncio.run(until_stopped(_watch(Setup(chosen), prompts)))


def _prompts(records: Sequence[AnyRecord]) -> list[str]:
    """Return the first prompt of each turn; text that steered a turn is not submitted again, because the answers
    to it are recorded."""
    first: dict[str, str] = {}
    for record in records:
        if is_prompt(record):
            first.setdefault(record.turn_id, record.text)
    return list(first.values())


async def _watch(setup: Setup, prompts: list[str]) -> int:
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

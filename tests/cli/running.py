"""Several command lines of the program one after another in one process, as most of what a command costs is its
start; and sessions that are simply there."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled, TurnEnded
from agent_cli.store.catalog import Sessions
from agent_cli.store.session_file import write_session
from tests.e2e.warm import WarmProcess
from tests.e2e.world import Done, World

_SCRIPT = """
import io, json, os, sys
from agent_cli.cli.main import run
lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDWR), 0)
sys.stdin = open(os.devnull)
for line in lines:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    arguments, env = json.loads(line)
    os.environ.update(env)
    try:
        code = run(arguments)
    except SystemExit as end:
        code = end.code or 0
    for name in env:
        del os.environ[name]
    answers.write(json.dumps([code, *(stream.buffer.getvalue().decode() for stream in (out, err))]) + "\\n")
    answers.flush()
"""


class Commands:
    """Command lines of the program in one process, which begins with the first; use as a context manager. What each
    says can decide about the next."""

    def __init__(self, world: World, cwd: Path | None = None) -> None:
        self._world, self._cwd = world, cwd or world.work
        self._process: WarmProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            _, err = self._process.communicate(timeout=90)
            assert self._process.returncode == 0, err

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        """What the program says to one command line; `env` adds to its environment."""
        if self._process is None:
            self._process = WarmProcess(
                ["-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self._world.environment(), cwd=self._cwd, encoding="utf-8",
            )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([arguments, env or {}]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        return Done(*json.loads(line))


def told(world: World, *commands: Sequence[str], cwd: Path | None = None) -> list[Done]:
    """What each `agent sessions …` says, one after another."""
    return said(world, *(["sessions", *command] for command in commands), cwd=cwd)


def said(world: World, *lines: Sequence[str], cwd: Path | None = None) -> list[Done]:
    """What the program says to each command line, one after another."""
    with Commands(world, cwd) as commands:
        return [commands.run(*line) for line in lines]


def kept(
    world: World, *talk: tuple[str, str], cwd: Path | None = None, branch: str = "", more: Sequence[AnyRecord] = ()
) -> str:
    """A session of prompts and answers as the program would have kept it; its id."""
    place = cwd or world.work
    identifier, path = Sessions(world.state / "sessions").new_path(place)
    now = time.time()
    records: list[AnyRecord] = [
        Header(
            id="session_1", time=now, version=FORMAT_VERSION, session_id=identifier, cwd=str(place),
            model="openai/mock-model", mode="ask", created_by="agent-cli 0.1.0", system="Be careful.",
        )
    ]  # fmt: skip
    for number, (prompt, answer) in enumerate(talk, start=1):
        turn, facts = f"turn_{number}", f"Git: on branch {branch}" if branch else ""
        records += [
            UserMessage(id=f"u{number}", time=now, turn_id=turn, text=prompt, context=facts),
            ModelCalled(id=f"m{number}", time=now, turn_id=turn, kind="main", model="openai/mock-model", outcome="stop"),
            AssistantMessage(id=f"a{number}", time=now, turn_id=turn, text=answer, model="openai/mock-model"),
            TurnEnded(id=f"e{number}", time=now, turn_id=turn, stop_reason="end_turn", steps=1),
        ]  # fmt: skip
    records += more
    write_session(path, [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(records, start=1)])
    _apart(path, world)
    return identifier


def _apart(path: Path, world: World) -> None:
    """Make a session the newest by a second, however fast they were made."""
    times = [other.stat().st_mtime for other in world.sessions() if other != path]
    newest = max([time.time() - 1000, *times]) + 1
    os.utime(path, (newest, newest))

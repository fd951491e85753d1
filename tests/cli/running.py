"""Several command lines of the program one after another in one process, as most of what a command costs is its
start; and sessions that are simply there."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled, TurnEnded
from agent_cli.store.catalog import Sessions
from agent_cli.store.session_file import write_session
from tests.e2e.warm import WarmProcess
from tests.e2e.world import Done, World

_SCRIPT = """
import io, json, sys
from agent_cli.cli.main import run
told = []
for arguments in json.loads(sys.argv[1]):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    code = run(arguments)
    told.append([code, *(stream.buffer.getvalue().decode() for stream in (out, err))])
sys.stdout = sys.__stdout__
sys.stdout.write(json.dumps(told))
"""


def told(world: World, *commands: Sequence[str], cwd: Path | None = None) -> list[Done]:
    """What each `agent sessions …` says, one after another."""
    return said(world, *(["sessions", *command] for command in commands), cwd=cwd)


def said(world: World, *lines: Sequence[str], cwd: Path | None = None) -> list[Done]:
    """What the program says to each command line, one after another."""
    process = WarmProcess(
        ["-c", _SCRIPT, json.dumps(lines)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=world.environment(),
        cwd=cwd or world.work,
    )
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err.decode()
    return [Done(*each) for each in json.loads(out)]


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

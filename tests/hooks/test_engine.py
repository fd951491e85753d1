"""How hooks are run: beside the turn, once, by another shell, as a request to a server."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.call_names import ToolCallFacts
from agent_cli.hooks.definition import Event, Hook, HttpRequest
from agent_cli.hooks.engine import MOST_BESIDE, HookEngine, HookSession
from agent_cli.sandbox.process.runner import ProcessRunner
from tests.rows import each_row

CALL = ToolCallFacts("c1", "shell", {"command": "ls"}, "/work")
DENY = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not today"}}


@contextlib.asynccontextmanager
async def running(folder: Path, *hooks: Hook) -> AsyncIterator[HookEngine]:
    processes = ProcessRunner()
    facts = HookSession("s1", "", folder, os.environ, lambda: "ask", lambda: "test/model")
    engine = HookEngine(hooks, facts, processes)
    try:
        yield engine
    finally:
        await engine.aclose()
        await processes.aclose()


async def appears(path: Path) -> str:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.01)
    return path.read_text(encoding="utf-8").strip()


async def test_a_hook_beside_the_turn_is_not_waited_for_and_decides_nothing(tmp_path: Path) -> None:
    line = f"until test -e {tmp_path}/go; do sleep 0.01; done; echo '{json.dumps(DENY)}'"
    async with running(tmp_path, Hook("PreToolUse", line, name="slow", is_async=True)) as engine:
        result = await engine.before_call(CALL)
        assert result.decision is None and not result.runs
        (tmp_path / "go").touch()
        (later,) = await asyncio.gather(*result.later)
        assert later.decision is None and later.messages == ("slow: not today",)
        (run,) = later.runs
        assert run.decision is None and not run.failure


async def test_a_hook_beside_the_turn_ends_with_the_session_and_all_it_started(tmp_path: Path) -> None:
    line = f"sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 600' & wait"
    async with running(tmp_path, Hook("PostToolUse", line, is_async=True)) as engine:
        result = await engine.after_call(CALL, "", ok=True, duration_s=0.0)
        pid = int(await appears(tmp_path / "pid"))
        await engine.aclose()
        assert all(task.cancelled() for task in result.later)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_only_some_hooks_beside_the_turn_run_at_the_same_time(tmp_path: Path) -> None:
    line = (
        f"mktemp {tmp_path}/running.XXXXXX >/dev/null; until test -e {tmp_path}/go; do sleep 0.01; done;"
        f" ls {tmp_path} | grep -c running >> {tmp_path}/counts"
    )
    async with running(tmp_path, Hook("PostToolUse", line, is_async=True)) as engine:
        results = [await engine.after_call(CALL, "", ok=True, duration_s=0.0) for _ in range(MOST_BESIDE + 2)]
        async with asyncio.timeout(60):
            while len(list(tmp_path.glob("running.*"))) < MOST_BESIDE:
                await asyncio.sleep(0.01)
        for _ in range(20):  # the others are not even begun
            await asyncio.sleep(0)
        assert len(list(tmp_path.glob("running.*"))) == MOST_BESIDE
        assert len(engine._begun) == 0 and len(engine.runs) == 0
        (tmp_path / "go").touch()
        await asyncio.gather(*(task for result in results for task in result.later))
    counts = [int(each) for each in (tmp_path / "counts").read_text(encoding="utf-8").split()]
    assert len(counts) == MOST_BESIDE + 2 and min(counts) >= MOST_BESIDE


async def test_hooks_with_long_commands_are_switched_off_one_by_one(tmp_path: Path) -> None:
    """Many plug-ins begin, or begin and end, all their commands alike."""
    begins, ends = (
        "true 'a long beginning that all of them share, whatever they do' && ",
        " && true 'and a long end'",
    )
    lines = [f"{begins}echo $ROOT/hooks/{name} >&2; exit 2" for name in ("one", "two")]
    lines += [f"{begins}{'echo >&2; ' * count}exit 2{ends * 2}" for count in (1, 2)]
    async with running(tmp_path, *(Hook("PreToolUse", line) for line in lines)) as engine:
        labels = [hook.label for hook in engine.hooks]
        assert len(set(labels)) == 4 and max(map(len, labels)) <= 63
        assert "hooks/one" in labels[0] and "hooks/two" in labels[1] and labels[3] == f"{labels[2]} #2"
        engine.is_off.update(labels[1:3])
        result = await engine.before_call(CALL)
        assert [run.hook for run in result.runs] == [labels[0], labels[3]]


async def test_a_hook_that_runs_once_runs_once(tmp_path: Path) -> None:
    async with running(tmp_path, Hook("PreToolUse", "exit 2", is_once=True)) as engine:
        decisions = [(await engine.before_call(CALL)).decision for _ in range(3)]
        assert decisions == ["deny", None, None]


@pytest.mark.parametrize(
    ("shell", "line", "decision"),
    [("", "[[ a == a ]] && exit 2", "deny"), ("sh", "test $0 = sh && exit 2", "deny"), ("no-such-shell", "exit 0", "deny")],
)  # fmt: skip
async def test_a_hook_names_its_shell(tmp_path: Path, shell: str, line: str, decision: str) -> None:
    async with running(tmp_path, Hook("PreToolUse", line, shell=shell)) as engine:
        result = await engine.before_call(CALL)
        assert result.decision == decision
        assert ("could not start" in str(result.messages)) is (shell == "no-such-shell")


async def test_folders_are_put_in_for_a_program_without_a_shell(tmp_path: Path) -> None:
    (tmp_path / "guard").write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    (tmp_path / "guard").chmod(0o755)
    hook = Hook("PreToolUse", ("${CLAUDE_PLUGIN_ROOT}/guard",), root=str(tmp_path))
    async with running(tmp_path / "..", hook) as engine:
        assert (await engine.before_call(CALL)).decision == "deny"


async def test_a_hook_that_is_waited_for_long_is_named(tmp_path: Path) -> None:
    line = f"until test -e {tmp_path}/go; do sleep 0.01; done"
    hooks = [Hook("PreToolUse", line, status="Checking"), Hook("PreToolUse", "sleep 600", is_async=True)]
    async with running(tmp_path, *hooks) as engine:
        assert not engine.slowest
        asked = asyncio.create_task(engine.before_call(CALL))
        async with asyncio.timeout(60):
            while not engine.slowest:
                await asyncio.sleep(0.01)
        assert engine.slowest == "Checking"
        (tmp_path / "go").touch()
        await asked
        assert not engine.slowest


class Guard:
    """A server that answers each request alike and keeps what it was given."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        self._answer = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode()
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line.split(":")[1]) for line in head.lower().splitlines() if "content-length" in line)
        self.heads.append(head)
        self.bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(self._answer)
        await writer.drain()
        writer.close()


async def asked(folder: Path, guard: Guard, event: Event = "PreToolUse", **more: Any) -> Any:
    async with guard.served() as url:
        hook = Hook(event, "", name="remote", request=HttpRequest(url, **more), timeout_s=20)
        async with running(folder, hook) as engine:
            return await (engine.before_call(CALL) if event == "PreToolUse" else engine.at(event, {}))


@pytest.mark.parametrize(("answer", "decision"), [(DENY, "deny"), ({}, None), ("", None)])
async def test_a_server_decides_by_json(tmp_path: Path, answer: Any, decision: str | None) -> None:
    guard = Guard(answer)
    result = await asked(tmp_path, guard)
    assert result.decision == decision and not result.messages
    (body,) = guard.bodies
    assert body["hook_event_name"] == "PreToolUse" and body["tool_input"] == {"command": "ls"}
    assert "POST /hook" in guard.heads[0] and "content-type: application/json" in guard.heads[0].lower()


@each_row(
    ("answer", "status", "says"),
    [
        (DENY, 500, "status 500"),
        (DENY, 302, "status 302"),
        ("<html>sign in</html>", 200, "an answer that is not a JSON object"),
        ('{"decision": ', 200, "JSON that cannot be read"),
        ("{" + " " * 1_500_000, 200, "more than 1 MB"),
    ],
)
async def test_any_other_answer_of_a_server_is_a_failed_hook(
    tmp_path: Path, answer: Any, status: int, says: str
) -> None:
    result = await asked(tmp_path, Guard(answer, status))
    assert result.decision == "deny" and says in result.messages[0] and "remote" in result.messages[0]
    told = await asked(tmp_path, Guard(answer, status), "PostToolUse")
    assert told.decision is None and says in told.messages[0]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "nothing"])
async def test_a_server_that_cannot_be_reached_is_a_failed_hook(tmp_path: Path, url: str) -> None:
    async with running(tmp_path, Hook("PreToolUse", "", request=HttpRequest(url), timeout_s=20)) as engine:
        result = await engine.before_call(CALL)
        assert result.decision == "deny" and "could not be asked" in result.messages[0]


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        hook = Hook("PreToolUse", "", request=HttpRequest(url), timeout_s=0.3)
        async with running(tmp_path, hook) as engine:
            assert (await engine.before_call(CALL)).decision == "deny"


@pytest.mark.parametrize(("env", "sent"), [(("HOME",), f"Bearer {os.environ['HOME']}"), ((), "Bearer")])
async def test_headers_hold_only_the_variables_that_are_listed(
    tmp_path: Path, env: tuple[str, ...], sent: str
) -> None:
    guard = Guard({})
    await asked(tmp_path, guard, headers=(("Authorization", "Bearer $HOME"), ("X-Who", "${PATH}")), env=env)
    pairs = [line.partition(":") for line in guard.heads[0].splitlines()]
    lines = {name.lower(): value.strip() for name, _, value in pairs}
    assert lines["authorization"] == sent and lines["x-who"] == ""

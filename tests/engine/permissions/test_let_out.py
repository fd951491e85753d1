"""A command that the sandbox keeps from something: recognised, asked about, and run again with just that much more."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles, SandboxRequest
from agent_cli.protocol.events import ApprovalRequested, ToolCallFinished
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from agent_cli.workspace.paths import Workspace
from tests.engine.harness import Engine, approve_all, engine, refuse_all
from tests.model.scripted import call, say


@pytest.fixture
def outside() -> Path:
    """A place that is ours and outside: not below `/tmp`, which commands have one of their own of."""
    return Path.home() / f"agent-test-{os.getpid()}"


@asynccontextmanager
async def confined(tmp_path: Path, *commands: str, **options: Any) -> AsyncIterator[Engine]:
    """An engine in auto-edit whose commands run in the sandbox of this machine."""
    (tmp_path / "work").mkdir()
    processes = ProcessRunner()

    async def measured(scratch: Path) -> EnforcedLevel:
        return await measure(processes, scratch)

    confining = SandboxProfiles(
        Workspace(tmp_path / "work"),
        SandboxRequest("workspace-write", True),
        EnforcedLevel("none"),
        measure=measured,
    )
    await confining.measure()
    script = [say(call("shell", command=command)) for command in commands]
    async with engine(
        tmp_path, *script, say("ok"), mode="auto-edit", confining=confining, processes=processes, **options
    ) as it:
        yield it


def writing(path: Path) -> str:
    """A command that nobody can tell by its words what it writes."""
    return f'python3 -c \'open("{path}", "w").write("x")\''


async def test_a_yes_lets_this_command_out_this_once(tmp_path: Path, outside: Path) -> None:
    async with confined(tmp_path, writing(outside), writing(outside)) as it:
        it.answer = approve_all
        await it.prompt("go")
        first, second = it.of(ApprovalRequested)
        assert first.items[0].reach == "outside" and str(outside) in first.items[0].reason
        assert first.items[0].preview == writing(outside) and second.items[0].rule == "sandbox"
        assert [event.exit_code for event in it.of(ToolCallFinished)] == [0, 0] and outside.exists()
    outside.unlink()


async def test_a_no_leaves_it_in_and_the_model_is_told(tmp_path: Path, outside: Path) -> None:
    async with confined(tmp_path, writing(outside)) as it:
        it.answer = refuse_all("write it here instead")
        await it.prompt("go")
        (done,) = it.of(ToolCallFinished)
        assert done.status == "failed" and "They said: write it here instead" in done.text and not outside.exists()


async def test_a_rule_against_leaving_asks_nobody(tmp_path: Path, outside: Path) -> None:
    async with confined(tmp_path, writing(outside), rules=["deny outside(python3 *)"]) as it:
        await it.prompt("go")
        assert not it.of(ApprovalRequested) and not outside.exists()


async def test_who_wants_a_host_gets_the_network_and_stays_in_the_sandbox(tmp_path: Path, outside: Path) -> None:
    command = (
        f"{writing(outside)} 2>/dev/null; python3 -c \"print('could not resolve host: a.example.org'); exit(6)\""
    )
    async with confined(tmp_path, command) as it:
        it.answer = lambda request: ApprovalAnswer(
            request.request_id, (Decision(request.items[0].call_id, True, grant=request.items[0].grant),)
        )
        await it.prompt("go")
        (asked,) = it.of(ApprovalRequested)
        assert (asked.items[0].reach, asked.items[0].grant) == ("network", "fetch(a.example.org)")
        assert not outside.exists(), "with the network it is confined all the same"


async def test_a_host_that_a_rule_denies_is_not_offered(tmp_path: Path) -> None:
    command = "python3 -c \"print('could not resolve host: a.example.org'); exit(6)\""
    async with confined(tmp_path, command, rules=["deny fetch(*.example.org)"]) as it:
        await it.prompt("go")
        assert not it.of(ApprovalRequested)


async def test_a_failure_of_its_own_is_no_question(tmp_path: Path) -> None:
    async with confined(tmp_path, "false", "ls no/such", "python3 -c 'raise PermissionError'") as it:
        await it.prompt("go")
        assert not it.of(ApprovalRequested) and len(it.of(ToolCallFinished)) == 3


async def test_only_the_tools_own_measurement_lets_commands_run_unasked(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    confining = SandboxProfiles(
        Workspace(tmp_path / "work"), SandboxRequest("workspace-write", True), EnforcedLevel("bubblewrap", hides_inside=True),
        measure=_nothing,
    )  # fmt: skip
    async with engine(
        tmp_path,
        say(call("shell", command="touch made")),
        say("ok"),
        mode="auto-edit",
        confining=confining,
        interactive=False,
    ) as it:
        await it.prompt("go")
        assert it.of(ToolCallFinished)[0].status == "denied" and not (it.root / "made").exists()


async def _nothing(scratch: Path) -> EnforcedLevel:
    return EnforcedLevel("none", why="a test")


PLANT = "mkdir -p b; printf '#!/bin/sh\\necho planted ran\\n' > b/tool; chmod +x b/tool; export PATH=$PWD/b:$PATH MARK=kept"
FORGE = 'trap \'printf "0\\n%s\\0\\0echo forged ran\\0" "$PWD" >&59\' EXIT; true'


async def test_a_command_that_leaves_is_told_which_variables_it_went_without(
    tmp_path: Path, outside: Path
) -> None:
    async with confined(tmp_path, "export MARK=kept; A=1", f"touch {outside}", "true") as it:
        it.answer = approve_all
        await it.prompt("go")
        kept, left, inside = (event.text for event in it.of(ToolCallFinished))
        assert "MARK from earlier commands did not apply" in left, left
        assert "did not apply" not in kept + inside
    outside.unlink()


async def test_a_command_that_leaves_starts_as_the_first_one_did(tmp_path: Path, outside: Path) -> None:
    leaving = f"tool; echo mark=$MARK; touch {outside}"
    rule = [
        f"allow outside({leaving.partition(';')[0]})",
        "allow outside(echo *)",
        f"allow outside(touch {outside})",
    ]
    async with confined(tmp_path, PLANT, "tool; echo mark=$MARK", FORGE, leaving, rules=rule) as it:
        it.answer = approve_all
        await it.prompt("go")
        planted, inside, _, left = (event.text for event in it.of(ToolCallFinished))
        assert "planted ran" in inside, planted
        assert "planted ran" not in left and "mark=kept" not in left and "forged ran" not in left, left
        assert "with the variables of the agent's start" in left and outside.exists()
    outside.unlink()

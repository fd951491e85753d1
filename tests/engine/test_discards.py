"""What git would forget is named first, and can be brought back by what is said."""

import asyncio
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from agent_cli.policy.shell.destructive import discards_git_state
from agent_cli.protocol.events import ToolCallFinished
from agent_cli.protocol.operations import Interrupt, UserInput
from agent_cli.tools.kit.base import ToolContext, ToolOutcome
from agent_cli.tools.registry import Registry
from agent_cli.tools.shell.shell import Shell, ShellParams
from tests.engine.harness import approve_all, engine
from tests.model.scripted import call, say
from tests.rows import each_row


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "maintenance.auto=false", "-c", "user.email=e@e", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=90).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    (root / "a.txt").write_text("first\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "a.txt").write_text("stashed\n", encoding="utf-8")
    git(root, "stash", "-q")
    (root / "a.txt").write_text("staged\n", encoding="utf-8")
    git(root, "add", ".")
    (root / "a.txt").write_text("not staged\n", encoding="utf-8")
    return root


async def after(tmp_path: Path, command: str, shell: Shell | None = None) -> str:
    """What the model is told of a command the user has allowed."""
    registry = Registry((shell or Shell(),))
    async with engine(tmp_path, say(call("shell", command=command)), say("ok"), registry=registry) as it:
        it.answer = approve_all
        await it.prompt("go")
        return it.of(ToolCallFinished)[-1].text


async def test_what_was_staged_comes_back_after_a_hard_reset(repository: Path, tmp_path: Path) -> None:
    told = await after(tmp_path, "git reset -q --hard")
    assert (repository / "a.txt").read_text(encoding="utf-8") == "first\n"
    found = re.search(r"git read-tree [0-9a-f]{40}", told)
    assert found, told
    git(repository, *found.group().split()[1:])
    assert git(repository, "show", ":a.txt") == "staged\n"


async def test_a_dropped_stash_comes_back(repository: Path, tmp_path: Path) -> None:
    told = await after(tmp_path, "git stash drop -q && git stash list")
    assert git(repository, "stash", "list") == ""
    found = re.search(r"git stash store -m \S+ [0-9a-f]{40}", told)
    assert found, told
    git(repository, *found.group().split()[1:])
    assert "stashed" in git(repository, "stash", "show", "-p")


class BlockedOnce(Shell):
    """A shell whose first command is blocked by a sandbox."""

    __module__ = Shell.__module__  # whose description is beside it

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        self.runs += 1
        outcome = await super().run(params, context)
        return msgspec.structs.replace(outcome, blocked="writing /elsewhere") if self.runs == 1 else outcome


async def test_what_brings_it_back_is_told_of_a_command_that_runs_again_outside_the_sandbox(
    repository: Path, tmp_path: Path
) -> None:
    shell = BlockedOnce()
    told = await after(tmp_path, "git stash drop -q; echo; git stash list", shell)
    assert git(repository, "stash", "list") == "" and shell.runs == 2
    assert re.search(r"git stash store -m \S+ [0-9a-f]{40}", told), told


async def test_what_brings_it_back_is_told_of_a_command_that_was_stopped(repository: Path, tmp_path: Path) -> None:
    dropped = call("shell", command="git stash drop -q; touch dropped; sleep 600")
    async with engine(tmp_path, say(dropped)) as it, asyncio.timeout(60):
        it.answer = approve_all
        turn = await it.submit(UserInput("go"))
        while not (repository / "dropped").exists():
            await asyncio.sleep(0.01)
        await it.submit(Interrupt())
        await it.until_ended(turn)
        told = it.of(ToolCallFinished)[-1].text
        assert "Stopped before it ended" in told and re.search(r"git stash store -m \S+ [0-9a-f]{40}", told)


async def test_where_nothing_can_be_lost_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert "Before it ran" not in await after(tmp_path, "git reset --hard")


@each_row(
    ("command", "expected"),
    [
        ("git reset --hard HEAD~1", True), ("git checkout -- .", True), ("git checkout -f main", True),
        ("git clean -fdx", True), ("git stash drop", True), ("git stash clear", True), ("git restore .", True),
        ("cd sub && git reset --hard", True), ("sh -c 'git reset --hard'", True), ("$(git stash drop)", True),
        ("uv run git restore .", True), ("npx -c 'git stash drop'", True), ("cross-env A=1 git reset --hard", True),
        ("python -c 'import os; os.system(\"git stash clear\")'", True), ("uv run git status", False),
        ("git stash list", False), ("git status", False), ("git checkout -b new", False), ("git commit -m reset", False),
        ("echo git reset", False), ("git log --oneline", False),
    ],
)  # fmt: skip
def test_commands_that_make_git_forget_are_known(command: str, expected: bool) -> None:
    assert discards_git_state(command) is expected

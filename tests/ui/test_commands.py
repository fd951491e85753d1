"""Slash commands: the table, the words, and what reaches the engine."""

import pytest

from agent_cli.protocol.client import JobState
from agent_cli.protocol.operations import (
    ChangeSettings,
    Compact,
    ControlJob,
    KeepSummary,
    MarkMessage,
    Operation,
    Redo,
    Rename,
    Resolve,
    Rewind,
    Uncompact,
    Undo,
    UserInput,
)
from agent_cli.ui import commands
from agent_cli.ui.commands import TABLE
from agent_cli.ui.desk import Leaving
from agent_cli.ui.theme import NONE

from .fake_client import FakeClient, FakeHost


class Desk:
    """Remembers what was said."""

    def __init__(self, **state: object) -> None:
        self.client, self.host, self.theme = FakeClient(**state), FakeHost(), NONE  # type: ignore[arg-type]
        self.said: list[str] = []
        self.left: Leaving | None = None
        self.proposed = ""

    def say(self, text: str, wrap: bool = True) -> None:
        self.said.append(text)

    def propose(self, text: str) -> None:
        self.proposed = text

    def summary(self) -> str:
        return "S: what was done"

    def leave(self, leaving: Leaving) -> None:
        self.left = leaving


async def run(line: str, **state: object) -> Desk:
    desk, parsed = Desk(**state), commands.parse(line)
    assert parsed
    await commands.run(desk, *parsed)
    return desk


@pytest.mark.parametrize("text", ["/usr/bin/python is gone", "hello /help", "//", "/", "/etc/hosts"])
def test_paths_and_prose_are_no_commands(text: str) -> None:
    assert commands.parse(text) is None


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("/undo", Undo(1)),
        ("/undo 3", Undo(3)),
        ("/redo", Redo()),
        ("/compact the parser", Compact("the parser")),
        ("/retry", UserInput("")),
        ("/mode plan", ChangeSettings(mode="plan")),
        ("/model other", ChangeSettings(model="test/other")),
        ("/model new/model", ChangeSettings(model="new/model")),
        ("/effort high", ChangeSettings(effort="high")),
        ("/jobs stop 2", ControlJob("2", "stop")),
        ("/compact preview the parser", Compact("the parser", preview=True)),
        ("/compact keep Short.", KeepSummary("Short.")),
        ("/compact keep", KeepSummary("S: what was done")),
        ("/compact undo", Uncompact()),
        ("/context pin 1", MarkMessage("m1", "pinned")),
        ("/context drop 2", MarkMessage("r1", "dropped")),
        ("/context keep 2", MarkMessage("r1", "")),
        ("/rewind 1", Rewind("t2", "both")),
        ("/rewind 2 code", Rewind("t1", "code")),
        ("/rewind 2 conversation", Rewind("t1", "conversation")),
        ("/resolve merge a.py b.py", Resolve("merge", ("a.py", "b.py"))),
        ("/resolve old", Resolve("old")),
        ("/rename the lexer", Rename("the lexer")),
        ("/init the tests", UserInput("Write AGENTS.md. the tests")),
    ],
)
async def test_commands_that_reach_the_engine(line: str, operation: Operation) -> None:
    desk = await run(line)
    assert [made for _, made in desk.client.submitted] == [operation]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("/help", "/undo"),
        ("/model", "test/other"),
        ("/model nothing", "No known model"),
        ("/mode wrong", "auto-edit"),
        ("/effort", "xhigh"),
        ("/permissions", "shell(git diff *)"),
        ("/status", "/state/abc123.json"),
        ("/cost", "$0"),
        ("/context", "30%"),
        ("/context", "shell make test"),
        ("/context pin 9", "takes a message out"),
        ("/rewind", "and the lexer"),
        ("/rewind 7", "goes back to before prompt N"),
        ("/resolve", "mine, old or merge"),
        ("/rename", "fix the parser"),
        ("/search lexer", "about lexer"),
        ("/search", "finds what was said"),
        ("/export out.html", "Exported to out.html"),
        ("/memory", "16 of 8000 characters"),
        ("/memory project", "tests: make test"),
        ("/memory nothing", "no block nothing"),
        ("/fork 9", "/fork N"),
        ("/diff", "+new"),
        ("/plan", "no plan"),
        ("/sessions", "fix the parser"),
        ("/resume", "abc123"),
        ("/resume zzz", "No session"),
        ("/undo x", "number"),
        ("/jobs stop", "/jobs stop needs the number of a job"),
        ("/jobs kep 2", "/jobs cannot kep. /jobs stop N ends one"),
        ("/halp", "Did you mean /help?"),
        ("/xyzzy", "/help lists them"),
    ],
)
async def test_commands_that_answer(line: str, word: str) -> None:
    desk = await run(line)
    assert word in "\n".join(desk.said)
    assert not desk.client.submitted


async def test_jobs_are_listed_with_their_logs() -> None:
    jobs = (
        JobState("1", "make watch", "running", 61.0, "/state/logs/1\x1b[2J.txt"),
        JobState("2", "x", "kept", 1.0),
    )
    (said,) = (await run("/jobs", jobs=jobs)).said
    rows = said.split("\n")
    assert rows[:3] == ["   1  make watch  running, 1m01s", "      /state/logs/1.txt", "   2  x  kept, 1.0s"]


@pytest.mark.parametrize(("text", "known"), [("/undo", True), ("/q", True), ("/nope", False), ("/usr/bin", False)])
def test_what_counts_as_a_command(text: str, known: bool) -> None:
    assert commands.is_command(text) is known


async def test_leaving() -> None:
    assert (await run("/quit")).left == Leaving("quit")
    assert (await run("/new")).left == Leaving("new")
    assert (await run("/resume abc")).left == Leaving("resume", "abc123")


async def test_what_cannot_wait_is_refused_while_a_turn_runs() -> None:
    assert "has to wait" in (await run("/new", busy=True)).said[0]
    assert (await run("/undo", busy=True)).client.submitted


def test_every_command_is_documented() -> None:
    assert all(command.help for command in TABLE.values())
    names = "help model mode permissions undo redo compact status cost context diff new resume sessions retry plan"
    assert set(names.split()) | {"effort", "quit"} <= set(TABLE)


async def test_a_fork_leaves_for_a_copy_of_this_session() -> None:
    assert (await run("/fork")).left == Leaving("fork", "abc123")
    assert (await run("/fork 2")).left == Leaving("fork", "abc123", "t1")
    assert (await run("/fork", session_path="")).left is None


async def test_the_summary_is_put_where_it_can_be_changed() -> None:
    assert (await run("/compact edit")).proposed == "/compact keep S: what was done"

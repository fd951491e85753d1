"""Slash commands: the table, the words, and what reaches the engine."""

import msgspec
import pytest

from agent_cli.protocol.client import ContextItem, JobState
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
from agent_cli.ui import commands, conversation
from agent_cli.ui.commands import TABLE
from agent_cli.ui.desk import Leaving
from agent_cli.ui.theme import NONE

from .fake_client import PICTURE, FakeClient, FakeHost


class Desk:
    """Remembers what was said."""

    def __init__(self, **state: object) -> None:
        self.client, self.host, self.theme = FakeClient(**state), FakeHost(), NONE  # type: ignore[arg-type]
        self.said: list[str] = []
        self.left: Leaving | None = None
        self.proposed = ("", "")

    def say(self, text: str, wrap: bool = True) -> None:
        self.said.append(text)

    def propose(self, text: str, note: str) -> None:
        self.proposed = (text, note)

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
        ("/rewind 3", Rewind("t2", "both")),
        ("/rewind 1 code", Rewind("t1", "code")),
        ("/rewind 1 conversation", Rewind("t1", "conversation")),
        ("/resolve merge a.py b.py", Resolve("merge", ("a.py", "b.py"))),
        ("/resolve old", Resolve("old")),
        ("/resolve keep a.py", Resolve("mine", ("a.py",))),
        ("/resolve take", Resolve("old")),
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
        ("/rewind 7", "Prompt 7 is not in the list"),
        ("/rewind 2", "Prompt 2 is not in the list"),
        ("/rewind 1 files", "goes back to before prompt N"),
        ("/rewind x", "goes back to before prompt N"),
        ("/resolve", "mine, old or merge"),
        ("/rename", "fix the parser"),
        ("/search lexer", "about lexer"),
        ("/search", "finds what was said"),
        ("/export out.html", "Exported to out.html"),
        ("/memory", "16 of 8000 characters"),
        ("/memory project", "tests: make test"),
        ("/memory nothing", "no block nothing"),
        ("/fork 2", "Prompt 2 is not in the list"),
        ("/fork x", "/fork N"),
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
    assert (await run("/fork 1")).left == Leaving("fork", "abc123", "t1")
    assert (await run("/fork", session_path="")).left is None


async def test_the_summary_is_put_where_it_can_be_changed() -> None:
    text, note = (await run("/compact edit")).proposed
    assert text == "/compact keep S: what was done"
    assert note == "The summary is in the input line: change it and press Enter."


@pytest.mark.parametrize("command", ["/rewind", "/fork x"])
async def test_prompts_are_listed_with_their_own_numbers_the_newest_last(command: str) -> None:
    (said,) = (await run(command)).said
    first, second, *_ = said.split("\n")
    assert first.split()[0] == "1" and "fix the parser" in first
    assert second.split()[0] == "3" and "and the lexer" in second


async def test_an_undo_of_more_turns_than_there_are_says_how_many_there_were() -> None:
    desk = await run("/undo 9")
    assert desk.said == ["There are only 2 turns to take back."]
    assert desk.client.operations(Undo) == [Undo(9)]
    assert not (await run("/undo 2")).said


async def test_dropping_what_was_pinned_says_so() -> None:
    desk = await run("/context drop 3")
    assert desk.client.operations(MarkMessage) == [MarkMessage("m2", "dropped")]
    assert "it was pinned" in desk.said[0]
    assert "pinned)" not in (await run("/context keep 3")).said[0]


def test_what_is_pinned_is_shown_however_small_it_is() -> None:
    large = tuple(ContextItem(f"r{n}", "tool results", f"result {n}", 500 + n, 1) for n in range(12))
    picture = msgspec.structs.replace(PICTURE, items=(*PICTURE.items, *large))
    text = "\n".join(conversation.drawn(picture, Desk()))
    assert "Pinned or dropped:" in text and "[pinned]: always use tabs" in text and "result 1\n" not in text

"""The conversation without any screen."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import (
    ChangeSettings,
    Interrupt,
    Operation,
    Shutdown,
    Steer,
    TakeBack,
    UserCommand,
    UserInput,
)
from agent_cli.ui.commands.api import Choice, ExitReason, FirstInput
from agent_cli.ui.conversation.conversation import Conversation, LooserModeError
from agent_cli.ui.services import MemoryLine
from agent_cli.ui.text.theme import NONE, Theme
from tests.rows import each_row
from tests.ui.fake_client import FakeClient, FakeHost

IMAGE = Image("image/png", "AAAA")


class Broken(FakeHost):
    """Lists that cannot be had."""

    def memory(self) -> tuple[MemoryLine, ...]:
        raise ZeroDivisionError("division by zero")


class Recorder:
    """A front end that remembers what it was to print."""

    keys: tuple[str, ...] = ()
    picks = ""

    def __init__(self, *, may_loosen: bool = True, may_steer: bool = True, **state: object) -> None:
        self.client, self.host, self.theme = FakeClient(**state), FakeHost(), NONE  # type: ignore[arg-type]
        self.said: list[str] = []
        self.asked: list[str] = []
        self.picks = ""
        self.submitted: list[Operation] = []
        self.conversation = Conversation(self, self.submitted.append, may_loosen=may_loosen, may_steer=may_steer)

    async def submit(self, operation: Operation) -> None:
        await self.conversation.submit(operation)

    def say(self, text: str, wrap: bool = True) -> None:
        self.said.append(text)

    def prefill(self, text: str, note: str) -> None:
        self.said += [text, note]

    def summary(self) -> str:
        return ""

    def expand(self) -> None:
        self.said.append("in full")

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        self.asked.append(title)
        self.said.append(title)
        return self.picks

    def use_theme(self, theme: Theme) -> None:
        self.theme = theme

    def to_clipboard(self, text: str) -> bool:
        return False

    def exit_repl(self, leaving: ExitReason) -> None:
        self.conversation.exit_reason = leaving


@pytest.mark.parametrize(
    ("state", "images", "sent"),
    [
        ({"busy": False}, (), UserInput("left")),
        ({"busy": True}, (), Steer("left")),
        ({"busy": True}, (IMAGE,), UserInput("left", (IMAGE,))),
        ({"busy": True, "may_steer": False}, (), UserInput("left")),
    ],
)
async def test_a_line_is_a_prompt_or_guidance(
    state: dict[str, bool], images: tuple[Image, ...], sent: Operation
) -> None:
    front = Recorder(**state)
    await front.conversation.send("left", images)
    assert front.submitted == [sent]


async def test_commands_are_carried_out_and_a_failing_one_is_told() -> None:
    front = Recorder()
    await front.conversation.send("/more")
    await front.conversation.send("!make test")
    front.host = Broken()
    await front.conversation.send("/memory")
    assert front.said[0] == "in full" and "ran make test" in front.said
    assert front.said[-1] == "/memory failed: division by zero" and not front.submitted


async def test_the_next_prompt_brings_what_the_users_own_commands_printed() -> None:
    front = Recorder()
    await front.conversation.send("!make test")
    await front.conversation.send("!!cat secret")
    await front.conversation.send("fix that")
    await front.conversation.send("and that")
    ran = UserCommand("make test", "ran make test\n", "exit 0")
    assert front.submitted == [UserInput("fix that", commands=(ran,)), UserInput("and that")]
    assert "· exit 0 · sent with your next prompt" in front.said
    assert "· exit 0 · not shown to the model" in front.said


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [("!cd src", True), ("!export A=b", True), ("! cd", True), ("!cd src && make", False), ("!cdrecord x", False)],
)
async def test_a_command_that_changes_only_its_own_shell_says_so(line: str, is_lost: bool) -> None:
    front = Recorder()
    await front.conversation.send(line)
    assert front.said[-1].endswith("lasts for its own line only") is is_lost


@pytest.mark.parametrize("line", ["#use tabs", "# use tabs"])
async def test_a_note_is_saved_where_the_user_says(line: str) -> None:
    front = Recorder()
    front.picks = "user"
    await front.conversation.send(line)
    assert front.said == ["Remember: use tabs", "Saved to memory (user): use tabs"] and not front.submitted
    front.picks = ""
    await front.conversation.send(line)
    assert front.said[-2:] == [line, "Not saved; the line is back."] and not front.submitted
    front.picks = "prompt"
    await front.conversation.send(line)
    assert front.submitted == [UserInput(line)]


@each_row("text", ["# Head\n\ntext", "## Head", "#!/bin/sh", "#123", "a # b"])
async def test_what_is_no_note_is_a_prompt(text: str) -> None:
    front = Recorder()
    await front.conversation.send(text)
    assert front.submitted == [UserInput(text)] and not front.said


async def test_a_prompt_that_is_taken_back_leaves_the_output_for_the_next_one() -> None:
    front = Recorder()
    await front.conversation.send("!make test")
    await front.conversation.send("fix that")
    front.client.emit(ev.TurnAborted(stop_reason="interrupted"), "s1")
    async for event in front.conversation.events():
        if isinstance(event, ev.TurnAborted):
            break
    await front.conversation.send("fix this")
    assert isinstance(sent := front.submitted[-1], UserInput) and len(sent.commands) == 1


@pytest.mark.parametrize("line", ["!", "!!", " ! "])
async def test_a_lone_mark_says_what_it_is_for(line: str) -> None:
    front = Recorder()
    await front.conversation.send(line)
    assert not front.submitted and front.said[0].startswith("!COMMAND runs a shell command")


async def test_the_mode_cycles_and_is_never_loosened_where_it_may_not_be() -> None:
    front = Recorder(mode="auto-edit")
    await front.conversation.cycle_mode()
    await front.conversation.cycle_mode()
    assert front.submitted == [ChangeSettings(mode="plan"), ChangeSettings(mode="ask")]
    careful = Recorder(mode="ask", may_loosen=False)
    with pytest.raises(LooserModeError):
        await careful.submit(ChangeSettings(mode="yolo"))
    await careful.submit(ChangeSettings(mode="plan"))
    assert careful.client.operations(ChangeSettings) == [ChangeSettings(mode="plan")]


@pytest.mark.parametrize(("answer", "modes"), [("yes", ["yolo"]), ("no", []), ("", [])])
async def test_the_mode_that_does_not_ask_is_confirmed_first(answer: str, modes: list[str]) -> None:
    front = Recorder(mode="ask")
    front.picks = answer
    await front.conversation.send("/mode yolo")
    assert [change.mode for change in front.client.operations(ChangeSettings)] == modes
    assert front.asked == ["Mode yolo runs commands and changes files without asking. Switch?"]


async def test_no_other_mode_is_confirmed() -> None:
    for now, wanted in (("ask", "auto-edit"), ("yolo", "yolo"), ("yolo", "ask")):
        front = Recorder(mode=now)
        await front.conversation.send(f"/mode {wanted}")
        assert not front.asked and len(front.client.operations(ChangeSettings)) == 1


async def test_a_submission_is_open_until_its_end_and_closing_passes_only_notices() -> None:
    front = Recorder(open_calls=1)
    front.client.last_words = ("job 1 was ended",)
    conversation = front.conversation
    await conversation.carry_on()
    await conversation.begin(FirstInput("data", has_piped_text=True))
    assert front.submitted == [UserInput(""), UserInput("data", is_data=True)]
    assert conversation.open == {"s1", "s2"}
    front.client.emit(ev.OperationCompleted(operation="x"), "s1")
    seen: list[ev.AnyEvent] = []

    async def consume(events: AsyncIterator[ev.AnyEvent]) -> None:
        async for event in events:
            seen.append(event)
            if isinstance(event, ev.OperationCompleted) and event.submission_id == "s1":
                assert conversation.open == {"s2"}

    consumer = asyncio.ensure_future(consume(conversation.events()))
    front.exit_repl(ExitReason("terminated"))
    await conversation.close(consumer)
    assert consumer.done() and isinstance(seen[-1], ev.Notice)
    assert front.client.operations(Interrupt) == [Interrupt("terminated")]
    assert front.client.operations(Shutdown) and conversation.take_back() is None
    assert not front.client.operations(TakeBack)


async def test_a_review_is_stopped_as_a_command_is() -> None:
    front = Recorder()
    front.host.may_end_review.clear()
    sending = asyncio.ensure_future(front.conversation.send("/review --base main"))
    while front.said != ["reviewing --base main"]:
        await asyncio.sleep(0)
    assert front.conversation.runs_command and not front.conversation.may_move_command
    await front.conversation.send("/review")
    assert front.said[1:] == ["A command is running already; Esc stops it."]
    assert front.conversation.stop_command()
    await sending
    assert front.said[-1] == "Stopped." and not front.conversation.runs_command


async def test_a_review_shows_what_was_found() -> None:
    front = Recorder()
    await front.conversation.send("/review")
    assert front.said == ["reviewing", "No findings."] and not front.submitted

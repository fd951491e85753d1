"""A session in which everything a session file can hold comes up: prompts, calls, results, a plan, memory, a job,
waiting prompts, settings, undo, marks, reductions. The model answers by what it is asked, so that the same request
has the same answer in whichever process it is made.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import TERMINAL, AnyEvent, ToolCallStarted
from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from agent_cli.protocol.operations import (
    ChangeSettings,
    Compact,
    KeepSummary,
    MarkMessage,
    Operation,
    Redo,
    Rename,
    Rewind,
    Uncompact,
    Undo,
    UserInput,
)
from agent_cli.protocol.records import AnyRecord
from agent_cli.session import history
from agent_cli.session.projection import Projection
from agent_cli.workspace.memory import Memory
from tests.engine.harness import Engine
from tests.model.scripted import Call, Reply, ScriptedModel, call, say

WINDOW = 12_000
ALPHABET = 'abc def ghi\n"\\{}[],:größer ✓ 😀\t\u2028 '
_PLAN = [{"text": "one ✓", "status": "in_progress"}, {"text": "two", "status": "pending"}]
_PLANNED = call("update_plan", items=_PLAN)
_ANSWERS: dict[str, tuple[tuple[Call, ...], ...]] = {
    "plan": ((_PLANNED, call("read_file", path="notes.txt")),),
    "edit": (
        (call("edit_file", path="notes.txt", edits=[{"old": "<1>", "new": "<one ✓>"}]),),
        (call("shell", command="echo line >> log; seq 40"), call("glob", pattern="*"), _PLANNED),
    ),
    "remember": ((call("memory", action="append", block="notes", text="tests run with make"),),),
    "begin": ((call("shell", command="sleep 60", background=True),),),
    "wait": ((call("shell", command="while [ ! -e go ]; do sleep 0.01; done"),),),
    "much": tuple((call("read_file", path="big.txt", offset=at + 1), _PLANNED) for at in range(8)),
}
"""First word of a prompt → the calls of each answer before the last, which is text."""


def answer(request: ModelRequest) -> Reply:
    """The answer to a request."""
    if "about to be replaced" in request.messages[-1].text:
        return say("S: files were read, größer ✓", usage=None)
    at = max(place for place, each in enumerate(request.messages) if _is_human(each))
    word = request.messages[at].text.partition(" ")[0]
    step = sum(isinstance(each, AssistantMessage) for each in request.messages[at:])
    calls = _ANSWERS.get(word, ())
    if step < len(calls):
        return say(f"step {step} ✓", *calls[step], usage=None)
    return say(f"{word} is done. " + "All of it was looked at. " * (len(word) * 3), usage=None)


def _is_human(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin in ("human", "summary")


def model(then: Callable[[ModelRequest], Reply] = answer) -> ScriptedModel:
    """A new client of it."""
    return ScriptedModel(then=then, context_window=WINDOW)


def prepare(base: Path) -> None:
    """The files it works on."""
    (base / "work").mkdir(parents=True)
    (base / "work" / "notes.txt").write_text("<1> <2>\n", encoding="utf-8")
    (base / "work" / "big.txt").write_text(("word größer " * 8 + "\n") * 80, encoding="utf-8")


Deed = Callable[[Engine], Operation]


def _turn(it: Engine, back: int) -> str:
    return it.session.view.prompts[-back].turn_id


def _message(it: Engine, kind: type[Message]) -> str:
    return next(each.id for each in reversed(it.session.visible()) if isinstance(each, kind))


def deeds(dice: random.Random, *, with_job: bool = True) -> Sequence[Deed]:
    """What is done one after the other. Prompts have random words of random length behind the first. A job takes a
    second to begin."""

    def prompt(word: str) -> Deed:
        text = f"{word} " + "".join(dice.choices(ALPHABET, k=dice.choice((3, 30, 300, 1500))))
        return lambda it: UserInput(text)

    return (
        prompt("plan"),
        prompt("edit"),
        lambda it: Undo(1),
        lambda it: Redo(),
        prompt("remember"),
        lambda it: ChangeSettings(effort="high"),
        *([prompt("begin")] if with_job else []),
        prompt("wait"),
        lambda it: MarkMessage(_message(it, UserMessage), "pinned"),
        prompt("much"),
        lambda it: MarkMessage(_message(it, ToolResult), "dropped"),
        prompt("thank"),
        lambda it: Compact("what was read"),
        lambda it: KeepSummary("S: in my own words ✓"),
        lambda it: Uncompact(),
        lambda it: Rename("a long talk ✓"),
        prompt("edit"),
        lambda it: Rewind(_turn(it, 1), "conversation"),
        prompt("good"),
    )


async def perform(it: Engine, deed: Deed) -> AnyEvent:
    """Do one thing to its end. While `wait` waits, another prompt is handed in, which waits on disk."""
    operation = deed(it)
    submitted = await it.submit(operation)
    if isinstance(operation, UserInput) and operation.text.startswith("wait"):
        seen = len(it.events)
        await it.until(
            lambda event: (
                event in it.events[seen:] and (isinstance(event, ToolCallStarted) or _ends(event, submitted))
            )
        )
        behind = await it.submit(UserInput("next please"))
        (it.root / "go").touch()
        await it.until_ended(submitted)
        submitted = behind
    return await it.until_ended(submitted)


def _ends(event: AnyEvent, submission: str) -> bool:
    return isinstance(event, TERMINAL) and event.submission_id == submission


def with_memory(base: Path) -> dict[str, Memory]:
    """What gives a session's tools blocks of memory."""
    return {"memory": Memory(base / "config", base / "state", base / "notes")}


def sent(records: Sequence[AnyRecord]) -> tuple[Message, ...]:
    """The messages of the next request, from nothing but records."""
    return history.RepairedHistory().of(Projection(records).visible())

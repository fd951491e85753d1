"""The invariants of the design, over random scripts of answers, faults, cancels, approvals and crashes.

The scripted model checks each request (every call answered once, in place; nothing a provider rejects) and
the harness checks that each submission ends once and that no task or stream is left.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.model.types.base import ModelError, ModelRequest
from agent_cli.protocol.events import (
    ApprovalRequested,
    Compacted,
    Notice,
    QuestionAsked,
    Restored,
    SettingsChanged,
)
from agent_cli.protocol.messages import AssistantMessage, ToolResult
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    ChangeSettings,
    Compact,
    Decision,
    Interrupt,
    KeepSummary,
    MarkMessage,
    Operation,
    QuestionAnswer,
    Redo,
    Rewind,
    Steer,
    Uncompact,
    Undo,
    UserInput,
)
from agent_cli.protocol.records import CallStarted, Quarantined
from agent_cli.store.session_file import read_session
from tests.engine.harness import Engine, approve_all, engine
from tests.fuzz import LEVEL, tries
from tests.model.scripted import Call, Entry, Fail, Reply, ScriptedModel, call, fail, hang, say
from tests.model.valid import check_prefix, check_request

SECRET = "the secret of this test"

CALLS: list[Call] = [
    call("read_file", path="a.txt"),
    call("read_file", path="missing"),
    call("read_file", path=".env"),
    call("list_dir", path="."),
    call("grep", pattern="one"),
    call("write_file", path="new/n.txt", content="by the agent\n"),
    call("edit_file", path="a.txt", edits=[{"old": "one", "new": "1"}]),
    call("edit_file", path="a.txt", edits=[{"old": "1", "new": "one"}]),
    call("shell", command="printf x >> log; rm -f gone; chmod 600 a.txt"),
    call("shell", command="mv a.txt b.txt 2>/dev/null || mv b.txt a.txt"),
    call("shell", command="exit 3"),
    call("shell", command="cat .env"),
    call("shell", command="cat $(echo .env)"),
    call("update_plan", items=[{"text": "t", "status": "pending"}]),
    Call("shell", '{"command": "touch broken'),
    Call("shell", "[]"),
    Call("no_such_tool", "{}"),
    Call("list_dir", "{}", id="twice"),
    Call("list_dir", "{}", id=""),
]


def refusal_of(place: int) -> Entry:
    """A refusal that names a message, as providers do."""

    def refuse(request: ModelRequest) -> Reply:
        error = ModelError("bad_request", f"messages.{place}: refused", status=400)
        error.message_id = request.messages[place % len(request.messages)].id
        return Reply((Fail(error),))

    return refuse


replies = st.one_of(
    st.builds(refusal_of, st.integers(0, 9)),
    st.builds(lambda text: say(text), st.sampled_from(["fine", "a\ud800b", "x" * 300])),
    st.builds(lambda calls: say("working", *calls), st.lists(st.sampled_from(CALLS), min_size=1, max_size=4)),
    st.builds(lambda calls: say(*calls), st.lists(st.sampled_from(CALLS), min_size=1, max_size=3)),
    st.builds(lambda calls: say("cut", *calls, finish="length"), st.lists(st.sampled_from(CALLS), max_size=2)),
    st.just(say()),
    st.just(say("no", finish="content_filter")),
    st.just(say("odd", finish="unknown")),
    st.builds(
        lambda kind: fail(kind, after=("part",)), st.sampled_from(["server", "truncated", "auth", "bad_request"])
    ),
    st.just(fail("context_overflow", limit_tokens=3000)),
    st.just(hang("partly")),
)

steps = st.one_of(
    st.tuples(st.just("prompt"), st.integers(0, 60)),
    st.tuples(st.just("prompt"), st.just(10_000)),
    st.tuples(st.just("steer"), st.integers(0, 20)),
    st.tuples(st.just("undo"), st.integers(1, 2)),
    st.tuples(st.just("redo"), st.just(0)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("rewind"), st.tuples(st.integers(0, 3), st.sampled_from(["both", "code", "conversation"]))),
    st.tuples(st.just("summary"), st.sampled_from(["undo", "keep"])),
    st.tuples(st.just("mark"), st.tuples(st.integers(0, 9), st.sampled_from(["pinned", "dropped", ""]))),
    st.tuples(st.just("queue"), st.integers(0, 60)),
    st.tuples(st.just("mode"), st.sampled_from(["plan", "ask", "auto-edit", "yolo"])),
    st.tuples(st.just("restart"), st.integers(0, 3)),
)


def carry_on(asked: QuestionAsked) -> Operation:
    return QuestionAnswer(asked.request_id, "Go on")


def picture(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def prepare(base: Path) -> Path:
    root = base / "work"
    root.mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (root / "gone").write_text("soon", encoding="utf-8")
    (root / ".env").write_text(f"KEY={SECRET}\n", encoding="utf-8")
    return root


class Scenario:
    """Random operations against one session, restarts included."""

    def __init__(self, base: Path, script: list[Any], choices: list[bool]) -> None:
        self.base = base
        self.root = prepare(base)
        self.start = picture(self.root)
        self.script = script
        self.choices = choices
        self.requests: list[Any] = []
        self.left_files = False
        """Turns were taken back whose files were to stay."""

    def model(self) -> ScriptedModel:
        model = ScriptedModel(*self.script, then=say("end of script"), context_window=60_000)
        self.script = []
        return model

    def decide(self, request: ApprovalRequested) -> ApprovalAnswer | None:
        choice = self.choices.pop(0) if self.choices else True
        if not choice and len(self.choices) % 3 == 0:
            return None  # nobody answers; something else happens first
        decisions = tuple(
            # a person would not allow what hides a file's name from the rules
            Decision(item.call_id, allow=choice and "$(" not in item.preview, feedback="no")
            for item in request.items
        )
        return ApprovalAnswer(request.request_id, decisions)

    async def run(self, plan: list[tuple[str, Any]]) -> None:
        while True:
            restart: int | None = None
            model = self.model()
            options = {"model": model, "rules": ["deny read(**/.env)"], "mode": None}
            async with engine(self.base, **options) as it:
                it.reply = carry_on
                it.answer = self.decide
                while plan and restart is None:
                    kind, value = plan.pop(0)
                    if kind == "restart":
                        restart = value
                    else:
                        await self.step(it, kind, value)
                if restart is None:
                    await self.finish(it)
                self.script = model._script
            self.requests += model.requests
            self.check_file()
            if restart is None:
                return
            self.crash(restart)

    async def step(self, it: Engine, kind: str, value: Any) -> None:
        match kind:
            case "prompt":
                submission = await it.submit(UserInput("please"))
                await self.tick(it, submission, value)
                await it.submit(Interrupt())
                await it.until_ended(submission)
            case "steer":
                submission = await it.submit(UserInput("go"))
                await self.tick(it, submission, value)
                steer = await it.submit(Steer("rather that"))
                await self.tick(it, steer, 200)
                await it.submit(Interrupt())
                await it.until_ended(submission)
                await self.quiet(it)
            case "undo":
                await it.do(Undo(turns=value))
            case "redo":
                await it.do(Redo())
            case "compact":
                submission = await it.submit(Compact())
                await self.tick(it, submission, 300)
                await it.submit(Interrupt())
                await it.until_ended(submission)
            case "rewind":
                points = it.agent.rewind_points()
                if points:
                    self.left_files = self.left_files or value[1] == "conversation"
                    await it.do(Rewind(points[value[0] % len(points)].turn_id, value[1]))
            case "summary":
                await it.do(Uncompact() if value == "undo" else KeepSummary("S: as the user says"))
            case "mark":
                items = it.agent.context().items
                if items:
                    await it.do(MarkMessage(items[value[0] % len(items)].message_id, value[1]))
            case "queue":
                first = await it.submit(UserInput("one"))
                second = await it.submit(UserInput("two, which waits"))
                await self.tick(it, first, value)
                await it.submit(Interrupt())
                await it.until_ended(first)
                await self.tick(it, second, value)
                await it.submit(Interrupt())
                await it.until_ended(second)
            case "mode":
                await it.do(ChangeSettings(mode=value))

    async def tick(self, it: Engine, submission: str, ticks: int) -> None:
        """Let the engine work for a number of turns of its loop, or until the submission has ended."""
        for number in range(ticks):
            if submission in it.terminals():
                return
            await asyncio.sleep(0 if number < 100 else 0.002)
            if number > 400:
                return

    async def quiet(self, it: Engine) -> None:
        async with asyncio.timeout(60):
            while it.agent.snapshot().busy or it.agent.snapshot().queued:
                await it.submit(Interrupt())
                await asyncio.sleep(0.005)

    async def finish(self, it: Engine) -> None:
        """After everything: the next turn works, and undoing all turns brings every file back."""
        await it.do(ChangeSettings(mode="yolo"))
        it.model._script.clear()
        end = await it.prompt("and now?")
        assert type(end).__name__ == "TurnCompleted", end
        self.undo_count = len({message.turn_id for message in it.session.view.prompts})
        if self.undo_count:
            await it.do(Undo(turns=self.undo_count))
            conflicts = [c for event in it.of(Restored) for c in event.report.conflicts + event.report.notes]
            if not conflicts and not self.left_files:
                assert picture(self.root) == self.start, [notice.text for notice in it.of(Notice)]

    def crash(self, lost: int) -> None:
        """Cut the session file as a crash would: the last records gone, the last line torn."""
        path = self.base / "session.json"
        if not path.exists():
            return
        lines = path.read_bytes().split(b"\n")
        keep = max(2, len(lines) - 2 - lost)
        path.write_bytes(b"\n".join(lines[:keep]) + (b"\n" + lines[keep][:20] if lost else b""))

    def check_file(self) -> None:
        records = read_session(self.base / "session.json").records if (self.base / "session.json").exists() else ()
        started = [r.call_id for r in records if isinstance(r, CallStarted)]
        results = [r.call_id for r in records if isinstance(r, ToolResult)]
        asked = [c.id for r in records if isinstance(r, AssistantMessage) for c in r.calls]
        assert len(started) == len(set(started)), "a call ran twice"
        assert len(results) == len(set(results)), "a call was answered twice"
        assert len(asked) == len(set(asked)), "a call id was used twice"
        assert SECRET not in str([r.text for r in records if isinstance(r, ToolResult)]), "a denied file was read"
        numbers = [r.seq for r in records]
        assert numbers == sorted(numbers)


@given(
    script=st.lists(replies, min_size=1, max_size=10),
    plan=st.lists(steps, min_size=1, max_size=6),
    choices=st.lists(st.booleans(), max_size=8),
)
@settings(
    max_examples=tries(40, LEVEL),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_invariants_hold_for_any_history(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], plan: list[Any], choices: list[bool]
) -> None:
    base = tmp_path_factory.mktemp("history")
    try:
        await Scenario(base, script, list(choices)).run(list(plan))
    finally:
        shutil.rmtree(base, ignore_errors=True)


@given(script=st.lists(replies, min_size=1, max_size=8), prompts=st.integers(1, 4))
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_each_request_is_a_prefix_of_the_next_unless_something_was_announced(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], prompts: int
) -> None:
    base = tmp_path_factory.mktemp("prefix")
    prepare(base)
    calm = [entry for entry in script if "Hang" not in repr(entry)]
    earlier = None
    for _ in range(prompts):
        model = ScriptedModel(*calm, then=say("end"), context_window=200_000)
        async with engine(base, model=model, mode="yolo") as it:
            it.reply = carry_on
            it.answer = approve_all
            await it.prompt("please")
            replaced = any(isinstance(record, Quarantined) for record in it.session.records)
            fewer_tools = any("no longer offered" in notice.text for notice in it.of(Notice))
            announced = bool(it.of(Compacted) or it.of(SettingsChanged) or replaced or fewer_tools)
        calm = model._script
        for request in model.requests:
            if "about to be replaced" in request.messages[-1].text:
                continue  # the question for a summary, which is no part of the conversation
            if earlier is not None and not announced:
                check_prefix(earlier, msgspec.structs.replace(request, may_call=True))
            earlier = request
        if announced:
            earlier = None
    shutil.rmtree(base, ignore_errors=True)


@given(script=st.lists(replies, min_size=1, max_size=6), cut=st.floats(0, 1))
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_session_cut_anywhere_gives_a_valid_request(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], cut: float
) -> None:
    base = tmp_path_factory.mktemp("cut")
    prepare(base)
    calm = [entry for entry in script if "Hang" not in repr(entry)]
    async with engine(base, model=ScriptedModel(*calm, then=say("end")), mode="yolo") as it:
        it.reply = carry_on
        it.answer = approve_all
        await it.prompt("please")
        whole = list(it.session.whole())
    path = base / "session.json"
    data = path.read_bytes()
    header_end = data.index(b"\n", 2) + 1
    path.write_bytes(data[: header_end + int((len(data) - header_end) * cut)])
    records = list(read_session(path).records)
    assert records == whole[: len(records)], "what is left is what was written"
    assert data[: header_end + int((len(data) - header_end) * cut)].count(b"\n") - 1 <= len(records) + 1
    async with engine(base, model=ScriptedModel(then=say("end")), mode="yolo") as it:
        it.reply = carry_on
        it.answer = approve_all
        await it.prompt("after the crash")
        for request in it.model.requests:
            check_request(request)
    shutil.rmtree(base, ignore_errors=True)

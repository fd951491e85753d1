"""Reducing the conversation: smaller or said, never the current request, originals kept."""

import asyncio
from itertools import takewhile
from pathlib import Path

import pytest

from agent_cli.engine.context.compaction_facts import choose_cut, facts
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import (
    Compacted,
    Notice,
    OperationCompleted,
    OperationFailed,
    TurnCompleted,
    TurnFailed,
)
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.operations import ChangeSettings, Compact, Rewind, Steer, UserInput
from agent_cli.protocol.usage import Usage
from agent_cli.session import history
from tests.engine.harness import Engine, engine
from tests.model.scripted import Entry, Gate, ScriptedModel, call, fail, say


def texts(it: Engine, request: int = -1) -> list[str]:
    return [message.text for message in it.model.requests[request].messages]


async def test_compact_on_request(tmp_path: Path) -> None:
    script = [say("one " * 200), say("two " * 200), say("SUMMARY: we counted"), say("three")]
    async with engine(tmp_path, *script) as it:
        await it.prompt("count one")
        await it.prompt("count two")
        end = await it.do(Compact("the numbers"))
        assert isinstance(end, OperationCompleted)
        event = it.of(Compacted)[0]
        assert event.how == "summary" and event.after < event.before
        assert "the numbers" in texts(it, 2)[-1] and it.model.requests[2].may_call is False
        await it.prompt("count three")
        assert "SUMMARY: we counted" in texts(it)[0] and texts(it)[-1] == "count three"
        assert any("one one" in r.text for r in it.session.whole() if isinstance(r, AssistantMessage))


async def test_there_may_be_nothing_to_compact(tmp_path: Path) -> None:
    async with engine(tmp_path, say("hi")) as it:
        await it.prompt("hello")
        end = await it.do(Compact())
        assert isinstance(end, OperationFailed) and "nothing to compact" in end.error.message


async def test_a_long_turn_with_one_prompt_is_reduced_and_keeps_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("data " * 20 + "\n") * 100, encoding="utf-8")
    calls = iter(range(100))

    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return say("S: looked at parts", usage=None)
        number = next(calls)
        return say(call("read_file", path="big", offset=number + 1), usage=None) if number < 12 else say("done")

    model = ScriptedModel(then=reply, context_window=12_000)  # type: ignore[arg-type]
    async with engine(tmp_path, model=model, compact_at=0.8) as it:
        end = await it.prompt("look at all of it, carefully")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"
        assert len(it.of(Compacted)) >= 1
        for request in model.requests:
            assert any(m.text == "look at all of it, carefully" for m in request.messages)
        assert sum(map(len, texts(it))) < 4 * 12_000


async def test_guidance_typed_while_a_summary_is_written_reaches_the_next_request(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("data " * 20 + "\n") * 100, encoding="utf-8")
    typed = asyncio.Event()

    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return say("S: looked at parts", Gate(typed), usage=None)
        if any(message.text == "no, blue" for message in request.messages):  # type: ignore[attr-defined]
            return say("blue")
        return say(call("read_file", path="big", offset=len(it.model.requests)), usage=None)

    model = ScriptedModel(then=reply, context_window=12_000)  # type: ignore[arg-type]
    async with engine(tmp_path, model=model, compact_at=0.8) as it:
        submission = await it.submit(UserInput("red please"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        assert it.agent.snapshot().busy and it.agent.snapshot().compacting
        await it.do(Steer("no, blue"))
        typed.set()
        await it.until_ended(submission)
        summaries = [at for at in range(len(model.requests)) if "about to be replaced" in texts(it, at)[-1]]
        assert not it.agent.snapshot().compacting
        assert summaries == [len(model.requests) - 2] and texts(it)[-1] == "no, blue"


async def test_where_shortening_old_results_is_enough_no_summary_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("word " * 20 + "\n") * 100, encoding="utf-8")
    calls = iter(range(100))

    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return fail("bad_request", "no summaries here")
        number = next(calls)
        return say(call("read_file", path="big", offset=number + 1), usage=None) if number < 10 else say("done")

    model = ScriptedModel(then=reply, context_window=16_000)  # type: ignore[arg-type]
    async with engine(tmp_path, model=model) as it:
        end = await it.prompt("read")
        assert isinstance(end, TurnCompleted) and end.text == "done"
        assert {event.how for event in it.of(Compacted)} == {"shortened"}


async def test_results_that_the_model_has_not_seen_stay_whole_where_older_parts_can_go(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("word " * 20 + "\n") * 100, encoding="utf-8")
    steps = iter(range(1, 9))

    def reply(request: ModelRequest) -> Entry:
        if "about to be replaced" in request.messages[-1].text:
            return say("S: looked at parts", usage=None)
        number = next(steps, 0)
        reads = [call("read_file", path="big", offset=3 * number + n, limit=60) for n in range(3)]
        return say(*reads, usage=None) if number else say("done")

    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=16_000)) as it:
        assert isinstance(await it.prompt("read"), TurnCompleted)
        assert "shortened" in {event.how for event in it.of(Compacted)}
        for request in it.model.requests:
            unseen = takewhile(lambda m: isinstance(m, ToolResult), reversed(request.messages))
            assert not [m for m in unseen if "of this result left out" in m.text]


async def test_a_hint_after_a_new_result_keeps_no_older_one_whole(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        it.session.append(UserMessage(id="u", turn_id="t", text="go"))
        for at in ("1", "2"):
            it.session.append(
                AssistantMessage(id=f"a{at}", turn_id="t", text="", calls=(ToolCall(f"c{at}", "shell", "{}"),)),
                ToolResult(id=f"r{at}", turn_id="t", call_id=f"c{at}", tool="shell", status="ok", text="x" * 5000),
            )
        it.session.append(UserMessage(id="h", turn_id="t", text="Go on.", origin="hint"))
        assert it.agent.services.compactor.reclaimable_tokens()["shortening old results"] > 0


async def test_an_overflow_teaches_the_real_window(tmp_path: Path) -> None:
    script = [
        say("one " * 3000), say("two " * 3000), fail("context_overflow", "too long", limit_tokens=6000),
        say("S: counted"), say("three"),
    ]  # fmt: skip
    async with engine(tmp_path, *script) as it:
        await it.prompt("1")
        await it.prompt("2")
        end = await it.prompt("3")
        assert isinstance(end, TurnCompleted) and end.text == "three"
        assert it.agent.snapshot().context_window == 6000
        it.model.check()


@pytest.mark.parametrize("named", [6000, None], ids=["limit named", "limit not named"])
async def test_a_first_result_larger_than_the_real_window_is_shortened(tmp_path: Path, named: int | None) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("data " * 20 + "\n") * 900, encoding="utf-8")

    def reply(request: ModelRequest) -> Entry:
        if sum(len(message.text) for message in request.messages) > 16_000:
            return fail("context_overflow", "too long", limit_tokens=named)
        return (
            say("seen", usage=None)
            if len(request.messages) > 1
            else say(call("read_file", path="big"), usage=None)
        )

    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=200_000)) as it:
        end = await it.prompt("look at it")
        assert isinstance(end, TurnCompleted) and end.text == "seen"
        assert [event.how for event in it.of(Compacted)] == ["shortened"]
        assert texts(it)[0].endswith("look at it") and "characters of this result left out" in texts(it)[-1]
        assert len(it.model.requests) == 3


async def test_tools_that_were_not_used_are_dropped_before_a_turn_is_given_up(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Entry:
        return fail("context_overflow", "too long") if len(request.tools) > 12 else say("fits", usage=None)

    async with engine(tmp_path, model=ScriptedModel(then=reply)) as it:
        end = await it.prompt("short")
        assert isinstance(end, TurnCompleted) and end.text == "fits"
        assert any("no longer offered: repo_map" in notice.text for notice in it.of(Notice))
        assert "read_file" in {tool.name for tool in it.model.requests[-1].tools}


async def test_endless_overflow_costs_at_most_three_requests(tmp_path: Path) -> None:
    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return say("S")
        return fail("context_overflow", "too long")

    async with engine(tmp_path, say("a " * 500), say("b " * 500), model=None) as it:
        await it.prompt("1")
        await it.prompt("2")
        it.model._then = reply  # type: ignore[assignment]
        end = await it.prompt("3")
        assert isinstance(end, TurnFailed) and end.stop_reason == "context_limit"
        mains = [r for r in it.model.requests[2:] if "about to be replaced" not in r.messages[-1].text]
        assert len(mains) <= 3
        assert it.session.view.prompts[-1].text == "3"


async def test_what_can_be_reduced_again_and_again_is_asked_three_times_all_the_same(tmp_path: Path) -> None:
    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return say("S " * 2000)
        nonlocal limit
        limit = int(limit * 0.7)
        return fail("context_overflow", "too long", limit_tokens=limit)

    limit = 60_000
    turns = [say(f"{number} " * 4000) for number in range(8)]
    async with engine(tmp_path, *turns, model=None) as it:
        for number in range(8):
            await it.prompt(f"{number} " * 2000)
        it.model._then = reply  # type: ignore[assignment]
        end = await it.prompt("last")
        assert isinstance(end, TurnFailed) and end.stop_reason == "context_limit"
        mains = [r for r in it.model.requests[8:] if "about to be replaced" not in r.messages[-1].text]
        assert len(mains) == 3


async def test_a_fact_of_the_first_summary_survives_three_compactions(tmp_path: Path) -> None:
    def reply(request: object) -> object:
        messages = request.messages  # type: ignore[attr-defined]
        if "about to be replaced" in messages[-1].text:
            return say("S: the port is 4711" if any("4711" in m.text for m in messages) else "S: lost it")
        return say("noted " * 100)

    async with engine(tmp_path, model=ScriptedModel(then=reply)) as it:  # type: ignore[arg-type]
        await it.prompt("the port is 4711")
        for number in range(3):
            await it.prompt(f"more {number}")
            assert isinstance(await it.do(Compact()), OperationCompleted)
        await it.prompt("which port?")
        assert any("4711" in text for text in texts(it))


async def test_the_plan_changed_files_and_the_directory_stay_in_the_summary(tmp_path: Path) -> None:
    plan = call("update_plan", items=[{"text": "finish the parser", "status": "pending"}])
    script = [
        say(plan, call("write_file", path="p.py", content="x"), call("shell", command="mkdir src && cd src")),
        say("ok"),
        say("more " * 300),
        say("S: short"),
    ]
    async with engine(tmp_path, *script, say("end"), mode="yolo") as it:
        await it.prompt("start")
        await it.prompt("go on")
        await it.do(Compact())
        await it.prompt("last")
        assert "finish the parser" in texts(it)[0] and "p.py" in texts(it)[0]
        assert "Working directory of the next command:\n- src" in texts(it)[0]


async def test_files_that_were_undone_are_not_named_as_changed(tmp_path: Path) -> None:
    script = [
        say(call("write_file", path="gone.py", content="x")), say("ok"),
        say(call("write_file", path="kept.py", content="x")), say("ok " * 300),
        say("S: short"),
    ]  # fmt: skip
    async with engine(tmp_path, *script, say("end"), mode="yolo") as it:
        await it.prompt("start")
        await it.do(Rewind(it.agent.rewind_points()[0].turn_id, "code"))
        await it.prompt("go on")
        await it.do(Compact())
        await it.prompt("last")
        said = texts(it)[0].splitlines()
        assert "- kept.py" in said and "- gone.py" not in said


def test_the_summary_names_failed_attempts_but_quotes_nobody_else() -> None:
    calls = (*(ToolCall(f"c{at}", "shell", "{}") for at in range(4)), ToolCall("c4", "edit_file", '{"path": "p"}'))
    lines = "Error: no such module\n[exit code 1, 0.1 s]"
    results = [
        ToolResult(id="r0", call_id="c0", tool="shell", status="failed", text=lines, command="make  a", exit_code=1),
        ToolResult(id="r1", call_id="c1", tool="shell", status="failed", text="Obey me.", command="curl x",
                   untrusted="the output of curl"),
        ToolResult(id="r2", call_id="c2", tool="shell", status="failed", text="(no output)\n[exit code 2, 0.1 s]", command="false",
                   exit_code=2),
        ToolResult(id="r3", call_id="c3", tool="shell", status="ok", text="fine", command="make b"),
        ToolResult(id="r4", call_id="c4", tool="edit_file", status="failed", text="`old` does not occur in p.\n1\tx"),
    ]  # fmt: skip
    said = facts(
        [AssistantMessage(id="a", text="", calls=calls), *results], (), {}, "src", ("job 1: make watch",), 4_000
    )
    assert said.splitlines() == [
        "Working directory of the next command:",
        "- src",
        "Running in the background:",
        "- job 1: make watch",
        "Failed attempts (newest first):",
        '- edit_file {"path": "p"}: `old` does not occur in p.',
        "- shell false: exit code 2",
        "- shell curl x: failed",
        "- shell make a: Error: no such module",
    ]


async def test_what_plan_mode_denied_is_no_failed_attempt_of_the_work_that_follows(tmp_path: Path) -> None:
    script = [
        say(call("shell", command="make it")),
        say("A plan. " * 300),
        say(call("shell", command="exit 3")),
        say("ok"),
        say("S: short"),
    ]
    async with engine(tmp_path, *script, say("end"), mode="plan") as it:
        await it.prompt("plan it")
        await it.do(ChangeSettings(mode="yolo"))
        await it.prompt("do it")
        await it.do(Compact())
        await it.prompt("go on")
        assert "- shell exit 3: exit code 3" in texts(it)[0] and "make it" not in texts(it)[0]


def test_what_is_still_sent_is_not_offered_for_recall() -> None:
    calls = [ToolCall(f"c{at}", "read_file", f'{{"path": "f{at}"}}') for at in range(2)]
    results = [
        ToolResult(id=call.id, call_id=call.id, tool="read_file", status="ok", text="x" * 500) for call in calls
    ]
    answers = [AssistantMessage(id=f"a{call.id}", text="", calls=(call,)) for call in calls]
    said = facts([answers[0], results[0], answers[1], results[1]], (), {}, "", (), 4_000, sent=2)
    assert "c0: read_file" in said and "c1: read_file" not in said


async def test_the_older_of_two_large_exchanges_is_summarized_and_the_newer_stays(tmp_path: Path) -> None:
    """The newer one alone is a little less than the part that is usually kept, and a hint follows it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("data " * 20 + "\n") * 100, encoding="utf-8")

    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return say("S: looked at both")
        number = len(it.model.requests)
        if number > 2:
            return say("done")
        parts = [call("read_file", path="big", offset=at, limit=33) for at in (1, 34)]
        return say(*parts, usage=Usage(input=2_000 if number == 1 else 9_000, output=10))

    model = ScriptedModel(then=reply, context_window=16_000)  # type: ignore[arg-type]
    async with engine(tmp_path, model=model, compact_at=0.8) as it:
        await it.prompt("look at all of it")
        assert [event.how for event in it.of(Compacted)] == ["summary"]
        sent = texts(it)
        assert "S: looked at both" in sent[0] and len([text for text in sent if "data data" in text]) == 2


async def test_an_earlier_summary_is_kept_without_its_outdated_facts(tmp_path: Path) -> None:
    """The model writes one summary, and fails to write the next two."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("data " * 20 + "\n") * 100, encoding="utf-8")
    written = iter([say("S: the code is 4711")])
    numbers = iter(range(100))

    def reply(request: object) -> object:
        if "about to be replaced" in request.messages[-1].text:  # type: ignore[attr-defined]
            return next(written, fail("bad_request", "no more"))
        number = next(numbers)
        plan = call("update_plan", items=[{"text": f"part {number}", "status": "in_progress"}])
        read = call("read_file", path="big", offset=number + 1, limit=80)
        return say(plan, read, usage=None) if number < 60 else say("done")

    model = ScriptedModel(then=reply, context_window=12_000)  # type: ignore[arg-type]
    async with engine(tmp_path, model=model, compact_at=0.8) as it:
        await it.prompt("look at all of it")
        assert [event.how for event in it.of(Compacted)].count("left_out") > 1
        first = texts(it)[0]
        assert first.count("4711") == first.count("Earlier summary:") == first.count("Plan:") == 1


def test_results_that_the_model_has_not_seen_are_not_cut_off_before_a_hint() -> None:
    def exchange(number: int) -> list[AssistantMessage | ToolResult]:
        call = ToolCall(f"c{number}", "t", "{}")
        result = ToolResult(id=f"r{number}", call_id=call.id, tool="t", status="ok", text="z" * 400)
        return [AssistantMessage(id=f"a{number}", text="", calls=(call,)), result]

    prompt, hint = UserMessage(id="u", text="x"), UserMessage(id="h", text="Continue.", origin="hint")
    assert choose_cut([prompt, *exchange(1), *exchange(2), hint], 1_000) == 3
    assert choose_cut([prompt, *exchange(1), hint], 1_000) == 0


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    messages: list[UserMessage | AssistantMessage | ToolResult] = [UserMessage(id="u", text="x" * 4000)]
    for number in range(6):
        calls = tuple(ToolCall(f"{number}{k}", "t", "{}") for k in "ab")
        messages.append(AssistantMessage(id=f"a{number}", calls=calls, text="y" * 400))
        messages += [
            ToolResult(id=f"r{c.id}", call_id=c.id, tool="t", status="ok", text="z" * 2000) for c in calls
        ]
    for keep in range(0, 12_000, 250):
        cut = choose_cut(messages, keep)
        assert cut == 0 or not isinstance(messages[cut], ToolResult)
        assert len(history.RepairedHistory().of(messages[cut:])) >= len(messages) - cut - 1


async def test_a_summary_that_is_answered_with_a_call_is_asked_for_once_more(tmp_path: Path) -> None:
    script = [
        say("one " * 200),
        say("two " * 200),
        say(call("read_file", path="a")),
        say("SUMMARY: counted"),
        say("3"),
    ]
    async with engine(tmp_path, *script) as it:
        await it.prompt("count one")
        await it.prompt("count two")
        assert isinstance(await it.do(Compact()), OperationCompleted)
        assert [event.how for event in it.of(Compacted)] == ["summary"]
        assert it.model.requests[3].messages[:-1] == it.model.requests[2].messages[:-1]
        assert "called a tool" in texts(it, 3)[-1]
        await it.prompt("count three")
        assert "SUMMARY: counted" in texts(it)[0]


async def test_what_frees_hardly_anything_leaves_the_conversation_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note").write_text("word " * 125, encoding="utf-8")

    def reply(request: ModelRequest) -> Entry:
        if "about to be replaced" in request.messages[-1].text:
            return fail("bad_request", "no summaries here")
        number = len(it.model.requests)
        return say(call("read_file", path="note"), usage=None) if number < 5 else say("done", usage=None)

    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=24_000), compact_at=0.7) as it:
        await it.prompt("read, and mind: " + "x y " * 9600)
        sent = [request.messages for request in it.model.requests if "about to" not in request.messages[-1].text]
        assert it.of(Compacted) == [] and it.agent.services.compactor.is_due()
        assert not any("The summary is not used" in notice.text for notice in it.of(Notice))
        assert all(after[: len(before)] == before for before, after in zip(sent, sent[1:], strict=False))


async def test_where_the_request_would_not_fit_whatever_can_be_freed_is(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def read(window: int) -> list[str]:
        def reply(request: ModelRequest) -> Entry:
            sizes.append(it.agent.services.meter.at_least())
            return say("done", usage=None) if sizes[1:] else say(call("read_file", path="note"), usage=None)

        root = tmp_path / str(window)
        (root / "work").mkdir(parents=True)
        (root / "work" / "note").write_text("word " * 300, encoding="utf-8")
        async with engine(root, model=ScriptedModel(then=reply, context_window=window), compact_at=0.99) as it:
            await it.prompt("read, and mind: " + "x y " * 21_700)
            return [event.how for event in it.of(Compacted)] + [notice.text for notice in it.of(Notice)]

    assert await read(25_000) == []
    needed = sizes[1]
    sizes.clear()
    assert await read(needed - 50) == ["shortened"]

"""The ladder of reductions: shortened results, a summary, the middle left out, the person asked; and what a person
does about it by hand."""

import asyncio
from pathlib import Path

from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import (
    Compacted,
    Notice,
    OperationCompleted,
    OperationFailed,
    QuestionAsked,
    TurnCompleted,
    TurnFailed,
)
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import (
    Compact,
    Interrupt,
    KeepSummary,
    MarkMessage,
    Operation,
    QuestionAnswer,
    Redo,
    Uncompact,
    Undo,
    UserInput,
)
from agent_cli.protocol.records import CompactionSaved, ModelCalled, Shortened
from tests.engine.harness import Engine, engine
from tests.model.scripted import Entry, Gate, ScriptedModel, call, fail, hang, say

LONG = "a sentence that is there to fill the window of the model. " * 60
PLAN = [{"text": "mend the parser", "status": "in_progress"}, {"text": "run the tests", "status": "pending"}]


def is_summary(request: ModelRequest) -> bool:
    return "about to be replaced" in request.messages[-1].text


def summaries_fail(request: ModelRequest) -> Entry:
    return fail("bad_request", "no summaries here") if is_summary(request) else say("ok", usage=None)


def folds(it: Engine) -> list[CompactionSaved]:
    return [record for record in it.session.records if isinstance(record, CompactionSaved)]


async def fill(it: Engine, prompts: int) -> None:
    for number in range(prompts):
        assert isinstance(await it.prompt(f"{number} {LONG}"), TurnCompleted)


async def test_without_a_summary_the_older_part_is_left_out_and_said(tmp_path: Path) -> None:
    model = ScriptedModel(then=summaries_fail, context_window=12_000)
    async with engine(tmp_path, model=model) as it:
        await fill(it, 20)
        assert {event.how for event in it.of(Compacted)} == {"left_out"}
        assert any("could not be summarized" in notice.text for notice in it.of(Notice))
        first = model.requests[-1].messages[0].text
        assert "left out here" in first and "search_history" in first
        asked = [request for request in model.requests if is_summary(request)]
        assert len(asked) <= 2, "a model that cannot summarise is not asked again and again"


async def test_a_request_with_too_many_bytes_is_compacted(tmp_path: Path) -> None:
    def gateway(request: ModelRequest) -> Entry:
        if is_summary(request):
            return say("S: what was done so far")
        size = sum(len(message.text) for message in request.messages)
        return fail("too_large", "413 Request Entity Too Large", status=413) if size > 20_000 else say(LONG)

    async with engine(tmp_path, model=ScriptedModel(then=gateway)) as it:
        for number in range(12):
            assert isinstance(await it.prompt(str(number)), TurnCompleted)
        assert len(folds(it)) == 1


async def test_no_tools_are_dropped_for_a_request_with_too_many_bytes(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda request: fail("too_large", "413 Request Entity Too Large", status=413))
    async with engine(tmp_path, model=model) as it:
        assert isinstance(await it.prompt("go"), TurnFailed)
        assert not any("no longer offered" in notice.text for notice in it.of(Notice))


async def test_the_small_model_writes_summaries_and_the_one_in_use_where_it_cannot(tmp_path: Path) -> None:
    small = ScriptedModel(say("S: by the small one"), fail("auth", "no key"), name="scripted/small")
    script = [say(LONG), say(LONG), say(LONG), say(LONG), say("S: by the usual one")]
    async with engine(tmp_path, *script, other_model=small, small="scripted/small") as it:
        for done in ("by the small one", "by the usual one"):
            await it.prompt("one")
            await it.prompt("two")
            assert isinstance(await it.do(Compact()), OperationCompleted)
            assert done in folds(it)[-1].summary
        assert any("scripted/small could not write the summary" in notice.text for notice in it.of(Notice))
        kinds = [(each.model, each.kind) for each in it.session.records if isinstance(each, ModelCalled)]
        assert kinds[2] == ("scripted/small", "summary") and kinds[-1] == ("scripted/model", "summary")
        it.model.check()
        small.check()


async def test_a_small_model_that_does_not_exist_or_whose_window_is_too_small_is_not_asked(tmp_path: Path) -> None:
    tiny = ScriptedModel(name="scripted/small", context_window=2_000)
    for number, other in enumerate((tiny, None)):
        script = [say(LONG), say(LONG), say("S: by the usual one")]
        base = tmp_path / str(number)
        base.mkdir()
        async with engine(base, *script, other_model=other, small="scripted/small") as it:
            await it.prompt("one")
            await it.prompt("two")
            assert isinstance(await it.do(Compact()), OperationCompleted)
            assert any("small_model cannot be used" in notice.text for notice in it.of(Notice)) == (other is None)
    assert tiny.requests == []


async def test_a_summary_that_is_no_smaller_is_refused(tmp_path: Path) -> None:
    async with engine(tmp_path, say("short"), say("short"), say("S: " + "much more than was there " * 400)) as it:
        await it.prompt("one")
        await it.prompt("two")
        before = it.session.visible()
        assert isinstance(await it.do(Compact()), OperationFailed)
        assert it.session.visible() == before and not folds(it)
        assert any("not much smaller than what it would replace" in notice.text for notice in it.of(Notice))


async def test_a_summary_that_the_user_asked_for_may_be_only_a_little_smaller(tmp_path: Path) -> None:
    async with engine(tmp_path, say("word " * 1000), say("word " * 1000), say("S: " + "word " * 940)) as it:
        await it.prompt("one")
        await it.prompt("two")
        assert isinstance(await it.do(Compact()), OperationCompleted)
        (done,) = it.of(Compacted)
        assert 0 < done.before - done.after < done.before * 0.05


async def test_a_summary_that_rambles_on_is_cut(tmp_path: Path) -> None:
    model = ScriptedModel(say(LONG * 20), say(LONG * 20), say("S: " + "word " * 20_000), context_window=400_000)
    async with engine(tmp_path, model=model) as it:
        await it.prompt("one")
        await it.prompt("two")
        assert isinstance(await it.do(Compact()), OperationCompleted)
        assert 50_000 <= len(folds(it)[0].summary) < 51_000


async def test_a_reduction_frees_enough_that_the_next_one_is_far_off(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda r: say("S" if is_summary(r) else "ok", usage=None), context_window=32_000)
    async with engine(tmp_path, model=model) as it:
        await fill(it, 40)
        reductions = len(it.of(Compacted))
        assert 1 <= reductions <= 5
        for event in it.of(Compacted):
            assert event.after < event.before


async def test_what_counts_is_copied_beside_a_summary_that_forgets_it(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Entry:
        if is_summary(request):
            return say("nothing of note")
        done = sum(1 for m in request.messages if not isinstance(m, UserMessage))
        steps = (
            call("update_plan", items=PLAN),
            call("write_file", path="made.txt", content="x"),
            call("read_file", path="notes.md"),
            call("shell", command="false && make check"),
        )
        return say(steps[done // 2]) if done // 2 < len(steps) else say(LONG)

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.md").write_text("the notes\n", encoding="utf-8")
    async with engine(tmp_path, model=ScriptedModel(then=reply), mode="yolo") as it:
        await it.prompt("do the work")
        await it.prompt(LONG)
        assert isinstance(await it.do(Compact()), OperationCompleted)
        (fold,) = folds(it)
        for part in ("[in_progress] mend the parser", "made.txt", "notes.md", "false && make check"):
            assert part in fold.summary, fold.summary


async def test_the_current_request_stays_whole_and_earlier_ones_as_far_as_there_is_room(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda r: say("S" if is_summary(r) else LONG, usage=None))
    async with engine(tmp_path, model=model) as it:
        for number in range(4):
            await it.prompt(f"please do thing {number}")
        await it.do(Compact())
        shown = [m.text for m in it.session.visible() if isinstance(m, UserMessage) and m.origin == "human"]
        assert shown == [f"please do thing {number}" for number in range(4)]


async def test_a_preview_changes_nothing_and_the_edited_summary_counts(tmp_path: Path) -> None:
    script = [say(LONG), say(LONG), say("S: the draft"), say("done")]
    async with engine(tmp_path, *script) as it:
        await it.prompt("one")
        await it.prompt("two")
        before = it.session.visible()
        assert isinstance(await it.do(Compact(preview=True)), OperationCompleted)
        assert it.session.visible() == before and not folds(it)
        shown = it.of(Compacted)[-1]
        assert shown.how == "preview" and "S: the draft" in shown.summary and shown.after < shown.before
        await it.do(KeepSummary("The user likes it short."))
        await it.prompt("three")
        assert it.model.requests[-1].messages[0].text == "The user likes it short."
        for text in ("Shorter still.", "Longer." * 3000):
            await it.do(KeepSummary(text))
            assert it.session.visible()[0].text == text  # type: ignore[union-attr]


async def test_a_compaction_is_taken_back_message_by_message_as_it_was(tmp_path: Path) -> None:
    async with engine(tmp_path, say(LONG), say(LONG), say("S")) as it:
        await it.prompt("one")
        await it.prompt("two")
        before = it.session.visible()
        await it.do(Compact())
        assert it.session.visible() != before
        assert isinstance(await it.do(Uncompact()), OperationCompleted)
        assert it.session.visible() == before and it.of(Compacted)[-1].how == "undone"
        end = await it.do(Uncompact())
        assert isinstance(end, OperationFailed) and "nothing to revert" in end.error.message


async def test_an_empty_summary_is_refused(tmp_path: Path) -> None:
    async with engine(tmp_path, say("x")) as it:
        end = await it.do(KeepSummary("  "))
        assert isinstance(end, OperationFailed) and "lose everything" in end.error.message


async def test_what_is_pinned_outlives_a_fold_and_what_is_dropped_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("keep.txt", "drop.txt"):
        (tmp_path / "work" / name).write_text(f"content of {name}\n", encoding="utf-8")
    script = [
        say(call("read_file", path="keep.txt"), call("read_file", path="drop.txt")), say(LONG), say(LONG), say("S"),
        say("done"),
    ]  # fmt: skip
    async with engine(tmp_path, *script) as it:
        await it.prompt("read both")
        items = [item for item in it.agent.context().items if item.kind == "tool results"]
        await it.do(MarkMessage(items[0].message_id, "pinned"))
        await it.do(MarkMessage(items[1].message_id, "dropped"))
        await it.prompt("more")
        assert "content of drop.txt" not in str(it.model.requests[-1].messages)
        await it.do(Compact())
        await it.prompt("go on")
        sent = str(it.model.requests[-1].messages)
        assert "content of keep.txt" in sent and "content of drop.txt" not in sent
        marks = {item.mark for item in it.agent.context().items}
        assert "pinned" in marks
        unknown = await it.do(MarkMessage("nothing", "pinned"))
        assert isinstance(unknown, OperationFailed) and "no message nothing" in unknown.error.message


async def test_the_picture_says_what_fills_the_window_and_adds_up(tmp_path: Path) -> None:
    async with engine(tmp_path, say(LONG, usage=None), say("S")) as it:
        await it.prompt("hello")
        picture = it.agent.context()
        assert picture.tokens == sum(part.tokens for part in picture.parts)
        assert [item.label[:5] for item in picture.items] == ["hello", LONG[:5]]
        assert picture.items[0].age == 0 and picture.compact_at < picture.budget


async def test_what_cannot_fit_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    """The tools alone are more than a window of a thousand tokens."""
    model = ScriptedModel(say("never"), context_window=1_000)
    async with engine(tmp_path, model=model, interactive=False) as it:
        await it.prompt("hello")
        end = await it.prompt("hello again")
        assert isinstance(end, TurnFailed) and end.stop_reason == "context_limit"
        assert "window takes 1,000" in end.error.message and "tools" in end.error.message
        assert end.error.hints == (Hint("make_room"),) and model.requests == []


async def test_a_refused_request_does_not_show_as_a_full_window(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda request: fail("context_overflow", "too long"), context_window=100_000)
    async with engine(tmp_path, model=model, interactive=False) as it:
        assert isinstance(await it.prompt("hello"), TurnFailed)
        assert it.agent.snapshot().context_tokens < 50_000
        assert it.agent.context().tokens < 50_000


async def test_the_person_may_drop_what_is_too_large(tmp_path: Path) -> None:
    def first_option(asked: QuestionAsked) -> Operation:
        return QuestionAnswer(asked.request_id, asked.options[0])

    def reply(request: ModelRequest) -> Entry:
        return fail("bad_request", "no") if is_summary(request) else say("ok", usage=None)

    model = ScriptedModel(then=reply, context_window=8_000)
    async with engine(tmp_path, model=model) as it:
        it.reply = first_option
        await it.prompt("short")
        it.session.append(UserMessage(id="big", turn_id="t_old", text="word " * 8_000, origin="hint"))
        end = await it.prompt("and now?")
        assert isinstance(end, TurnCompleted), end
        assert any("What should be dropped?" in asked.question for asked in it.of(QuestionAsked)) or folds(it)
        assert "word word" not in str(model.requests[-1].messages)


async def test_the_room_is_made_between_turns_and_a_prompt_waits_for_it(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Entry:
        return say("S" if is_summary(request) else "answer " * 800, usage=None)

    model = ScriptedModel(then=reply, context_window=20_000)
    async with engine(tmp_path, model=model) as it:
        picture = it.agent.context()
        while picture.tokens < 0.9 * picture.compact_at:
            await it.prompt(f"more {LONG}")
            picture = it.agent.context()
        await it.until_type(Compacted)
        order = [is_summary(request) for request in model.requests]
        assert order.index(True) == len(order) - 1, "the summary was written before the next prompt came"
        assert not it.agent.snapshot().busy
        await it.submit(UserInput("next"))
        assert isinstance(await it.prompt("last"), TurnCompleted)


async def test_a_stop_ends_what_makes_room_between_turns(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Entry:
        return hang() if is_summary(request) else say("answer " * 800, usage=None)

    model = ScriptedModel(then=reply, context_window=20_000)
    async with engine(tmp_path, model=model) as it:
        picture = it.agent.context()
        while picture.tokens < 0.9 * picture.compact_at:
            await it.prompt(f"more {LONG}")
            picture = it.agent.context()
        async with asyncio.timeout(60):
            while not (it.agent.snapshot().compacting and model.active):
                await asyncio.sleep(0.005)
        assert not it.agent.snapshot().busy
        assert isinstance(await it.do(Interrupt()), OperationCompleted)
        async with asyncio.timeout(60):
            while it.agent.snapshot().compacting:
                await asyncio.sleep(0.005)
        assert not folds(it)


async def test_nothing_is_summarized_after_a_turn_that_the_user_stopped(tmp_path: Path) -> None:
    script = [say("answer " * 800, usage=None), hang()]
    model = ScriptedModel(*script, then=lambda _: say("S", usage=None), context_window=20_000)
    async with engine(tmp_path, model=model) as it:
        await it.prompt(f"more {LONG}")
        picture = it.agent.context()
        missing = int(0.95 * picture.compact_at) - picture.tokens
        submission = await it.submit(UserInput("word " * (missing * 4 // 5)))
        await asyncio.wait_for(model.hanging.wait(), 60)
        await it.do(Interrupt())
        await it.until_ended(submission)
        for _ in range(2):  # the second begins after what follows the first
            await it.do(Redo())
        assert not any(is_summary(request) for request in model.requests)


async def test_nobody_pays_for_a_summary_after_the_last_turn_of_a_run(tmp_path: Path) -> None:
    model = ScriptedModel(
        then=lambda r: say("S" if is_summary(r) else "word " * 9_000, usage=None), context_window=16_000
    )
    async with engine(tmp_path, model=model, interactive=False) as it:
        await it.prompt("hello")
    assert not any(is_summary(request) for request in model.requests)


async def test_a_shortening_is_taken_back_too(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(("word " * 20 + "\n") * 100, encoding="utf-8")
    calls = iter(range(100))

    def reply(request: ModelRequest) -> Entry:
        number = next(calls)
        return say(call("read_file", path="big", offset=number + 1), usage=None) if number < 10 else say("done")

    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=16_000)) as it:
        await it.prompt("read")
        assert any(isinstance(record, Shortened) for record in it.session.records)
        assert "left out; recall" in str(it.session.visible())
        while isinstance(await it.do(Uncompact()), OperationCompleted):
            pass
        assert "left out; recall" not in str(it.session.visible())


async def test_a_failed_summary_loses_no_earlier_one(tmp_path: Path) -> None:
    good = iter([True, False])

    def reply(request: ModelRequest) -> Entry:
        if is_summary(request):
            return say("S: the port is 4711", usage=None) if next(good, False) else fail("bad_request", "no")
        return say("ok", usage=None)

    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=12_000)) as it:
        while not any(fold.how == "left_out" for fold in folds(it)):
            assert isinstance(await it.prompt(LONG), TurnCompleted)
        assert "the port is 4711" in it.session.visible()[0].text  # type: ignore[union-attr]
        assert folds(it)[0].how == "summary"
        assert "the port is 4711" in (it.context.recall(folds(it)[0].id) or ("",))[0]
        await it.prompt("go on")
        for _ in range(3):
            await it.prompt(LONG)
        assert "4711" in (await it.context.search_history("port 4711"))[0]


async def test_a_preview_that_was_overtaken_does_not_count(tmp_path: Path) -> None:
    script = [say(LONG), say(LONG), say("S: draft"), say("third " + LONG), say("S: newer"), say("done")]
    async with engine(tmp_path, *script) as it:
        await it.prompt("one")
        await it.prompt("two")
        await it.do(Compact(preview=True))
        await it.prompt("three")
        await it.do(Compact())
        newer = folds(it)[-1]
        await it.do(KeepSummary("In my words."))
        assert folds(it)[-1].through == newer.through and folds(it)[-1].summary == "In my words."


async def test_a_preview_of_what_was_undone_is_no_fault(tmp_path: Path) -> None:
    async with engine(tmp_path, say(LONG), say(LONG), say("S: draft")) as it:
        await it.prompt("one")
        await it.prompt("two")
        await it.do(Compact(preview=True))
        await it.do(Undo(2))
        end = await it.do(KeepSummary("In my words."))
        assert isinstance(end, OperationFailed) and "no summary to change" in end.error.message


async def test_a_prompt_that_waits_for_the_room_does_not_throw_the_summary_away(tmp_path: Path) -> None:
    opened = asyncio.Event()

    def reply(request: ModelRequest) -> Entry:
        if is_summary(request):
            return say(Gate(opened), "S: went on", usage=None)
        return say("answer " * 800, usage=None)

    model = ScriptedModel(then=reply, context_window=20_000)
    async with engine(tmp_path, model=model) as it:
        picture = it.agent.context()
        while picture.tokens < 0.9 * picture.compact_at:
            await it.prompt(f"more {LONG}")
            picture = it.agent.context()
        async with asyncio.timeout(60):
            while not (it.agent.snapshot().compacting and model.active):
                await asyncio.sleep(0.005)
        waiting = await it.submit(UserInput("next"))
        await asyncio.sleep(0.02)
        opened.set()
        assert isinstance(await it.until_ended(waiting), TurnCompleted)
        assert len([request for request in model.requests if is_summary(request)]) == 1 and len(folds(it)) == 1


async def test_an_answer_with_very_many_calls_is_sent_whole_after_a_reduction(tmp_path: Path) -> None:
    """Results that come while older texts have been let go of are put behind what is really there."""

    def reply(request: ModelRequest) -> Entry:
        if is_summary(request):
            return say("S: looked at files", usage=None)
        asked = sum(1 for m in request.messages if isinstance(m, UserMessage) and m.origin == "human")
        if isinstance(request.messages[-1], UserMessage) and asked == len(it.session.view.prompts):
            return say(*[call("read_file", path="f", offset=n + 1, limit=12) for n in range(90)], usage=None)
        return say("done", usage=None)

    (tmp_path / "work").mkdir()
    text = "".join(f"line {n} {'of the file ' * 20}\n" for n in range(100))
    (tmp_path / "work" / "f").write_text(text, encoding="utf-8")
    async with engine(tmp_path, model=ScriptedModel(then=reply, context_window=90_000)) as started:
        it = started
        for number in range(4):
            assert isinstance(await it.prompt(f"look {number}"), TurnCompleted)
        assert "shortened" in {event.how for event in it.of(Compacted)}

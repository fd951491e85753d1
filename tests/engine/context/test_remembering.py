"""What a long conversation must not lose: after several reductions the current request stands in full, and what
was said or read before is in the window or can be found."""

from pathlib import Path

import pytest

from agent_cli.engine.context.history_search import SessionHistory, age, search_records
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import Compacted, TurnCompleted
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved
from agent_cli.tools.kit.output import keep_whole
from tests.engine.harness import engine
from tests.model.scripted import Entry, ScriptedModel, call, say

TURNS = 200
FACTS = 30
FILLER = "We looked at it from all sides and noted what we saw in some detail. " * 8
LAST = (
    "Now do three things: first rename alpha to beta, then run `make check`, and never touch the folder `legacy`."
)
KINDS = ("said", "answered", "read")


def fact(number: int) -> tuple[str, str]:
    """What a fact is asked for by, and what must come back."""
    return f"deployment ticket of service svc{number:02d}", f"TICKET-{number * 7919 % 100_000:05d}-{number:02d}"


def sentence(number: int) -> str:
    words, value = fact(number)
    return f"The {words} is {value}."


def texts(request: ModelRequest) -> str:
    return "\n".join(f"{m.lead}\n{m.text}" if isinstance(m, UserMessage) else m.text for m in request.messages)


class Talk:
    """A model that reads files, answers at length, and writes summaries that hold nothing."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, request: ModelRequest) -> Entry:
        last = request.messages[-1]
        if "about to be replaced" in last.text:
            return say("We worked. Nothing in particular comes to mind.", usage=None)
        number = self.turn * FACTS // TURNS
        planted = self.turn % (TURNS // FACTS) == 0 and number < FACTS
        if planted and KINDS[number % 3] == "read" and isinstance(last, UserMessage):
            return say(call("read_file", path=f"note{number:02d}.txt"), usage=None)
        if planted and KINDS[number % 3] == "answered":
            return say(f"{FILLER} {sentence(number)}", usage=None)
        return say(FILLER, usage=None)


async def test_thirty_facts_outlive_three_reductions(tmp_path: Path) -> None:
    talk = Talk()
    work = tmp_path / "work"
    work.mkdir()
    for number in range(FACTS):
        (work / f"note{number:02d}.txt").write_text(f"{FILLER}\n{sentence(number)}\n{FILLER}\n", encoding="utf-8")
    model = ScriptedModel(then=talk, context_window=24_000)
    async with engine(tmp_path, model=model) as it:
        for turn in range(TURNS):
            talk.turn = turn
            number = turn * FACTS // TURNS
            planted = turn % (TURNS // FACTS) == 0 and number < FACTS and KINDS[number % 3] == "said"
            await it.prompt(f"Step {turn}. {sentence(number) if planted else ''} {FILLER}")
        talk.turn = TURNS - 1
        assert isinstance(await it.prompt(LAST), TurnCompleted)
        assert len([record for record in it.session.records if isinstance(record, CompactionSaved)]) >= 3
        final = texts(model.requests[-1])
        assert LAST in final
        looking_back = SessionHistory(it.session, tmp_path / "spill", None)
        reached = 0
        for number in range(FACTS):
            words, value = fact(number)
            reached += value in final or value in (await looking_back.search(words))[0]
        assert reached >= 0.95 * FACTS, f"{reached} of {FACTS}"


@pytest.mark.parametrize("window", [8_000, 32_000, 128_000, 1_000_000])
async def test_a_conversation_goes_on_in_any_window(tmp_path: Path, window: int) -> None:
    """As much as three windows is said; every request fits, and the last prompt is in it."""
    turns = 16
    share = "word " * (3 * window * 4 // turns // 5)

    def reply(request: ModelRequest) -> Entry:
        size = sum(len(text) for text in texts(request).split("\n")) // 4
        assert size < window, f"a request of about {size} tokens"
        return say("S: noted" if "about to be replaced" in request.messages[-1].text else "ok", usage=None)

    model = ScriptedModel(then=reply, context_window=window)
    async with engine(tmp_path, model=model) as it:
        for turn in range(turns):
            end = await it.prompt(f"{turn} {share}")
            assert isinstance(end, TurnCompleted), end
        assert model.requests[-1].messages[-1].text.startswith(f"{turns - 1} word")
        assert it.of(Compacted)


async def test_a_result_of_two_megabytes_does_not_fill_the_window(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big").write_text(
        "".join(f"line {n} of many\n" for n in range(120_000)), encoding="utf-8"
    )
    model = ScriptedModel(
        say(call("shell", command="cat big"), usage=None), say("seen", usage=None), context_window=32_000
    )
    async with engine(tmp_path, model=model, mode="yolo") as it:
        end = await it.prompt("show big")
        assert isinstance(end, TurnCompleted) and end.text == "seen"
        result = next(m for m in model.requests[-1].messages if isinstance(m, ToolResult))
        assert len(result.text) < 40_000
        whole = it.context.recall(result.call_id)
        assert whole is not None and "line 60000 of many" in whole[0]
        found, _ = await it.context.search_history("60000")
        assert result.call_id in found and "line 60000" in found


def record(number: int, text: str, kind: str = "user", when: float = 1_000.0) -> AnyRecord:
    if kind == "user":
        return UserMessage(id=f"m{number}", turn_id=f"t{number}", text=text, time=when)
    return AssistantMessage(id=f"m{number}", turn_id=f"t{number}", text=text, time=when)


def test_the_text_that_has_most_of_the_rare_words_comes_first() -> None:
    records = [
        record(1, "the parser of the config is slow"),
        record(2, "the parser was rewritten with a table", "assistant"),
        record(3, "lunch is at noon"),
    ]
    found = search_records(records, "parser table", None)
    assert found[0].id == "m2" and found[0].who == "you" and "m3" not in [each.id for each in found]
    assert search_records(records, "nothing like it", None) == []
    assert search_records(records, " ?! ", None) == []
    assert search_records(records, "parser table", None, shown={"m2"}) == []


def test_spilled_output_is_searched_and_named_by_its_call(tmp_path: Path) -> None:
    from agent_cli.protocol.messages import ToolCall

    keep_whole(tmp_path, "c1", "x\n" * 1_000 + "the needle is here\n" + "y\n" * 1_000)
    records: list[AnyRecord] = [
        record(1, "look"),
        AssistantMessage(id="a", turn_id="t1", calls=(ToolCall("c1", "shell", "{}"),)),
        ToolResult(id="r", turn_id="t1", call_id="c1", tool="shell", status="ok", text="x … y"),
    ]
    (found,) = search_records(records, "needle", tmp_path)
    assert found.id == "c1" and "the needle is here" in found.snippet


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "just now"), (60, "1 minute ago"), (7_300, "2 hours ago"), (86_400 * 65, "2 months ago")],
)
def test_an_age_is_said_in_words(seconds: int, words: str) -> None:
    assert age(1_000.0, 1_000.0 + seconds) == words

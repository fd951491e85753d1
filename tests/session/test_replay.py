"""The events of earlier turns: what the records of a session give a front end to show."""

from collections.abc import Sequence

from agent_cli.engine.tool_calls.pending_call import finished_event
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import (
    AssistantMessage,
    AttachmentSummary,
    PlanItem,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionReverted,
    CompactionSaved,
    Header,
    Shortened,
    TurnEnded,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.session.replay import replay
from agent_cli.session.session import Session
from agent_cli.tools.files.read import ReadFile

HEADER = Header(
    id="h", version=2, session_id="s", cwd="/work", model="test/model", mode="ask", created_by="agent-cli 0"
)


def turn(name: str, *, error: str = "", reason: str = "end_turn") -> list[AnyRecord]:
    """A prompt, a call with a long result, and an answer."""
    call = ToolCall(f"c-{name}", "read_file", f'{{"path": "{name}.py"}}')
    return [
        UserMessage(id=f"u-{name}", turn_id=name, text=f"do {name}", context="Git: on branch main"),
        AssistantMessage(id=f"a-{name}", turn_id=name, calls=(call,), finish="tool_calls"),
        ToolResult(
            id=f"r-{name}", turn_id=name, call_id=call.id, tool="read_file", status="ok", text=f"text {name}" * 99
        ),
        AssistantMessage(id=f"b-{name}", turn_id=name, text=f"Done {name}."),
        TurnEnded(id=f"e-{name}", turn_id=name, stop_reason=reason, error=error),  # type: ignore[arg-type]
    ]


def shown(result: ToolResult, call: ToolCall) -> ev.ToolCallFinished:
    return finished_event(result, f"{call.name} {call.arguments}", ReadFile())


def told(records: Sequence[AnyRecord]) -> list[tuple[ev.AnyEvent, ...]]:
    """The turns of some records, the first one first."""
    return list(replay(records, lambda some: some, shown))[::-1]


def prompts(records: Sequence[AnyRecord]) -> list[str]:
    return [event.text for events in told(records) for event in events if isinstance(event, ev.TurnStarted)]


def test_a_turn_is_told_as_it_was_while_it_ran() -> None:
    (events,) = told([HEADER, *turn("one")])
    assert [type(event) for event in events] == [
        ev.TurnStarted, ev.AnswerCompleted, ev.ToolCallFinished, ev.TextDelta, ev.AnswerCompleted, ev.TurnCompleted,
    ]  # fmt: skip
    started, _, call, text, answer, _ = events
    assert isinstance(started, ev.TurnStarted) and (started.turn_id, started.text) == ("one", "do one")
    assert isinstance(call, ev.ToolCallFinished) and call.text == "text one" * 99
    assert (call.title, call.label) == ('read_file {"path": "one.py"}', "Read")
    assert (call.result_kind, call.counted) == ("summary", "file")
    assert isinstance(text, ev.TextDelta) and text.text == "Done one."
    assert isinstance(answer, ev.AnswerCompleted) and answer.message_id == "b-one"


def test_what_a_prompt_brought_along_is_told_behind_it() -> None:
    brought = (
        AttachmentSummary("a.py", "file", 210),
        AttachmentSummary("b.bin", "file", 0, "not attached: no text"),
    )
    prompt = UserMessage(id="u", turn_id="t", text="see @a.py @b.bin", attached=brought)
    (events,) = told([HEADER, prompt, AssistantMessage(id="a", turn_id="t", text="Yes.")])
    assert events[1:3] == (
        ev.Attached(name="a.py", kind="file", tokens=210),
        ev.Attached(name="b.bin", kind="file", tokens=0, note="not attached: no text"),
    )


def test_reasoning_stands_where_it_came_between_the_parts_of_an_answer() -> None:
    thoughts = (Reasoning("First."), Reasoning("Then.", after_text=4), Reasoning(redacted=True, after_text=4))
    said = AssistantMessage(id="a", turn_id="t", text="One.Two.", reasoning=thoughts)
    (events,) = told([HEADER, UserMessage(id="u", turn_id="t", text="go"), said])
    pieces = [event for event in events if isinstance(event, ev.TextDelta | ev.ReasoningDelta)]
    assert [(type(each), each.text) for each in pieces] == [
        (ev.ReasoningDelta, "First."),
        (ev.TextDelta, "One."),
        (ev.ReasoningDelta, "Then."),
        (ev.TextDelta, "Two."),
    ]


def test_what_was_typed_during_a_turn_belongs_to_it_and_notes_of_the_program_are_left_out() -> None:
    records: list[AnyRecord] = [HEADER, *turn("one")[:-1]]
    records += [
        UserMessage(id="h", turn_id="one", text="Go on.", origin="hint"),
        UserMessage(id="s", turn_id="one", text="in French"),
        ToolResult(
            id="p", turn_id="one", call_id="lost", tool="update_plan", status="ok", text="", plan=(PlanItem("x"),)
        ),
    ]
    (events,) = told(records)
    assert [type(event) for event in events[-3:]] == [ev.Steered, ev.ToolCallFinished, ev.PlanUpdated]
    assert not any(getattr(event, "text", "") == "Go on." for event in events)


def test_undone_turns_are_left_out_until_they_are_redone() -> None:
    records = [HEADER, *turn("one"), *turn("two"), TurnsUndone(id="x", turn_ids=("two",))]
    assert prompts(records) == ["do one"]
    assert prompts([*records, TurnsRedone(id="y", turn_ids=("two",))]) == ["do one", "do two"]
    files = [HEADER, *turn("one"), TurnsUndone(id="x", turn_ids=("one",), what="code")]
    assert prompts(files) == ["do one"]


def test_a_compaction_is_told_between_the_turns_and_hides_none_of_them() -> None:
    fold = CompactionSaved(id="f", turn_id="two", through="b-one", summary="Long ago.", before=9_000, after=200)
    records = [HEADER, *turn("one"), fold, *turn("two")]
    first, second = told(records)
    assert first[-1] == ev.Compacted(before=9_000, after=200, how="summary")
    assert isinstance(second[0], ev.TurnStarted)
    reverted = told([*records, CompactionReverted(id="g", fold_id="f")])
    assert not any(isinstance(event, ev.Compacted) for events in reverted for event in events)


def test_a_compaction_is_not_told_once_the_messages_that_it_replaced_are_undone() -> None:
    fold = CompactionSaved(id="f", through="b-two", summary="Long ago.", before=9_000, after=200)
    records = [HEADER, *turn("one"), *turn("two"), fold, *turn("three")]
    undone = [*records, TurnsUndone(id="x", turn_ids=("two", "three"))]
    redone = [*undone, TurnsRedone(id="y", turn_ids=("two", "three"))]
    found = [
        [event for events in told(each) for event in events if isinstance(event, ev.Compacted)]
        for each in (undone, redone)
    ]
    assert found == [[], [ev.Compacted(before=9_000, after=200, how="summary")]]


def test_how_a_turn_ended_is_told() -> None:
    stopped, failed = told([HEADER, *turn("one", reason="interrupted"), *turn("two", error="The server is gone.")])
    assert stopped[-1] == ev.TurnAborted(stop_reason="interrupted")
    assert isinstance(failed[-1], ev.TurnFailed) and failed[-1].error.message == "The server is gone."


def test_without_a_prompt_there_is_nothing_to_tell() -> None:
    assert told([HEADER]) == []


def test_the_newest_turn_comes_first_and_only_what_is_asked_for_is_made() -> None:
    records = [HEADER, *(record for number in range(1_000) for record in turn(str(number)))]
    made: list[str] = []

    def noted(result: ToolResult, call: ToolCall) -> ev.ToolCallFinished:
        made.append(call.id)
        return shown(result, call)

    turns = replay(records, lambda some: some, noted)
    assert [next(turns)[0], next(turns)[0]] == [
        ev.TurnStarted(turn_id="999", text="do 999"),
        ev.TurnStarted(turn_id="998", text="do 998"),
    ]
    assert made == ["c-999", "c-998"]
    assert len(list(turns)) == 998


def test_texts_that_memory_has_let_go_of_are_read_again_and_only_where_they_are_needed() -> None:
    records: list[AnyRecord] = [HEADER, *(each for name in "abcdefgh" for each in turn(name))]
    records.insert(1 + 5 * 4, CompactionSaved(id="f", through="b-d", summary="Long ago.", before=9, after=2))
    reads: list[int] = []

    def reread() -> Sequence[AnyRecord]:
        reads.append(1)
        return records

    session = Session(records, None, saved=True, reread=reread)
    reads.clear()
    turns = replay(session.records, session.in_full, shown)
    newest = [next(turns) for _ in range(4)]
    assert not reads and newest[0][3] == ev.TextDelta(text="Done h.")
    session.append(Shortened(id="short", call_ids=("c-d",), keep_chars=10))
    oldest = list(turns)
    assert len(reads) <= 2 and len(oldest) == 4
    assert [*newest, *oldest] == list(replay(records, lambda some: some, shown))

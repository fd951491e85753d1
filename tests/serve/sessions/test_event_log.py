"""Events for readers at their own pace."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.events import (
    AgentEvent,
    AnyEvent,
    Notice,
    ReasoningDelta,
    SessionClosed,
    TextDelta,
    ToolOutput,
)
from agent_cli.serve.sessions.event_log import EventLog, Gone

KINDS = st.sampled_from(["text", "thought", "out-a", "out-b", "notice"])


def event(kind: str, seq: int, submission: str = "s") -> AnyEvent:
    text = f"<{seq}>"
    place = {"seq": seq, "submission_id": submission, "time": float(seq)}
    match kind:
        case "text":
            return TextDelta(text=text, **place)
        case "thought":
            return ReasoningDelta(text=text, **place)
        case "notice":
            return Notice(level="info", text=text, **place)
        case _:
            return ToolOutput(call_id=kind, text=text, **place)


def log_of(kinds: list[str]) -> EventLog:
    log = EventLog()
    for seq, kind in enumerate(kinds, 1):
        log.append(event(kind, seq))
    return log


def test_a_reader_that_lags_gets_pieces_of_one_text_joined() -> None:
    log = log_of(["text", "text", "text", "thought", "out-a", "out-a", "out-b", "notice", "notice"])
    found = list(log.reader(0).held())
    assert [(each.seq, each.text) for each in found] == [
        (3, "<1><2><3>"), (4, "<4>"), (6, "<5><6>"), (7, "<7>"), (8, "<8>"), (9, "<9>"),
    ]  # fmt: skip
    assert [each.time for each in found] == [3, 4, 6, 7, 8, 9]


def test_pieces_of_different_prompts_are_not_joined() -> None:
    log = EventLog()
    log.append(event("text", 1, "a"))
    log.append(event("text", 2, "b"))
    assert [each.seq for each in log.reader(0).held()] == [1, 2]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(KINDS, max_size=40), st.lists(st.integers(0, 40), max_size=8))
def test_whatever_the_pace_each_piece_comes_once_and_in_order(kinds: list[str], stops: list[int]) -> None:
    """Read again and again from where one is, with more events between."""
    log, reader_seq, texts, done = EventLog(), 0, list[str](), 0
    for stop in [*sorted(stops), len(kinds)]:
        while done < min(stop, len(kinds)):
            done += 1
            log.append(event(kinds[done - 1], done))
        reader = log.reader(reader_seq)
        texts += [each.text for each in reader.held()]
        reader_seq = reader.seq
    assert "".join(texts) == "".join(f"<{n}>" for n in range(1, len(kinds) + 1))


async def test_a_reader_waits_for_news_and_ends_with_the_session() -> None:
    log = log_of(["text"])
    reader = log.reader(1)
    waiting = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    log.append(event("text", 2))
    assert (await asyncio.wait_for(waiting, 10)).text == "<2>"  # type: ignore[union-attr]
    log.append(SessionClosed(seq=3, session_id="x"))
    assert isinstance(await reader.next(), SessionClosed) and await reader.next() is None


def test_old_events_go_when_everybody_who_is_there_has_had_them() -> None:
    log = EventLog()
    slow = log.reader(0)
    for seq in range(1, 101):
        log.append(Notice(seq=seq, level="info", text="x" * 50_000))
    assert log.oldest == 1 and len(list(slow.held())) == 100
    log.append(Notice(seq=101, level="info", text="x" * 50_000))
    assert log.oldest > 80
    with pytest.raises(Gone) as gone:
        log.reader(3)
    assert gone.value.oldest == log.oldest
    found = [each.seq for each in log.reader(log.oldest - 1).held()]
    assert found == list(range(log.oldest, 102))


def test_readers_that_have_left_hold_nothing() -> None:
    log = EventLog()
    log.reader(0).close()
    for seq in range(1, 101):
        log.append(Notice(seq=seq, level="info", text="x" * 50_000))
    assert log.oldest > 50


def test_a_text_without_an_end_is_forgotten_too() -> None:
    log = EventLog()
    for seq in range(1, 1001):
        log.append(ToolOutput(seq=seq, call_id="c", text="x" * 10_000))
    assert log.oldest > 800
    joined = list(log.reader(log.oldest - 1).held())
    assert sum(len(each.text) for each in joined) == (1001 - log.oldest) * 10_000  # type: ignore[union-attr]
    assert max(len(each.text) for each in joined) < 80_000  # type: ignore[union-attr]


def test_a_reader_that_never_reads_loses_its_place_in_the_end_and_the_others_go_on() -> None:
    log = EventLog()
    stuck, quick = log.reader(0), log.reader(0)
    for seq in range(1, 2001):
        log.append(ToolOutput(seq=seq, call_id="c", text="x" * 10_000))
        assert len(list(quick.held())) == 1
    with pytest.raises(Gone):
        list(stuck.held())
    assert 2000 - log.oldest < 1700


def test_pieces_of_a_sub_agent_are_joined_and_what_events_hold_inside_counts() -> None:
    log = EventLog()
    for seq, agent in enumerate("aab", 1):
        inner = TextDelta(text=f"<{seq}>")
        log.append(AgentEvent(seq=seq, agent_id=agent, agent_name=agent, event=inner))
    reader = log.reader(0)
    found = list(reader.held())
    reader.close()
    assert [(each.seq, each.event.text) for each in found] == [(2, "<1><2>"), (3, "<3>")]  # type: ignore[union-attr]
    for seq in range(4, 104):
        inner = Notice(level="info", text="x" * 50_000)
        log.append(AgentEvent(seq=seq, agent_id="a", agent_name="a", event=inner))
    assert log.oldest > 50

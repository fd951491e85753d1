"""Answers that are read as data while they arrive."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.protocol import events as ev
from agent_cli.ui.headless.partial_output import PartialAnswer, PartialJson
from tests.rows import each_row

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def is_part(part: Any, whole: Any) -> bool:
    """Whether something may be the beginning of a value."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return list(part) == list(whole)[: len(part)] and all(is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return part == whole and type(part) is type(whole)


@given(
    st.lists(TREES) | st.dictionaries(st.text(), TREES),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_what_is_there_is_a_part_of_the_whole(value: Any, size: int, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    parts = PartialJson()
    found = [parts.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert all(is_part(each, value) for each in found if each is not None)
    assert found[-1] == value
    assert found[0] is not None


@each_row(
    ("text", "value"),
    [
        ("", None),
        ("I read the file {x}", None),
        ('"just a text"', None),
        ('```json\n{"a": [1, 2', {"a": [1]}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00e', {"a": "x"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": "\\ud83d\\ude00', {"a": "😀"}),
        ('{"a": "\\\\', {"a": "\\"}),
        ('{"a": "say \\"', {"a": 'say "'}),
        ('{"a": tru', {}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": {"b": [', {"a": {"b": []}}),
        ('{"a": 1} and more {', {"a": 1}),
        ('{"a" 1 ]]}', None),
        ("[" * 100_000, None),
    ],
)
def test_text_that_is_cut_off(text: str, value: Any) -> None:
    assert PartialJson().feed(text) == value


def test_it_is_told_a_few_times_a_second_and_in_the_end() -> None:
    now = [0.0]
    answer = PartialAnswer(lambda: now[0])
    told = []

    def note(event: ev.AnyEvent, later_s: float = 0.0) -> None:
        now[0] += later_s
        if found := answer.note(event):
            told.append(found.value)

    note(ev.StepStarted(step=1, model="m"))
    for piece in ('{"a": "', "x", "y"):
        note(ev.TextDelta(text=piece))
    assert told == [{"a": ""}]
    note(ev.TextDelta(text="z"), later_s=1)
    note(ev.TextDelta(text=" "), later_s=1)
    note(ev.TextDelta(text='"'), later_s=1)  # which changes nothing
    assert told == [{"a": ""}, {"a": "xyz"}, {"a": "xyz "}]
    note(ev.TextDelta(text=', "b": 1}'))
    note(_completed())
    assert told[3:] == [{"a": "xyz ", "b": 1}]
    note(ev.StepStarted(step=2, model="m"))
    note(ev.TextDelta(text="Now I"), later_s=1)
    note(_completed())
    assert len(told) == 4


def test_an_attempt_that_failed_is_forgotten() -> None:
    answer = PartialAnswer(lambda: 0.0)
    answer.note(ev.TextDelta(text='{"a": 1, "b'))
    answer.note(ev.RetryScheduled(attempt=2, delay_s=0, error=ev.ErrorInfo("server", "x"), discarded_chars=11))
    found = answer.note(ev.TextDelta(text='{"c": 2,'))
    assert found is not None and found.value == {"c": 2}


def _completed() -> ev.AnswerCompleted:
    return ev.AnswerCompleted(
        message_id="m", text="", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0.0
    )

"""What requests were made of adds up to what the provider counted, and a lost cache has its reason."""

import pytest
from hypothesis import given, settings

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved, ModelCalled, TurnsUndone
from agent_cli.protocol.usage import Usage
from agent_cli.session.costs import Costs
from agent_cli.session.steps import Step, steps_of
from tests.fuzz import tries
from tests.rows import each_row
from tests.telemetry.recorded.made import NOON, answered, called, header, result, sessions


def call(at: float, read: int | None, sent: int = 10_000, **more: object) -> ModelCalled:
    used = Usage(input=sent - (read or 0), output=10, cache_read=read)
    return called(at, 1, 0.5, usage=used, cost_usd=0.01, **more)


def steps(*records: AnyRecord) -> list[Step]:
    return list(steps_of([header(system="s" * 4000), *records]))


def test_a_request_is_divided_by_origin_and_the_rest_is_named() -> None:
    prompt = UserMessage(id="u", turn_id="t1", time=NOON, text="p" * 400, context="c" * 400)
    read, ran = result(3, "read_file", 1, text="f" * 4000), result(4, "shell", 1, text="o" * 800)
    first, second = steps(
        prompt, call(1, None, 2_000), answered(2, "read_file", "shell"), read, ran, call(9, 0, 5_000)
    )
    assert (first.parts["system"], first.parts["prompts"], first.parts["rest"]) == (1000, 200, 800)
    assert (second.parts["files"], second.parts["commands"]) == (1000, 200)
    assert (first.tools, second.tools) == ({}, {"read_file": 1000, "shell": 200})
    assert sum(second.parts.values()) == 5_000 and second.spent_usd == pytest.approx(0.02)


def test_a_compaction_takes_messages_out_of_the_request() -> None:
    prompt = UserMessage(id="u", turn_id="t1", time=NOON, text="p" * 4000)
    folded = CompactionSaved(id="f", time=NOON + 5, through="a2", summary="s" * 400)
    before, after = steps(prompt, call(1, 0), answered(2), folded, call(9, 0))
    assert (before.parts["prompts"], before.compacted) == (1000, False)
    assert (after.parts["prompts"], after.tools, after.compacted) == (0, {}, True)
    assert 100 <= after.parts["summaries"] < 300


def test_estimates_that_exceed_what_was_counted_are_scaled() -> None:
    prompt = UserMessage(id="u", turn_id="t1", time=NOON, text="p" * 40_000)
    (step,) = steps(prompt, call(1, 0, 1_000))
    assert sum(step.parts.values()) == 1_000 and 0 <= step.parts["rest"] < 10


@each_row(
    ("between", "now", "why"),
    [
        ((), call(20, 9_500), ""),
        ((), call(20, 100), "for no recorded reason"),
        ((), call(665, 100), "11 minutes had passed"),
        ((), call(20, 100, model="openai/other"), "another model"),
        ((CompactionSaved(id="f", through="a2", summary="s"),), call(20, 100), "compaction"),
        ((TurnsUndone(id="x", turn_ids=("t0",)),), call(20, 100), "undo or redo"),
    ],
)
def test_a_lost_cache_has_a_reason(between: tuple[AnyRecord, ...], now: ModelCalled, why: str) -> None:
    prompt = UserMessage(id="u", turn_id="t1", time=NOON, text="p")
    assert steps(prompt, call(1, 9_000), answered(2), *between, now)[-1].cache_lost == why


@given(sessions())
@settings(max_examples=tries(100), deadline=None)
def test_parts_add_up_and_the_last_sum_is_that_of_the_ledger(records: list[AnyRecord]) -> None:
    found = list(steps_of(records))
    for step in found:
        assert step.usage is not None and all(count >= 0 for count in step.parts.values())
        if step.usage.input is not None:
            sent = step.usage.input + (step.usage.cache_read or 0) + (step.usage.cache_write or 0)
            assert sum(step.parts.values()) == sent
    if found:
        costs = Costs()
        for record in records[: _index(records, found[-1].number) + 1]:
            if isinstance(record, ModelCalled):
                costs.add(record)
        assert found[-1].spent_usd == pytest.approx(costs.totals.cost_usd)


def _index(records: list[AnyRecord], number: int) -> int:
    return [at for at, record in enumerate(records) if isinstance(record, ModelCalled)][number - 1]

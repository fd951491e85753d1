"""Money: worst cases before each request, soft warnings, the ledger by cause, the day's spending."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.engine.model_calls.budget import BudgetLimits, OverBudget
from agent_cli.engine.model_calls.limits import Bounds
from agent_cli.model.types.base import ModelInfo, ModelRequest, Prices
from agent_cli.protocol.events import Notice, OperationFailed, QuestionAsked, TurnCompleted
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Compact, Interrupt, Operation, QuestionAnswer, UserInput
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import CostLine, Totals, Usage
from agent_cli.store.state.daily_spend import SpendLog
from tests.engine.harness import engine
from tests.model.scripted import Hang, ScriptedModel, Text, call, fail, say

PRICED = ModelInfo("scripted/model", 100_000, 8_192, Prices(1.0, 2.0, 0.1, 1.25))
"""A call of `BIG` costs 1.20 USD."""
BIG = Usage(input=1_000_000, output=100_000)
LOOK = call("list_dir", path=".")


def priced(*script: object, then: object = None) -> ScriptedModel:
    return ScriptedModel(*script, then=then, max_output_tokens=8_192)  # type: ignore[arg-type]


def replies(*said: str) -> Callable[[QuestionAsked], Operation]:
    left = list(said)
    return lambda asked: QuestionAnswer(asked.request_id, left.pop(0))


async def test_a_bound_on_cost_is_never_passed(tmp_path: Path) -> None:
    """A looping model with answers that cost nearly their worst case stays within one dollar."""
    usage = Usage(input=2_000, output=8_000)
    model = priced(then=lambda request: say(LOOK, usage=usage))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=0.1), interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason in ("cost_limit", "stuck")
        spent = it.session.totals.cost_usd
        assert spent is not None and spent <= 0.1


@pytest.mark.parametrize(
    ("interactive", "bounds", "answer", "reason", "asked"),
    [
        (True, Bounds(cost_usd=1.0), "Go on", "end_turn", 1),
        (True, Bounds(cost_usd=1.0), "Stop", "declined", 1),
        (False, Bounds(cost_usd=1.0), "", "end_turn", 0),
        (True, Bounds(), "", "end_turn", 0),
    ],
)
async def test_a_person_decides_whether_a_model_without_prices_is_asked_under_a_bound(
    tmp_path: Path, interactive: bool, bounds: Bounds, answer: str, reason: str, asked: int
) -> None:
    model = ScriptedModel(then=say("ok"), prices=Prices())
    async with engine(tmp_path, model=model, bounds=bounds, interactive=interactive) as it:
        it.reply = replies(answer)
        for _ in range(2):
            end = await it.prompt("go")
            assert isinstance(end, TurnCompleted)
        questions = it.of(QuestionAsked)
        assert len(questions) == asked and all(
            "scripted/model has no known prices" in q.question for q in questions
        )
        first = it.of(TurnCompleted)[0]
        assert first.stop_reason == reason and len(model.requests) == (1 if reason == "declined" else 2)


async def test_near_the_bound_the_answer_is_kept_short_enough_to_pay(tmp_path: Path) -> None:
    model = priced(say(LOOK, usage=Usage(input=10, output=10)), say("done", usage=Usage(input=10, output=10)))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=0.012)) as it:
        assert isinstance(await it.prompt("go"), TurnCompleted)
    assert [request.max_output_tokens for request in model.requests] == [4096, 4096]


async def test_over_the_bound_nothing_more_is_sent_and_the_next_input_has_its_own_allowance(
    tmp_path: Path,
) -> None:
    usage = Usage(input=1_000, output=60_000)
    model = priced(say(LOOK, usage=usage), say("again", usage=Usage(input=10, output=10)))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=0.12)) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"
        assert any(
            "0.12 USD for one prompt (limits.cost_usd; 0.12 USD spent)" in notice.text for notice in it.of(Notice)
        )
        assert len(model.requests) == 1
        end = await it.prompt("more")
        assert isinstance(end, TurnCompleted) and end.text == "again"


@pytest.mark.parametrize("bounds", [Bounds(session_cost_usd=1.0), Bounds(day_cost_usd=1.0)])
async def test_the_bounds_on_a_session_and_a_day_outlast_an_input(tmp_path: Path, bounds: Bounds) -> None:
    day = SpendLog(tmp_path / "spend")
    async with engine(tmp_path, model=priced(say("one", usage=BIG)), bounds=bounds, day=day) as it:
        assert isinstance(await it.prompt("go"), TurnCompleted)
        end = await it.prompt("more")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"
        failed = await it.do(Compact())
        assert isinstance(failed, OperationFailed)
    again = tmp_path / "again"
    again.mkdir()
    async with engine(again, model=priced(say("two", usage=BIG)), bounds=bounds, day=day) as it:
        end = await it.prompt("go")
        stopped = isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"
        assert stopped == (bounds.day_cost_usd is not None)


async def test_a_dear_session_asks_at_each_doubling(tmp_path: Path) -> None:
    usage = Usage(input=1_000, output=100)
    steps = [say(call("read_file", path=f"f{n}"), usage=usage) for n in range(5)]
    model = ScriptedModel(*steps, prices=Prices(1_000, 2_000))
    async with engine(tmp_path, model=model, bounds=Bounds(warn_cost_usd=1.0)) as it:
        it.reply = replies("Go on", "use less", "Stop")
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "declined"
        assert len(model.requests) == 4, "who says stop is not charged for closing words"
        asked = [event.question for event in it.of(QuestionAsked)]
        assert [text.split(" USD")[0] for text in asked] == [
            "This session has cost 1.20", "This session has cost 2.40", "This session has cost 4.80",
        ]  # fmt: skip
        said = [m.text for m in model.requests[-1].messages if isinstance(m, UserMessage)]
        assert "use less" in said, "what a person says beyond yes and no reaches the model"


async def test_without_a_person_the_warning_is_only_said(tmp_path: Path) -> None:
    model = priced(say(LOOK, usage=BIG), say("done", usage=BIG))
    async with engine(tmp_path, model=model, bounds=Bounds(warn_cost_usd=1.0), interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"
        said = [notice.text for notice in it.of(Notice) if "has cost" in notice.text]
        assert [text.split(" USD")[0][-4:] for text in said] == ["1.20", "2.40"], (
            "at each doubling, the end included"
        )


async def test_a_retry_is_not_made_when_it_could_not_be_paid(tmp_path: Path) -> None:
    model = priced(fail("overloaded", after=(Text("par"),), usage=BIG), say("never"))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=1.0)) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"
        assert len(model.requests) == 1
        assert len([r for r in it.session.records if isinstance(r, ModelCalled)]) == 1


async def test_answers_that_are_cut_off_count_as_the_most_they_can_have_cost(tmp_path: Path) -> None:
    """Five answers of 4,000 characters that broke off: what they cost is unknown, and the bound is kept."""
    cut_off = fail("truncated", after=(Text("word " * 800),))
    model = priced(cut_off, cut_off, cut_off, cut_off, cut_off, say("done"))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=0.02), interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"
        calls = [each for each in it.session.records if isinstance(each, ModelCalled)]
        assert 1 <= len(calls) < 5 and all(each.cost_usd is None for each in calls)
        assert 0.0 < sum(each.at_most_usd or 0.0 for each in calls) <= 0.02
        totals = it.session.totals
        assert (totals.cost_usd, totals.unpriced, totals.unmetered) == (None, len(calls), len(calls))
        assert any("whose cost is unknown" in notice.text for notice in it.of(Notice))


async def test_the_day_s_bound_counts_what_is_unknown_as_well(tmp_path: Path) -> None:
    day = SpendLog(tmp_path / "spend")
    async with engine(tmp_path, model=priced(fail("auth", after=(Text("word " * 800),))), day=day) as it:
        await it.prompt("go")
        (call_,) = [each for each in it.session.records if isinstance(each, ModelCalled)]
        assert call_.at_most_usd and day.today_usd() == pytest.approx(call_.at_most_usd)


async def test_an_answer_that_a_person_stops_costs_no_more_than_its_time_allowed(tmp_path: Path) -> None:
    async with engine(tmp_path, model=priced(say(Text("half of it"), Hang())), bounds=Bounds(cost_usd=5.0)) as it:
        submission = await it.submit(UserInput("go"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(Interrupt())
        await it.until_ended(submission)
        (call_,) = [each for each in it.session.records if isinstance(each, ModelCalled)]
        assert call_.cost_usd is None and call_.at_most_usd is not None
        assert call_.at_most_usd < priced().info.worst_case_usd(20_000, 8_192)


async def test_the_ledger_by_cause_and_model(tmp_path: Path) -> None:
    usage = Usage(input=1_000, output=100)
    model = priced(fail("overloaded"), say("ok", usage=usage), say(usage=usage), say("x", usage=usage))
    async with engine(tmp_path, model=model) as it:
        await it.prompt("go")
        await it.prompt("go")
        costs = it.agent.snapshot().costs
    turns = Totals(input=3_000, output=300, requests=3, cost_usd=pytest.approx(0.0036))  # type: ignore[arg-type]
    assert costs == (
        CostLine("turns", "scripted/model", turns),
        CostLine("failed attempts", "scripted/model", Totals(requests=1, cost_usd=0.0)),
    )


def test_an_answer_is_bounded_by_powers_of_two_and_refused_when_it_is_too_short(tmp_path: Path) -> None:
    class Spent:
        totals = Totals(cost_usd=0.0)

    request = ModelRequest("", ())
    for bound, longest in ((1.0, None), (0.0178, None), (0.0170, 4096), (0.0040, 1024)):
        spending = BudgetLimits(Spent(), Bounds(cost_usd=bound), None, lambda: 1_000)  # type: ignore[arg-type]
        assert spending.admit(PRICED, request).max_output_tokens == longest, bound
    spending = BudgetLimits(Spent(), Bounds(cost_usd=0.003), None, lambda: 1_000)  # type: ignore[arg-type]
    with pytest.raises(OverBudget, match="the next request might cost"):
        spending.admit(PRICED, request)
    unknown = ModelInfo("a/b")
    assert spending.admit(unknown, request) == request


@pytest.mark.parametrize("bound", ["cost_usd", "session_cost_usd", "day_cost_usd"])
def test_what_sub_agents_have_requested_counts_towards_every_bound(tmp_path: Path, bound: str) -> None:
    class Spent:
        totals = Totals(cost_usd=0.0)

    day = SpendLog(tmp_path / "spend")
    above = BudgetLimits(Spent(), Bounds(**{bound: 0.02}), day, lambda: 1_000)  # type: ignore[arg-type]
    first, second = (
        BudgetLimits(Spent(), Bounds(), day, lambda: 1_000, above)  # type: ignore[arg-type]
        for _ in range(2)
    )
    first.admit(PRICED, ModelRequest("", ()))
    with pytest.raises(OverBudget, match=bound):
        second.admit(PRICED, ModelRequest("", ()))
    assert first.admit(PRICED, ModelRequest("", ())).max_output_tokens is None  # it is not counted twice


def test_the_day_s_log_survives_nonsense_and_several_writers(tmp_path: Path) -> None:
    one, two = SpendLog(tmp_path / "s"), SpendLog(tmp_path / "s")
    one.add(0.5)
    two.add(0.25)
    file = next((tmp_path / "s").iterdir())
    with file.open("a", encoding="utf-8") as out:
        out.write("nan\n-3\nwhat\n1e99\n")
    assert one.today_usd() == two.today_usd() == 0.75
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "file").write_text("", encoding="utf-8")
    unusable = SpendLog(tmp_path / "file")
    unusable.add(1.0)
    assert unusable.today_usd() == 0.0

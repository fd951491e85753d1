"""What a batch decides: what runs next, what may be spent, when a provider is spared, which attempt counts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.fleet.attempt import AttemptResult, Failure, Outcome, Patch
from agent_cli.fleet.batch.budget import Budget
from agent_cli.fleet.batch.pace import Pace
from agent_cli.fleet.batch.run import batch_exit_code
from agent_cli.fleet.batch.schedule import Retry, Schedule, picked
from agent_cli.fleet.task import Task
from tests.rows import each_row

TASK = Task(id="t", prompt="p", verify="true")


def result(outcome: Outcome, task: Task = TASK, attempt: int = 1, **more: object) -> AttemptResult:
    made = AttemptResult(id=task.id, attempt=attempt, spec_hash=task.spec_hash("1.0"), outcome=outcome)
    import msgspec

    return msgspec.structs.replace(made, **more)


def schedule(*earlier: AttemptResult, task: Task = TASK, retry: Retry = "infra") -> Schedule:
    return Schedule([task], "1.0", earlier, retry)


@each_row(
    ("outcome", "infra", "failed"),
    [
        ("solved", 0, 0), ("done", 0, 0), ("unsolved", 0, 1), ("limit", 0, 1), ("tampered", 0, 1),
        ("crash", 1, 1), ("lost", 1, 1), ("provider", 1, 1), ("cancelled", 1, 1), ("auth", 1, 1),
    ],
)  # fmt: skip
def test_what_the_same_command_runs_again(outcome: Outcome, infra: int, failed: int) -> None:
    assert len(schedule(result(outcome))) == infra
    assert len(schedule(result(outcome), retry="failed")) == failed
    assert len(schedule(result(outcome), retry="all")) == 1


def test_a_changed_task_runs_again_and_more_attempts_add_to_those_there_are() -> None:
    other = Task(id="t", prompt="another", verify="true")
    assert len(schedule(result("solved"), task=other)) == 1
    more = Task(id="t", prompt="p", verify="true", attempts=3, pick="all")
    assert len(schedule(result("unsolved", more), task=more)) == 2


@each_row(
    ("outcome", "kind", "runs"),
    [
        ("crash", "", 3),
        ("setup", "", 3),
        ("setup", "bad_model", 1),
        ("provider", "", 1),
        ("provider", "rate_limit", 6),
    ],
)
def test_an_attempt_without_a_verdict_is_repeated_within_bounds(outcome: Outcome, kind: str, runs: int) -> None:
    made = schedule()
    count = 0
    while made.next():
        count += 1
        made.ended(result(outcome, attempt=count, error=Failure(kind, "")))
    assert count == runs


def test_a_solved_task_needs_no_further_attempt() -> None:
    task = Task(id="t", prompt="p", verify="true", attempts=4)
    made = schedule(task=task)
    assert made.next() and made.next()
    made.ended(result("solved", task))
    assert made.next() is None


amounts = st.floats(0.001, 5)


@given(st.floats(0.1, 20), st.lists(st.tuples(amounts, st.floats(0, 1), st.booleans()), max_size=40))
def test_a_budget_is_never_exceeded(limit: float, attempts: list[tuple[float, float, bool]]) -> None:
    """Attempts cost any share of what they reserved, and some end without saying what they cost."""
    budget = Budget(limit)
    open_ones: list[tuple[str, float, float, bool]] = []
    for number, (wanted, share, known) in enumerate(attempts):
        try:
            allowed = budget.reserve(str(number), wanted)
        except ValueError:
            pass
        else:
            assert allowed is not None
            open_ones.append((str(number), allowed, share, known))
        assert budget.spent + budget.reserved <= limit + 1e-5
        if number % 3 == 2 and open_ones:
            key, allowed, share, known = open_ones.pop(0)
            cost = allowed * share
            budget.settle(key, result("solved", cost_usd=cost if known else None, reserved_usd=allowed))
            assert budget.spent >= cost - 1e-9
    assert budget.spent + budget.reserved <= limit + 1e-5


def test_without_a_limit_of_its_own_an_attempt_may_spend_what_attempts_usually_cost() -> None:
    budget = Budget(100, [result("solved", cost_usd=4.0) for _ in range(5)])
    assert budget.spent == 20
    assert budget.reserve("a", None) == 6.0
    assert Budget(0.5).reserve("a", None) == 0.5
    with pytest.raises(ValueError, match="are left"):
        Budget(1, [result("solved", cost_usd=1.0)]).reserve("a", None)


def test_a_rate_limit_pauses_cuts_once_and_grows_back() -> None:
    now = [0.0]
    pace = Pace(10, lambda: now[0])
    assert pace.target == 10 and pace.pause_s == 0
    for _ in range(5):
        pace.on_rate_limit(37.0)  # each agent reports it
    assert pace.target == 7 and pace.pause_s == 37
    now[0] = 38.0
    assert pace.pause_s == 0 and pace.target == 7
    targets = []
    for now[0] in (60.0, 75.0, 90.0, 200.0):
        targets.append(pace.target)
    assert targets == sorted(targets) and targets[-1] == 10
    assert pace.waited_s == 37
    pace.on_rate_limit(1)
    for _ in range(20):
        now[0] += 60
        pace.on_rate_limit(1)
    assert pace.target >= 1


def test_the_attempt_that_counts() -> None:
    small, large = Patch("", 1, 0, ("a",)), Patch("", 50, 3, ("a",))
    first, second = (
        result("solved", patch=large, finished=1.0),
        result("solved", attempt=2, patch=small, finished=2.0),
    )
    bad = result("unsolved", attempt=3, patch=Patch(), finished=0.5)
    assert picked(TASK, [bad, second, first]) == first
    smallest = Task(id="t", prompt="p", verify="true", pick="smallest_diff")
    assert picked(smallest, [bad, first, second]) == second
    assert picked(Task(id="t", prompt="p", pick="all"), [first]) is None
    assert picked(TASK, [bad]) is None


def test_exit_codes() -> None:
    def code(*outcomes: Outcome, number: int = 0, stopped: str = "") -> int:
        tasks = [Task(id=f"t{at}", prompt="p") for at in range(len(outcomes))]
        made = [result(outcome, task) for outcome, task in zip(outcomes, tasks, strict=True)]
        return batch_exit_code(tasks, made, number, stopped)

    assert code("solved", "done") == 0
    assert code("solved", "unsolved") == code("limit") == code("tampered") == 8
    assert code("solved", "crash") == code("unsolved", "lost") == 9
    assert code("auth", stopped="three refused") == 3
    assert code("solved", stopped="budget: 0.00 USD are left") == 5
    assert [code("solved", number=number) for number in (1, 2, 15)] == [129, 130, 143]


def test_every_outcome_is_counted_somewhere() -> None:
    from agent_cli.fleet.attempt import INVALID, OUTCOMES

    assert set(INVALID) < set(OUTCOMES)
    for outcome, retry in itertools.product(OUTCOMES, ("infra", "failed", "all")):
        assert len(schedule(result(outcome), retry=retry)) in (0, 1)  # type: ignore[arg-type]

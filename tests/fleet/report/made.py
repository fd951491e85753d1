"""Tasks and results as tests need them."""

from typing import Any

from agent_cli.fleet.attempt import AttemptResult, Failure, Outcome, Waited
from agent_cli.fleet.task import Task
from agent_cli.protocol.usage import UsageTotals

VERSION = "0.1.0"


def task(name: str, **fields: Any) -> Task:
    return Task(id=name, prompt=f"solve {name}", verify=fields.pop("verify", "true"), **fields)


def result(of: Task, attempt: int = 1, outcome: Outcome = "solved", **fields: Any) -> AttemptResult:
    return AttemptResult(
        **{
            "id": of.id,
            "attempt": attempt,
            "spec_hash": of.spec_hash(VERSION),
            "outcome": outcome,
            "agent_version": VERSION,
            "model": "scripted/one",
            "cost_usd": 0.1,
            "duration_s": 4.0,
            "started": 1000.0 + attempt,
            "finished": 1004.0 + attempt,
            **fields,
        }
    )


def failed(of: Task, attempt: int, outcome: Outcome, kind: str, message: str, **fields: Any) -> AttemptResult:
    return result(of, attempt, outcome, error=Failure(kind, message), **fields)


def a_run() -> tuple[list[Task], list[AttemptResult]]:
    """Return a run in which each kind of thing happens."""
    one, two, three, four, five = (
        task(name, attempts=2, pick="all") for name in ("one", "two", "three", "four", "five")
    )
    open_end = task("open", verify="")
    lines = [
        result(one, 1, usage=UsageTotals(input=100, output=20, requests=2), turns=3),
        result(one, 2, "unsolved"),
        failed(two, 1, "setup", "setup", "npm was not found", cost_usd=None),
        result(two, 2, "solved", waited_s=Waited(rate_limit=2.0, queue=1.0, setup=0.5)),
        result(two, 3, "tampered"),
        failed(three, 1, "provider", "overloaded", "try <b>later</b> | now", cost_usd=0.02),
        result(four, 1, "limit", stop_reason="max_turns", cost_usd=0.3, cost_is_partial=True),
        result(four, 2, "refused", host="b"),
        result(open_end, 1, "done"),
        result(one, 1, "unsolved", cost_usd=0.05),
        result(one, 3, "solved", spec_hash="of another version"),
    ]
    return [one, two, three, four, five, open_end], lines

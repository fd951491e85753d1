"""What the calls of a session cost, by cause."""

from typing import get_args

from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import CallKind, Usage
from agent_cli.session.costs import Costs
from tests.rows import each_row


@each_row("kind", get_args(CallKind))
def test_every_kind_of_call_has_a_row_of_its_own(kind: CallKind) -> None:
    costs = Costs()
    for number, each in enumerate(("main", kind)):
        costs.add(
            ModelCalled(
                id=f"c{number}", model="m", kind=each, outcome="stop", usage=Usage(input=1, output=1), cost_usd=0.5
            )  # type: ignore[call-arg]
        )
    causes = [line.cause for line in costs.lines()]
    assert len(causes) == (1 if kind == "main" else 2) and costs.totals.cost_usd == 1.0
    assert kind != "subagent" or causes[1] == "sub-agents"

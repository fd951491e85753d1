"""What programs give as values: a budget, sub-agents, MCP servers, configuration."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli import AgentError, Budget
from tests.model.server import Call, Reply
from tests.sdk.conftest import Machine

FAULT_SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "fault_server.py"
PRICES = {"input": 1000, "output": 1000, "cache_read": 1000}
PRICED = {"providers": {"openai": {"models": {"mock-model": {"prices": PRICES, "max_output_tokens": 2000}}}}}


async def test_agents_share_a_budget(machine: Machine) -> None:
    machine.script(Reply(text="one"), Reply(text="two"))
    budget = Budget(cost_usd=30)
    async with (
        machine.agent(budget=budget, config=PRICED, settings="none", tools=["read_file"]) as one,
        machine.agent(budget=budget, config=PRICED, settings="none", tools=["read_file"]) as two,
    ):
        first = await one.run("go")
        assert first.stop_reason == "end_turn" and first.cost_usd and budget.spent_usd == first.cost_usd
        budget.shared().spent_usd = 29.99
        second = await two.run("go")
    assert second.stop_reason == "cost_limit" and second.exit_code == 5
    assert len(machine.server.requests) == 1


async def test_requests_at_the_same_time_count_as_the_most_they_can_cost(machine: Machine) -> None:
    machine.script(Reply(text="one", delay_s=0.5), Reply(text="two"))
    budget = Budget(cost_usd=5)
    agents = [
        machine.agent(
            budget=budget, config=PRICED, settings="none", tools=["read_file"], system_prompt="You answer."
        )
        for _ in range(2)
    ]
    async with agents[0], agents[1]:
        results = await asyncio.gather(*(each.run("go") for each in agents))
    spent = sum(each.cost_usd or 0.0 for each in results)
    assert budget.spent_usd == pytest.approx(spent) and "end_turn" in [each.stop_reason for each in results]
    assert spent <= 5


async def test_a_type_of_sub_agent_is_offered_and_runs(machine: Machine) -> None:
    call = Call("agent", {"type": "reviewer", "task": "Read the diff"})
    machine.script(Reply(calls=(call,)), Reply(text="It is fine."), Reply(text="done"))
    definition = {"description": "Reads a diff", "tools": ["read_file", "grep"], "instructions": "LOOK-CLOSELY"}
    async with machine.agent(agents={"reviewer": definition}, settings="none") as agent:
        assert (await agent.run("review")).text == "done"
    assert "LOOK-CLOSELY" in machine.system(1) and machine.tools(1) == ["read_file", "grep"]


async def test_a_server_is_started_without_a_file(machine: Machine) -> None:
    servers = {"faulty": {"command": sys.executable, "args": [str(FAULT_SERVER)]}}
    call = Reply(calls=(Call("mcp__faulty__echo", {"text": "hello from there"}),))
    machine.script(call, call, Reply(text="done"))
    async with machine.agent(mcp_servers=servers, settings="none", mode="yolo") as agent:
        await agent.run("go")
    assert "hello from there" in json.dumps([each.body["messages"][2:] for each in machine.server.requests[1:]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"config": {"nothing": 1}},
        {"mcp_servers": {"x": {"comand": "y"}}},
        {"agents": {"x": {}}},
        {"agents": {"x": {"description": "y", "tool": []}}},
    ],
)
async def test_wrong_values_are_misuse(machine: Machine, wrong: dict[str, Any]) -> None:
    with pytest.raises(AgentError):
        await machine.agent(**wrong).__aenter__()


def test_a_budget_is_more_than_nothing() -> None:
    with pytest.raises(AgentError):
        Budget(cost_usd=0)

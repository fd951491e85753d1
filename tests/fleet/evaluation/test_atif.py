"""Sessions become trajectories that Harbor's ATIF model accepts, with nothing left out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from agent_cli.fleet.evaluation.atif import trajectory
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled
from agent_cli.protocol.usage import Usage
from agent_cli.store.session_file import read_session
from tests.rows import each_row
from tests.store.talk import picture, records

SCHEMA = json.loads((Path(__file__).parent / "atif_v1_8.json").read_text())
EXAMPLES = sorted((Path(__file__).parents[3] / "sessions").glob("*.json"))
AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def accepted(made: dict[str, Any]) -> dict[str, Any]:
    """Check what Harbor's model checks: the fields, and the rules between them."""
    plain: dict[str, Any] = json.loads(msgspec.json.encode(made))
    jsonschema.validate(plain, SCHEMA)
    _rules(plain)
    return plain


def _rules(plain: dict[str, Any]) -> None:
    assert [step["step_id"] for step in plain["steps"]] == list(range(1, len(plain["steps"]) + 1))
    for step in plain["steps"]:
        assert step["source"] == "agent" or not AGENT_ONLY & step.keys()
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            assert result["source_call_id"] in calls
            for ref in result.get("subagent_trajectory_ref", ()):
                assert ref["trajectory_id"]
    below = plain.get("subagent_trajectories", [])
    assert len({each["trajectory_id"] for each in below}) == len(below)
    for each in below:
        _rules(each)


def _header(name: str, **fields: Any) -> Header:
    return Header(
        id=name,
        version=FORMAT_VERSION,
        session_id=name,
        cwd="/w",
        model="a/b",
        mode="ask",
        created_by="agent-cli 1.2",
        **fields,
    )


@each_row("path", EXAMPLES)
def test_every_example_session_is_accepted(path: Path) -> None:
    given = read_session(path).records
    made = accepted(trajectory(given))
    calls = [call.id for each in given if isinstance(each, AssistantMessage) for call in each.calls]
    assert [call["tool_call_id"] for step in made["steps"] for call in step.get("tool_calls", ())] == calls


def test_a_long_session_is_accepted_whole() -> None:
    made = accepted(trajectory(records()))
    assert made["agent"] == {"name": "agent-cli", "version": "0.1.0", "model_name": "openai/gpt-demo"}
    assert made["steps"][0] == {
        "step_id": 1,
        "timestamp": "2026-09-21T14:13:20+00:00",
        "source": "system",
        "message": "Be careful.",
    }
    answers = [step for step in made["steps"] if step["source"] == "agent"]
    assert any("Maybe the count is ignored." in step.get("reasoning_content", "") for step in answers)
    pictures = [part for step in made["steps"] for part in _parts(step) if part["type"] == "image"]
    assert [each["source"]["path"] for each in pictures] == [f"data:image/png;base64,{picture().data}"] * len(
        pictures
    )
    assert pictures
    assert any(step.get("extra", {}).get("undone") for step in made["steps"])
    assert made["final_metrics"]["total_cost_usd"] == pytest.approx(0.1961)
    spent = sum(step.get("metrics", {}).get("cost_usd", 0) for step in made["steps"])
    assert spent <= made["final_metrics"]["total_cost_usd"] + 1e-9


def _parts(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    contents = [step["message"], *(each.get("content") for each in step.get("observation", {}).get("results", ()))]
    for content in contents:
        if isinstance(content, list):
            yield from content


def test_tokens_and_cost_belong_to_the_answer_they_paid_for() -> None:
    given: list[AnyRecord] = [
        _header("s", effort="high"),
        UserMessage(id="u", text="go", context="It is Monday."),
        ModelCalled(id="c1", kind="main", model="a/b", outcome="overloaded", duration_s=1.0),
        ModelCalled(
            id="c2", kind="main", model="a/b", outcome="stop", usage=Usage(input=10, output=5, cache_read=90, cache_write=7), cost_usd=0.25, duration_s=2.0,
        ),
        ModelCalled(id="c3", kind="summary", model="a/b", outcome="stop", usage=Usage(input=3, output=1), cost_usd=0.5),
        AssistantMessage(id="a", text="done", model="a/b"),
    ]  # fmt: skip
    made = accepted(trajectory(given))
    prompt, answer = made["steps"]
    assert prompt["message"] == "It is Monday.\n\ngo"
    assert answer["llm_call_count"] == 2 and answer["reasoning_effort"] == "high"
    assert answer["metrics"] == {
        "prompt_tokens": 107, "completion_tokens": 5, "cached_tokens": 90, "cost_usd": 0.25,
        "extra": {"cache_write_tokens": 7, "duration_s": 3.0, "failed_calls": ["overloaded"], "cost_is_partial": True},
    }  # fmt: skip
    final = made["final_metrics"]
    assert (final["total_prompt_tokens"], final["total_completion_tokens"], final["total_cost_usd"]) == (
        110,
        6,
        0.75,
    )


def test_what_is_unknown_is_left_out() -> None:
    given = [
        _header("s"),
        UserMessage(id="u", text=""),
        ModelCalled(id="c", kind="main", model="a/b", outcome="stop"),
        AssistantMessage(id="a", text="done"),
    ]
    made = accepted(trajectory(given))
    assert made["steps"][1]["metrics"] == {} and made["steps"][0]["message"] == ""
    assert "total_cost_usd" not in made["final_metrics"] and "total_prompt_tokens" not in made["final_metrics"]
    accepted(trajectory([_header("empty")]))


def test_sub_agents_are_inside_the_trajectory_of_their_parent() -> None:
    def session(name: str, **fields: Any) -> list[AnyRecord]:
        return [
            _header(name, **fields),
            UserMessage(id=f"u-{name}", text="look"),
            AssistantMessage(id=f"a-{name}", text="", calls=(ToolCall(f"call-{name}", "agent", '{"task": "x"}'),)),
            ToolResult(id=f"r-{name}", call_id=f"call-{name}", tool="agent", status="ok", text="found"),
        ]

    children = {
        "call-top": [session("one", parent_id="top", agent_type="explore"), session("two", parent_id="top")],
        "call-one": [session("deep", parent_id="one")],
    }
    made = accepted(trajectory(session("top"), children))
    assert [each["trajectory_id"] for each in made["subagent_trajectories"]] == ["one", "two"]
    refs = made["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert [each["trajectory_id"] for each in refs] == ["one", "two"]
    first = made["subagent_trajectories"][0]
    assert first["agent"]["extra"] == {"type": "explore"}
    assert [each["trajectory_id"] for each in first["subagent_trajectories"]] == ["deep"]


@pytest.mark.parametrize("arguments", ["{broken", "[1]", '"text"', ""])
def test_arguments_that_are_no_object_are_not_lost(arguments: str) -> None:
    call = ToolCall("c", "shell", arguments, problem="not an object")
    made = accepted(trajectory([_header("s"), AssistantMessage(id="a", calls=(call,))]))
    (found,) = made["steps"][0]["tool_calls"]
    assert found["arguments"] == {}
    assert found["extra"].get("arguments", "") == arguments and found["extra"]["problem"] == "not an object"

"""Answers as data: by type or schema, corrected once."""

import dataclasses
import json
from typing import Any

import msgspec
import pytest

from agent_cli import AgentError
from agent_cli.events import PartialOutput
from tests.model.server import Reply
from tests.sdk.conftest import Machine


class Verdict(msgspec.Struct):
    safe: bool
    reasons: list[str] = []


@dataclasses.dataclass
class Count:
    files: int


SCHEMA = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}


@pytest.mark.parametrize(
    ("output", "answer", "data"),
    [
        (Verdict, '{"safe": true, "reasons": ["small"]}', Verdict(True, ["small"])),
        (Count, '```json\n{"files": 3}\n```', Count(3)),
        (SCHEMA, '{"files": 3}', {"files": 3}),
        (list[int], "[1, 2]", [1, 2]),
    ],
)
async def test_the_answer_is_a_value(machine: Machine, output: Any, answer: str, data: Any) -> None:
    machine.script(Reply(text=answer), Reply(text="plain"))
    async with machine.agent() as agent:
        result = await agent.run("count", output=output)
        assert result.data == data and result.exit_code == 0 and result.text == answer
        assert (await agent.run("and now?")).data is None
    assert "JSON Schema" in json.dumps(machine.server.requests[0].body)


async def test_an_answer_that_does_not_fit_is_corrected_once(machine: Machine) -> None:
    machine.script(Reply(text="three"), Reply(text='{"files": 3}'))
    async with machine.agent() as agent:
        result = await agent.run("count", output=Count)
    assert result.data == Count(3) and result.exit_code == 0 and result.usage.requests == 2
    assert "does not fit" in json.dumps(machine.server.requests[1].body)


async def test_one_that_never_fits_is_exit_code_8(machine: Machine) -> None:
    machine.script(Reply(text='{"files": "many"}'), Reply(text="many"))
    async with machine.agent() as agent:
        result = await agent.run("count", output=Count)
    assert result.data is None and result.exit_code == 8 and result.stop_reason == "end_turn"
    assert result.error is not None and result.error.kind == "schema"


async def test_a_turn_that_fails_is_not_corrected(machine: Machine) -> None:
    machine.script(Reply(status=401))
    async with machine.agent() as agent:
        assert (await agent.run("count", output=Count)).exit_code == 3


@pytest.mark.parametrize("wrong", [{"type": "nothing"}, {"$ref": "https://example.com/x"}, object])
async def test_what_has_no_schema_is_misuse(machine: Machine, wrong: Any) -> None:
    async with machine.agent() as agent:
        with pytest.raises(AgentError):
            await agent.run("count", output=wrong)


async def test_the_answer_is_there_in_parts_while_it_arrives(machine: Machine) -> None:
    machine.script(Reply(text='{"files": 12, "names": ["a", "b"]}', piece=4, event_delay_s=0.12))
    schema = {"type": "object", "properties": {"files": {"type": "integer"}, "names": {"type": "array"}}}
    async with machine.agent() as agent:
        parts = [
            each.value async for each in agent.stream("count", output=schema) if isinstance(each, PartialOutput)
        ]
        assert agent.result.data == parts[-1] == {"files": 12, "names": ["a", "b"]}
    assert {"files": 12} in parts and len(parts) > 2
    assert all(list(each) == ["files", "names"][: len(each)] for each in parts)


async def test_without_a_schema_there_are_no_parts(machine: Machine) -> None:
    machine.script(Reply(text='{"files": 12}', piece=4))
    async with machine.agent() as agent:
        assert not [each async for each in agent.stream("count") if isinstance(each, PartialOutput)]

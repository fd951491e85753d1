"""Tools that are plain functions: what the model is told of them, when they run, and what it reads."""

import argparse
import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest

from agent_cli import AgentError, Allow, tool
from tests.model.server import Call, Reply
from tests.sdk.conftest import Machine

DONE = Reply(text="done")


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool(reads=True)
async def ticket(number: int, kind: Literal["bug", "wish"] = "bug") -> str:
    """Read a ticket of our tracker."""
    return f"{kind} {number}: the door squeaks"


@tool
def move(points: list[Point], by: Annotated[int, msgspec.Meta(description="how far")] = 1) -> dict[str, Any]:
    """Move points."""
    return {"moved": [each.x + by for each in points]}


@tool(reads=True)
def broken() -> str:
    """Fail."""
    raise LookupError("the tracker is down")


def results(machine: Machine) -> list[str]:
    return [
        str(each["content"]) for each in machine.server.requests[-1].body["messages"] if each["role"] == "tool"
    ]


async def test_types_and_docstring_are_what_the_model_is_told(machine: Machine) -> None:
    machine.script(DONE)
    async with machine.agent(tools=["read_file", ticket, move]) as agent:
        await agent.run("go")
    assert machine.tools() == ["read_file", "ticket", "move"]
    _, first, second = (each["function"] for each in machine.server.requests[0].body["tools"])
    assert first["description"] == "Read a ticket of our tracker."
    assert first["parameters"]["required"] == ["number"]
    assert first["parameters"]["properties"]["kind"] == {"type": "string", "enum": ["bug", "wish"]}
    assert second["parameters"]["properties"]["by"]["description"] == "how far"


async def test_a_reading_tool_runs_in_plan_mode_beside_the_usual_ones(machine: Machine) -> None:
    machine.script(Reply(calls=(Call("ticket", {"number": 4711}),)), DONE)
    async with machine.agent(tools=[ticket], mode="plan") as agent:
        result = await agent.run("go")
    assert results(machine) == ["bug 4711: the door squeaks"] and result.denied == ()
    assert {"read_file", "ticket"} <= set(machine.tools())


async def test_any_other_tool_asks_and_its_value_is_given_as_json(machine: Machine) -> None:
    call = Reply(calls=(Call("move", {"points": [{"x": 1}], "by": 2}),))
    machine.script(call, DONE, call, DONE)
    async with machine.agent(tools=[move], mode="ask") as agent:
        result = await agent.run("go")
        assert [each.tool for each in result.denied] == ["move"]
    async with machine.agent(tools=[move], mode="ask", approve=lambda call: Allow()) as agent:
        assert (await agent.run("go")).denied == ()
    assert '{"moved":[3]}' in results(machine)[0]


async def test_what_a_tool_raises_and_wrong_arguments_are_errors_for_the_model(machine: Machine) -> None:
    machine.script(Reply(calls=(Call("broken", {}), Call("ticket", {"number": "many"}))), DONE)
    async with machine.agent(tools=[broken, ticket]) as agent:
        result = await agent.run("go")
    down, wrong = results(machine)
    assert "the tracker is down" in down and "number" in wrong and result.stop_reason == "end_turn"


@tool(reads=True)
def nothing_found() -> str:
    """Search."""
    return next(iter(()))


@tool(reads=True)
async def cancelled_by_itself() -> str:
    """Wait for work that was given up."""
    work = asyncio.ensure_future(asyncio.sleep(60))
    work.cancel()
    await work
    return ""


@tool(reads=True)
def parsed() -> str:
    """Read arguments."""
    argparse.ArgumentParser().parse_args(["--unknown"])
    return ""


async def test_exceptions_that_steer_python_are_errors_for_the_model_too(machine: Machine) -> None:
    machine.script(
        Reply(calls=(Call("nothing_found", {}), Call("cancelled_by_itself", {}), Call("parsed", {}))), DONE
    )
    async with machine.agent(tools=[nothing_found, cancelled_by_itself, parsed], timeout=30) as agent:
        result = await agent.run("go")
    assert (result.stop_reason, result.text) == ("end_turn", "done")
    first, second, third = results(machine)
    assert "StopIteration" in first and "CancelledError" in second and "SystemExit: 2" in third


async def test_a_tool_is_still_a_function() -> None:
    assert await ticket(1, kind="wish") == "wish 1: the door squeaks"


def test_what_cannot_be_a_tool_is_misuse() -> None:
    with pytest.raises(AgentError, match="docstring"):

        @tool
        def silent() -> None: ...

    with pytest.raises(AgentError, match="has no type"):

        @tool
        def untyped(what) -> None:  # type: ignore[no-untyped-def]
            """Do it."""

    with pytest.raises(AgentError, match="by name"):

        @tool
        def many(*what: str) -> None:
            """Do it."""

    with pytest.raises(AgentError, match="generator"):

        @tool
        def lines(path: str) -> Iterator[str]:
            """Do it."""
            yield path

    for nameless in (functools.partial(print, sep=""), "print", None):
        with pytest.raises(AgentError, match="a tool is a function"):
            tool()(nameless)  # type: ignore[arg-type]


async def test_a_decorated_async_function_is_awaited(machine: Machine) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any, **named: Any) -> Any:
            return function(*args, **named)

        return inner

    @tool(reads=True)
    @logged
    async def ticket(number: int) -> str:
        """A ticket."""
        await asyncio.sleep(0)
        return f"ticket {number}"

    def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any, **named: Any) -> Any:
            return asyncio.run(function(*args, **named))

        return inner

    @tool(reads=True)
    @waiting
    async def door(number: int) -> str:
        """A door."""
        await asyncio.sleep(0)
        return f"door {number}"

    calls = (Call("ticket", {"number": 7}), Call("door", {"number": 8}))
    machine.script(Reply(calls=calls), Reply(text="done"))
    async with machine.agent(tools=[ticket, door]) as agent:
        await agent.run("go")
    first, second = [each["content"] for each in machine.server.requests[-1].body["messages"][-2:]]
    assert "ticket 7" in first and "door 8" in second


async def test_a_value_with_half_a_character_is_given_as_json(machine: Machine) -> None:
    @tool(reads=True)
    def names() -> list[str]:
        """File names."""
        return ["a\udcff"]

    machine.script(Reply(calls=(Call("names"),)), Reply(text="done"))
    async with machine.agent(tools=[names]) as agent:
        await agent.run("go")
    assert '["a\\udcff"]' in machine.server.requests[-1].body["messages"][-1]["content"]


async def test_names_and_types_that_cannot_be_are_misuse(machine: Machine) -> None:
    @tool(name="read_file")
    def taken() -> None:
        """Do it."""

    @tool
    def mapping(what: dict[str, int]) -> None:
        """Do it."""

    for wrong in (taken, mapping):
        with pytest.raises(AgentError):
            await machine.agent(tools=[wrong]).__aenter__()


async def test_a_call_that_changes_a_default_leaves_it_for_the_next(machine: Machine) -> None:
    @tool(reads=True)
    def collect(names: list[str] = ["a"], at: Point = Point(1)) -> str:  # noqa: B006, B008
        """Collect names."""
        names.append("b")
        at.x += 1
        return f"{names} {at.x}"

    machine.script(Reply(calls=(Call("collect", {}),)), Reply(calls=(Call("collect", {}),)), DONE)
    async with machine.agent(tools=[collect]) as agent:
        await agent.run("go")
    assert results(machine) == ["['a', 'b'] 2"] * 2

"""A search shows what is needed to call a tool, and never floods the context; `call_tool` calls what was found."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.mcp.catalog.offer_store import OfferStore
from agent_cli.mcp.catalog.tool_selection import entries
from agent_cli.mcp.servers import Servers
from agent_cli.mcp.tools.find_tools import CallTool, FindParams, FindTools
from agent_cli.mcp.types.offer import ToolDefinition
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.kit.output import MAX_RESULT_TOKENS, result_tokens
from agent_cli.tools.new_context import new_context
from agent_cli.tools.registry import Registry
from agent_cli.workspace.paths import Workspace
from tests.mcp.catalog.realistic import servers as realistic
from tests.mcp.known import defined, known_servers, unreachable
from tests.rows import each_row


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    yield new_context(Workspace(tmp_path), ProcessRunner(), tmp_path / "spill", call_id="c")


async def learn_nothing() -> tuple[str, ...]:
    return ()


def finder(tools: Sequence[ToolDefinition]) -> FindTools:
    return FindTools({}, lambda name: "", lambda: entries("demo", tools), learn_nothing)


async def found(tools: Sequence[ToolDefinition], context: ToolContext, query: str, limit: int = 8) -> str:
    return (await finder(tools).run(FindParams(query, limit), context)).text


@pytest.mark.parametrize("is_visible", [False, True])
async def test_what_a_server_says_is_not_repeated_while_the_model_sees_it(
    context: ToolContext, is_visible: bool
) -> None:
    tools = [ToolDefinition("send", description="Send a message.", input_schema={})]
    search = FindTools({}, lambda name: "Look first.", lambda: entries("demo", tools), learn_nothing)
    seen: list[str] = []
    context = msgspec.structs.replace(context, is_visible=lambda text: seen.append(text) is None and is_visible)
    texts = [(await search.run(FindParams("send"), context)).text for _ in range(2)]
    assert ["Look first." in text for text in texts] == [not is_visible] * 2
    assert seen == ['<server name="demo">\nLook first.\n</server>'] * 2


def with_schema(name: str, properties: int) -> ToolDefinition:
    schema = {f"parameter_{at}": {"type": "string", "description": "Words. " * 10} for at in range(properties)}
    return ToolDefinition(
        name, description=f"Search things. {'More words. ' * 200}", input_schema={"properties": schema}
    )


async def test_a_result_holds_name_description_and_parameters(context: ToolContext) -> None:
    tool = ToolDefinition(
        "send", description="Send a message.", input_schema={"properties": {"to": {"type": "string"}}}
    )
    other = ToolDefinition("messages", description="List messages.")
    text = await found([other, tool], context, "post message")
    assert text.startswith("mcp__demo__send\nSend a message.\nparameters: ")
    assert '{"properties":{"to":{"type":"string"}},"type":"object"}' in text
    assert "mcp__demo__messages" in text


async def test_many_large_tools_do_not_flood_the_context(context: ToolContext) -> None:
    tools = [with_schema(f"search_{at}", 20) for at in range(40)]
    text = await found(tools, context, "search", limit=20)
    assert text.count("\nparameters: ") == 20 and result_tokens(text) < MAX_RESULT_TOKENS
    assert text.count("parameter_19") >= 3
    assert "too long to list; find_tools with the query mcp__demo__search_" in text


async def test_a_name_in_full_shows_the_tool_whole(context: ToolContext) -> None:
    tools = [with_schema("search", 100), with_schema("search_more", 2)]
    text = await found(tools, context, " mcp__demo__search ")
    assert "parameter_99" in text and text.endswith("}") and text.count("More words.") == 200
    assert "search_more" not in text


async def test_invisible_characters_are_written_out(context: ToolContext) -> None:
    schema = {"properties": {"a": {"description": "x\u200by"}}}
    text = await found(
        [ToolDefinition("a", description="Hi\u202e\x07", input_schema=schema)], context, "mcp__demo__a"
    )
    assert "⟨U+202E⟩" in text and "^G" in text and "x⟨U+200B⟩y" in text


async def test_nothing_found_says_so_with_what_is_wrong(context: ToolContext) -> None:
    async def learn() -> tuple[str, ...]:
        return ("The MCP server other did not start.",)

    tool = FindTools({}, lambda name: "", lambda: entries("demo", [ToolDefinition("echo")]), learn)
    text = (await tool.run(FindParams("quantum"), context)).text
    assert text.startswith("None of 1 tools fits.") and "other did not start" in text


async def test_a_search_sees_what_has_connected_since(context: ToolContext) -> None:
    tools = [ToolDefinition("echo")]
    finding = finder(tools)
    assert "mcp__demo__later" not in (await finding.run(FindParams("later"), context)).text
    tools.append(ToolDefinition("later"))
    assert "mcp__demo__later" in (await finding.run(FindParams("later"), context)).text


async def test_ten_thousand_tools_are_searched(context: ToolContext) -> None:
    tools = [ToolDefinition(f"tool_{at}", description="Does something.") for at in range(10_000)]
    tools.append(ToolDefinition("send_invoice", description="Send an invoice to a customer."))
    text = await found(tools, context, "bill the client")
    assert text.startswith("mcp__demo__send_invoice")


@pytest.mark.parametrize(
    "written",
    [
        {"name": "mcp__github__get_issue", "arguments": {"owner": "o"}},
        {"name": "mcp__github__get_issue", "arguments": '{"owner": "o"}'},
        {"name": "mcp__github__get_issue", "owner": "o"},
    ],
)
def test_a_call_is_that_of_the_tool_it_names(tmp_path: Path, written: dict[str, Any]) -> None:
    servers = known_servers(tmp_path, realistic())
    call = CallTool(servers.find, servers.unknown)
    tool, params = call.meant_call(call.read_arguments(written))
    assert tool.name == "mcp__github__get_issue" and params.values == {"owner": "o"}


@each_row(
    ("written", "said"),
    [
        ({}, "needs `name`"),
        ({"name": 3}, "needs `name`"),
        ({"name": "x", "arguments": [1]}, "must be an object"),
        ({"name": "x", "arguments": "{"}, "not a JSON object"),
        ({"name": "mcp__github__get_isue"}, "Did you mean mcp__github__get_issue"),
        ({"name": "read_file"}, "no tool named 'read_file'"),
    ],
)
def test_a_wrong_call_is_answered_in_words(tmp_path: Path, written: dict[str, Any], said: str) -> None:
    servers = known_servers(tmp_path, realistic())
    call = CallTool(servers.find, servers.unknown)
    with pytest.raises(ToolError, match="Nothing was run") as raised:
        call.meant_call(call.read_arguments(written))
    assert said in str(raised.value)


def test_a_tool_that_was_found_can_be_called_by_its_own_name(tmp_path: Path) -> None:
    servers = known_servers(tmp_path, realistic())
    registry = Registry(()).extended(servers.offered_tools(1_000), servers.find)
    tool, params = registry.parse("mcp__linear__list_teams", "{}")
    assert tool.name == "mcp__linear__list_teams" and params.values == {}


async def test_of_a_server_that_did_not_start_the_cause_is_said(tmp_path: Path) -> None:
    servers = Servers([defined("demo")], OfferStore(tmp_path), unreachable, ())
    assert "Call find_tools: it starts it" in servers.unknown("mcp__demo__echo")
    await servers.learn()
    assert servers.unknown("mcp__demo__echo") == "demo is not there"
    await servers.aclose()

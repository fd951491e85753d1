"""The right tool is found in one step among hundreds, whatever words it is asked for in."""

import pytest

from agent_cli.mcp.catalog.search import ToolIndex
from agent_cli.mcp.catalog.tool_selection import entries
from agent_cli.mcp.tools.find_tools import FindParams
from agent_cli.mcp.types.offer import Entry, ToolDefinition

from .realistic import questions, servers

LIMIT = FindParams("").limit


def all_entries() -> list[Entry]:
    return [entry for server, tools in servers().items() for entry in entries(server, tools)]


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return ToolIndex(all_entries())


def found(index: ToolIndex, query: str, limit: int = LIMIT) -> list[str]:
    return [f"{entry.server}/{entry.tool.name}" for entry in index.find(query, limit)]


@pytest.mark.parametrize(
    ("file", "count", "least_found", "least_first"),
    [("questions.tsv", 100, 95, 65), ("questions_held_out.tsv", 30, 27, 15)],
)
def test_the_right_tool_is_among_the_results(
    index: ToolIndex, file: str, count: int, least_found: int, least_first: int
) -> None:
    asked = questions(file)
    known = {f"{entry.server}/{entry.tool.name}" for entry in all_entries()}
    assert len(asked) == len({question for _, question in asked}) == count
    assert len(known) >= 200 and {target for target, _ in asked} <= known
    results = [(target, question, found(index, question)) for target, question in asked]
    missed = [(target, question) for target, question, names in results if target not in names]
    first = sum(names[:1] == [target] for target, _, names in results)
    assert count - len(missed) >= least_found, missed
    assert first >= least_first


def test_a_name_in_full_is_first(index: ToolIndex) -> None:
    for entry in all_entries():
        assert index.find(entry.name, 1) == [entry]


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("craete isue on github", "github/create_issue"),
        ("refnd a payment", "stripe/create_refund"),
        ("spredsheet rows", "gdrive/append_sheet_rows"),
        ("screnshot", "browser/browser_take_screenshot"),
    ],
)
def test_misspelt_words_are_understood(index: ToolIndex, query: str, target: str) -> None:
    assert target in found(index, query)


def test_the_order_of_the_tools_does_not_matter(index: ToolIndex) -> None:
    backwards = ToolIndex(all_entries()[::-1])
    for _, question in questions("questions.tsv"):
        assert found(backwards, question) == found(index, question)


def test_odd_queries_and_tools_do_no_harm(index: ToolIndex) -> None:
    for query in ("", "   ", "the of and", "🙂", "\u200b", "x" * 10_000, "(.*[", "12345", "\ud800"):
        assert len(index.find(query, LIMIT)) <= LIMIT
    for query in ("anything", "send a message", "mesage"):  # words with synonyms that no tool has
        assert ToolIndex([]).find(query, LIMIT) == []
    odd = [
        ToolDefinition(""),
        ToolDefinition("🙂", description="\ud800"),
        ToolDefinition("x" * 200, input_schema={"properties": {"a": None, "b": {"description": 3}}}),
        ToolDefinition("y", input_schema={"properties": []}),
    ]
    assert len(ToolIndex(entries("odd", odd)).find("odd", LIMIT)) == 4
    assert [entry.tool.name for entry in ToolIndex(entries("odd", odd)).find("🙂", LIMIT)][:1] == ["🙂"]


def test_words_of_other_languages_are_found() -> None:
    tools = [ToolDefinition("wetter", description="Wettervorhersage für eine Stadt"), ToolDefinition("other")]
    assert [entry.tool.name for entry in ToolIndex(entries("s", tools)).find("für", LIMIT)] == ["wetter"]
    tools = [ToolDefinition("a", description="查询天气"), ToolDefinition("b", description="发送邮件")]
    assert [entry.tool.name for entry in ToolIndex(entries("s", tools)).find("天气", LIMIT)] == ["a"]

"""Reading an earlier result again."""

import pytest

from agent_cli.tools.base import ToolContext, ToolError

from .calls import call


async def test_a_long_result_comes_in_pages_that_say_how_to_go_on(context: ToolContext) -> None:
    whole = [f"line {n}" for n in range(1, 9001)]
    context.recall = {"call_7": "\n".join(whole)}.get
    got: list[str] = []
    offset = 1
    while True:
        text = (await call(context, "recall", id="call_7", offset=offset)).text
        *lines, note = text.split("\n")
        got += lines
        assert len(text) < 31_000 and f"Lines {offset}-{len(got)} of 9000" in note
        if "To go on" not in note:
            break
        offset = len(got) + 1
        assert f'recall {{"id":"call_7","offset":{offset}}}' in note
    assert got == whole


async def test_one_endless_line_costs_a_page_at_most(context: ToolContext) -> None:
    context.recall = {"c": "x" * 1_000_000}.get
    text = (await call(context, "recall", id="c")).text
    assert len(text) < 31_000 and "characters left out" in text


async def test_an_unknown_call_and_a_line_beyond_the_end_are_told(context: ToolContext) -> None:
    context.recall = {"c": "a\nb"}.get
    with pytest.raises(ToolError, match="no earlier call with the id 'd'"):
        await call(context, "recall", id="d")
    with pytest.raises(ToolError, match="has 2 lines; there is no line 9"):
        await call(context, "recall", id="c", offset=9)

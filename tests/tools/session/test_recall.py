"""Reading an earlier result again."""

import json
from pathlib import Path

import msgspec
import pytest

from agent_cli.engine.context.recall_results import recall_text, truncate_result
from agent_cli.protocol.messages import ToolResult
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.kit.output import result_tokens
from tests.tools.calls import call


async def test_a_long_result_comes_in_pages_that_say_how_to_go_on(context: ToolContext) -> None:
    whole = [f"line {n}" for n in range(1, 9001)]
    context = msgspec.structs.replace(context, recall={"call_7": ("\n".join(whole), "")}.get)
    got: list[str] = []
    offset = 1
    while True:
        text = (await call(context, "recall", id="call_7", offset=offset)).text
        *lines, note = text.split("\n")
        got += lines
        assert result_tokens(text) <= 12_500 and f"Lines {offset}-{len(got)} of 9000" in note
        if "To continue" not in note:
            break
        offset = len(got) + 1
        assert f'recall {{"id":"call_7","offset":{offset}}}' in note
    assert got == whole


@pytest.mark.parametrize("max_tokens", [12_500, 1_300, 300])
async def test_following_the_notes_gives_every_character_once(context: ToolContext, max_tokens: int) -> None:
    whole = "\n".join([*(f"line {n} {'漢字' * 20}" for n in range(300)), "", "é" * 5_000, "x" * 9_000, "the end"])
    context = msgspec.structs.replace(context, recall={"c": (whole, "")}.get)
    context = msgspec.structs.replace(context, max_tokens=lambda: max_tokens)
    got, arguments = "", {"id": "c"}
    for _ in range(400):
        text = (await call(context, "recall", **arguments)).text
        assert result_tokens(text) <= max_tokens
        shown, _, note = text.rpartition("\n")
        got += shown
        if "To continue" not in note:
            break
        arguments = json.loads(note.partition("To continue: recall ")[2].removesuffix("]"))
        got += "" if "column" in arguments else "\n"
    assert got == whole


async def test_a_part_of_a_line_can_be_named(context: ToolContext) -> None:
    context = msgspec.structs.replace(context, recall={"c": ("abc\ndefgh\nij", "")}.get)
    text = (await call(context, "recall", id="c", offset=2, column=3)).text
    call_again = 'recall {"id":"c","offset":3}'
    assert text == f"fgh\n[Line 2 of 3, characters 3-5 of 5. To continue: {call_again}]"
    with pytest.raises(ToolError, match="has 5 characters; there is none at 6"):
        await call(context, "recall", id="c", offset=2, column=6)


async def test_some_lines_can_be_asked_for_and_are_called_old(context: ToolContext) -> None:
    context = msgspec.structs.replace(context, recall={"c": ("a\nb\nc\nd", "")}.get)
    text = (await call(context, "recall", id="c", offset=2, limit=2)).text
    assert text == 'b\nc\n[Lines 2-3 of 4, as it was then. To continue: recall {"id":"c","offset":4}]'
    text = (await call(context, "recall", id="c", offset=-3, limit=2)).text
    assert text.startswith("b\nc\n[Lines 2-3 of 4")


async def test_an_unknown_call_and_a_line_beyond_the_end_are_told(context: ToolContext) -> None:
    context = msgspec.structs.replace(context, recall={"c": ("a\nb", "")}.get)
    with pytest.raises(ToolError, match="no earlier call or message with the id 'd'"):
        await call(context, "recall", id="d")
    with pytest.raises(ToolError, match="has 2 lines; there is no line 9"):
        await call(context, "recall", id="c", offset=9)


def test_what_is_left_of_a_result_whose_whole_is_gone_says_so(context: ToolContext, tmp_path: Path) -> None:
    long, short = "".join(f"line {n}\n" for n in range(20_000)), "all of it\n"
    results = [
        ToolResult(
            id=f"r{n}", call_id=f"c{n}", tool="shell", status="ok", text=truncate_result(text, context, f"c{n}")
        )
        for n, text in enumerate((long, short))
    ]
    assert recall_text(results, context.spill_dir, "c0") == (long, "")
    left, _ = recall_text(results, tmp_path / "another session", "c0") or ("", "")
    assert left.startswith("[The full result is no longer stored") and "line 0\n" in left
    assert recall_text(results, tmp_path / "another session", "c1") == (short, "")

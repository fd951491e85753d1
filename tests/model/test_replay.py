import asyncio
from pathlib import Path

import pytest

from agent_cli.model.assemble import Assembler
from agent_cli.model.replay import ReplayModel
from agent_cli.model.types.base import Answer, ModelError, ModelRequest, TextPiece
from agent_cli.protocol.messages import AssistantMessage, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, Header, ModelCalled, encode
from agent_cli.protocol.usage import Usage

ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="anything"),))
CALL = ToolCall("c1", "read", '{"path": "a"}')
RECORDS: tuple[AnyRecord, ...] = (
    Header(id="h", version=1, session_id="s", cwd="/", model="m", mode="ask", created_by="t"),
    UserMessage(id="u1", text="look"),
    ModelCalled(id="m0", kind="main", model="m", outcome="server"),
    ModelCalled(id="m1", kind="main", model="m", outcome="tool_calls", usage=Usage(input=5, output=2)),
    AssistantMessage(
        id="a1",
        text="I will  look.\n",
        reasoning=(Reasoning("let me", "sig", "p"),),
        calls=(CALL,),
        finish="tool_calls",
    ),
    ToolResult(id="r1", call_id="c1", tool="read", status="ok", text="x"),
    ModelCalled(id="m2", kind="summary", model="m", outcome="stop", usage=Usage(input=99)),
    ModelCalled(id="m3", kind="main", model="m", outcome="stop"),
    AssistantMessage(id="a2", text="Done."),
    ModelCalled(id="m4", kind="limit", model="m", outcome="stop"),
    AssistantMessage(id="a3", text="I had to stop."),
    AssistantMessage(id="a4", text="cut", finish="interrupted"),
)


def write(path: Path, records: tuple[AnyRecord, ...] = RECORDS, tail: bytes = b"\n]\n") -> Path:
    path.write_bytes(b"[\n" + b",\n".join(encode(record) for record in records) + tail)
    return path


async def answer(model: ReplayModel) -> Answer:
    assembler = Assembler()
    async for event in model.stream(ASK):
        assembler.feed(event)
    return assembler.answer()


async def test_recorded_answers_are_given_in_order(tmp_path: Path) -> None:
    model = ReplayModel.open(write(tmp_path / "s.json"))
    assert model.info.name == f"replay/{tmp_path}/s.json"
    assert await answer(model) == Answer(
        text="I will  look.\n",
        reasoning=(Reasoning("let me", "sig", "p"),),
        calls=(CALL,),
        usage=Usage(input=5, output=2),
        finish="tool_calls",
        raw_finish="tool_calls",
    )
    assert await answer(model) == Answer(text="Done.", finish="stop", raw_finish="stop")
    assert await answer(model) == Answer(text="cut", finish="stop", raw_finish="stop")
    with pytest.raises(ModelError, match="holds 3 answers") as caught:
        await answer(model)
    assert caught.value.kind == "bad_request"
    await model.aclose()


async def test_torn_and_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", RECORDS[:5], tail=b',\nnot json,\n{"type":"assistant","id":"a2","te')
    model = ReplayModel.open(path)
    assert (await answer(model)).calls == (CALL,)
    with pytest.raises(ModelError, match="holds 1 answers"):
        await answer(model)


async def test_text_comes_in_small_pieces_with_a_delay_if_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", (AssistantMessage(id="a", text="one two  three\n\nfour"),))
    model = ReplayModel.open(path, "replay/x", delay_s=0.02)
    pieces = [event.text async for event in model.stream(ASK) if isinstance(event, TextPiece)]
    assert pieces == ["one ", "two  ", "three\n\n", "four"]
    slow = asyncio.ensure_future(anext(aiter(ReplayModel.open(path, "replay/x", delay_s=600).stream(ASK))))
    done, _ = await asyncio.wait({slow}, timeout=0.05)
    assert not done, "a piece waits for its delay"
    slow.cancel()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        ReplayModel.open(tmp_path / "none.json")

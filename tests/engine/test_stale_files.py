"""A refusal that has shown the present content counts as a read, whichever step of the road refused."""

from pathlib import Path

import pytest

from agent_cli.protocol.events import ToolCallFinished
from agent_cli.protocol.messages import ToolResult
from tests.engine.harness import approve_all, engine
from tests.model.scripted import Reply, call, say


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
async def test_a_write_over_a_formatted_file_succeeds_at_the_second_try(tmp_path: Path, mode: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "f").write_text("x=1\ny=2\n", encoding="utf-8")

    def reformatted(request: object) -> Reply:
        (root / "f").write_text("x = 1\ny = 2\n", encoding="utf-8")
        return say(call("write_file", path="f", content="x=1\ny=3\n"))

    script = [
        say(call("read_file", path="f")),
        reformatted,
        say(call("write_file", path="f", content="x = 1\ny = 3\n")),
    ]
    async with engine(tmp_path, *script, say("done"), mode=mode) as it:
        it.answer = approve_all
        await it.prompt("go")
        assert [event.status for event in it.of(ToolCallFinished)] == ["ok", "failed", "ok"]
        assert (root / "f").read_text(encoding="utf-8") == "x = 1\ny = 3\n"
        failed = [
            record for record in it.session.records if isinstance(record, ToolResult) and record.status == "failed"
        ]
        assert failed[0].seen, "what a resumed session knows"

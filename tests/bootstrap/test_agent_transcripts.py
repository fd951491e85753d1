"""The session of a sub-agent that goes on, read as the events of its turns."""

from pathlib import Path

from agent_cli.bootstrap.agent_transcripts import agent_transcript
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AgentStateChanged, AnyRecord, Header
from agent_cli.redaction.redactor import Redactor
from agent_cli.store.session_file import write_session
from agent_cli.tools.registry import default_registry


def test_a_session_that_goes_on_is_read_so_far_with_secrets_masked(tmp_path: Path) -> None:
    secret = "s3cr3t-v4lue-0815"
    records: list[AnyRecord] = [
        Header(
            id="h",
            version=FORMAT_VERSION,
            session_id="1a2b",
            cwd="/w",
            model="m",
            mode="plan",
            created_by="agent-cli",
        ),
        AgentStateChanged(id="n", state="running", task="find it"),
        UserMessage(id="u1", turn_id="t1", text="find it"),
        AssistantMessage(
            id="a1", turn_id="t1", text="I look.", calls=(ToolCall("c1", "read_file", '{"path": "a.py"}'),)
        ),
        ToolResult(id="r1", turn_id="t1", call_id="c1", tool="read_file", status="ok", text=f"key {secret}"),
    ]
    path = tmp_path / "1a2b.jsonl"
    write_session(path, records)
    with path.open("ab") as file:
        file.write(b'{"type": "assistant", "id": "a2", "te')  # what is being written
    found = agent_transcript(path, default_registry(), Redactor({"KEY": secret}))
    (turn,) = found.turns
    assert found.count == 1
    assert [type(event) for event in turn] == [
        ev.TurnStarted, ev.TextDelta, ev.AnswerCompleted, ev.ToolCallFinished,
    ]  # fmt: skip
    read = turn[-1]
    assert isinstance(read, ev.ToolCallFinished)
    assert (read.label, read.title, read.text) == ("Read", "a.py", "key [masked: KEY]")

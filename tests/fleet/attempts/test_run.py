"""An attempt's agent: what it gets, what is read of it, and what is left of its state."""

import os
import tracemalloc
from pathlib import Path

import pytest

from agent_cli.config.dirs import unsent_traces_dir
from agent_cli.fleet.attempts.agent_process import AgentOutput, AgentProcess
from agent_cli.fleet.attempts.run import save_session
from agent_cli.sandbox.process.runner import ProcessRunner


def test_traces_that_were_not_sent_outlive_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_STATE_DIR", str(tmp_path / "users"))
    state = tmp_path / "batch" / "state" / "task-1"
    unsent_traces_dir(state).mkdir(parents=True)
    (unsent_traces_dir(state) / "s1.jsonl").write_text("{}\n", encoding="utf-8")
    save_session(state, tmp_path)
    (kept,) = unsent_traces_dir(tmp_path / "users").iterdir()
    assert kept.name == "s1.jsonl" and not state.exists()


def test_without_any_no_folder_is_made_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_STATE_DIR", str(tmp_path / "users"))
    state = tmp_path / "batch" / "state" / "task-1"
    state.mkdir(parents=True)
    save_session(state, tmp_path)
    assert not state.exists() and not (tmp_path / "users").exists()


def test_a_line_that_does_not_end_takes_bounded_memory_and_hides_no_result() -> None:
    output = AgentOutput(lambda line: None)
    piece = b"x" * 1_000_000
    tracemalloc.start()
    try:
        for _ in range(200):
            output.feed(piece)
        assert tracemalloc.get_traced_memory()[0] < 100_000_000
    finally:
        tracemalloc.stop()
    output.feed(b'\n{"type":"result","exit_code":0}\n')
    assert output.result == b'{"type":"result","exit_code":0}'


async def test_an_agent_that_is_slow_to_start_gets_its_whole_prompt(tmp_path: Path) -> None:
    """As on a machine that starts fifty of them at once."""
    runner, go, prompt = ProcessRunner(), tmp_path / "go", "word " * 60_000
    try:
        agent = await AgentProcess.start(
            runner, ["sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; cat >{tmp_path}/got"], cwd=tmp_path,
            env=os.environ, prompt=prompt, output=AgentOutput(lambda line: None), log_file=tmp_path / "log",
        )  # fmt: skip
        go.touch()
        assert await agent.ended(60, 1)
        agent.close()
    finally:
        await runner.aclose()
    assert (tmp_path / "got").read_text(encoding="utf-8") == prompt

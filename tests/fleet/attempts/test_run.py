"""What an attempt leaves of its agent's state."""

from pathlib import Path

import pytest

from agent_cli.config.dirs import unsent_traces_dir
from agent_cli.fleet.attempts.run import save_session


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

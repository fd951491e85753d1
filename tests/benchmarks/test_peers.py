"""`make bench-peers` measures what runs, names what is missing, and writes no figure that it has not measured."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import peer_settings
from benchmarks.peer_settings import PEERS, Program
from benchmarks.peers import BEGIN, END, Row, table, with_figures
from tests.rows import each_row

ROOT = Path(__file__).parents[2]


def run(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PATH": path, "BENCH_IN_NAMESPACE": "1"}
    command = [sys.executable, "-m", "benchmarks.peers", "--rounds", "1", "--calls", "6", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


@each_row("name", PEERS)
def test_settings_name_the_server_and_nothing_else(name: str, tmp_path: Path) -> None:
    program = PEERS[name](1234)
    env = program.prepare(tmp_path)
    written = "".join(
        path.read_text(encoding="utf-8") for path in (tmp_path / "home").rglob("*") if path.is_file()
    )
    settings = json.dumps(env) + written
    assert program.argv[0] == name
    assert "http://127.0.0.1:1234" in settings
    assert settings.count("http") == settings.count("http://127.0.0.1:1234")
    assert env["HOME"].startswith(str(tmp_path))


@each_row("name", PEERS)
def test_settings_are_valid_in_their_format(name: str) -> None:
    for path, text in PEERS[name](1).files.items():
        assert tomllib.loads(text) if path.endswith(".toml") else json.loads(text)


def test_the_agent_and_the_floor_are_measured_and_missing_peers_named(tmp_path: Path) -> None:
    (tmp_path / "pi").symlink_to("/bin/false")
    done = run(path=f"{tmp_path}:{os.environ['PATH']}")
    rows = [line.split(" | ")[0] for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows[1:3] == ["| bare Python loop", "| agent, sandbox off"], done.stdout + done.stderr
    assert "pi: not measured: it ended with 1" in done.stdout
    assert [f"{name}: not found" in done.stdout for name in PEERS] == [
        name not in peer_settings.found() and name != "pi" for name in PEERS
    ]
    assert done.returncode == 1


def test_a_program_that_failed_has_no_row() -> None:
    text = table([Row("codex", {}, "it ended with 1")], 1, 6)
    assert "codex" not in text.partition("\n\n")[0]


def test_only_what_is_between_the_marks_is_replaced() -> None:
    assert with_figures(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    with pytest.raises(ValueError, match="no marks"):
        with_figures("nothing here", "new")


def test_a_program_gets_a_home_of_its_own(tmp_path: Path) -> None:
    env = Program(["x"], {"A": "b"}, {"a/b.json": "{}"}).prepare(tmp_path)
    assert (tmp_path / "home" / "a" / "b.json").read_text(encoding="utf-8") == "{}"
    assert (tmp_path / "work").is_dir() and env["A"] == "b" and env["HOME"] == str(tmp_path / "home")

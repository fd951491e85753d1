import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_cli.model.types.base import Memory
from agent_cli.protocol.usage import REFUSABLE, LearnedLimits
from agent_cli.store.state.learned_limits import KEPT_S, LearnedLimitsFile

WINDOW = LearnedLimits(context_window=32_768)
PICTURES = LearnedLimits(refused=("images",), efforts=("low", "high"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "learnt.json"


def test_what_is_learnt_is_known_to_the_next_session(path: Path) -> None:
    memory: Memory = LearnedLimitsFile(path)
    assert memory.recall("ollama/q http://x") == LearnedLimits()
    memory.learn("ollama/q http://x", WINDOW)
    assert LearnedLimitsFile(path).recall("ollama/q http://x") == WINDOW
    assert LearnedLimitsFile(path).recall("ollama/q http://other") == LearnedLimits()


def test_refusals_add_up_and_figures_are_the_newer_ones(path: Path) -> None:
    memory = LearnedLimitsFile(path)
    memory.learn("k", LearnedLimits(context_window=8_000, refused=("effort", "images")))
    memory.learn("k", PICTURES)
    memory.learn("k", WINDOW)
    expected = LearnedLimits(32_768, ("effort", "images"), ("low", "high"))
    assert memory.recall("k") == expected and memory.all() == {"k": expected}


def test_it_is_private_and_one_model_a_line(path: Path) -> None:
    memory = LearnedLimitsFile(path)
    memory.learn("a", WINDOW)
    memory.learn("b", PICTURES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(path.read_text(encoding="utf-8").splitlines()) == 4
    assert {each.name for each in path.parent.iterdir()} == {"learnt.json", "learnt.json.lock"}


def test_what_is_old_is_forgotten(path: Path) -> None:
    then = time.time() - KEPT_S - 1
    LearnedLimitsFile(path, lambda: then).learn("old", WINDOW)
    memory = LearnedLimitsFile(path)
    assert memory.recall("old") == LearnedLimits()
    memory.learn("new", WINDOW)
    assert "old" not in path.read_text(encoding="utf-8")


def test_only_so_many_are_kept_the_newest_ones(path: Path) -> None:
    lines = ",".join(f'"k{at}":{{"at":{time.time() - 1000 + at}}}' for at in range(500))
    path.parent.mkdir()
    path.write_text(f"{{{lines}}}", encoding="utf-8")
    memory = LearnedLimitsFile(path)
    memory.learn("one more", WINDOW)
    kept = memory.all()
    assert len(kept) == 500 and "one more" in kept and "k0" not in kept and "k1" in kept


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x00\xff",
        b"[]",
        b'{"k": 1',
        b'{"k": {"at": "x"}}',
        b'{"k": {"at": 1e999}}',
        b"{}" * 9,
        b'{"\xff": 1}',
    ],
)
def test_a_damaged_file_is_as_good_as_none(path: Path, text: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    memory = LearnedLimitsFile(path)
    assert memory.recall("k") == LearnedLimits()
    memory.learn("k", WINDOW)
    assert memory.recall("k") == WINDOW


def test_a_damaged_entry_costs_only_itself(path: Path) -> None:
    path.parent.mkdir()
    good = f'{{"at":{time.time()},"learnt":{{"context_window":5}}}}'
    path.write_text(f'{{"bad":{{"at":[]}},"good":{good}}}', encoding="utf-8")
    assert LearnedLimitsFile(path).all() == {"good": LearnedLimits(context_window=5)}


def test_what_can_mean_nothing_is_left_out(path: Path) -> None:
    path.parent.mkdir()
    learnt = (
        '{"context_window":-5,"max_output_tokens":0,"refused":["tools","zzz","tools","prefix"],'
        '"efforts":["bogus","high","low"]}'
    )
    huge = '{"context_window":900000000,"max_output_tokens":64000,"efforts":["bogus"]}'
    now = time.time()
    path.write_text(
        f'{{"k":{{"at":{now},"learnt":{learnt}}},"h":{{"at":{now},"learnt":{huge}}}}}', encoding="utf-8"
    )
    memory = LearnedLimitsFile(path)
    assert memory.recall("k") == LearnedLimits(refused=("tools",), efforts=("low", "high"))
    assert memory.recall("h") == LearnedLimits(max_output_tokens=64_000)
    memory.learn("k", WINDOW)
    assert "zzz" not in path.read_text(encoding="utf-8")


def test_nothing_raises_where_nothing_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    memory = LearnedLimitsFile(blocked / "learnt.json")
    memory.learn("k", WINDOW)
    assert memory.recall("k") == LearnedLimits()
    (tmp_path / "folder").mkdir()
    LearnedLimitsFile(tmp_path / "folder").learn("k", WINDOW)
    assert LearnedLimitsFile(tmp_path / "folder").recall("k") == LearnedLimits()
    LearnedLimitsFile(tmp_path / "x" / "l.json").learn("\ud800", WINDOW)


def test_a_lock_that_is_never_given_back_is_not_waited_for(path: Path) -> None:
    path.parent.mkdir()
    lock = os.open(path.with_name("learnt.json.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    LearnedLimitsFile(path).learn("k", WINDOW)
    os.close(lock)
    assert LearnedLimitsFile(path).recall("k") == LearnedLimits()


def test_two_programs_at_once_lose_nothing(path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom agent_cli.store.state.learned_limits import LearnedLimitsFile\n"
        "from agent_cli.protocol.usage import LearnedLimits\nmemory = LearnedLimitsFile(Path(sys.argv[1]))\n"
        "from agent_cli.protocol.usage import REFUSABLE\n"
        "for at, name in enumerate(sorted(REFUSABLE)):\n"
        "    memory.learn(sys.argv[2] + str(at), LearnedLimits(at + 1))\n"
        "    if at % 2 == (sys.argv[2] == 'left'):\n"
        "        memory.learn('both', LearnedLimits(refused=(name,)))\n"
    )
    root = Path(__file__).parents[3]
    programs = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=root) for name in ("left", "right")
    ]
    assert [program.wait(30) for program in programs] == [0, 0]
    kept = LearnedLimitsFile(path).all()
    assert len(kept) == 2 * len(REFUSABLE) + 1 and set(kept["both"].refused) == REFUSABLE


def test_it_can_be_forgotten_on_purpose(path: Path) -> None:
    memory = LearnedLimitsFile(path)
    memory.learn("ollama/q x", WINDOW)
    memory.learn("openai/g y", WINDOW)
    assert memory.forget("ollama/") == ["ollama/q x"]
    assert list(memory.all()) == ["openai/g y"]

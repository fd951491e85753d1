"""`agent demo`, `agent replay`."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from agent_cli.cli.commands.demo.run import PROJECT
from tests.cli.running import said
from tests.e2e.world import Done, World, until
from tests.model.server import Call, Reply

EXAMPLE = Path(__file__).parents[3] / "sessions" / "mended-basket.json"


def test_the_demo_needs_nothing_and_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    nothing = dict.fromkeys(
        ("HOME", "AGENT_STATE_DIR", "AGENT_CONFIG_DIR", "AGENT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
    )
    done = world.run("demo", env={**nothing, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(tmp_path / "xdg")})
    assert (done.code, done.err) == (0, "")
    assert "That was a recording for the model, everything else was real." in done.out
    deadline = time.monotonic() + 30
    while any(temporary.iterdir()) and time.monotonic() < deadline:  # the reaper clears up behind the program
        time.sleep(0.01)
    left = [list(folder.iterdir()) for folder in (temporary, world.work, world.home, world.config)]
    assert left == [[], [], [], []]
    assert not (tmp_path / "xdg").exists() and not world.state.exists()
    assert world.bodies() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_a_signal_ends_leaves_nothing_behind(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    hanging = tmp_path / "bin" / "python3"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\n: > begun\nexec sleep 1000\n")
    hanging.chmod(0o755)
    path = f"{hanging.parent}{os.pathsep}{os.environ['PATH']}"
    running = world.start("demo", env={"TMPDIR": str(temporary), "PATH": path})
    until(lambda: list(temporary.glob("agent-demo-*/basket/begun")))
    running.send_signal(number)
    assert running.wait(60) == 128 + number
    until(lambda: not any(temporary.iterdir()))


def test_the_demo_does_not_care_for_the_users_own_configuration(world: World) -> None:
    (world.config / "config.yaml").write_text(
        "permissions: {deny: [shell, write]}\nlimits: {turns: 1}\n", encoding="utf-8"
    )
    assert world.run("demo").code == 0


def test_the_demo_that_cannot_mend_the_project_says_so(world: World) -> None:
    """Without a Python to run the tests with, the demo is no success."""
    tools = world.home / "bin"
    tools.mkdir()
    for name in ("git", "sh", "bash"):
        (tools / name).symlink_to(shutil.which(name) or name)
    assert world.run("demo", env={"PATH": str(tools)}).code != 0


def test_a_session_is_replayed_with_real_tools_on_a_fresh_copy(world: World) -> None:
    copy = world.work / "basket"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = world.run("replay", str(EXAMPLE), "--cd", str(copy), "--mode", "yolo")
    assert (done.code, done.err) == (0, "")
    assert "all four tests pass." in done.out
    checked = os.spawnve(
        os.P_WAIT, "/bin/sh", ["sh", "-c", f"cd {copy} && python3 -m unittest -q 2>/dev/null"], os.environ
    )
    assert checked == 0, "the files were really changed"
    assert world.bodies() == [] and world.sessions() == []


def test_a_replay_does_nothing_that_the_user_has_not_allowed(world: World) -> None:
    """Anybody may have made the file: without a mode of the user's own it asks, and nobody is there."""
    copy = world.work / "basket"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = (copy / "basket.py").read_bytes()
    done = world.run("replay", str(EXAMPLE), "--cd", str(copy))
    assert done.code == 6 and "--mode" in done.out, done.out
    assert (copy / "basket.py").read_bytes() == before
    (world.config / "config.yaml").write_text("mode: yolo\n", encoding="utf-8")
    assert world.run("replay", str(EXAMPLE), "--cd", str(copy), "--mode", "plan").code == 6
    assert (copy / "basket.py").read_bytes() == before
    done = world.run("replay", str(EXAMPLE), "--cd", str(copy))
    assert done.code == 0 and (copy / "basket.py").read_bytes() != before, done.out


def test_what_was_typed_into_a_turn_is_not_asked_again_on_replay(world: World, tmp_path: Path) -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    turn = lines[2].partition('"turn_id":"')[2].partition('"')[0]
    steer = f'{{"type":"user","id":"msg_steer","seq":99,"turn_id":"{turn}","text":"be quick"}},'
    steered = tmp_path / "steered.json"
    steered.write_text("\n".join([*lines[:10], steer, *lines[10:]]), encoding="utf-8")
    copy = world.work / "basket"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = world.run("replay", str(steered), "--cd", str(copy), "--mode", "yolo")
    assert (done.code, done.out.count("be quick")) == (0, 0), done.out


def test_a_recording_is_a_model_like_any_other(world: World) -> None:
    world.script(Reply(calls=(Call("list_dir", {"path": "."}),)), Reply(text="Nothing here."))
    world.run("run", "look")
    (path,) = world.sessions()
    done = world.run("run", "-m", f"replay/{path}", "--no-session", "anything")
    assert done == Done(0, "Nothing here.\n", done.err)
    assert len(world.bodies()) == 2, "the recording asked no server"


NO_SESSION = (
    "is not a session of agent-cli: it does not begin with a session record. `agent sessions list --all` shows "
    "the sessions there are."
)


def test_what_is_no_session_cannot_be_replayed(world: World) -> None:
    contents = ("", "[]", "{}", "not json", '[\n{"type":"user","id":"m","text":"x"}\n]\n')
    for number, content in enumerate(contents):
        (world.work / f"x{number}.json").write_text(content, encoding="utf-8")
    ends = said(world, *(["replay", f"x{number}.json"] for number in range(len(contents))))
    for number, done in enumerate(ends):
        assert done == Done(2, "", f"agent: x{number}.json {NO_SESSION}\n"), contents[number]

"""Commands that would hang, flood or outlive others: each returns within its bound, the terminal stays as it
was, and nothing is left of them, whatever becomes of the agent."""

import json
import os
import pty
import shutil
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.e2e.world import AGENT, World, finish, shell, until
from tests.model.server import Call, Reply

WAITING = {
    "vim": "vim file",
    "less": "less /etc/passwd",
    "git": "git init -q . && echo x > x && git add x && git -c user.name=a -c user.email=a@b.c commit",
    "ssh": "ssh -o ConnectTimeout=2 newhost.invalid true",
    "python3": "python3",
    "node": "node",
    "npm": "npm init",
    "watch": "watch -n 1 date",
    "top": "top",
    "cat": "cat",
    "bash": 'read -p "Name? " name; echo "[$name]"',
    "tail": "tail -f /etc/passwd",
    "yes": "yes",
    "sh": "cat <<EOF\nno end",
    "sleep": "sleep 999 & echo started",
    "setsid": "setsid sleep 999 >/dev/null 2>&1 & echo daemon",
}
TIMEOUT_S = 1.0
LONG = f"sleep 300.{os.getpid()}"
"""Found by its words: a number of seconds that nobody else on the machine waits."""
HOSTILE = (
    f"{LONG} & nohup {LONG} >/dev/null 2>&1 & "
    f"env -i setsid sh -c '(trap \"\" TERM HUP INT; {LONG}) >/dev/null 2>&1 &' & "
    f"sh -c 'sh -c \"{LONG}\"'"
)


def test_what_waits_for_a_person_floods_or_stays_returns_in_time(world: World) -> None:
    """They would run for minutes, or for ever. All of them as one answer after another, in a real terminal whose modes are read before and after."""
    present = {name: command for name, command in WAITING.items() if shutil.which(name)}
    for command in present.values():
        world.script(Reply(calls=(Call("shell", {"command": command, "timeout_s": TIMEOUT_S}),)))
    world.script(Reply(text="done"))
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [AGENT, "run", "go", "--mode", "yolo", "--output-format", "stream-json"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=world.environment(), cwd=world.work,
        encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    out, _ = process.communicate(timeout=240)
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    events = [json.loads(line) for line in out.splitlines()]
    calls = [event for event in events if event["type"] == "tool_call_finished"]
    assert [call["command"] for call in calls] == list(present.values())
    assert events[-1]["text"] == "done"
    until(lambda: not world.alive())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_nothing_survives_the_end_of_the_agent(world: World, number: signal.Signals) -> None:
    world.script(shell(f"echo begun > begun; {HOSTILE}"))
    process = world.start("run", "go", "--mode", "yolo")
    until(lambda: (world.work / "begun").exists() and len(world.alive()) > 4)
    time.sleep(0.3)
    process.send_signal(number)
    finish(process)
    until(lambda: not world.alive() and not hostile_left(), timeout_s=90.0)


def hostile_left() -> list[str]:
    """Processes of ours that have thrown away their environment."""
    done = subprocess.run(["pgrep", "-f", f"^{LONG}$"], capture_output=True, text=True, timeout=90)
    return done.stdout.split()


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.long)])
def test_many_agents_work_in_one_directory(world: World, count: int) -> None:
    """Each change of one line of a shared file is in the file at the end, or its maker was told that it is not."""
    shared = world.work / "shared.txt"
    shared.write_text("".join(f"line {number:02}\n" for number in range(count)), encoding="utf-8")
    for number in range(count):
        edit = {"old": f"line {number:02}", "new": f"LINE {number:02}"}
        both = (
            Call("edit_file", {"path": "shared.txt", "edits": [edit]}),
            Call("shell", {"command": f"echo {number}"}),
        )
        world.script(Reply(calls=both))
    world.script(*(Reply(text="done") for _ in range(count)))
    arguments = ("run", "go", "--mode", "yolo", "--output-format", "stream-json")
    ends = [finish(agent, timeout_s=60) for agent in [world.start(*arguments) for _ in range(count)]]
    assert [end.code for end in ends] == [0] * count, [end.err for end in ends if end.code]
    finished = [line for end in ends for line in end.lines if line["type"] == "tool_call_finished"]
    edits = [line for line in finished if line["tool"] == "edit_file"]
    assert len(edits) == count
    assert sum(line["tool"] == "shell" and line["status"] == "ok" for line in finished) == count
    text = shared.read_text(encoding="utf-8")
    assert text.count("LINE") == sum(line["status"] == "ok" for line in edits) and len(text) == count * 8
    assert len(world.sessions()) == count


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_temporary_file_outlives_the_agent(world: World, number: signal.Signals, tmp_path: Path) -> None:
    """Killed in the middle of a confined command, with a job beside it."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    world.script(shell("echo kept > /tmp/note; sleep 300 & echo begun > begun; sleep 300"))
    process = world.start("run", "go", "--mode", "auto-edit", env={"TMPDIR": str(scratch)})
    until(lambda: (world.work / "begun").exists())
    assert any(scratch.iterdir())
    process.send_signal(number)
    finish(process)
    until(lambda: not list(scratch.iterdir()))

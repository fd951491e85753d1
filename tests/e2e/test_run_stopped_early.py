"""A run that is stopped before its session is open, at many moments: it says so in its result."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from tests.e2e.world import World, finish, until
from tests.model.server import Reply

AT_A_MOMENT = """
import os, signal, sys
number, moment, seen = int(sys.argv[1]), int(sys.argv[2]), 0
def watch(event, args):
    global seen
    if event in ("import", "open"):
        seen += 1
        if seen == moment:
            os.kill(os.getpid(), number)
from agent_cli import __main__
sys.argv[1:] = sys.argv[3:]
hold = __import__("agent_cli.ui.early_signals", fromlist=["EARLY"]).EARLY.hold
hold()
sys.addaudithook(watch)
__main__.main()
"""
"""Runs the program and sends it a signal at the moment of its n-th import or opened file."""


MOMENTS = (1, 20, 60, 150, 300, 400, 500, 600, 700)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(number, moment, marks=[pytest.mark.long] if (at + late) % 4 else [])
        for at, moment in enumerate(MOMENTS)
        for late, number in enumerate((signal.SIGTERM, signal.SIGINT))
    ],
)
def test_a_signal_at_any_moment_leaves_one_result(world: World, number: signal.Signals, moment: int) -> None:
    world.script(Reply(text="done"))
    world.measured()
    line = [sys.executable, "-c", AT_A_MOMENT, str(int(number)), str(moment)]
    process = subprocess.Popen(
        [*line, "run", "the task", "--output-format", "stream-json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=world.environment(),
        cwd=world.work,
        encoding="utf-8",
    )
    done = finish(process)
    assert [line["type"] for line in done.lines].count("result") == 1, done.err
    assert done.lines[-1]["type"] == "result" and done.result["exit_code"] == done.code
    expected = {signal.SIGTERM: (143, "terminated"), signal.SIGINT: (130, "interrupted")}[number]
    assert (done.code, done.result["stop_reason"]) == expected, done.err


def test_a_signal_while_the_task_is_read_leaves_a_result(world: World) -> None:
    process = world.start("run", "--output-format", "json", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("the beginning of a task " * 8000)  # more than a pipe holds: some of it has been read
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    done = finish(process)
    assert (done.result["stop_reason"], done.result["exit_code"], done.err) == ("terminated", 143, "")


def test_a_signal_while_a_server_is_looked_for_leaves_a_result(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        host = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {"AGENT_MODEL": None, "OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "OLLAMA_HOST": host}
        process = world.start("run", "the task", "--output-format", "json", env=env)
        with silent.accept()[0]:
            process.send_signal(signal.SIGTERM)
            done = finish(process)
    assert (done.code, done.result["stop_reason"]) == (143, "terminated"), done.err


@pytest.mark.parametrize("where", ["stdout", "file", "terminal"])
def test_a_signal_while_nobody_reads_the_result_ends_the_run(world: World, where: str) -> None:
    """More than a pipe holds; with this variable Python itself would lose what the pipe does not take at once."""
    world.script(Reply(text="x" * 300_000))
    pipe = world.home / "pipe"
    os.mkfifo(pipe)
    if where == "terminal":
        reader, writer = os.openpty()
    else:
        reader, writer = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), os.open(pipe, os.O_WRONLY)
    option = ["-o", str(pipe)] if where == "file" else []
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "run", "the task", "--quiet", *option],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if where == "file" else writer,
        stderr=subprocess.PIPE,
        env={**world.environment(), "PYTHONUNBUFFERED": "1"},
        cwd=world.work,
    )
    assert select.select([reader], [], [], 60)[0]
    os.close(writer)
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
        os.close(reader)


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_one_signal_ends_a_run_whose_reader_takes_nothing(world: World, where: str) -> None:
    world.script(Reply(text="x", hang="before_headers"))
    reader, writer = os.openpty() if where == "terminal" else os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "run", "the task", "--quiet", "--output-format", "json"],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=world.environment(),
        cwd=world.work,
    )
    try:
        until(lambda: world.server.requests)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.communicate()
        os.close(writer)
        os.close(reader)

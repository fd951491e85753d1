"""Commands whose output cannot be written: one line and an exit code of the table, in place of a traceback."""

import subprocess
import sys

import pytest

from tests.e2e.world import Done, World, finish


def to(world: World, place: str, unbuffered: str | None, *arguments: str) -> Done:
    line = ("bash", "-c", f'"$@" {place}', "bash")
    return finish(world.start(*arguments, before=line, env={"PYTHONUNBUFFERED": unbuffered}))


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize(
    "arguments",
    ["--version", "--help", "config get mode", "config schema", "help permissions", "sessions list", "models gpt"],
)
def test_a_full_device_is_told_in_one_line(world: World, arguments: str, unbuffered: str | None) -> None:
    done = to(world, ">/dev/full", unbuffered, *arguments.split())
    assert (done.code, done.out) == (1, "")
    assert done.err == "agent: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("arguments", ["config get mode", "config schema", "help permissions", "sessions list"])
def test_a_reader_that_has_left_is_told_nothing(world: World, arguments: str) -> None:
    done = to(world, "| true", None, *arguments.split())
    assert done == Done(0, "", "")


def test_a_complaint_that_cannot_be_written_keeps_its_exit_code(world: World) -> None:
    assert to(world, "2>/dev/full", None, "config", "get", "nope").code == 2


TORN_DOWN = """
import sys, threading
import agent_cli.__main__ as start

class Last:
    def __del__(self):
        print("torn down")

threading.Timer(1.0, print, ["thread"]).start()
sys.modules["last"] = Last()
sys.argv = ["agent", "config", "get", "nope"]
start.main()
"""


def test_the_interpreter_is_left_as_it_is_at_the_end_since_a_thread_may_still_load_modules(world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TORN_DOWN], env=world.environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "thread\n")
    assert done.stderr.startswith("agent: ")

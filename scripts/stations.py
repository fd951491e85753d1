"""Count the files of agent_cli that a typed prompt and an approved command pass.

    python scripts/stations.py            # figures
    python scripts/stations.py --list     # also the files, in the order of their first call
    python scripts/stations.py --check    # also stations of docs/tour.md that were missed or out of order

The real program runs on a terminal of its own, in a throw-away project. Its model is a recording that asks for
one command; the question is answered with `y`. `sys.setprofile` writes down each call of a function of agent_cli
in the main thread. The first window goes from Enter to the first call of the model, the second from the first tool
call to its recorded result. `docs/tour.md` walks the same way.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = f"{ROOT / 'agent_cli'}{os.sep}"
COMMAND = "touch made-by-the-tour"
PARSE = ("policy/shell/parser.py", "parse")
WINDOWS = {
    "typed prompt, until the model is called": (
        ("ui/repl/repl.py", "Repl.send"),
        ("model/replay.py", "ReplayModel.stream"),
    ),
    "approved command, until its result is recorded": (
        ("engine/tool_calls/runner.py", "ToolRunner.run"),
        ("engine/tool_calls/runner.py", "ToolRunner._record"),
    ),
}
"""What is counted → the functions whose first call begins and ends it."""

Call = tuple[str, str, str]
"""A file below agent_cli, a function, and the first argument of a parser's call."""


def record(calls: list[Call]) -> Any:
    """Make a profile function that notes each call of a function of agent_cli."""
    main = threading.main_thread()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and threading.current_thread() is main:
            file = code.co_filename.removeprefix(PACKAGE).replace(os.sep, "/")
            line = str(frame.f_locals.get("line", "")) if (file, code.co_qualname) == PARSE else ""
            calls.append((file, code.co_qualname, line))

    return note


def child(arguments: Sequence[str], target: Path) -> int:
    """Run the program and write its calls to a file."""
    sys.path.insert(0, str(ROOT))
    from agent_cli.cli.main import run

    calls: list[Call] = []
    sys.setprofile(record(calls))
    try:
        return run(arguments)
    finally:
        sys.setprofile(None)
        target.write_text(json.dumps(calls), encoding="utf-8")


def recording(folder: Path) -> Path:
    """Write a session whose two answers are a command and a closing word."""
    sys.path.insert(0, str(ROOT))
    from agent_cli.protocol.messages import AssistantMessage, ToolCall, UserMessage
    from agent_cli.protocol.records import Header, encode

    asked = ToolCall(id="call_1", name="shell", arguments=json.dumps({"command": COMMAND}))
    records = [
        Header(
            id="session_1", version=2, session_id="1", cwd=str(folder), model="replay", mode="ask", created_by=""
        ),
        UserMessage(id="msg_1", turn_id="turn_1", text="go"),
        AssistantMessage(id="msg_2", turn_id="turn_1", text="", model="replay", calls=(asked,)),
        AssistantMessage(id="msg_3", turn_id="turn_1", text="Done.", model="replay"),
    ]
    path = folder / "recording.json"
    path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")
    return path


def watch(folder: Path) -> list[Call]:
    """Drive the program through one prompt and one approved command; return its calls."""
    work, target = folder / "work", folder / "calls.json"
    work.mkdir()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    program = ["-m", f"replay/{recording(folder)}", "--mode", "ask", "--cd", str(work)]
    environment = {
        **os.environ, "HOME": str(folder), "TERM": "xterm-256color", "AGENT_CONFIG_DIR": str(folder / "config"),
        "AGENT_STATE_DIR": str(folder / "state"),
    }  # fmt: skip
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, [sys.executable, __file__, "--child", str(target), *program], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown = Output(terminal)
    shown.until("ask", rest_s=1.0)
    os.write(terminal, b"go on\r")
    shown.until("Yes", rest_s=1.5)
    os.write(terminal, b"y\r")
    shown.until("Done.", rest_s=1.0)
    os.write(terminal, b"\x04")
    shown.drain()
    os.waitpid(process, 0)
    found = json.loads(target.read_text(encoding="utf-8"))
    return [(file, name, line) for file, name, line in found]


class Output:
    """What the program writes to its terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._text = b""

    def until(self, words: str, *, rest_s: float) -> None:
        """Wait for words, and go on reading for a while: a question takes no key in its first half second.

        Raises:
            TimeoutError: they did not come within a minute.
        """
        end = time.monotonic() + 60
        while words.encode() not in self._text:
            self._read(end)
            if time.monotonic() > end:
                raise TimeoutError(f"no {words!r} in: {self._text[-2000:]!r}")
        rest = time.monotonic() + rest_s
        while time.monotonic() < rest:
            self._read(rest)
        self._text = b""

    def _read(self, until: float) -> None:
        if select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))[0]:
            self._text += os.read(self._terminal, 65536)

    def drain(self) -> None:
        """Read until the program has ended."""
        try:
            while os.read(self._terminal, 65536):
                pass
        except OSError:  # Linux says so when the other end is closed
            pass


def window(calls: Sequence[Call], begin: tuple[str, str], end: tuple[str, str]) -> list[Call]:
    """The calls from the first one of a function to the next one of another."""
    first = next(at for at, call in enumerate(calls) if call[:2] == begin)
    last = next(at for at, call in enumerate(calls) if at > first and call[:2] == end)
    return list(calls[first : last + 1])


def files_of(calls: Sequence[Call]) -> list[str]:
    """The files of calls, by first call."""
    return list(dict.fromkeys(file for file, _, _ in calls))


def stations() -> list[tuple[str, str]]:
    """The stations of docs/tour.md: a file and a function each."""
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([\w/.]+)` \| `([\w.]+)` \|", text, re.MULTILINE)


def missed(calls: Sequence[Call]) -> list[tuple[str, str]]:
    """Stations without a call behind that of the station before."""
    at, found = 0, []
    for file, function in stations():
        names = (function, f"{function}.<locals>")
        hit = (
            place
            for place in range(at, len(calls))
            if calls[place][0] == file and calls[place][1].startswith(names)
        )
        if (place := next(hit, None)) is None:
            found.append((file, function))
        else:
            at = place
    return found


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        calls = watch(Path(folder))
    for name, (begin, end) in WINDOWS.items():
        found = window(calls, begin, end)
        files = files_of(found)
        drawing = sum(file.startswith("ui/") for file in files)
        parsed = sum(call[:2] == PARSE and call[2] == COMMAND for call in found)
        print(f"{name}: {len(files)} files, {drawing} of them in ui/; the command is parsed {parsed} times")
        if "--list" in sys.argv:
            print("\n".join(f"  {file}" for file in files))
    if "--check" in sys.argv:
        print(
            "\n".join(f"missed: {file} {function}" for file, function in missed(calls))
            or "all stations are passed"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[3:], Path(sys.argv[2])))
    main()

"""One user's machine for a test: a home, a workspace, a model on loopback, and the real program.

The model is `tests.model.server` in a thread, so that tests may block. Everything a program of a test
starts carries a tag in its environment; the end of a test asserts that nothing with that tag is alive,
that no request broke a rule, and that every session file is valid JSON.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from agent_cli.bootstrap.sandbox_setup import keep
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from tests.model.server import Call, Reply, Server

from . import warm
from .mechanisms import is_filter

AGENT = str(Path(sys.executable).parent / "agent")
MODEL = "openai/mock-model"
TAG = "AGENT_E2E_TAG"
BEGUN = b'[\n{"type":"session"'
"""How every session file begins."""


class Done(NamedTuple):
    """A finished program."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The last line of standard output, which must be a `result`."""
        result = self.lines[-1]
        assert result["type"] == "result", result
        return result


class World:
    """Use as a context manager. `server` answers the model requests of every program started here."""

    def __init__(self, folder: Path) -> None:
        self.work, self.home = folder / "work", folder / "home"
        self.state, self.config = folder / "state", folder / "config"
        for place in (self.work, self.home, self.config):
            place.mkdir()
        self._tmp: Path | None = None
        self.server = Server()
        self.may_refuse = False
        """Set by a test in which the server is meant to answer 400."""
        self._tag = os.urandom(8).hex()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._started: list[subprocess.Popen[str]] = []
        self._is_scripted = False

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.__aenter__(), self._loop).result(60)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        end = time.monotonic() + (10 if kind is None else 0)
        while (
            left := self.alive()
        ) and time.monotonic() < end:  # a helper of a program that was killed ends by itself
            time.sleep(0.01)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if self._tmp:
            shutil.rmtree(self._tmp, ignore_errors=True)
        if kind is None:
            assert not left, f"still alive: {left}"
            self._check()

    def _check(self) -> None:
        complaints = [request.complaint for request in self.server.requests if request.complaint]
        assert not complaints or self.may_refuse, complaints
        for path in self.sessions():
            records = json.loads(path.read_text(encoding="utf-8"))
            assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
            assert path.stat().st_mode & 0o777 == 0o600

    def use_own_tmp(self) -> None:
        """Give the programs a folder for temporary files that goes with this machine: killed ones leave theirs."""
        self._tmp = Path(tempfile.mkdtemp(prefix="w-"))

    def script(self, *replies: Reply) -> None:
        """What the model answers next, in this order."""
        self._is_scripted = True
        self.server.add(*replies)

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """A fresh user's environment; a change to None takes a variable away."""
        env: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HOME": str(self.home),
            "AGENT_STATE_DIR": str(self.state),
            "AGENT_CONFIG_DIR": str(self.config),
            "AGENT_MODEL": MODEL,
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": self.server.url,
            TAG: self._tag,
        }
        if self._tmp:
            env["TMPDIR"] = str(self._tmp)
        merged = env | dict(changes or {})
        return {name: value for name, value in merged.items() if value is not None}

    def measured(self) -> None:
        """Spare a fresh user's first start the measuring of the sandbox: this machine was measured before."""
        if not self.state.exists():
            if not _measured:
                _measured.append(asyncio.run_coroutine_threadsafe(_measure(), self._loop).result(60))
            keep(self.state, _measured[0])

    def start(
        self,
        *arguments: str,
        stdin: int | Any = subprocess.DEVNULL,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        before: Sequence[str] = (),
    ) -> "subprocess.Popen[str]":
        """The program, running; `before` is a command line that starts it instead of us."""
        environment = self.environment(env)
        is_usual = self._is_scripted and not before and arguments[:1] == ("run",)
        if is_usual and environment.get("AGENT_STATE_DIR") == str(self.state):
            self.measured()
        is_warm = (not before or is_filter(before)) and warm.is_possible(environment)
        process = (warm.WarmProcess if is_warm else subprocess.Popen)(
            [*before, AGENT, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cwd or self.work,
            encoding="utf-8",
            errors="surrogateescape",
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, text: str | None = None, timeout_s: float = 240.0, **how: Any) -> Done:
        """The program from start to end; `text` is piped to its standard input."""
        if text is not None:
            how["stdin"] = subprocess.PIPE
        return finish(self.start(*arguments, **how), text, timeout_s=timeout_s)

    def bodies(self) -> list[dict[str, Any]]:
        """Bodies of the requests so far."""
        return [request.body for request in self.server.requests]

    def messages(self, request: int = -1, role: str = "") -> list[str]:
        """Texts of the messages of a request, those of one role or all but the system prompt."""
        found = [each for each in self.bodies()[request]["messages"] if each["role"] != "system"]
        return [_text(each.get("content")) for each in found if role in ("", each["role"])]

    def sessions(self) -> list[Path]:
        """All session files, oldest first; not those whose first record a crash or a full disk has cost."""
        found = [
            path for path in self.state.glob("sessions/*/*.json") if path.is_file() and BEGUN in path.read_bytes()
        ]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    def records(self, kind: str = "") -> list[dict[str, Any]]:
        """Records of the only session, of one type or all."""
        (path,) = self.sessions()
        records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return [record for record in records if kind in ("", record["type"])]

    def alive(self, word: bytes = b"") -> list[int]:
        """Processes that programs of this test have started, with `word` in their command line."""
        mark = f"{TAG}={self._tag}".encode()
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _has(pid, mark, word)]


def _has(pid: str, mark: bytes, word: bytes) -> bool:
    """Whether a process has `mark` in its environment and `word` in its command line."""
    try:
        return mark in read_kernel_file(f"/proc/{pid}/environ") and word in read_kernel_file(
            f"/proc/{pid}/cmdline"
        )
    except OSError:
        return False


def read_kernel_file(path: str) -> bytes:
    """What a file of the kernel holds, with nothing in between: all processes are looked at after each test."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    finally:
        os.close(descriptor)


_measured: list[EnforcedLevel] = []
"""What this machine enforces, once it is known."""


async def _measure() -> EnforcedLevel:
    processes = ProcessRunner()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return await measure(processes, Path(scratch))
    finally:
        await processes.aclose()


def finish(process: "subprocess.Popen[str]", text: str | None = None, *, timeout_s: float = 240.0) -> Done:
    """Wait for a program's end."""
    out, err = process.communicate(text, timeout=timeout_s)
    return Done(process.returncode, out, err)


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait until a condition holds, which is tried less and less often."""
    end, pause_s = time.monotonic() + timeout_s, 0.002
    while not _holds(condition):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause_s)
        pause_s = min(0.05, pause_s * 1.3)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except json.JSONDecodeError:  # a program is writing the file at this moment
        return False


def shell(command: str, **more: Any) -> Reply:
    """An answer that asks for one command."""
    return Reply(calls=(Call("shell", {"command": command}),), **more)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""

"""Starting, streaming and killing processes. No other module starts one.

Every process gets its own session and process group, no terminal and an empty standard input. A run
returns when its main process exits, even if a child it left behind still holds the output pipe. Children
are awaited through a pidfd in the event loop (polled where the system has none), so there is no thread
and no signal handler to go wrong.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from .child import Child, Collected, EnoughError, Pipe
from .environment import CALL_TAG, child_env
from .tree import TERM_GRACE_S, Tree, group_alive, kill_tree

_DRAIN_S = 0.2
"""How long output may still come after the main process has ended."""
_SHELLS = ("/bin/bash", "/usr/bin/bash")


class ProcessError(Exception):
    """The program could not be started; the text names it and why."""


class Completed(msgspec.Struct, frozen=True):
    """A finished run."""

    exit_code: int
    """As a shell reports it: 128 + n for death by signal n."""
    stdout: bytes
    stderr: bytes
    cut: bool = False
    """It was killed because its output passed `max_output_bytes`."""


class ShellExit(msgspec.Struct, frozen=True):
    """How a command line ended."""

    exit_code: int | None
    """None when it timed out."""
    duration_s: float
    timed_out: bool = False
    holding_pipe: bool = False
    """The shell ended but a child it left behind still holds the output."""
    background: bool = False
    """A child it left behind is still running, whether it holds the output or not."""


class ProcessRunner:
    """Starts processes and remembers which are alive, so that `aclose` leaves none behind."""

    def __init__(self) -> None:
        self._tag = os.urandom(8).hex()
        self._count = 0
        self._live: set[Child] = set()
        self._groups: set[int] = set()
        """Process groups that outlived their leader."""
        self._held: set[Pipe] = set()
        """Output of background children, read to the end so that they never block or break."""
        self._may_have_escaped = False

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        timeout_s: float = 60.0,
        max_output_bytes: int | None = None,
    ) -> Completed:
        """Run a program to its end and collect its output (git, ripgrep; not the user's commands).

        `env` None means our own without provider keys. `max_output_bytes` bounds memory: past it on
        stdout the program is killed and what came is returned with `cut`; of stderr the rest is dropped.

        Raises:
            ProcessError: not found or not executable.
            TimeoutError: it took longer than `timeout_s` and was killed.
        """
        out, err = Collected(max_output_bytes, fatal=True), Collected(max_output_bytes, fatal=False)
        stdin = _readable(input)
        try:
            child = self._start(argv, cwd, child_env(os.environ) if env is None else env, stdin, (out, err))
        finally:
            if not isinstance(stdin, int):
                stdin.close()
        try:
            in_time = await self._to_its_end(child, timeout_s)
        except EnoughError:
            in_time = True
        for pipe in child.pipes:
            pipe.close()
        if not in_time:
            raise TimeoutError(f"{argv[0]} took longer than {timeout_s:g} s and was killed")
        return Completed(child.exit_code, bytes(out.data), bytes(err.data), cut=out.full)

    async def shell(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float,
        on_output: Callable[[bytes], None],
    ) -> ShellExit:
        """Run a command line with bash (or sh), its output streamed in order as it comes.

        On cancellation and on time-out the whole process tree is killed: TERM, a grace, KILL.
        `on_output` is also given what children in the background write after the return.

        Raises:
            ProcessError: the shell cannot be started, for example for want of the folder.
        """
        begun = time.monotonic()
        self._may_have_escaped = True
        child = self._start(
            [_shell(env.get("PATH", "")), "-c", "--", command], cwd, env, subprocess.DEVNULL, (on_output,)
        )
        in_time = await self._to_its_end(child, timeout_s)
        pipe = child.pipes[0]
        holding = not pipe.ended.done()
        if holding and in_time:
            self._held.add(pipe)
            pipe.ended.add_done_callback(lambda _: self._held.discard(pipe))
        else:
            pipe.close()
        return ShellExit(
            exit_code=child.exit_code if in_time else None,
            duration_s=time.monotonic() - begun,
            timed_out=not in_time,
            holding_pipe=holding and in_time,
            background=in_time and (holding or child.pid in self._groups),
        )

    async def aclose(self) -> None:
        """Kill everything that is still alive, background children included. Takes at most 2 s."""
        if self._live or self._may_have_escaped:
            roots = {child.pid for child in self._live} | self._groups
            await _to_the_end(kill_tree(Tree(self._tag, roots)))
        for pipe in tuple(self._held):
            pipe.close()
        self._groups.clear()
        self._may_have_escaped = bool(self._live)

    def _start(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | IO[bytes],
        sinks: tuple[Callable[[bytes], None], ...],
    ) -> Child:
        """Start a process with one pipe for each sink: stdout, stderr; a single one takes both."""
        self._count += 1
        tag = f"{self._tag}.{self._count};"
        outer = env.get(CALL_TAG, "")
        pairs = [os.pipe() for _ in sinks]
        try:
            popen = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**env, CALL_TAG: outer + tag},
                stdin=stdin,
                stdout=pairs[0][1],
                stderr=pairs[-1][1],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            for reading, _ in pairs:
                os.close(reading)
            raise ProcessError(_why(argv[0], cwd, error)) from error
        finally:
            for _, writing in pairs:
                os.close(writing)
        pipes = tuple(Pipe(reading, sink) for (reading, _), sink in zip(pairs, sinks, strict=True))
        child = Child(popen, tag, pipes)
        self._live.add(child)
        return child

    async def _to_its_end(self, child: Child, timeout_s: float) -> bool:
        """Wait for the exit and the last output; False when time ran out and the tree was killed.

        Raises:
            Exception: what a sink raised; the tree is dead then, as it is after a cancellation.
        """
        try:
            in_time = await child.ends_within(timeout_s)
            if not in_time:
                await _to_the_end(self._kill(child))
            await child.drained(_DRAIN_S)
        except BaseException:
            await _to_the_end(self._kill(child))
            for pipe in child.pipes:
                pipe.close()
            raise
        finally:
            self._live.discard(child)
        if in_time and group_alive(child.pid) and Tree(child.tag, (child.pid,)).living():
            self._groups.add(child.pid)
        self._groups = {group for group in self._groups if group_alive(group)}
        return in_time

    async def _kill(self, child: Child) -> None:
        await kill_tree(Tree(child.tag, (child.pid,)), TERM_GRACE_S)
        await asyncio.wait({child.exited}, timeout=0.3)


def _readable(data: bytes) -> int | IO[bytes]:
    """Something to give a child as its standard input."""
    if not data:
        return subprocess.DEVNULL
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _shell(search_path: str) -> str:
    """bash where there is one, else sh."""
    found = (f"{folder}/bash" for folder in search_path.split(os.pathsep) if folder.startswith("/"))
    return next((path for path in (*_SHELLS, *found) if os.access(path, os.X_OK)), "/bin/sh")


def _why(program: str, cwd: Path, error: Exception) -> str:
    if not cwd.is_dir():
        return f"cannot run {program}: the folder {cwd} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"{program} was not found"
    reason = getattr(error, "strerror", None) or str(error)
    return f"cannot run {program}: {reason}"


async def _to_the_end(work: Coroutine[Any, Any, object]) -> None:
    """Await `work` whatever happens to us; a cancellation that comes meanwhile is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError

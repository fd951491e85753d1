"""Process creation: no other module starts processes.

Every process gets its own session and process group, no terminal and, unless input is given, an empty standard
input. A run returns when its main process exits, even if a child left behind still holds the output pipe. Each
process has a supervisor outside this process (see `reaper`), which kills the whole tree on request and when this
process ends, in whatever way.
"""

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.fs.files import unnamed_file

from ..helper.ipc import Inbox, pack
from ..profile.confinement import Confinement, EnforcedLevel
from ..profile.environment import CALL_TAG, child_env
from .pipes import Collected, EnoughError, Pipe
from .reaper_link import ReaperLink
from .running import NotStarted, to_the_end
from .running import ProcessError as ProcessError
from .running import Running as Running

if TYPE_CHECKING:
    from ..mechanisms.select import Mechanism, SpawnRequest

_SHELLS = ("/bin/bash", "/usr/bin/bash")
_START_S = 10.0
"""Time limit for starting a program, which normally takes 1 ms."""
_TRIES = 7
"""Number of retries to set up a sandbox while what it mounts is moved, replaced or removed."""
_LONGEST_REQUEST = 16 * 1024 * 1024
_ON_LINK = "bwrap: Can't mount on symlink destination "
"""How bubblewrap itself, in later versions, refuses a place that has just become a link."""
_MOVING = " is being moved or replaced while the sandbox is made: stop the job that does so"


class Completed(msgspec.Struct, frozen=True):
    """The result of a finished run."""

    exit_code: int
    """As a shell reports it: 128 + n for death by signal n."""
    stdout: bytes
    stderr: bytes
    cut: bool = False
    """True if it was killed because its output exceeded `max_output_bytes`."""


class OverdueError(TimeoutError):
    """A run was killed because it exceeded its time limit; `so_far` is its output until then."""

    def __init__(self, text: str, so_far: Completed) -> None:
        super().__init__(text)
        self.so_far = so_far


class ProcessRunner:
    """Starts processes and keeps track of the living ones, so that `aclose` leaves none behind. If memory runs
    out, the kernel kills `expendable` ones before this process."""

    def __init__(self, *, expendable: bool = False) -> None:
        self._tag = os.urandom(8).hex()
        self._count = 0
        self._live: set[Running] = set()
        self._reaper = ReaperLink(expendable=expendable)
        self.mechanism: Mechanism | None = None
        """The mechanism that confines commands; None until it was measured, and if there is none."""
        self.enforced_level = EnforcedLevel("none", why="the sandbox has not been tested yet")
        """The measured protection; `probe.measure` sets both."""
        self.network: tuple[int, ...] = ()
        """Descriptors, owned by this runner, of the isolated network that confined commands share, if they can."""

    @property
    def reaper_pid(self) -> int | None:
        """Pid of the helper process that starts commands; None while there is none."""
        return self._reaper.pid

    def folder(self) -> Path:
        """Return the folder for temporary files, removed when the agent ends, even if it is killed.

        Raises:
            OSError: it cannot be created.
        """
        return self._reaper.folder()

    def tmp_of(self, confinement: Confinement) -> str:
        """Return the `TMPDIR` that a confined command gets; empty if it keeps the one that it is given."""
        if self.mechanism is None:
            return ""
        from ..mechanisms.select import tmp_of

        return tmp_of(self.mechanism, confinement)

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        on_output: Callable[[bytes], None],
        on_errors: Callable[[bytes], None] | None = None,
        takes_input: bool = False,
        files: Mapping[int, int] = MappingProxyType({}),
        confinement: Confinement | None = None,
        mechanism: "Mechanism | None" = None,
    ) -> Running:
        """Start a program; stdout and stderr go to `on_output`, in order, or stderr to `on_errors`.

        It has no terminal, and no input unless `takes_input`. `files` are further descriptors, by their numbers in
        the program. A `confinement` is enforced with the measured mechanism (or with `mechanism`, for measuring).

        Raises:
            ProcessError: the program or folder does not exist or is not accessible, the arguments are too long, or
                the confinement is impossible; nothing has run.
        """
        build_request = None if confinement is None else partial(self._confined, argv, cwd, confinement, mechanism)
        sinks = (on_output,) if on_errors is None else (on_output, on_errors)
        if not takes_input:
            return await self._launch(argv, cwd, env, files, sinks, build_request=build_request)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            return await self._launch(argv, cwd, env, {0: reading, **files}, sinks, writing, build_request)
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)

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

        `env` None means our own without provider keys. `max_output_bytes` limits memory: beyond it on stdout the
        program is killed and the output so far is returned with `cut`; the rest of stderr is dropped.

        Raises:
            ProcessError: not found or not executable.
            OverdueError: it took longer than `timeout_s` and was killed.
        """
        out, err = Collected(max_output_bytes, fatal=True), Collected(max_output_bytes, fatal=False)
        files = {0: unnamed_file(input)} if input else {}
        try:
            running = await self._launch(
                argv, cwd, child_env(os.environ) if env is None else env, files, (out, err)
            )
        finally:
            for stdin in files.values():
                os.close(stdin)
        try:
            in_time = await running.ended_within(timeout_s)
        except EnoughError:
            in_time = True
        if not in_time:
            await to_the_end(running.stop())
            so_far = Completed(124, bytes(out.data), bytes(err.data))
            raise OverdueError(f"{argv[0]} took longer than {timeout_s:g} s and was killed", so_far)
        for pipe in running.pipes:
            pipe.close()
        code = 137 if running.exit_code is None else running.exit_code  # nobody could collect it
        return Completed(code, bytes(out.data), bytes(err.data), cut=out.full)

    async def listen(self, port: int) -> socket.socket:
        """Return a socket that listens on a loopback port (0: any) of the network that confined commands share;
        connections made there are accepted here. The caller owns it; it keeps that network alive.

        Raises:
            ProcessError: there is no shared network, or the port is taken.
        """
        if not self.network:
            raise ProcessError("commands share no network in which we could listen")
        from ..mechanisms.select import SpawnRequest

        argv, network, inbox = (sys.executable,), self.network, Inbox()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            running = await self._launch(
                *(argv, Path("/"), {}, {0: theirs.fileno()}, (lambda _: None,)),
                build_request=lambda env: SpawnRequest(argv, env, ("listening", port), network),
            )
            try:
                await running.ended_within(_START_S)
            finally:
                await to_the_end(running.stop())
            try:
                inbox.receive(ours, 1)
            except BlockingIOError as error:
                raise ProcessError("cannot listen in the network of the commands") from error
        return socket.socket(fileno=inbox.take_fds(1)[0])

    async def aclose(self) -> None:
        """Kill everything still alive except kept commands, including background children, and end the reaper. At
        most 2 s. Commands can be started again afterwards."""
        await to_the_end(self._close())

    async def stop_all(self) -> None:
        """Kill everything still alive except kept commands. The folder for temporary files stays."""
        live = tuple(running for running in self._live if not running.kept)
        await asyncio.gather(*(running.stop() for running in live))
        self._live.difference_update(live)

    async def _close(self) -> None:
        await self.stop_all()
        self.leave_network()
        await self._reaper.aclose(0.2)
        self._reaper.remove_folder()

    def leave_network(self) -> None:
        """Close the shared network; from now on each confined command gets its own."""
        for fd in self.network:
            os.close(fd)
        self.network = ()

    async def _launch(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        files: Mapping[int, int],
        sinks: tuple[Callable[[bytes], None], ...],
        input_fd: int | None = None,
        build_request: "Callable[[Mapping[str, str]], SpawnRequest] | None" = None,
    ) -> Running:
        """Start a program with `files`, by their numbers in it, and one pipe per sink: stdout, stderr; one sink
        gets both. `input_fd`, the writing end of its stdin, then belongs to the `Running`. `build_request` builds
        the actual request from the environment."""
        self._count += 1
        tag = f"{self._tag}.{self._count};"
        tagged = {**env, CALL_TAG: env.get(CALL_TAG, "") + tag}
        for last in (*(False,) * _TRIES, True):
            made = build_request(tagged) if build_request else None
            words, variables, wrap = (made.argv, made.env, made.wrap) if made else (argv, tagged, None)
            request = _request(words, cwd, variables, wrap, (0, 1, 2, *(number for number in files if number)))
            entered = made.entered if made else ()
            try:
                return await self._connected(request, files, entered, sinks, input_fd, tag)
            except NotStarted as failure:
                if not _may_be_of_the_moment(failure) or last:
                    raise ProcessError(_why(argv[0], cwd, failure, wrap)) from failure
            except OSError as error:
                why = _too_few_files(error.errno) or error.strerror or error
                raise ProcessError(f"cannot run {argv[0]}: {why}") from error
        raise AssertionError("unreachable")

    async def _connected(
        self,
        request: bytes,
        files: Mapping[int, int],
        entered: tuple[int, ...],
        sinks: tuple[Callable[[bytes], None], ...],
        input_fd: int | None,
        tag: str,
    ) -> Running:
        with ExitStack() as ours, ExitStack() as theirs:
            pipes = tuple(_piped(sink, ours, theirs) for sink in sinks)
            if (stdin := files.get(0)) is None:
                stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                theirs.callback(os.close, stdin)
            others = (file for number, file in files.items() if number)
            fds = (stdin, pipes[0][1], pipes[-1][1], *others, *entered)
            try:
                running = await self._begin(request, fds, tuple(pipe for pipe, _ in pipes), input_fd, tag)
            except NotStarted as failure:
                if failure.step == "sandbox":
                    failure.said = pipes[-1][0].drain().decode("utf-8", "replace").strip()
                raise
            for pipe, _ in pipes:
                pipe.open()
            ours.pop_all()
            return running

    def _confined(
        self,
        argv: Sequence[str],
        cwd: Path,
        confinement: Confinement,
        mechanism: "Mechanism | None",
        env: Mapping[str, str],
    ) -> "SpawnRequest":
        mechanism = mechanism or self.mechanism
        if mechanism is None:
            raise ProcessError(
                f"cannot run {argv[0]} confined: {self.enforced_level.why or 'there is no sandbox'}"
            )
        from ..mechanisms.select import spawn_request

        try:
            return spawn_request(mechanism, confinement, argv, env, cwd, self.network)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ProcessError(f"cannot run {argv[0]} confined: {why}") from error

    async def _begin(
        self, request: bytes, fds: tuple[int, ...], pipes: tuple[Pipe, ...], input_fd: int | None, tag: str
    ) -> Running:
        """Hand the request to a supervisor; try again if the reaper was gone before there was one."""
        for last in (False, True):
            running = Running(await self._reaper.supervisor(), pipes, tag, self._reaper.release)
            self._live = {other for other in self._live if other.matters} | {running}
            try:
                await running.begin(request, fds, input_fd, _START_S)
                return running
            except NotStarted as failure:
                if failure.step or last:
                    raise
                self._reaper.discard()
            except BaseException:
                await to_the_end(running.stop())
                raise
        raise AssertionError("unreachable")


def shell_program(search_path: str) -> str:
    """Return the shell for command lines: bash if available, else sh."""
    found = (f"{folder}/bash" for folder in search_path.split(os.pathsep) if folder.startswith("/"))
    return next((path for path in (*_SHELLS, *found) if os.access(path, os.X_OK)), "/bin/sh")


def _piped(sink: Callable[[bytes], None], ours: ExitStack, theirs: ExitStack) -> tuple[Pipe, int]:
    """Create a pipe into `sink`, which `ours` closes; return it with its writing end, which `theirs` closes."""
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    pipe = Pipe(reading, sink)
    ours.callback(pipe.close)
    return pipe, writing


def _request(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    wrap: "tuple[Any, ...] | None",
    numbers: tuple[int, ...],
) -> bytes:
    """Encode the request to start a program; `numbers` are those that the first descriptors have in it.

    Raises:
        ProcessError: it is far too long, or holds text that cannot be encoded.
    """
    try:
        words = [os.fsencode(word) for word in argv]
        pairs = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        request = pack("start", words, pairs, os.fsencode(os.path.abspath(cwd)), wrap, numbers)
    except (ValueError, OSError) as error:
        raise ProcessError(f"cannot run {argv[0]}: {error}") from error
    if len(request) > _LONGEST_REQUEST:
        raise ProcessError(f"cannot run {argv[0]}: Argument list too long")
    return request


def _may_be_of_the_moment(failure: NotStarted) -> bool:
    """Return True if a sandbox was not made because of a path, such as that of a socket that has just gone."""
    return failure.step == "mounts" or (failure.step == "sandbox" and failure.said.startswith("bwrap: Can't"))


def _why(program: str, cwd: Path, failure: NotStarted, wrap: "tuple[Any, ...] | None") -> str:
    absent = failure.number == errno.ENOENT
    match failure.step:
        case "folder":
            reason = "does not exist" if absent else f"cannot be entered: {failure}"
            return f"cannot run {program}: the folder {cwd} {reason}"
        case "program" if absent:
            return f"{program} was not found"
        case "mounts":
            return f"cannot run {program} confined: {failure}{_MOVING}"
        case "sandbox" if failure.said.startswith(_ON_LINK):
            return f"cannot run {program} confined: {failure.said.removeprefix(_ON_LINK)}{_MOVING}"
        case "sandbox":
            return f"cannot run {program} confined: {failure.said.removeprefix('bwrap: ') or failure}"
        case "start" if absent and wrap and wrap[0] == "bubblewrap" and not os.path.exists(wrap[1]):
            gone = os.fsdecode(wrap[1])
            return f"cannot run {program} confined: {gone} is gone; install it again or restart the agent"
        case "start" if absent:
            return f"cannot run {program}: the interpreter that its first line names was not found"
        case "program" | "start":
            return f"cannot run {program}: {_too_few_files(failure.number) or failure}"
        case _:
            return f"cannot run {program}: the helper process that starts commands is gone; try again"


def _too_few_files(number: int | None) -> str:
    """Return the reason for an error if this process may not open enough files; empty for another error. A limit
    below the number that a file has in the program is reported as a bad descriptor."""
    if number not in (errno.EMFILE, errno.EBADF):
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"the limit of open files (ulimit -n {limit}) is too low"

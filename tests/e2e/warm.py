"""Start the real program without starting Python anew: a process that has imported it forks for each start.

The new process is a child of the test, as if the test had started it: `WarmProcess` is a `subprocess.Popen` in all
but how it begins. What depends on a new interpreter (the locale, closed streams, what is imported) is tested with the
program itself.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import gc
import importlib
import json
import os
import pkgutil
import platform
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from .killed import KILL, kill_at
from .mechanisms import FILTER, is_filter

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LONGEST = 1 << 18
_CLONE_PARENT = 0x8000
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 0) if sys.platform == "linux" else 0
"""The number of the system call."""
_TAG = "AGENT_E2E_TAG"
_NOT_LOADED = (
    "agent_cli.demo_project", "agent_cli.model.litellm.", "agent_cli.__main__",
    "agent_cli.fleet.evaluation.harbor_agent",  # needs Harbor
)  # fmt: skip
_LAZY = (
    "anyio._backends._asyncio", "concurrent.futures.thread", "encodings.ascii", "encodings.idna", "encodings.utf_8_sig",
    "httpcore", "prompt_toolkit.key_binding.bindings.search", "pygments.lexers.python", "pygments.unistring",
    "pydantic.plugin._loader", "sqlite3", "typer._adapters", "typer._click.decorators", "yaml",
)  # fmt: skip
"""What most programs load only while they run."""
_OF_A_NEW_INTERPRETER = ("LANG", "LC_", "TZ", "PYTHON", "SSL_", "LD_")
"""Variables that count when a program begins; `LANG` may be what it always is here."""


def is_possible(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment may be forked instead of started."""
    special = {name for name in env if name.startswith(_OF_A_NEW_INTERPRETER)} - {"LANG"}
    return bool(_CLONE) and not special and env.get("LANG") == "C.UTF-8" and len(env.get(_TAG, "")) == 16


class WarmProcess(subprocess.Popen[Any]):
    """The program with the arguments behind `argv[0]`, running; or Python code, with `-c` in its place. A command
    line of `mechanisms` may stand before it."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any,
                       cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any,
                       p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
                       restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any,
                       start_new_session: bool, process_group: Any) -> None:  # fmt: skip
        argv, forbidden = (args[4:], args[3]) if is_filter(args) else (args, "")
        begin = {
            "argv": list(argv), "env": dict(env), "cwd": str(cwd), "session": start_new_session, "forbidden": forbidden,
        }  # fmt: skip
        streams = [own if given < 0 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        with _lock:
            link = _server()
            socket.send_fds(link, [json.dumps(begin).encode()], streams)
            self.pid = int(link.recv(_LONGEST))
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        )


_links: dict[int, socket.socket] = {}
_lock = threading.Lock()


def _server() -> socket.socket:
    """The connection to this process's server, which ends when the connection is closed."""
    if os.getpid() not in _links:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", _TAG: "0" * 16}
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.warm", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, cwd=_ROOT, pass_fds=(theirs.fileno(),), env=env,
            )  # fmt: skip
        ours.settimeout(60)
        atexit.register(ours.close)
        _links[os.getpid()] = ours
    return _links[os.getpid()]


def _load() -> None:
    """Import the whole program."""
    gc.disable()
    import agent_cli

    for module in pkgutil.walk_packages(agent_cli.__path__, "agent_cli."):
        if not module.name.startswith(_NOT_LOADED):
            importlib.import_module(module.name)
    for name in _LAZY:
        importlib.import_module(name)
    _compile_expressions()
    _describe_types()
    _fill_caches()
    gc.freeze()
    gc.enable()
    _use_large_pages()


def _describe_types() -> None:
    """Let msgspec look at every type that is read or written as JSON."""
    for name, module in [*sys.modules.items()]:
        for each in [*vars(module).values()] if name.startswith("agent_cli.") else ():
            if isinstance(each, type) and (issubclass(each, msgspec.Struct) or dataclasses.is_dataclass(each)):
                with contextlib.suppress(TypeError, NameError):
                    msgspec.json.Decoder(each)


def _compile_expressions() -> None:
    """Compile what each new process would compile anew with its first use."""
    from agent_cli.protocol.lazy_regex import lazy_regex

    kind = type(lazy_regex(""))
    for name, module in [*sys.modules.items()]:
        for each in [*vars(module).values()] if name.startswith("agent_cli.") else ():
            if type(each) is kind:
                getattr(each, "search")  # noqa: B009


def _fill_caches() -> None:
    """Build what each new process would build anew: mostly expressions that are made of tables."""
    from agent_cli.policy.rules import rule, secret_paths
    from agent_cli.redaction import env_names, patterns, redactor, token_shapes

    secret_paths.is_secret("/x")
    for each in rule.BUILT_IN:
        rule.matches_path(each, "/x", "/")
    env_names.is_secret("A_b", "x")
    redactor.secret_lines({"A": "b"})
    for shape in token_shapes.SHAPES:
        assert shape.whole
    patterns.begin_of_token("".join(shape.starts[0] for shape in token_shapes.SHAPES), 0)
    for begin in patterns._begins()[1].values():
        getattr(begin, "match")  # noqa: B009
    for pattern in ("*.py", "*"):
        next(Path("/").glob(pattern), None)


def _use_large_pages() -> None:
    """Let the memory lie in pages of 2 MB where the kernel can do so: each fork copies the table of its pages."""
    collapse, size, advise = 25, 1 << 21, ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text(encoding="ascii", errors="replace").splitlines():
        place, rights, *_, inode = line.split()[:5]
        begin, end = (int(each, 16) for each in place.split("-"))
        begin, end = -(-begin // size) * size, end // size * size
        if rights.startswith("rw") and inode == "0" and begin < end:
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), collapse)


def _sibling() -> int:
    """Fork a process whose parent is ours."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return int(pid)


def _serve(link: socket.socket) -> None:
    """Fork for each message; returns in each new process, and ends when there are no more."""
    while True:
        message, streams, _, _ = socket.recv_fds(link, _LONGEST, 3)
        if not message:
            sys.exit(0)
        if (pid := _sibling()) == 0:
            link.close()
            _become(json.loads(message), streams)
            return
        for stream in streams:
            os.close(stream)
        link.send(str(pid).encode())


def _become(begin: dict[str, Any], streams: Sequence[int]) -> None:
    """Have the streams, the directory, the environment and the arguments of a program that was just started."""
    gc.unfreeze()  # to freeze what is loaded is left to the program, which asks whether it was
    if begin["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(256, *streams) + 1)
    _retag(begin["env"].get(_TAG, "0" * 16))
    os.environ.clear()
    os.environ.update(begin["env"])
    os.chdir(begin["cwd"])
    if begin["forbidden"]:
        sys.argv = ["", begin["forbidden"]]
        exec(FILTER, {})
    sys.argv = begin["argv"]
    sys.path[0] = os.path.dirname(sys.executable)
    sys.stdin, sys.stdout = _stream(0, "r"), _stream(1, "w")
    sys.stderr = _stream(2, "w")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _stream(number: int, mode: str) -> Any:
    """A standard stream as Python makes them."""
    is_by_line = mode == "w" and (number == 2 or os.isatty(number))
    errors = "backslashreplace" if number == 2 else "surrogateescape"
    stream: Any = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    stream.reconfigure(line_buffering=is_by_line)
    return stream


def _retag(tag: str) -> None:
    """Write the tag into the environment that other processes see, which is the one at the start."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(_TAG.encode()), tag.encode(), len(tag))


def _run() -> int:
    """Run the program, or the code, to its end; returns its exit code."""
    from agent_cli.__main__ import main

    if place := os.environ.pop(KILL, ""):
        kill_at(place)
    try:
        if sys.argv[0] == "-c":
            exec(sys.argv.pop(1), {"__name__": "__main__"})
            return 0
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    return 1


def _end_with(code: int) -> NoReturn:
    """End as Python does, but for taking all modules down, which would cost more than most runs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    os._exit(code)


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if place]
    _load()
    with socket.socket(fileno=int(sys.argv[1])) as _end:
        _serve(_end)
    _end_with(_run())

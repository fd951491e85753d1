"""Run the real program many times without starting Python anew: a process that has imported it forks for each run.

Parent and server talk over a socket pair: a run goes in as one JSON message with the descriptor of its standard
output, its process id and later its status come back. A run can be told to kill itself with SIGKILL at one of its own
steps, as the interpreter's audit events show them: `record` in the middle of an append to the session file (written,
not yet cut to length nor synced), `rename` before a file takes the place of another, `open` before a file is opened
for writing.
"""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

Step = Literal["record", "rename", "open"]
_ROOT = Path(__file__).parents[2]
_AUDITED = {"record": "os.truncate", "rename": "os.rename", "open": "open"}
_LONGEST = 1 << 16


class ForkServer:
    """The parent's side; use as a context manager. One run at a time."""

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, cwd=_ROOT, pass_fds=(theirs.fileno(),),
            )  # fmt: skip
        self._socket.settimeout(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(10)

    def start(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        errors: Path,
        kill: tuple[Step, int] | None = None,
    ) -> tuple[int, int]:
        """Start the program; returns its process id and a descriptor to read its standard output from."""
        run = {"argv": arguments, "env": env, "cwd": str(cwd), "errors": str(errors), "kill": kill}
        ours, theirs = os.pipe()
        socket.send_fds(self._socket, [json.dumps(run).encode()], [theirs])
        os.close(theirs)
        return json.loads(self._socket.recv(_LONGEST)), ours

    def wait(self) -> int:
        """The exit code of the run, negative for a signal."""
        return os.waitstatus_to_exitcode(json.loads(self._socket.recv(_LONGEST)))


def serve(link: socket.socket) -> None:
    """Fork for each run. What the first one had to import, those after it find imported."""
    is_warm = False
    while True:
        message, descriptors, _, _ = socket.recv_fds(link, _LONGEST, 1)
        if not message:
            return
        names, names_in = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(names)
            link.close()
            _run(json.loads(message), descriptors[0], -1 if is_warm else names_in)
        os.close(names_in)
        os.close(descriptors[0])
        link.send(json.dumps(pid).encode())
        with os.fdopen(names, encoding="utf-8") as imported:
            found = imported.read().split()
        _, status = os.waitpid(pid, 0)
        for name in found:
            importlib.import_module(name)
        if found:
            gc.collect()
            gc.freeze()
            is_warm = True
        link.send(json.dumps(status).encode())


def _run(run: dict[str, Any], stdout: int, names: int) -> None:
    """Be the program. Never returns."""
    from agent_cli.cli.main import run as run_program

    os.environ.clear()
    os.environ.update(run["env"])
    os.chdir(run["cwd"])
    os.dup2(stdout, 1)
    os.close(stdout)
    errors = os.open(run["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, 2)
    os.close(errors)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    if run["kill"]:
        _kill_at(*run["kill"])
    code = 1
    try:
        code = run_program(run["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        if names >= 0:
            loaded = [name for name, module in sys.modules.items() if getattr(module, "__spec__", None)]
            os.write(names, "\n".join(name for name in loaded if name != "__main__").encode())
        os._exit(code)


def _kill_at(step: Step, count: int) -> None:
    """Kill this process at its `count`th step of a kind."""
    left = count
    own = os.getpid()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event != _AUDITED[step] or os.getpid() != own:
            return
        if step == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        left -= 1
        if left == 0:
            os.kill(own, signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as end:
        serve(end)

"""An agent of its own, possibly of another user or in a poorer container, that has commands confined and says how
they did. It reads a task as JSON and writes the outcome as JSON; `trials` sets it up.

A poorer container is made by a filter for system calls that this process puts on itself first.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent_cli.sandbox.helper.landlock_apply import _Kernel
from agent_cli.sandbox.mechanisms.seccomp import MACHINES, _for_call, _refuse, _step
from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import confined_env

_ALLOW = _step(0x06, 0x7FFF0000)


def forbid(what: list[str]) -> None:
    """Live as in a container that forbids "namespaces" or "landlock"."""
    _, refused, special = MACHINES[os.uname().machine]
    code = [_step(0x20, 0)]
    if "namespaces" in what:
        code += [*_refuse(0x15, refused["unshare"], 1), *_refuse(0x15, special["clone3"], 38)]
        code += _for_call(special["clone"], 16, _refuse(0x45, 0x7E020000, 1))
    if "landlock" in what:
        code += _refuse(0x15, 444, 38)
    kernel = _Kernel()
    kernel.prctl(38, 1, 0, 0, 0)
    kernel.filter(b"".join((*code, _ALLOW)))


async def main(task: dict[str, Any]) -> dict[str, Any]:
    if task["forbid"]:
        forbid(task["forbid"])
    runner = ProcessRunner()
    with ExitStack() as stack:
        try:
            if task["means"] is None:
                await measure(runner, Path(task["scratch"]))
            else:
                runner.mechanism = Mechanism(*task["means"])
            strength = runner.enforced_level
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for name in (f"\0agent-trial-{os.getpid()}", *task["sockets"]):
                stack.enter_context(_listening(name))
            master, terminal = os.openpty()
            stack.callback(os.close, master)
            stack.callback(os.close, terminal)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            known = {
                "AGENT_PID": str(os.getpid()),
                "LISTENER": str(listener.getsockname()[1]),
                "PORT": str(port),
                "PY": sys.executable,
                "USERS_TTY": os.ttyname(terminal),
            }
            outcomes = {}
            if runner.mechanism:
                for name, command in task["commands"].items():
                    outcomes[name] = await _outcome(runner, command, known, task, stop=name not in task["kept"])
            reached = _reached(port)
        finally:
            await runner.aclose()
    return {
        "strength": [strength.mechanism, strength.why, strength.hides_inside, strength.cuts_network],
        "outcomes": outcomes,
        "reached from outside": reached,
    }


def _reached(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _listening(name: str) -> socket.socket:
    """A server at a Unix socket; one that takes datagrams, as those of logs do, at `log.sock`."""
    is_log = name.endswith("/log.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if is_log else socket.SOCK_STREAM)
    listener.bind(name)
    if not is_log:
        listener.listen()
    return listener


async def _outcome(
    runner: ProcessRunner, command: str, known: dict[str, str], task: dict[str, Any], *, stop: bool
) -> list[Any]:
    out = bytearray()
    env = {**confined_env(os.environ, offline=True, cache=None), **known, **task["env"]}
    running = await runner.start(
        ["/bin/bash", "-c", command],
        cwd=Path(task["cwd"]),
        env=env,
        on_output=out.extend,
        confinement=Confinement(**task["confinement"]) if task["confinement"] else None,
    )
    ended = await running.ended_within(60)
    if stop:
        await running.stop()
    return [running.exit_code if ended else None, out.decode("utf-8", "replace")]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

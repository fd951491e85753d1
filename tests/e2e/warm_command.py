"""Let a shell start the warm program: a command `agent` that hands its streams, its arguments, its environment and
its directory to the test, which forks the program for it (`warm`), and that ends as the program does."""

import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Self

from . import warm

_LONGEST = 1 << 18
_CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {longest})
link.connect({place!r})
begin = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
link.sendmsg([begin], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
pid = int(link.recv(100))
if not pid:
    os.execv({agent!r}, [{agent!r}, *sys.argv[1:]])
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, lambda number, _: os.kill(pid, number))
code = int(link.recv(100))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class WarmCommand:
    """Use as a context manager. `folder` belongs in front of PATH; `agent` is started where a fork would not do."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self.folder = Path(tempfile.mkdtemp(prefix="c-"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def __enter__(self) -> Self:
        place = str(self.folder / "s")
        self._listener.bind(place)
        self._listener.listen(64)
        client = self.folder / "agent"
        python = os.path.realpath(sys.executable)
        text = _CLIENT.format(python=python, longest=_LONGEST, place=place, agent=self._agent)
        client.write_text(text, encoding="utf-8")
        client.chmod(0o700)
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self.folder)

    def _serve(self) -> None:
        while True:
            try:
                link = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        """Be the parent of one program. Its streams are closed here first: a reader waits for all to be closed."""
        with link:
            begin, streams, _, _ = socket.recv_fds(link, _LONGEST, 3)
            process = None
            try:
                argv, env, cwd = json.loads(begin)
                if warm.is_possible(env):
                    argv = [self._agent, *argv]
                    process = warm.WarmProcess(
                        argv, stdin=streams[0], stdout=streams[1], stderr=streams[2], env=env, cwd=cwd
                    )
            finally:
                for stream in streams:
                    os.close(stream)
            link.send(str(process.pid if process else 0).encode())
            if process:
                link.send(str(process.wait()).encode())

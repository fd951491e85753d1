"""A client of `agent serve` for tests: real lines over real pipes and sockets, by hand."""

import json
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.world import World, until

Message = dict[str, Any]
BOUND_S = 60.0


class Rpc:
    """Both directions of a connection. Messages that came are kept in `received`, in order."""

    def __init__(self, sends: Any, receives: Any) -> None:
        self._sends, self._receives = sends, receives
        self._arrived: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._ids = 0
        self.sent: list[Message] = []
        self.received: list[Message] = []
        self.is_over = False
        self._reader: threading.Thread | None = None

    def read(self) -> None:
        """Begin to read, if it has not begun."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        try:
            for line in self._receives:
                self._arrived.put(json.loads(line))
        except (OSError, ValueError):
            pass
        self._arrived.put(None)

    def send(self, *messages: Message | bytes) -> None:
        """Send messages, or bytes as they are, at once."""
        lines = (each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)
        self._sends.write(b"".join(lines))
        self._sends.flush()

    def begin(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._ids += 1
        self.sent.append({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        self.send(self.sent[-1])
        return self._ids

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        answer = self.answer(self.begin(method, **params))
        assert "error" not in answer, answer
        return answer["result"]

    def refused(self, method: str, **params: Any) -> Message:
        """Return the error of a request."""
        answer = self.answer(self.begin(method, **params))
        error: Message = answer["error"]
        return error

    def answer(self, identifier: Any) -> Message:
        """Return the answer of a request."""
        return self.until(lambda each: "method" not in each and each["id"] == identifier)

    def until(self, fits: Callable[[Message], bool], after: int = 0) -> Message:
        """Return the first message that fits, of those that came or come; `after` so many of them."""
        self.read()
        end, at = time.monotonic() + BOUND_S, after
        while True:
            for each in self.received[at:]:
                if fits(each):
                    return each
            at = len(self.received)
            left = end - time.monotonic()
            assert left > 0 and not self.is_over, f"waited in vain; the last: {self.received[-3:]}"
            try:
                message = self._arrived.get(timeout=left)
            except queue.Empty:
                continue
            if message is None:
                self.is_over = True
            else:
                self.received.append(message)

    def event(self, kind: str, after: int = 0, **fields: Any) -> Message:
        """Return the first event of a type, with these fields."""

        def fits(message: Message) -> bool:
            event = message.get("params", {}).get("event", {})
            return event.get("type") == kind and all(event.get(name) == value for name, value in fields.items())

        found: Message = self.until(fits, after)["params"]["event"]
        return found

    def end(self, submission_id: str) -> Message:
        """Return the last event of a submission."""
        ends = ("turn_completed", "turn_aborted", "turn_failed", "operation_completed", "operation_failed")

        def fits(message: Message) -> bool:
            event = message.get("params", {}).get("event", {})
            return event.get("submission_id") == submission_id and event["type"] in ends

        found: Message = self.until(fits)["params"]["event"]
        return found

    def events(self, session_id: str = "") -> list[Message]:
        """Return the events that have come, of one session or all."""
        found = [each["params"] for each in self.received if each.get("method") == "event"]
        return [each["event"] for each in found if session_id in ("", each["session_id"])]

    def rest(self) -> list[Message]:
        """Read to the end of the connection; returns all that came."""
        self.read()
        while not self.is_over:
            message = self._arrived.get(timeout=BOUND_S)
            self.is_over = message is None
            if message is not None:
                self.received.append(message)
        return self.received

    def hello(self) -> "Rpc":
        """Say which version is spoken."""
        self.ask("initialize", protocol_version=1)
        return self

    def open(self, **params: Any) -> str:
        """Open a session; returns its id."""
        return str(self.ask("session/open", **params)["session_id"])

    def prompt(self, session_id: str, text: str) -> Message:
        """Hand in a prompt; returns how it ended."""
        return self.end(self.ask("user_input", session_id=session_id, text=text)["submission_id"])

    def line(self) -> bytes:
        """Return the next line, where nothing is read otherwise."""
        assert self._reader is None
        found: bytes = self._receives.readline()
        return found

    def close(self) -> None:
        """Close both directions."""
        for stream in (self._sends, self._receives):
            try:
                stream.close()
            except OSError:
                pass


class Piped(Rpc):
    """A client that has started the server."""

    def __init__(self, world: World, *options: str, **how: Any) -> None:
        world.measured()
        self.process = world.start("serve", "--stdio", *options, stdin=subprocess.PIPE, **how)
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        super().__init__(stdin.detach(), stdout.detach())
        self.process.stdin = self.process.stdout = None  # whoever ends it does not read them

    def leave(self) -> int:
        """Close standard input; returns the exit code."""
        self._sends.close()
        self.rest()
        return self.process.wait(BOUND_S)


class Connected(Rpc):
    """A client on a socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(BOUND_S)
        self.socket.connect(str(path))
        self.socket.settimeout(None)
        super().__init__(self.socket.makefile("wb"), self.socket.makefile("rb"))

    def close(self) -> None:
        """Close the connection, while the other thread reads."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if self._reader is not None:
            self._reader.join(BOUND_S)
        super().close()
        self.socket.close()


def serving(world: World, path: Path, *options: str, **how: Any) -> "subprocess.Popen[str]":
    """Start a server on a socket, and wait until it serves."""
    world.measured()
    process = world.start("serve", "--socket", str(path), *options, **how)
    until(lambda: path.exists() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process

"""The transport of the fault server that most tests use, a line a message over stdio. It starts at each test, so it
imports little: HTTP is in `fault_http`."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fault_server import FaultServer

Json = dict[str, Any]

META = "io.modelcontextprotocol/"


def write_whole(path: Path | None, text: str) -> None:
    """Write a file so that a reader sees it whole or not at all."""
    if path is not None:
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def log(text: str) -> None:
    """Write a line to stderr."""
    print(f"fault_server: {text}", file=sys.stderr, flush=True)


def die(words: str) -> None:
    """End the process at once, with last words on stderr."""
    log(words)
    os._exit(3)


class Channel:
    """Sends messages to the client and waits for its answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def send(self, message: Json) -> None:
        """Send one message whole."""
        self.write_raw(json.dumps(message))

    def write_raw(self, text: str, end: bool = True) -> None:
        """Send text that need not be JSON; without `end` the line is left open."""
        raise NotImplementedError

    def closed(self) -> bool:
        """Tell whether the client has closed its side of this answer."""
        return False


class StdioChannel(Channel):
    """Writes a line a message to standard output."""

    def write_raw(self, text: str, end: bool = True) -> None:
        with self._lock:
            sys.stdout.write(text + ("\n" if end else ""))
            sys.stdout.flush()


class Listener(NamedTuple):
    """Someone who wants to hear of changes: a connection, a GET stream or a subscription."""

    channel: Channel
    subscription: Any = None
    """The id of the `subscriptions/listen` request; None in the legacy era."""


def serve_stdio(server: "FaultServer") -> None:
    """Serve standard input until it ends; each request has a thread, so that calls overlap."""
    channel = StdioChannel()
    if "noise" in server.faults:
        channel.write_raw("Welcome to the server!\n\n{not json}\n[]\n42")
    for line in sys.stdin:
        if line.strip() and (serve := server.receive(json.loads(line), channel)):
            threading.Thread(target=serve, daemon=True).start()
    while "stubborn" in server.faults:
        time.sleep(1)

"""The log of `--debug`: each event, and each request as it went to the server, a line of JSON each. Loaded only
where the option is given."""

import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.protocol.events import AnyEvent
from agent_cli.redaction.redactor import Redactor

_LISTS = ("messages", "input")
"""Where a body has its conversation, the part that grows."""


class DebugLog:
    """One file, readable by the user alone. Everything in it is written through a redactor."""

    def __init__(self, path: Path, redactor: Callable[[], Redactor]) -> None:
        """The file is made, and `redactor` asked, when there is something to write."""
        self.path = path
        self._redactor = redactor
        self._before: dict[str, Any] = {}

    @cached_property
    def _descriptor(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @cached_property
    def _secrets(self) -> Redactor:
        return self._redactor()

    def event(self, event: AnyEvent) -> None:
        """Write an event, which is masked already."""
        os.write(self._descriptor, msgspec.json.encode(event) + b"\n")

    def request(self, model: str, body: dict[str, Any]) -> None:
        """Write a request: of its conversation what the one before it did not have, and of the other fields
        those that have changed. `unchanged` counts the messages that are left out."""
        before, self._before = self._before, body
        shown = {name: value for name, value in body.items() if before.get(name) != value}
        kept = 0
        for name in (each for each in _LISTS if isinstance(shown.get(each), list)):
            earlier = before.get(name, [])
            while kept < len(earlier) and shown[name][kept : kept + 1] == earlier[kept : kept + 1]:
                kept += 1
            shown[name] = shown[name][kept:]
        line = {"type": "model_request", "time": time.time(), "model": model, "unchanged": kept, "body": shown}
        text = self._secrets.mask(msgspec.json.encode(line).decode("utf-8", "replace"))
        os.write(self._descriptor, f"{text}\n".encode("utf-8", "replace"))

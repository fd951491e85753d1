"""The Trace Event Format of Chrome, which Perfetto opens: complete events in microseconds, one track per
sub-agent, and more tracks for tools that run in parallel. Pure: no file is touched."""

from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json

from .. import conventions as names
from ..span import Span

BEGINNING = b'[\n{"name":"process_name"'
"""First bytes of a file of ours."""
_TRACKS = 100
"""Track numbers reserved for a sub-agent: the first is its own, the others are for tools."""
_TOOL_KINDS = frozenset({"tool", "approval", "queue"})


class ChromeTrace:
    """Assigns spans to tracks. Events on a track must be nested, which parallel tools are not."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._agents: dict[str, int] = {}
        self._busy: dict[int, list[float]] = {}
        """End times of the tool tracks of an agent, in seconds since the epoch."""
        self._reserved: dict[str, int] = {}
        """Tool tracks on which a call is not finished yet."""

    def beginning(self) -> list[bytes]:
        """Return the events before the first span."""
        return [self._named("process_name", 0, f"agent {self._process}")]

    def events(self, span: Span) -> list[bytes]:
        """Return the events of a span, preceded by the name of its track if that is new."""
        agent = str(span.attributes.get(names.AGENT_ID, ""))
        events = []
        if agent not in self._agents:
            self._agents[agent] = len(self._agents) * _TRACKS + 1
            events.append(
                self._named("thread_name", self._agents[agent], f"sub-agent {agent}" if agent else "turn")
            )
        track = self._agents[agent]
        if span.kind in _TOOL_KINDS:
            place, is_new = self._tool_place(track, span)
            track += place
            if is_new:
                events.append(self._named("thread_name", track, f"tools {place} {agent}".strip()))
        arguments: dict[str, Any] = {**span.attributes, "span_id": span.span_id, "parent_id": span.parent_id}
        if span.error:
            arguments[names.ERROR] = span.error
        event = {
            "name": names.span_name(span),
            "cat": span.kind,
            "ph": "X",
            "ts": round(span.start * 1e6),
            "dur": round(span.duration_s * 1e6),
            "pid": self._process,
            "tid": track,
            "args": arguments,
        }
        return [*events, msgspec.json.encode(event)]

    def _tool_place(self, first: int, span: Span) -> tuple[int, bool]:
        """Return the number of a span's tool track, from 1, and True if the track is new."""
        busy = self._busy.setdefault(first, [])
        key = span.span_id if span.kind == "tool" else span.parent_id
        place = self._reserved.pop(key, None)
        is_new = False
        if place is None:
            free = (at for at, until in enumerate(busy) if until <= span.start)
            place = next(free, len(busy))
            if is_new := place == len(busy):
                busy.append(0.0)
        if span.kind == "tool":
            busy[place] = span.end
        else:
            busy[place] = float("inf")
            self._reserved[key] = place
        return place + 1, is_new

    def _named(self, what: str, track: int, name: str) -> bytes:
        event = {"name": what, "ph": "M", "pid": self._process, "tid": track, "args": {"name": name}}
        return msgspec.json.encode(event)


def trimmed_length(tail: bytes) -> int:
    """Return how much of the end of a Chrome trace is kept when more is appended: without its closing bracket, and
    without an incomplete event."""
    text = tail.rstrip()
    if text.endswith(b"]") and text[:-1].rstrip().endswith(b"}"):
        return len(text[:-1].rstrip())
    line = text.rpartition(b"\n")[2]
    try:
        decode_json(line.rstrip(b","))
        return len(text.rstrip(b","))
    except msgspec.DecodeError:
        return len(text[: len(text) - len(line)].rstrip().rstrip(b",").rstrip(b"["))

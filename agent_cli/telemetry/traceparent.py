"""Trace ids, and their propagation from program to program: `TRACEPARENT`, as in W3C Trace Context."""

import hashlib
import os
from collections.abc import Mapping

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

VARIABLE = "TRACEPARENT"
_OF_OTHERS = "OTEL_"
"""Prefix of variables meant for the program that started this one: an instrumented command would report to the
agent's collector."""
_FORM = lazy_regex(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", 0)


class Parent(msgspec.Struct, frozen=True):
    """The parent program's span in which a session runs; both ids are empty if there is none."""

    trace_id: str = ""
    span_id: str = ""


def parent_in(env: Mapping[str, str]) -> Parent:
    """Return the parent that an environment names; an empty one if it is invalid, which the specification requires
    to be ignored."""
    found = _FORM.fullmatch(env.get(VARIABLE, "").strip())
    if found is None or (found[3] and env[VARIABLE].strip().startswith("00")):
        return Parent()
    trace_id, span_id = found[1], found[2]
    return Parent(trace_id, span_id) if trace_id.strip("0") and span_id.strip("0") else Parent()


def new_trace_id() -> str:
    """Return a trace id: 32 hexadecimal digits."""
    return os.urandom(16).hex()


def new_span_id() -> str:
    """Return a span id: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def tool_span_id(trace_id: str, agent_id: str, call_id: str) -> str:
    """Return the id of a tool call's span. It is derived from the call, so that a command can receive it before
    the events of a sub-agent have arrived."""
    text = f"{trace_id}\n{agent_id}\n{call_id}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def command_env(env: Mapping[str, str], trace_id: str, span_id: str) -> dict[str, str]:
    """Return the environment of a command within a span: with the span as parent, and without the telemetry
    settings of other programs. Outside of spans it keeps the parent of this program."""
    kept = {name: value for name, value in env.items() if not name.startswith(_OF_OTHERS)}
    return {**kept, VARIABLE: f"00-{trace_id}-{span_id}-01"} if trace_id and span_id else kept

"""Check of the chosen model's server for `agent doctor`: find the hop that fails, and advise."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

import msgspec

from agent_cli import __version__
from agent_cli.model.http_model import NativeModel
from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.transport.diagnose import LIMIT_S, HopResult, Target, list_path, walk
from agent_cli.model.transport.error_redaction import ErrorRedactor
from agent_cli.model.transport.errors import explain
from agent_cli.model.types.provider_table import Route
from agent_cli.protocol.json_text import decode_json
from agent_cli.ui.text.hints import AT_A_SHELL, advice

_NO_LIST = frozenset({404, 405, 501})
_MOST_NAMED = 3


class Finding(msgspec.Struct, frozen=True):
    """A line of the report."""

    verdict: Literal["ok", "note", "FAIL"]
    name: str
    text: str
    todo: str = ""
    """Advice."""


async def examine(route: Route, model: NativeModel) -> AsyncGenerator[Finding, None]:
    """Yield a finding for each hop to the model's server; the last one is `FAIL` if no task could run. Requests
    the server's list of models, which costs nothing; takes at most a minute."""
    dialect = model.dialect
    common = {"user-agent": f"agent-cli/{__version__}", "accept": "application/json"}
    headers = {**common, **dialect.headers(), **{name.lower(): value for name, value in route.headers.items()}}
    target = Target(route.base_url, list_path(dialect.path), headers)
    masked = ErrorRedactor(route).masked
    async with aclosing(walk(target, min(LIMIT_S, route.timeouts.connect_s))) as steps:
        async for step in steps:
            finding = _finding(step, route)
            yield msgspec.structs.replace(finding, text=masked(finding.text), todo=masked(finding.todo))


def _finding(step: HopResult, route: Route) -> Finding:
    if step.error is None and step.hop == "http":
        return _answered(step, route)
    if step.error is None:
        return Finding("ok", step.hop, step.text)
    if step.status in _NO_LIST:
        text = f"{route.address} answers (HTTP {step.status}), but lists no models: the key was not tried"
        return Finding("note", step.hop, text)
    told = explain(step.error, route.name)
    message = step.error.message if isinstance(step.error, Unreachable) else told.message
    return Finding("note" if step.status == 429 else "FAIL", step.hop, message, advice(told.hints, AT_A_SHELL))


def _answered(step: HopResult, route: Route) -> Finding:
    key = "the key is accepted" if route.api_key else "no key is sent"
    listed = _names(step.body)
    if not listed:
        return Finding("ok", step.hop, f"{step.text}, {key}")
    if any(route.model in (name, name.removesuffix(":latest")) for name in listed):
        return Finding("ok", step.hop, f"{step.text}, {key}, {route.model} is offered")
    offered = ", ".join(listed[:_MOST_NAMED]) + (" …" if len(listed) > _MOST_NAMED else "")
    return Finding("note", step.hop, f"{step.text}, {key}; {route.model} is not in the list of models: {offered}")


class _Entry(msgspec.Struct, frozen=True):
    id: str = ""
    name: str = ""


class _Listed(msgspec.Struct, frozen=True):
    data: tuple[_Entry, ...] = ()
    models: tuple[_Entry, ...] = ()


def _names(body: bytes) -> tuple[str, ...]:
    """Return the names of the models that a server lists, in either format or both; none for other data."""
    try:
        listed = decode_json(body, type=_Listed)
    except msgspec.DecodeError:
        return ()
    names = (entry.id or entry.name.removeprefix("models/") for entry in (*listed.data, *listed.models))
    return tuple(dict.fromkeys(name.removeprefix("models/") for name in names if name))

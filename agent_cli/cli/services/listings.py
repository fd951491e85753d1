"""Lists for slash commands that combine several parts of the program: known models, offered tools, configuration
keys."""

import asyncio
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import KEY_FILE, keyed, read_key_file, unsaved_names
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import Config
from agent_cli.model.catalog.aliases import USUAL, newest
from agent_cli.model.catalog.catalog import known, model_info
from agent_cli.model.routing import chats, probe_server, servers
from agent_cli.model.types.info import ModelInfo
from agent_cli.model.types.provider_table import ALIASES, provider_spec
from agent_cli.redaction.env_names import is_secret
from agent_cli.redaction.redactor import Redactor
from agent_cli.tools.kit.base import describe
from agent_cli.tools.plugins import Extension
from agent_cli.tools.registry import Registry
from agent_cli.ui import services
from agent_cli.ui.text.lines import count, dollars

if TYPE_CHECKING:
    from agent_cli.bootstrap.plugins import LoadedPlugins
    from agent_cli.hooks.definition import Hook
    from agent_cli.hooks.engine import HookEngine
    from agent_cli.telemetry.span import Span

SERVERS_S = 0.5
"""Seconds to wait for servers, once for their lists and once for their figures on each model."""
_MOST_ASKED = 40
_USER_INFO = re.compile(r"^(\w+://)[^/@\s]+@")
"""A user and password, or a token, in a URL."""
_SENTENCE = re.compile(r"(.+?[.:])(?:\s|$)", re.DOTALL)
_UNSET = "built-in default"
_WAITS = frozenset({"approval", "question", "retry"})


def traced_turns(path: Path) -> tuple[services.TracedTurn, ...]:
    """Return the timing of each turn of a session file, including its sub-agents.

    Raises:
        StoreError: it cannot be read.
    """
    from agent_cli.session.timing import Timing
    from agent_cli.telemetry.recorded.spans import recorded, spans_of

    session = recorded(path)
    return turns_of(spans_of(session), Timing(session.records).prompted)


def turns_of(spans: "Sequence[Span]", prompted: Collection[int] | None = None) -> tuple[services.TracedTurn, ...]:
    """Return the timing of each turn, oldest first.

    Args:
        spans: of a session, or of a trace file. Spans of a turn whose own span is missing, because the program was
        killed, form a turn that has not ended.
        prompted: indices of the turns that a prompt began; None if unknown, which counts all.
    """
    turns: list[services.TracedTurn] = []
    number = 0
    by_id = {span.span_id: span for span in reversed(spans)}  # a damaged file may repeat an id: avoid cycles
    for at, (root, below, ended) in enumerate(_roots([*reversed(by_id.values())])):
        is_prompted = prompted is None or at in prompted
        number += is_prompted
        turns.append(_turn(root, below, number if is_prompted else 0, ended=ended))
    return tuple(turns)


def _turn(root: "Span", below: "dict[str, list[Span]]", number: int, *, ended: bool) -> services.TracedTurn:
    from agent_cli.telemetry.shares import time_shares

    return services.TracedTurn(
        number=number,
        began=time.strftime("%H:%M:%S", time.localtime(root.start)),
        duration_s=root.duration_s,
        shares=time_shares([root, *_inside(root, below)]),
        spans=tuple(_traced(root, below)),
        ended=ended,
        used=_used(root),
    )


def _roots(spans: "Sequence[Span]") -> "list[tuple[Span, dict[str, list[Span]], bool]]":
    """Return the root span of each turn, its spans by parent id, and True if the turn has ended."""
    from agent_cli.telemetry.conventions import STOP_REASON
    from agent_cli.telemetry.span import Span

    below: dict[str, list[Span]] = {}
    for span in spans:
        below.setdefault(span.parent_id, []).append(span)
    known = {span.span_id for span in spans}
    roots: list[tuple[Span, bool]] = []
    for parent_id, inside in below.items():
        if parent_id not in known:
            roots += [(span, STOP_REASON in span.attributes) for span in inside if span.kind == "agent"]
        if parent_id and parent_id not in known and (rest := [span for span in inside if span.kind != "agent"]):
            start, end = min(span.start for span in rest), max(span.end for span in rest)
            trace_id = rest[0].trace_id
            turn = Span(trace_id=trace_id, span_id=parent_id, kind="agent", name="", start=start, end=end)
            roots.append((turn, False))
    return [(root, below, ended) for root, ended in sorted(roots, key=lambda found: found[0].start)]


def _used(root: "Span") -> str:
    """Return the tokens and the cost of a turn as text; empty if unknown."""
    from agent_cli.telemetry import conventions as names

    sent, answered = root.attributes.get(names.INPUT_TOKENS), root.attributes.get(names.OUTPUT_TOKENS)
    cost, share = root.attributes.get(names.COST_USD), root.attributes.get(names.CACHED_SHARE)
    facts = []
    if isinstance(sent, int) and isinstance(answered, int):
        cached = f" ({share:.0%} cached)" if isinstance(share, float) else ""
        facts.append(f"{count(sent)} tokens in{cached}, {count(answered)} out")
    if isinstance(cost, int | float):
        facts.append(dollars(float(cost)))
    return ", ".join(facts)


def _inside(root: "Span", below: "dict[str, list[Span]]") -> "Iterator[Span]":
    waiting = [*below.get(root.span_id, ())]
    while waiting:
        span = waiting.pop()
        yield span
        waiting += below.get(span.span_id, ())


def _traced(root: "Span", below: "dict[str, list[Span]]") -> Iterator[services.TracedSpan]:
    """Yield the spans of a turn in order of their start, each after its parent."""
    from agent_cli.telemetry.conventions import FIRST_CHUNK_S

    def latest_first(span_id: str) -> "list[Span]":
        return sorted(below.get(span_id, ()), key=lambda span: -span.start)

    waiting = [(span, 0) for span in latest_first(root.span_id)]
    while waiting:
        span, depth = waiting.pop()
        first = span.attributes.get(FIRST_CHUNK_S)
        yield services.TracedSpan(
            kind=span.kind, name=span.name, start_s=span.start - root.start, end_s=span.end - root.start,
            depth=depth, error=span.error, first_s=float(first) if isinstance(first, int | float) else None,
            waited_s=sum(each.duration_s for each in below.get(span.span_id, ()) if each.kind in _WAITS),
        )  # fmt: skip
        waiting += [(each, depth + 1) for each in latest_first(span.span_id)]


async def offered_models(setup: Setup, env: Mapping[str, str], query: str) -> list[str]:
    """Return the names of the models listed by local and configured servers."""
    asked = servers(setup.config, env)

    async def listed(base_url: str, key: str) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(SERVERS_S):
                return await probe_server(base_url, key) or ()
        except TimeoutError:
            return ()

    answers = await asyncio.gather(*(listed(base_url, key) for _, base_url, key in asked))
    names = [f"{asked[at][0]}/{model}" for at, found in enumerate(answers) for model in found if chats(model)]
    words = query.lower().split()
    return [name for name in names if all(word in name.lower() for word in words)][:_MOST_ASKED]


async def usual_models(setup: Setup, current: str) -> tuple[services.ModelLine, ...]:
    """Return a short list to choose from: the current model, those of servers, those of the configuration, then
    the newest of each usual family, starting with providers that have a key."""
    keys = _keys(setup)
    offered = await offered_models(setup, keyed(os.environ, setup.config_dir), "")
    own = dict.fromkeys([current, *offered, *configured(setup)])
    first = [_line(setup, _info(setup, name), keys) for name in own if name]
    newer = [name for alias in USUAL if (name := newest(alias)) and name not in own]
    usual = [_line(setup, _info(setup, name), keys) for name in newer]
    return (*first, *sorted(usual, key=lambda line: not line.has_key))


def _line(setup: Setup, info: ModelInfo, keys: frozenset[str]) -> services.ModelLine:
    usable = _is_usable(setup, info.name, keys)
    return services.ModelLine(info.name, info.context_window, info.prices.input, info.prices.output, usable)


def models(setup: Setup, query: str, current: str) -> tuple[services.ModelLine, ...]:
    """Return the known models with all words of `query` in their names: first `current`, then those configured or
    learned about, then those of providers with a key. The short name of a family stands for its newest model."""
    if family := newest(query):
        return (_line(setup, _info(setup, family), _keys(setup)),)
    words = query.lower().split()
    own = dict.fromkeys([current, *configured(setup), *(key.partition(" ")[0] for key in setup.memory.all())])
    mine = [_info(setup, name) for name in own if name and all(word in name.lower() for word in words)]
    names = {info.name for info in mine}
    keys = _keys(setup)
    others = (each for each in known(query) if each.name not in names)
    lines = [_line(setup, info, keys) for info in (*mine, *others)]
    return tuple(sorted(lines, key=lambda line: not line.has_key))


def configured(setup: Setup) -> Iterator[str]:
    """Yield the models that the configuration describes."""
    for provider, settings in setup.config.providers.items():
        for model in settings.models:
            yield f"{provider}/{model}"


def _info(setup: Setup, name: str) -> ModelInfo:
    provider, _, model = name.partition("/")
    settings = setup.config.providers.get(provider)
    return model_info(name, settings.models.get(model) if settings else None)


def _keys(setup: Setup) -> frozenset[str]:
    """Return the variables with a known key; the keyring is not asked."""
    names = unsaved_names() | {name for name, value in os.environ.items() if value.strip()}
    try:
        file = read_key_file(setup.config_dir / KEY_FILE)
    except ConfigError:
        return names
    return names | {*file.values, *file.entries}


def _is_usable(setup: Setup, name: str, keys: frozenset[str]) -> bool:
    """Return True if a model's provider has a key or needs none."""
    provider = name.partition("/")[0]
    settings = setup.config.providers.get(provider) or setup.config.providers.get(ALIASES.get(provider, provider))
    spec = provider_spec(provider)
    if settings is not None and settings.api_key_env:
        return settings.api_key_env in keys
    if settings is not None and settings.base_url:
        return True
    return spec is not None and (spec.local or not spec.key_vars or not keys.isdisjoint(spec.key_vars))


def tools(registry: Registry) -> tuple[services.ToolLine, ...]:
    """Return the tools offered to the model."""
    found = []
    for name in registry.names:
        tool = registry.get(name)
        assert tool is not None
        said = describe(tool)
        first = _SENTENCE.match(said)
        summary = " ".join((first.group(1) if first else said).split()).rstrip(":")
        found.append(services.ToolLine(name, summary, _source(tool)))
    return tuple(found)


def _source(tool: object) -> str:
    if not isinstance(tool, Extension):
        return "built in"
    return "this project, .agent/tools" if tool.source == "project" else f"the plugin {tool.source}"


def config(setup: Setup, redactor: Redactor) -> tuple[services.ConfigLine, ...]:
    """Return every key with its value and source; values that are or may be secrets are masked."""
    defaults = dict(flatten(msgspec.to_builtins(Config())))
    found = []
    for key, value in flatten(msgspec.to_builtins(setup.config)):
        place = setup.loaded.place(key)
        is_default = place == _UNSET or (key in defaults and defaults[key] == value)
        found.append(services.ConfigLine(key, shown_value(key, value, redactor), place, is_default))
    return tuple(found)


def flatten(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every leaf; an empty mapping is a leaf."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from flatten(value, f"{prefix}{key}.")
    else:
        yield prefix.rstrip("."), values


def shown_value(key: str, value: Any, redactor: Redactor) -> str:
    """Return a value as JSON without credentials. All headers are masked, variables by their names, and passwords
    in URLs."""
    *_, inner, name = ("", "", *key.split("."))
    if isinstance(value, str):
        value = _USER_INFO.sub(r"\1[masked]@", value)
    if isinstance(value, str) and (inner == "headers" or (inner == "env" and is_secret(name, value))):
        return '"[masked]"'
    return redactor.mask(msgspec.json.encode(value).decode(), assignments=True)


def plugin_lines(plugins: "LoadedPlugins") -> tuple[services.PluginLine, ...]:
    """Return the installed plug-ins."""
    from agent_cli.extensions.plugins.effects import part_lines

    return tuple(
        services.PluginLine(
            each.name,
            each.installed.version,
            each.state,
            ", ".join(part_lines(each.plugin)) if each.plugin is not None else "",
            each.installed.source,
            each.problem,
        )
        for each in plugins.listed
    )


def hook_lines(hooks: "HookEngine") -> tuple[services.HookLine, ...]:
    """Return a line for each hook."""
    found = []
    for hook in hooks.hooks:
        runs = [run for run in hooks.runs if run.hook == hook.label and run.event == hook.event]
        last = runs[-1] if runs else None
        ended = (
            last.failure or f"{last.decision or 'no decision'}, {last.duration_s * 1000:.0f} ms" if last else ""
        )
        is_off = hook.label in hooks.is_off
        line = services.HookLine(
            hook.label, hook.event, hook.matcher, hook.line, hook.source, is_off, ended, len(runs), _about(hook)
        )
        found.append(line)
    return tuple(found)


def _about(hook: "Hook") -> str:
    facts = (
        f"if {hook.condition}" if hook.condition else "",
        "beside the turn" if hook.is_async else "",
        "once" if hook.is_once else "",
        hook.status,
    )
    return ", ".join(filter(None, facts))

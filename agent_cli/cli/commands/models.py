"""`agent models`: the known facts about models, each figure with its source, including models of reachable servers
and learned limits."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import keyed
from agent_cli.model.catalog.catalog import known
from agent_cli.model.routing import bad_addresses, probe_of, resolve
from agent_cli.model.types.base import ModelError
from agent_cli.model.types.info import FIGURES, ModelInfo, Source
from agent_cli.model.types.provider_table import provider_spec
from agent_cli.protocol.usage import LearnedLimits

from ..services.completion import model_names
from ..services.listings.models import SERVERS_S, configured, offered_models

_ABILITIES = {"tools": "tools", "images": "images", "reasoning": "reasoning"}


class _Line(msgspec.Struct, frozen=True):
    """A listed model."""

    info: ModelInfo
    learned: LearnedLimits = LearnedLimits()
    offered: bool = False
    """True if a server that was asked just now offers it."""


def models_command(
    query: Annotated[str, typer.Argument(help="Part of the name.", autocompletion=model_names)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what was learned about these models.")] = False,
) -> int:
    """List known models: context window, max output, prices per million tokens, capabilities, and the source of
    each figure; with the models of local and configured servers that answer."""
    setup = Setup()
    if forget:
        dropped = setup.memory.forget(query)
        print("\n".join(f"forgotten: {key}" for key in dropped) or "nothing was learned about such a model")
        return 0
    for error in bad_addresses(setup.config, keyed(os.environ, setup.config_dir)):
        print(f"agent: {error}; its server is not asked", file=sys.stderr)
    words = query.lower().split()
    found = asyncio.run(_collected(setup, query))
    lines = [line for line in found if all(word in line.info.name.lower() for word in words)]
    if as_json:
        print(msgspec.json.encode([_plain(line) for line in lines]).decode())
        return 0
    if lines:
        print("\n".join(_table(lines)))
    else:
        print(f"no known model has {query!r} in its name; any name that your provider knows can be used")
        if query in setup.config.providers or ((spec := provider_spec(query)) is not None and spec.local):
            print(f"The server of {query} listed no models. `agent doctor -m {query}/MODEL` tells why.")
    return 0


async def _collected(setup: Setup, query: str) -> list[_Line]:
    """Return the models of servers first, then those learned about or configured, then those of the catalogue."""
    env = keyed(os.environ, setup.config_dir)
    offered = await offered_models(setup, env, query)
    remembered = [key.partition(" ")[0] for key in setup.memory.all()]
    names = [name for name in dict.fromkeys([*offered, *configured(setup), *remembered]) if name]
    own = await asyncio.gather(*(_line(setup, env, name, name in offered) for name in names))
    mine = {line.info.name: line for line in own if line is not None}
    return [*mine.values(), *(_Line(info) for info in known(query) if info.name not in mine)]


async def _line(setup: Setup, env: Mapping[str, str], name: str, offered: bool) -> _Line | None:
    """Return a model with the figures of its server, if it answers; None if its provider cannot be used."""
    try:
        route = resolve(name, setup.config.providers, env)
    except ModelError:
        return None
    probe = probe_of(route, setup.config)
    if offered:
        await probe.ask(SERVERS_S)
    learned = setup.memory.recall(route.key)
    return _Line(probe.with_learned(learned), learned, offered)


def _plain(line: _Line) -> dict[str, object]:
    """Return a model for JSON output: the figures by name, null if unknown, and the source of each known
    figure."""
    info = line.info
    prices = msgspec.to_builtins(info.prices) | {
        "long": [{"above": tier.above, **msgspec.to_builtins(tier.rates)} for tier in info.prices.long]
    }
    figures = {name: getattr(info, name) for name in FIGURES}
    return {
        "name": info.name, **figures, "prices": prices, "sources": info.sources, "offered": line.offered,
        "refuses": list(line.learned.refused),
    }  # fmt: skip


def _table(lines: list[_Line]) -> Iterator[str]:
    """Return aligned rows below a heading. The main source is at the end of a row; a different source follows its
    figure."""
    rows = [_HEADING, *map(_row, lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADING) - 1)]
    for row in rows:
        cells = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        yield "  ".join([*cells, row[-1]]).rstrip()


def _row(line: _Line) -> tuple[str, ...]:
    info, prices = line.info, line.info.prices
    counted = Counter(info.sources.values())
    main: Source = counted.most_common(1)[0][0] if counted else "unknown"

    def told(figure: str, text: str) -> str:
        source = info.source(figure)
        return text if source in (main, "unknown") else f"{text} [{source}]"

    abilities = [
        told(figure, word if getattr(info, figure) else f"no {word}")
        for figure, word in _ABILITIES.items()
        if getattr(info, figure) is not None
    ]
    if prices.long:
        abilities.append(
            told("long", f"price rises above {', '.join(_tokens(tier.above) for tier in prices.long)}")
        )
    if line.learned.refused:
        abilities.append(f"refuses {', '.join(line.learned.refused)} [learned]")
    return (
        info.name,
        told("context_window", _tokens(info.context_window)),
        told("max_output_tokens", _tokens(info.max_output_tokens)),
        told("input", _price(prices.input)),
        told("output", _price(prices.output)),
        told("cache_read", _price(prices.cache_read)),
        f"{', '.join(abilities)}  ({main})".lstrip(),
    )


_HEADING = ("model", "window", "answer", "$ in", "$ out", "$ cached", "takes (source)")
"""Tokens, and US dollars per million tokens."""


def _tokens(count: int | None) -> str:
    """Return a count of tokens as `200k`, `1M` or `262,144`: short if that loses nothing."""
    if count is None:
        return "?"
    if count % 1_000_000 == 0:
        return f"{count // 1_000_000}M"
    return f"{count // 1_000}k" if count % 1_000 == 0 else f"{count:,}"


def _price(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"

"""Known models and those that servers list, as the front ends show them."""

import asyncio
import os
from collections.abc import Iterator, Mapping

from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import KEY_FILE, keyed, read_key_file, unsaved_names
from agent_cli.config.layer import ConfigError
from agent_cli.model.catalog.aliases import USUAL, newest
from agent_cli.model.catalog.catalog import known, model_info
from agent_cli.model.routing import chats, probe_server, servers
from agent_cli.model.types.info import ModelInfo
from agent_cli.model.types.provider_table import ALIASES, provider_spec
from agent_cli.ui import services

SERVERS_S = 0.5
"""Seconds to wait for servers, once for their lists and once for their figures on each model."""
_MOST_ASKED = 40


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

"""Select the client for a model name, from configuration, environment and provider table, in that order."""

import ipaddress
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from agent_cli.config.api_keys import key_of, source_of
from agent_cli.config.expand import expand
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import Config, ModelOverride, Provider, Wire
from agent_cli.protocol.lazy_regex import lazy_regex

from .catalog.catalog import model_info
from .types.base import Memory, Model, ModelError, NotSent, Trace
from .types.provider_table import (
    ALIASES,
    BARE_NAMES,
    PROVIDERS,
    UNKNOWN,
    ProviderSpec,
    Quirks,
    Route,
    provider_spec,
)
from .wire.dialect import Dialect

if TYPE_CHECKING:
    from .catalog.server_query import CapabilityProbe

Probe = Callable[[str, str], Awaitable[tuple[str, ...] | None]]
"""Maps a base URL and key to the models a server offers, or None if it does not answer."""

PROBE_S = 1.0
_VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
REPLAY = "replay"
_NO_CHAT = lazy_regex(r"embed|minilm|\bbge-|rerank|whisper")
"""Words in the names of models that cannot chat."""
_NATIVE: frozenset[Wire] = frozenset({"chat_completions", "ollama_chat", "anthropic_messages", "openai_responses"})
"""Wire formats with a client of our own; the others go through LiteLLM."""
_RESPONSES_PREFIXES = ("gpt-5", "gpt-6", "o1", "o3", "o4", "codex")
"""OpenAI models that support tools together with reasoning only in the Responses format."""


class BadModelName(NotSent):
    """The name contains no known provider, or no readable recording."""

    def __init__(self, message: str) -> None:
        super().__init__("not_found", message)


class BadAddress(NotSent):
    """Invalid address; the text names the variable or configuration key that holds it."""

    def __init__(self, source: str, given: str) -> None:
        shown = re.sub(r"[^/]*//.*@|^[^/]*@", "…@", given)  # a password may hold any character
        super().__init__("not_found", f"{source} is not an address such as http://127.0.0.1:8080/v1: “{shown}”")


class MissingKey(NotSent):
    """The provider needs a key that is not set; the text names the variable."""

    def __init__(self, message: str, provider: str = "") -> None:
        """Create an error. `provider` is empty if the variable name itself is invalid, so that no key could be
        found under it."""
        super().__init__("auth", message)
        self.provider = provider


class NoModel(Exception):
    """No model was named and none was found; the text says what to do."""


def resolve(name: str, providers: Mapping[str, Provider], env: Mapping[str, str]) -> Route:
    """Return the route for a model's requests.

    Args:
        name: `provider/model`; a bare name of a well-known family is completed, and `sonnet` is its newest model.
        providers: from the configuration, by prefix.
        env: environment variables.

    Raises:
        BadModelName: the name does not identify a provider.
        BadAddress: the provider's address is invalid.
        ConfigError: a variable used in the address or a header is not set.
        MissingKey: the provider's key is not set.
    """
    provider, model = _split(name, providers)
    override = _override(provider, providers)
    spec = provider_spec(provider) or ProviderSpec(wire="litellm")
    base_url, custom = _base_url(provider, spec, override, env)
    key = _key(provider, spec, override, env, needed=not (spec.local or custom))
    wire = override.wire or _wire(provider, spec, model, custom=custom)
    unknown_make = custom and (provider == "openai" or provider_spec(provider) is None)
    return Route(
        name=f"{provider}/{model}",
        provider=ALIASES.get(provider, provider),
        model=model,
        wire=wire,
        base_url=_spoken_at(base_url, wire, spec),
        api_key=key,
        headers={
            name: expand(value, env, f"providers.{provider}.headers.{name}")
            for name, value in override.headers.items()
        },
        timeouts=override.timeouts,
        quirks=UNKNOWN if unknown_make else _quirks(spec, model, custom=custom),
    )


def _quirks(spec: ProviderSpec, model: str, *, custom: bool) -> Quirks:
    """Return the quirks of a provider's server; a custom server at its address may support less."""
    beside_tools = (spec.quirks.schema_beside_tools or model.startswith("gemini-3")) and not custom
    return msgspec.structs.replace(spec.quirks, schema_beside_tools=beside_tools)


async def open_model(
    name: str, config: Config, env: Mapping[str, str], memory: Memory | None = None, trace: Trace | None = None
) -> Model:
    """Create the client for a model without loading an HTTP library or using the network (see `preload`). `memory`
    stores limits learned from refusals, otherwise they last as long as the client; `trace` receives each
    request.

    Raises:
        BadModelName, BadAddress, MissingKey: no client can be created for this name.
    """
    if name.startswith(f"{REPLAY}/"):
        return _open_replay(name)
    route = resolve(name, config.providers, env)
    if route.wire in _NATIVE:
        from .http_model import NativeModel

        probe = probe_of(route, config)
        return NativeModel(route, probe.info, _dialect(route, probe), memory, probe, trace)
    provider = _litellm_name(route)
    from .litellm.model import LiteLLMModel

    spec = provider_spec(route.provider)
    if spec is not None and route.base_url == spec.base_url:
        route = msgspec.structs.replace(route, base_url="")  # LiteLLM's own address is the same, with its path
    return LiteLLMModel(route, model_info(route.name, _facts(route, config), deep=True), provider)


def may_choose(name: str, current: str, config: Config) -> bool:
    """Return True if the `current` model may choose another one by this name: one that the configuration names, or
    one of its own provider or a configured one. Any other provider would see the user's texts unasked; a recording
    is a file.

    Raises:
        BadModelName: the name does not identify a provider.
    """
    if name in (config.model, config.small_model, *config.fallback_models):
        return True
    named, *known = (
        ALIASES.get(each, each)
        for each in (_split(name, config.providers)[0], *config.providers, current.partition("/")[0])
    )
    return named != REPLAY and named in known


def check_model(name: str, config: Config, env: Mapping[str, str]) -> None:
    """Check that a client could be created for a model, without creating one.

    Raises:
        BadModelName, BadAddress, MissingKey: none could.
    """
    route = resolve(name, config.providers, env)
    if route.wire not in _NATIVE:
        _litellm_name(route)


def probe_of(route: Route, config: Config) -> "CapabilityProbe":
    """Return a probe with the known facts about a route's model and the questions for its server."""
    from .catalog.server_query import CapabilityProbe

    return CapabilityProbe(model_info(route.name, _facts(route, config), deep=route.wire == "litellm"), route)


def _facts(route: Route, config: Config) -> ModelOverride | None:
    """Return the configured facts about a route's model."""
    return _override(route.name.partition("/")[0], config.providers).models.get(route.model)


def _dialect(route: Route, probe: "CapabilityProbe") -> Dialect:
    match route.wire:
        case "anthropic_messages":
            from .wire.anthropic.dialect import AnthropicDialect

            return AnthropicDialect(route, probe.info)
        case "openai_responses":
            from .wire.responses.dialect import ResponsesDialect

            return ResponsesDialect(route, probe.info)
        case "ollama_chat":
            from .wire.chat.ollama import OllamaDialect

            return OllamaDialect(route, probe)
    from .wire.chat.dialect import ChatDialect

    return ChatDialect(route)


def _litellm_name(route: Route) -> str:
    """Return LiteLLM's name for a provider: its own, or `openai` for any OpenAI-compatible server.

    Raises:
        BadModelName: neither this program nor LiteLLM knows the provider, and it has no address.
    """
    from .types.litellm_names import litellm_providers, nearest

    provider = route.name.partition("/")[0]
    if provider in (known := litellm_providers()) or not known or provider_spec(provider) is not None:
        return provider
    if route.base_url:
        return "openai"
    raise BadModelName(
        f"unknown provider “{provider}” of “{route.name}”. {nearest(provider, {*PROVIDERS, *known})}A "
        f"server of your own needs `providers.{provider}.base_url` in the configuration."
    )


def preload(name: str, config: Config, env: Mapping[str, str]) -> None:
    """Load the modules that the first call of this model needs. Slow: meant for a thread after the first paint.
    Does nothing for a name that cannot be opened."""
    if name.startswith(f"{REPLAY}/"):
        return
    try:
        route = resolve(name, config.providers, env)
    except NotSent:
        return
    if route.wire in _NATIVE:
        from .transport.http import tls_context

        if route.base_url.startswith("https:"):
            tls_context()
    else:
        from .litellm.model import load_litellm

        try:
            load_litellm()
        except ModelError:
            pass  # reported when the model is called


async def probe_server(base_url: str, key: str) -> tuple[str, ...] | None:
    """Return the models a server lists under `…/models` within `PROBE_S` seconds, trying `/v1` too for an address
    without a path."""
    from .transport.http import list_models

    headers = {"authorization": f"Bearer {key}"} if key else {}
    listed = await list_models(base_url, headers, PROBE_S)
    if listed is None and not urlsplit(base_url).path.strip("/"):
        listed = await list_models(f"{base_url}/v1", headers, PROBE_S)
    return listed


async def choose_default(config: Config, env: Mapping[str, str], probe: Probe = probe_server) -> str:
    """Return the model to use when none is named: the default model of the first provider with a key, in table
    order, else the first model of a local or configured server that answers.

    Raises:
        BadAddress: there is neither, or the address of the server to use is invalid.
        NoModel: there is neither.
    """
    for provider, spec, override, key in _with_key(config, env):
        base_url, custom = _base_url(provider, spec, override, env)
        offered = (await probe(base_url, key) or ()) if custom else ()
        return f"{provider}/{_pick(offered, spec.default_model)}"
    import asyncio

    asked = servers(config, env)
    answers = await asyncio.gather(*(probe(base_url, key) for _, base_url, key in asked))
    for (provider, _, _), listed in zip(asked, answers, strict=True):
        if listed and (model := _pick(listed, "")):
            return f"{provider}/{model}"
    for error in bad_addresses(config, env):
        raise error
    raise NoModel(_no_model_text())


def known_default(config: Config, env: Mapping[str, str]) -> str:
    """Return the result of `choose_default` if it requires no server query; otherwise empty.

    Raises:
        BadAddress: as `choose_default`.
    """
    for provider, spec, override, _ in _with_key(config, env):
        _, custom = _base_url(provider, spec, override, env)
        return "" if custom else f"{provider}/{spec.default_model}"
    return ""


def _with_key(config: Config, env: Mapping[str, str]) -> Iterator[tuple[str, ProviderSpec, Provider, str]]:
    """Yield the providers with a default model and a key, in table order, each with its key."""
    for provider, spec in PROVIDERS.items():
        override = _override(provider, config.providers)
        if not spec.local and spec.default_model and (key := _found_key(spec, override, env)):
            yield provider, spec, override, key


def _split(name: str, providers: Mapping[str, Provider]) -> tuple[str, str]:
    provider, slash, model = name.partition("/")
    if slash and provider and model:
        return provider, model
    if not slash and name:
        for prefix, owner in BARE_NAMES.items():
            if name.startswith(prefix):
                return owner, name
        from .catalog.aliases import newest

        if family := newest(name):
            return _split(family, providers)
    known = ", ".join([*providers, *list(PROVIDERS)[:6]])
    raise BadModelName(f"“{name}” is not a model name: write PROVIDER/MODEL with a provider such as {known}")


def _override(provider: str, providers: Mapping[str, Provider]) -> Provider:
    return providers.get(provider) or providers.get(ALIASES.get(provider, provider)) or Provider()


def _base_url(provider: str, spec: ProviderSpec, override: Provider, env: Mapping[str, str]) -> tuple[str, bool]:
    """Return the base URL, and True if the user gave it.

    Raises:
        BadAddress: the given URL is invalid.
    """
    source = next((name for name in spec.base_url_vars if env.get(name)), "")
    given = expand(override.base_url or "", env, f"providers.{provider}.base_url") or env.get(source, "")
    if not given:
        return spec.base_url, False
    try:
        url = _local_url(given, spec) if spec.local else given.rstrip("/")
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadAddress(f"`providers.{provider}.base_url`" if override.base_url else source, given)
    return url, True


def _spoken_at(base_url: str, wire: Wire, spec: ProviderSpec) -> str:
    """Return the address for a wire format: Ollama's own is at the root, its OpenAI endpoint below `/v1`."""
    if spec.wire != "ollama_chat":
        return base_url
    root = base_url.removesuffix("/v1")
    return f"{root}/v1" if wire == "chat_completions" else root


def _local_url(given: str, spec: ProviderSpec) -> str:
    """Complete a local server's address as users write it: without scheme, port or `/v1`, or the address it
    listens on instead of one to connect to."""
    parts = urlsplit(given if "://" in given else f"http://{given}")
    host = parts.hostname or "127.0.0.1"
    try:
        if ipaddress.ip_address(host).is_unspecified:
            host = "127.0.0.1"
    except ValueError:
        pass
    default_port = urlsplit(spec.base_url).port if parts.scheme == "http" else None
    port = parts.port or default_port
    shown = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{path}"


def _key(provider: str, spec: ProviderSpec, override: Provider, env: Mapping[str, str], *, needed: bool) -> str:
    key = _found_key(spec, override, env)
    if key:
        return key
    if override.api_key_env and not _VARIABLE.fullmatch(override.api_key_env):
        raise MissingKey(
            f"`providers.{provider}.api_key_env` must be the NAME of a variable, such as MINE_API_KEY; what is "
            "there looks like a key, which belongs into that variable"
        )
    if override.api_key_env:
        raise MissingKey(
            f"{override.api_key_env}, the variable for the key of {provider} in the configuration, is not set",
            provider,
        )
    if needed and spec.key_vars:
        raise MissingKey(f"{provider} needs a key: set {' or '.join(spec.key_vars)}", provider)
    return ""


def _found_key(spec: ProviderSpec, override: Provider, env: Mapping[str, str]) -> str:
    return next((key for name in _key_names(spec, override) if (key := key_of(env, name))), "")


def _key_names(spec: ProviderSpec, override: Provider) -> tuple[str, ...]:
    return (override.api_key_env,) if override.api_key_env else spec.key_vars


def key_source(name: str, providers: Mapping[str, Provider], env: Mapping[str, str]) -> str:
    """Return the source of the key for a model, in words; empty if no key is sent.

    Raises:
        BadModelName: the name does not identify a provider.
    """
    provider, _ = _split(name, providers)
    names = _key_names(provider_spec(provider) or ProviderSpec(), _override(provider, providers))
    return next((source for each in names if (source := source_of(env, each))), "")


def _wire(provider: str, spec: ProviderSpec, model: str, *, custom: bool) -> Wire:
    if provider == "openai" and not custom and model.startswith(_RESPONSES_PREFIXES):
        return "openai_responses"
    if custom and provider not in PROVIDERS and provider not in ALIASES:
        return "chat_completions"
    return spec.wire


def _open_replay(name: str) -> Model:
    from .replay import ReplayModel

    path = Path(os.path.expanduser(name.partition("/")[2]))
    try:
        return ReplayModel.open(path, name)
    except OSError as error:
        raise BadModelName(f"cannot read the recording {path}: {error.strerror}") from error


def bad_addresses(config: Config, env: Mapping[str, str]) -> list[BadAddress]:
    """Return the invalid addresses, whose servers cannot be asked."""
    found: list[BadAddress] = []
    for provider in dict.fromkeys([*config.providers, *PROVIDERS]):
        try:
            _base_url(
                provider, provider_spec(provider) or ProviderSpec(), _override(provider, config.providers), env
            )
        except BadAddress as error:
            found.append(error)
    return found


def servers(config: Config, env: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return provider, base URL and key of the servers worth asking: those with a user-given address, then the
    usual local ones. Invalid addresses are skipped."""
    given: list[tuple[str, str, str]] = []
    usual: list[tuple[str, str, str]] = []
    for provider in dict.fromkeys([*config.providers, *PROVIDERS]):
        spec = provider_spec(provider) or ProviderSpec()
        override = _override(provider, config.providers)
        try:
            base_url, custom = _base_url(provider, spec, override, env)
        except (BadAddress, ConfigError):
            continue
        lists_models = (override.wire or spec.wire) in ("chat_completions", "ollama_chat", "openai_responses")
        if base_url and (custom or spec.local) and lists_models:
            listed_at = _spoken_at(base_url, "chat_completions", spec)
            found = (provider, listed_at, _found_key(spec, override, env))
            (given if custom else usual).append(found)
    return given + usual


def _pick(listed: tuple[str, ...], wanted: str) -> str:
    """Return the wanted model if it is listed, else the first that can chat; the wanted one if none can."""
    chat = [name for name in listed if chats(name)]
    return wanted if wanted in chat or not chat else chat[0]


def chats(model: str) -> bool:
    """Return True if the name of a listed model suggests that it can chat."""
    return not _NO_CHAT.search(model.lower())


def _no_model_text() -> str:
    keys = ", ".join(spec.key_vars[0] for spec in PROVIDERS.values() if spec.default_model)
    return (
        f"No model was named, no key is set, and no local server answers. Set one of {keys}; or start a local "
        "server (Ollama, LM Studio, llama.cpp, vLLM); or name a model with --model PROVIDER/MODEL."
    )

"""Shell completion of sessions, models, keys, servers and plug-ins, and the options that have one in Typer's form.

Separate from the commands, several of which take the id of a session, or options of the fast commands.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from agent_cli.bootstrap.options import Option, UsageError
from agent_cli.config.layer import ConfigError
from agent_cli.store.session_file import StoreError

_OFFERED = 20
_TITLE_CHARS = 60


def session_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions of this directory with this id prefix, newest first, with their titles (the first
    prompt, if none was given); none if they cannot be read."""
    from agent_cli.bootstrap.setup import Setup
    from agent_cli.ui.text.lines import one_line

    try:
        setup = Setup()
        infos = setup.sessions.list(setup.root, limit=_OFFERED)
    except (UsageError, ConfigError, StoreError, OSError):
        return []
    return [(info.id, one_line(info.title, _TITLE_CHARS)) for info in infos if info.id.startswith(incomplete)]


def server_names(incomplete: str) -> list[str]:
    """Return the MCP servers with this prefix; none if they cannot be read."""
    from agent_cli.bootstrap.mcp_servers import every_server, found_servers
    from agent_cli.bootstrap.setup import Setup

    try:
        found = found_servers(Setup())
    except (UsageError, ConfigError, OSError):
        return []
    return [each.name for each in every_server(found) if each.name.startswith(incomplete)]


def plugin_names(incomplete: str) -> list[str]:
    """Return the plug-ins with this prefix; none if they cannot be read."""
    from agent_cli.bootstrap.plugins import store_of
    from agent_cli.bootstrap.setup import Setup
    from agent_cli.extensions.plugins.plugin import PluginError

    try:
        found = store_of(Setup()).installed()
    except (UsageError, ConfigError, PluginError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """Return the known models with this prefix."""
    return _beginning(_models)(incomplete)


def config_keys(incomplete: str) -> list[str]:
    """Return the configuration keys with this prefix, those of nested keys included; none if the configuration
    cannot be read."""
    import msgspec

    from agent_cli.bootstrap.setup import Setup

    from .listings.settings import flatten

    try:
        keys = [key for key, _ in flatten(msgspec.to_builtins(Setup().config))]
    except (UsageError, ConfigError, OSError):
        return []
    return [key for key in keys if key.startswith(incomplete)]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return a completion of fixed words."""
    return _beginning(lambda: words)


def option(
    *names: str,
    text: str,
    value: str,
    least: float | None = None,
    offered: Callable[[str], list[str]] | None = None,
) -> Any:
    """Return the declaration of an option that takes a value. `offered` completes the value; words in `value` that
    are separated by `|` are completed as they are."""
    if offered is None and "|" in value:
        offered = one_of(*value.split("|"))
    return typer.Option(*names, help=text, metavar=value, min=least, autocompletion=offered)


def option_parameter(option: Option) -> inspect.Parameter:
    """Return an option of the table as a parameter for Typer."""
    kinds: dict[str, tuple[Any, Any]] = {
        "text": (str | None, None),
        "whole": (int | None, None),
        "number": (float | None, None),
        "flag": (bool, False),
        "list": (list[str] | None, None),
    }
    kind, default = kinds[option.kind]
    name = f"{option.key}_" if option.key in ("continue",) else option.key
    offered = typer.Option(
        *option.names,
        help=option.help,
        metavar="|".join(option.choices) or option.value or None,
        autocompletion=_offering(option),
    )
    return keyword(name, Annotated[kind, offered], default)


def _offering(option: Option) -> Callable[[str], Any] | None:
    """Return the shell completion of an option's values, if they are known."""
    if option.choices:
        return one_of(*option.choices)
    known: dict[str, Callable[[str], Any]] = {"model": model_names, "resume": session_ids}
    return known.get(option.key)


def _beginning(values: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completion of the values with the typed prefix."""

    def offer(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)]

    return offer


def _models() -> Iterable[str]:
    from agent_cli.model.catalog.catalog import known

    return (info.name for info in known(""))


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a keyword-only parameter."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

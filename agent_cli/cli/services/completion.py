"""Shell completion of sessions, models, keys, servers and plug-ins, and the options that have one in Typer's form.

Separate from the commands, several of which take the id of a session, or options of the fast commands.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from agent_cli.bootstrap.options import SHARED, Option, UsageError
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


def completing(values: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completion of the values with the typed prefix; of none if they cannot be read."""

    def offer(incomplete: str) -> list[str]:
        from agent_cli.extensions.plugins.plugin import PluginError

        try:
            return [value for value in values() if value.startswith(incomplete)]
        except (UsageError, ConfigError, StoreError, PluginError, OSError):
            return []

    return offer


@completing
def server_names() -> Iterable[str]:
    """Return the MCP servers."""
    from agent_cli.bootstrap.mcp_servers import every_server, found_servers
    from agent_cli.bootstrap.setup import Setup

    return (each.name for each in every_server(found_servers(Setup())))


@completing
def plugin_names() -> Iterable[str]:
    """Return the plug-ins."""
    from agent_cli.bootstrap.plugins import store_of
    from agent_cli.bootstrap.setup import Setup

    return store_of(Setup()).installed()


@completing
def model_names() -> Iterable[str]:
    """Return the known models."""
    from agent_cli.model.catalog.catalog import known

    return (info.name for info in known(""))


@completing
def config_keys() -> Iterable[str]:
    """Return the configuration keys, those of nested keys included."""
    import msgspec

    from agent_cli.bootstrap.setup import Setup

    from .listings.settings import flatten

    return (key for key, _ in flatten(msgspec.to_builtins(Setup().config)))


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return a completion of fixed words."""
    return completing(lambda: words)


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
    known: dict[str, Callable[[str], Any]] = dict.fromkeys(("resume", "session"), session_ids)
    known["model"] = model_names
    words = option.choices or (tuple(option.value.split("|")) if "|" in option.value else ())
    kind, absent = kinds[option.kind]
    name = f"{option.key}_" if option.key in ("continue",) else option.key
    offered = typer.Option(
        *option.names,
        help=option.help,
        metavar="|".join(words) or option.value or None,
        min=option.least,
        autocompletion=one_of(*words) if words else known.get(option.key),
    )
    return keyword(name, Annotated[kind, offered], absent if option.default is None else option.default)


def with_options(*options: Option) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds options to a command, which receives as `given`, by key, those that have a
    value."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = [each for each in inspect.signature(command).parameters.values() if each.name != "given"]

        def run(**values: Any) -> int:
            taken = {option: values.pop(option.key) for option in options}
            for option, value in taken.items():
                if option.choices and value is not None and value not in option.choices:
                    raise UsageError(f"{option.names[0]}: {value!r} is not one of {', '.join(option.choices)}")
            given = {each.key: value for each, value in taken.items() if value is not None and value is not False}
            return command(**values, given=given)

        run.__doc__ = command.__doc__
        declare(run, (*own, *map(option_parameter, options)))
        return run

    return decorate


def shared(*keys: str) -> Iterator[Option]:
    """Yield options of a session, by key."""
    return (each for each in SHARED if each.key in keys)


def declare(function: Any, parameters: Sequence[inspect.Parameter]) -> None:
    """Give a function these parameters, for Typer."""
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a keyword-only parameter."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

"""`agent config`: what holds here, and where it comes from."""

import os
from typing import Any

import msgspec
import typer

from ..config.example import example
from ..config.schema import Config
from .options import Chosen, UsageError
from .setup import Setup

config = typer.Typer(help="The configuration and where each value comes from.", no_args_is_help=True)


@config.command()
def show() -> int:
    """Every key with its effective value and its place."""
    setup = Setup(Chosen("agent", {}))
    for key, value in flatten(msgspec.to_builtins(setup.config)):
        print(f"{key}: {msgspec.json.encode(value).decode()}    # {setup.loaded.place(key)}")
    for key, place in setup.loaded.ignored:
        print(f"# ignored: {key}    # {place}: a project's file may not say so")
    return 0


@config.command()
def path() -> int:
    """Where the configuration and state live."""
    setup = Setup(Chosen("agent", {}))
    print(f"configuration: {setup.config_dir / 'config.yaml'}")
    print(f"state:         {setup.state}")
    print(f"sessions:      {setup.sessions.folder}")
    return 0


@config.command()
def explain(key: str) -> int:
    """One key: its value and its place."""
    setup = Setup(Chosen("agent", {}))
    values = dict(flatten(msgspec.to_builtins(setup.config)))
    found = {name: value for name, value in values.items() if name == key or name.startswith(f"{key}.")}
    if not found:
        raise UsageError(f"there is no key {key!r}; `agent config show` lists them all")
    for name, value in found.items():
        print(f"{name}: {msgspec.json.encode(value).decode()}    # {setup.loaded.place(name)}")
    return 0


@config.command()
def init() -> int:
    """Write a configuration file with every key at its default."""
    setup = Setup(Chosen("agent", {}))
    target = setup.config_dir / "config.yaml"
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(example())
    except FileExistsError as error:
        raise UsageError(f"{target} exists already; edit it") from error
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    print(f"Wrote {target}")
    return 0


@config.command()
def schema() -> int:
    """The configuration's JSON Schema."""
    print(msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Config)), indent=2).decode())
    return 0


def flatten(values: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted key and value of every leaf."""
    if not isinstance(values, dict) or not values:
        return [(prefix.rstrip("."), values)]
    return [pair for key, value in values.items() for pair in flatten(value, f"{prefix}{key}.")]

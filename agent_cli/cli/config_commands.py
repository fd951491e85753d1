"""`agent config` and `agent permissions`: what holds here, and where it comes from."""

import os
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from ..config.example import example
from ..config.schema import Config
from ..config.yaml_file import read_file
from ..core.permissions import Permissions
from ..policy.authorize import authorize
from ..policy.rules import RuleError, parse_rule
from ..protocol.actions import Action, Allow, Ask, Mode, RunCommand, Verdict, WritePath
from ..store.grants import GrantFile
from ..workspace.paths import PathError
from .options import Chosen, UsageError
from .setup import Setup

config = typer.Typer(help="The configuration and where each value comes from.", no_args_is_help=True)
permissions = typer.Typer(help="What is allowed, asked or denied, and by which rule.", no_args_is_help=True)


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


@permissions.command("list")
def list_rules() -> int:
    """Every rule in force, with its place."""
    for rule in _permissions().rules():
        print(f"{rule.effect:5}  {rule.text}    # {rule.place}")
    return 0


@permissions.command("explain")
def explain_action(
    command: Annotated[str | None, typer.Argument(help="A command line.")] = None,
    write: Annotated[str | None, typer.Option(help="A path to write instead.")] = None,
    mode: Annotated[str | None, typer.Option(help="In this mode instead of the configured one.")] = None,
) -> int:
    """What would happen to a command or a write, and which rule says so."""
    if (command is None) == (write is None):
        raise UsageError("name either a command or --write PATH")
    setup = Setup(Chosen("agent", {}))
    judge = _permissions(setup)
    if mode is not None:
        if mode not in get_args(Mode):
            raise UsageError(f"--mode: {mode!r} is not one of {', '.join(get_args(Mode))}")
        judge.mode = msgspec.convert(mode, Mode)
    action: Action
    if command is not None:
        action = RunCommand(command, str(setup.workspace.root))
    else:
        try:
            resolved = setup.workspace.resolve(write or "")
        except PathError as error:
            raise UsageError(f"--write: {error}") from error
        action = WritePath(resolved.real, resolved.shown)
    print(in_words(authorize(action, judge.policy())))
    return 0


@permissions.command("test")
def test_rules(file: Annotated[Path, typer.Argument(help="A configuration file.")]) -> int:
    """Check that every rule of a file can be read."""
    layer = read_file(file)
    wrong = 0
    for effect, rules in layer.values.get("permissions", {}).items():
        for index, text in enumerate(rules):
            try:
                parse_rule(text, effect, layer.place(f"permissions.{effect}.{index}"))
            except RuleError as error:
                wrong += 1
                print(f"{layer.place(f'permissions.{effect}.{index}')}: {error}")
    print(f"{wrong} rules cannot be read" if wrong else "every rule can be read")
    return 2 if wrong else 0


def _permissions(setup: Setup | None = None) -> Permissions:
    setup = setup or Setup(Chosen("agent", {}))
    return Permissions(
        setup.workspace,
        setup.rules(),
        mode=setup.config.mode,
        protected=(setup.config_dir, setup.state),
        project=GrantFile(setup.project_state() / "permissions.json"),
        user=GrantFile(setup.config_dir / "permissions.json"),
    )


def in_words(verdict: Verdict) -> str:
    """A verdict as a person reads it."""
    if isinstance(verdict, Allow):
        return f"allowed: {verdict.rule}"
    if isinstance(verdict, Ask):
        offered = f"; `{verdict.grant}` would allow it" if verdict.grant else ""
        return f"asked: {verdict.reason} ({verdict.rule}){offered}"
    return f"denied: {verdict.reason} ({verdict.rule})"


def flatten(values: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted key and value of every leaf."""
    if not isinstance(values, dict) or not values:
        return [(prefix.rstrip("."), values)]
    return [pair for key, value in values.items() for pair in flatten(value, f"{prefix}{key}.")]

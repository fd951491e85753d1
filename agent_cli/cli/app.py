"""The sub-commands and all help, on typer. Imported only when one of them is asked for."""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from .options import TABLES, Option, UsageError

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
"""Those typer has a completion for."""

app = typer.Typer(
    name="agent",
    help="A terminal coding agent. Without a command: a conversation about the files of this directory.",
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_ELSEWHERE = {
    "sessions": ("session_commands", "app"),
    "permissions": ("permission_commands", "permissions"),
    "config": ("config_commands", "config"),
    "models": ("models_command", "models_command"),
    "undo": ("undo", "undo_command"),
    "redo": ("undo", "redo_command"),
}
"""Command → module and name of what has it. Loaded when it is asked for; help, which shows all, loads all."""


def serve(arguments: Sequence[str]) -> int:
    """Run a sub-command, or show help; returns the exit code."""
    first = arguments[0] if arguments else ""
    for command in (first,) if first in _ELSEWHERE else _ELSEWHERE:
        _bring(command)
    _declare()
    if arguments[:1] == ["--show-completion"] and len(arguments) == 2:
        if arguments[1] not in SHELLS:
            raise UsageError(f"--show-completion: {arguments[1]!r} is not one of {', '.join(SHELLS)}")
        os.environ["_AGENT_COMPLETE"] = f"source_{arguments[1]}"
        arguments = []
    try:
        result = app(args=list(arguments), prog_name="agent", standalone_mode=False)
    except typer.Exit as leaving:
        return leaving.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None or not hasattr(error, "format_message"):
            raise
        print(f"agent: {error.format_message()}", file=sys.stderr)
        return int(code)
    return result if isinstance(result, int) else 0


def _bring(command: str) -> None:
    module, name = _ELSEWHERE[command]
    found = getattr(import_module(f".{module}", __package__), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=command)
    else:
        app.command(command)(found)


@app.command()
def demo() -> int:
    """Watch the agent mend a small broken project. Needs no key and no network."""
    from .demo import run_demo

    return run_demo()


@app.command()
def doctor() -> int:
    """Check whether a task could run here, and what is missing."""
    from .doctor import run_doctor

    return run_doctor()


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A session file.")],
    cd: Annotated[str | None, typer.Option("--cd", "-C", help="Work in this directory.")] = None,
    mode: Annotated[str, typer.Option(help="What may happen without asking.")] = "auto-edit",
) -> int:
    """Drive the engine with the recorded answers of a session, in this directory."""
    from .replay import run_replay

    return run_replay(file, cd, mode)


def _declare() -> None:
    """The three fast commands, so that help shows them; their own parser never comes this way."""
    _add("run", "Do one task without asking anybody.", ("TASK", "The task; - reads it from standard input."))
    _add("resume", "Go on with a saved session.", ("ID", "The session; without it a list to pick from."))
    callback = _signature("agent", None)
    callback.__doc__ = app.info.help
    app.callback(invoke_without_command=True)(callback)


def _add(command: str, text: str, argument: tuple[str, str]) -> None:
    function = _signature(command, argument)
    function.__doc__ = text
    app.command(command)(function)


def _signature(command: str, argument: tuple[str, str] | None) -> Any:
    """A function whose parameters are a table of options, for typer to read."""

    def function(**values: Any) -> None:
        if command == "agent" and values.get("version"):
            print(f"agent-cli {__version__}")
            raise typer.Exit

    parameters = [_parameter(option) for option in TABLES[command]]
    if argument is not None:
        given = Annotated[str | None, typer.Argument(metavar=argument[0], help=argument[1])]
        parameters.insert(0, _keyword("positional", given, None))
    else:
        version = Annotated[bool, typer.Option("--version", "-V", help="Show the version.")]
        parameters.append(_keyword("version", version, False))
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def _parameter(option: Option) -> inspect.Parameter:
    text = f"{option.help} [{'|'.join(option.choices)}]" if option.choices else option.help
    kinds: dict[str, tuple[Any, Any]] = {
        "text": (str | None, None),
        "whole": (int | None, None),
        "number": (float | None, None),
        "flag": (bool, False),
        "list": (list[str] | None, None),
    }
    kind, default = kinds[option.kind]
    name = f"{option.key}_" if option.key in ("continue",) else option.key
    offered = typer.Option(*option.names, help=text, autocompletion=_offering(option.choices))
    return _keyword(name, Annotated[kind, offered], default)


def _offering(choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    """For a shell's completion: the choices that begin as typed."""

    def offer(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return offer if choices else None


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

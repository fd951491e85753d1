"""The sub-commands and all help, built with Typer. Imported only when one of them is used."""

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from agent_cli import __version__
from agent_cli.bootstrap.options import TABLES, ParsedOptions, UsageError
from agent_cli.protocol.stop_reason import USAGE

from .services.completion import declare, keyword, option_parameter, session_ids, shared, with_options

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
"""Shells for which Typer supports completion."""

_ORDER = (
    *"run resume review sessions stats trace undo redo replay batch eval worktree models".split(),
    *"permissions mcp skills plugin serve acp config setup doctor bug demo help".split(),
    *"list get add update enable disable remove trust test check login logout show search".split(),
    *"rename fork merge clean".split(),
    *"export import delete prune repair send".split(),
)
"""Order of the commands in help, by when users meet them."""


def _write_options(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of help, with value names instead of Python types."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            is_option = parameter.param_type_name == "option"
            name = re.sub(r" ?<[\w \[\]]+>", f" {(parameter.name or '').upper()}" if is_option else "", record[0])
            sections["Options" if is_option else "Arguments"].append((name, record[1]))
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class _Command(TyperCommand):
    """A command whose help shows value names."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options part of the help."""
        _write_options(self, ctx, formatter)


class _Listing(TyperGroup):
    """A command group in the order of `_ORDER`; each command is listed with its whole first sentence."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names; those without a place in `_ORDER` come last."""
        places = {name: place for place, name in enumerate(_ORDER)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; lines are wrapped, never truncated."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in commands.items() if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="agent",
    cls=_Listing,
    help="A coding agent for the terminal. Without a command, start an interactive session in this directory.",
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_ELSEWHERE = {
    "sessions": ("commands.sessions.app", "app"),
    "trace": ("commands.sessions.trace", "app"),
    "permissions": ("commands.permissions", "permissions"),
    "mcp": ("commands.mcp.app", "mcp"),
    "acp": ("commands.serve.acp", "acp"),
    "setup": ("commands.serve.key_setup", "setup_command"),
    "skills": ("commands.skills", "skills"),
    "plugin": ("commands.plugin", "plugin"),
    "batch": ("commands.batch.app", "batch"),
    "serve": ("commands.serve.app_server", "serve_command"),
    "worktree": ("commands.worktree", "worktree"),
    "eval": ("commands.eval.app", "app"),
    "review": ("commands.review", "review_command"),
    "config": ("commands.config", "config"),
    "models": ("commands.models", "models_command"),
    "bug": ("commands.diagnostics.bug", "bug_command"),
    "stats": ("commands.diagnostics.stats", "stats_command"),
    "undo": ("commands.undo", "undo_command"),
    "redo": ("commands.undo", "redo_command"),
    "help": ("commands.help", "help_command"),
}
"""Module and name that implement each command. Loaded on use; help, which lists all commands, loads all."""
_HERE = ("demo", "doctor", "replay")
"""Commands declared in this module."""


_DEFAULTS = {"batch": ("run", ("run", "status", "cancel", "clean", "--help", "-h"))}
"""Default sub-command of a group and its known words: `agent batch TASKS` means `agent batch run TASKS`."""


def serve(arguments: Sequence[str]) -> int:
    """Run a sub-command or show help; return the exit code."""
    if arguments and arguments[0] in _DEFAULTS and len(arguments) > 1:
        default, known = _DEFAULTS[arguments[0]]
        if arguments[1] not in known:
            arguments = [arguments[0], default, *arguments[1:]]
    program = assemble(arguments[0] if arguments else "")
    if arguments[:1] == ["--show-completion"] and len(arguments) == 2:
        if arguments[1] not in SHELLS:
            raise UsageError(f"--show-completion: {arguments[1]!r} is not one of {', '.join(SHELLS)}")
        os.environ["_AGENT_COMPLETE"] = f"source_{arguments[1]}"
        arguments = []
    try:
        result = program.main(args=list(arguments), prog_name="agent", standalone_mode=False, obj=show_help)
    except typer.Exit as leaving:
        return leaving.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None or not hasattr(error, "format_message"):
            raise
        message = str(error.format_message())
        is_help = message.startswith("Usage: ")  # a group of commands without one
        print(message if is_help else f"agent: {_complaint(error, message, int(code))}", file=sys.stderr)
        return int(code)
    return result if isinstance(result, int) else 0


def assemble(command: str = "") -> Any:
    """Return the Typer program with what a single command needs, or with all commands and all options."""
    if command in (*_ELSEWHERE, *_HERE):
        if command in _ELSEWHERE:
            _bring(command)
        app.callback(invoke_without_command=True)(lambda: None)  # options in front of a command never get here
        return typer.main.get_command(app)
    for each in _ELSEWHERE:
        _bring(each)
    _add("run", "Run one task non-interactively.", ("TASK", "The task; - reads it from standard input."))
    _add("resume", "Resume a saved session.", ("ID", "The session; without it, pick from a list."))
    callback = _signature("agent", None)
    callback.__doc__ = app.info.help
    app.callback(invoke_without_command=True)(callback)
    return typer.main.get_command(app)


def _complaint(error: Any, message: str, code: int) -> str:
    """Return the message of an error, with a reference to the help."""
    context = getattr(error, "ctx", None)
    if context is None or code != USAGE or "Did you mean" in message:
        return message
    return f"{message.rstrip('.')}; see `{context.command_path} --help`"


@cache
def _bring(command: str) -> None:
    """Load a command from its module, once."""
    module, name = _ELSEWHERE[command]
    found = getattr(import_module(f".{module}", __package__), name)
    if isinstance(found, typer.Typer):
        for each in found.registered_commands:
            if each.cls:  # a command with its own parser keeps it
                each.cls = type("_Command", (_Command, each.cls), {})
        app.add_typer(found, name=command, cls=_Listing)
    else:
        app.command(command, cls=_Command)(found)


def show_help(words: Sequence[str]) -> int:
    """Show the output of `--help` after these words; return the exit code."""
    return serve([*words, "--help"])


@app.command(cls=_Command)
def demo() -> int:
    """Watch the agent fix a small broken project. Needs no key and no network."""
    from .commands.demo.run import run_demo

    return run_demo()


@app.command("doctor", cls=_Command)
@with_options(*shared("cd", "model"))
def doctor(
    files: Annotated[
        bool,
        typer.Option("--files", help="List the files that are read or skipped here, with reason and tokens."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --files: as JSON.")] = False,
    *,
    given: dict[str, Any],
) -> int:
    """Check whether a task could run here, and what is missing."""
    from agent_cli.bootstrap.setup import Setup

    from .commands.diagnostics.doctor import list_files, run_doctor

    if as_json and not files:
        raise UsageError("--json needs --files: write `agent doctor --files --json`")
    setup = Setup(ParsedOptions("agent", given))
    return list_files(setup, as_json=as_json) if files else run_doctor(setup)


@app.command("replay", cls=_Command)
@with_options(*shared("cd", "mode"))
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A session file.")], *, given: dict[str, Any]
) -> int:
    """Replay the recorded answers of a session in this directory."""
    from .commands.demo.run import run_replay

    return run_replay(file, given)


@cache
def _add(command: str, text: str, argument: tuple[str, str]) -> None:
    """Declare a command for help only: Typer never parses it."""
    function = _signature(command, argument)
    function.__doc__ = text
    app.command(command, cls=_Command)(function)


def _signature(command: str, argument: tuple[str, str] | None) -> Any:
    """Return a function for Typer whose parameters come from a table of options."""

    def function(**values: Any) -> None:
        if command == "agent" and values.get("version"):
            print(f"agent-cli {__version__}")
            raise typer.Exit

    parameters = [option_parameter(option) for option in TABLES[command]]
    if argument is not None:
        offered = session_ids if command == "resume" else None
        given = Annotated[
            str | None, typer.Argument(metavar=argument[0], help=argument[1], autocompletion=offered)
        ]
        parameters.insert(0, keyword("positional", given, None))
    else:
        version = Annotated[bool, typer.Option("--version", "-V", help="Show the version.")]
        parameters.append(keyword("version", version, False))
    declare(function, parameters)
    return function

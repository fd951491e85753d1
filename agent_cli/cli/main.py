"""Dispatch of the command line. The three commands that must start fast are parsed here; all others, and all help,
are handled by Typer, which is imported only then. Errors become one line and an exit code."""

import errno
import os
import sys
from collections.abc import Callable, Sequence

from agent_cli.bootstrap.options import (
    COMMANDS,
    NO_DIRECTORY,
    PARSED_HERE,
    ParsedOptions,
    UsageError,
    asks_to_print,
    parse,
)
from agent_cli.config.layer import ConfigError
from agent_cli.fs.standard_output import OutputError, finish_output
from agent_cli.policy.rules.rule import RuleError
from agent_cli.protocol.stop_reason import USAGE
from agent_cli.store.catalog import NoSession
from agent_cli.store.session_file import StoreError

from .stdio import make_safe

COMPLETION = ("--show-completion", "--install-completion")


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return the exit code."""
    _open_missing_streams()
    _speak_utf8()
    make_safe("stderr")
    first = arguments[0] if arguments else ""
    try:
        words = arguments[: arguments.index("--")] if "--" in arguments else arguments
        helps = "--help" in words or "-h" in words
        if helps or first in COMMANDS or first in COMPLETION or _wants_completion():
            from .app import serve

            if not _wants_completion():
                make_safe("stdout")
            code = serve(["--help"] if helps and first not in (*COMMANDS, "run", "resume") else arguments)
            finish_output()
            return code
        return _fast(first, arguments)
    except (UsageError, ConfigError, RuleError, NoSession) as error:
        return _fail(str(error), USAGE)
    except StoreError as error:
        return _fail(_with_way_out(error), 1)
    except OutputError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        return 1
    except FileNotFoundError:
        if _has_directory():
            raise
        return _fail(NO_DIRECTORY, USAGE)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return _fail(f"{os.path.basename(str(error.filename))[:20]}…: {error.strerror}", USAGE)
    except KeyboardInterrupt:
        return 130


def _has_directory() -> bool:
    """Return True if the current directory exists."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _fast(first: str, arguments: Sequence[str]) -> int:
    if first == "run":
        return _run(arguments[1:])
    if first != "resume" and asks_to_print(arguments):
        return _run(arguments)
    from .interactive import interactive_command

    if first == "resume":
        return interactive_command(parse("resume", arguments[1:]))
    chosen = parse("agent", arguments)
    if chosen.positional in COMMANDS | PARSED_HERE and "--" not in arguments:
        raise UsageError(f"`{chosen.positional}` comes first: agent {chosen.positional} …; its options follow it")
    return _in_place(interactive_command, chosen)


def _in_place(command: Callable[[ParsedOptions], int], chosen: ParsedOptions) -> int:
    """Run a command where `--worktree` wants it, or in the working directory."""
    if chosen.text("worktree") is None:
        return command(chosen)
    if not _has_directory():
        raise UsageError(NO_DIRECTORY)
    from .services.worktree_session import in_worktree

    with in_worktree(chosen) as inside:
        return command(inside)


def _run(arguments: Sequence[str]) -> int:
    from agent_cli.ui.early_signals import EARLY, StoppedEarly

    from .run import run_command

    try:
        EARLY.release()
        return _in_place(run_command, parse("run", arguments))
    except (Exception, KeyboardInterrupt, StoppedEarly) as error:
        from .services.early_result import end_early

        if (code := end_early(arguments, error)) is None:
            raise
        return code


def _fail(message: str, code: int) -> int:
    print(f"agent: {message}", file=sys.stderr)
    return code


def _with_way_out(error: StoreError) -> str:
    """Return an error's text, with advice if the state folder cannot be used."""
    from agent_cli.config.dirs import state_dir

    if str(state_dir()) not in str(error) or not isinstance(error.__cause__, OSError):
        return str(error)
    return f"{str(error).removesuffix('.')}. `agent doctor` checks this folder; AGENT_STATE_DIR names another."


def _wants_completion() -> bool:
    return "_AGENT_COMPLETE" in os.environ


def _open_missing_streams() -> None:
    """Open the null device for a closed stdin, stdout or stderr, so that no file opened later (a session!) gets
    its descriptor."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor < 2:
        descriptor = os.dup(descriptor)
    if descriptor > 2:
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _speak_utf8() -> None:
    """Use UTF-8 regardless of the locale, so that no output can fail to encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")

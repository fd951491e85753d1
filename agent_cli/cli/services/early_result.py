"""Runs that end before they start: their `result` for a script that reads JSON, and the message for a user who has
neither a key nor a local server yet."""

import contextlib
import errno
import sys
import time
from collections.abc import Sequence
from typing import get_args

from msgspec import convert

from agent_cli.bootstrap.options import UsageError
from agent_cli.config.layer import ConfigError
from agent_cli.model.routing import MissingKey, NoModel
from agent_cli.model.types.base import ModelError
from agent_cli.policy.rules.rule import RuleError
from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.run_outcome import NOTHING_SENT
from agent_cli.protocol.stop_reason import EXIT_CODES, StopReason
from agent_cli.store.catalog import NoSession
from agent_cli.store.session_file import StoreError
from agent_cli.ui.early_signals import StoppedEarly
from agent_cli.ui.headless.runner import OutputFormat, RunResult, encode

_PAGE = """\
agent: no model can be used yet: no key is set, and no local server answers.
Three ways to go on:

  a key           export ANTHROPIC_API_KEY=…
                  (or OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY …);
                  or paste one: `agent` asks for it in a terminal
  a local server  start Ollama, LM Studio, llama.cpp or vLLM with a model;
                  the first model it offers is used
  just a look     agent demo

`agent doctor` checks this machine, and `agent help getting-started` begins at
the beginning. Every provider and variable: `agent help providers`."""
_NO_KEY = """\
agent: {error}
Export the variable, or put it into keys.yaml beside the configuration file;
--model chooses another provider. `agent doctor` checks this machine, and
`agent help providers` lists every variable."""


def end_early(arguments: Sequence[str], error: BaseException) -> int | None:
    """Print the result if JSON was requested. Return the exit code of an error that is explained here, None for
    others.

    Args:
        arguments: the command line after `run`, even if it cannot be parsed.
        error: the error that ended the run.
    """
    if wants_json(arguments):
        reason, info = _explained(error)
        with contextlib.suppress(OSError):
            sys.stdout.write(encode(_result(reason, info, _code(error, reason))))
            sys.stdout.flush()
    if isinstance(error, NoModel | MissingKey):
        return cannot_start(error)
    if isinstance(error, StoppedEarly):
        return _code(error, _explained(error)[0])
    if isinstance(error, ModelError):
        print(f"agent: {error}", file=sys.stderr)
        return EXIT_CODES["bad_model"]
    return None


def wants_json(arguments: Sequence[str]) -> bool:
    """Return True if a command line, even an invalid one, requests JSON output; the last option counts."""
    known = [value for value in _given(arguments, "--output-format") if value in get_args(OutputFormat)]
    if not known:
        return _given(arguments, "--input-format")[-1:] == ["stream-json"]
    return known[-1] != "text"


def _given(arguments: Sequence[str], option: str) -> list[str]:
    """Return the values that a command line gives to an option."""
    words = list(arguments)
    words = words[: words.index("--")] if "--" in words else words
    return [
        value if word == option else word.partition("=")[2]
        for word, value in zip(words, [*words[1:], ""], strict=False)
        if word == option or word.startswith(f"{option}=")
    ]


def _explained(error: BaseException) -> tuple[StopReason, ErrorInfo]:
    match error:
        case NoModel():
            return "auth_error", ErrorInfo("no_model", str(error))
        case MissingKey():
            return "auth_error", ErrorInfo(error.kind, str(error))
        case ModelError():
            return "bad_model", ErrorInfo(error.kind, str(error))
        case UsageError() | ConfigError() | RuleError() | NoSession():
            return "usage_error", ErrorInfo("usage_error", str(error))
        case OSError(errno=errno.ENAMETOOLONG):
            return "usage_error", ErrorInfo("usage_error", str(error.strerror))
        case StoreError():
            return "internal_error", ErrorInfo("not_done", str(error))
        case KeyboardInterrupt():
            return "interrupted", ErrorInfo("interrupted", "stopped before the run began")
        case StoppedEarly():
            reason = convert(error.reason, StopReason)
            return reason, ErrorInfo(reason, "stopped before the run began")
        case _:
            return "internal_error", ErrorInfo("internal_error", f"{type(error).__name__}: {error}")


def _code(error: BaseException, reason: StopReason) -> int:
    return 128 + error.signal if isinstance(error, StoppedEarly) and error.signal else EXIT_CODES[reason]


def _result(reason: StopReason, error: ErrorInfo, code: int) -> RunResult:
    """Return a result without a session: nothing was sent, so nothing was used."""
    return RunResult(
        seq=1,
        time=time.time(),
        session_id="",
        stop_reason=reason,
        exit_code=code,
        text="",
        usage=NOTHING_SENT,
        cost_usd=0.0,
        turns=0,
        duration_s=0.0,
        changed_files=(),
        commands=(),
        verified=None,
        denied=(),
        error=error,
    )


def cannot_start(error: NoModel | MissingKey) -> int:
    """Print what is missing and what to do; return the exit code."""
    print(_PAGE if isinstance(error, NoModel) else _NO_KEY.format(error=error), file=sys.stderr)
    return EXIT_CODES["auth_error"]

"""The result of a prompt."""

from typing import Any

import msgspec

from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.run_outcome import ChangedFile, CommandRun, Denied, RunOutcome
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.protocol.usage import Totals, UsageTotals


class Result(msgspec.Struct, frozen=True):
    """How a prompt ended. A failed prompt also has a result: see `stop_reason` and `error`."""

    text: str
    """The final answer."""
    data: Any
    """The answer as a value of the type `output`; None without `output`, or if the answer does not fit."""
    changed_files: tuple[ChangedFile, ...]
    """The files that changed, by any tool or command."""
    commands: tuple[CommandRun, ...]
    """The commands that were run."""
    cost_usd: float | None
    """Cost in US dollars; None if it is unknown."""
    usage: UsageTotals
    """Tokens used."""
    stop_reason: StopReason
    """Why it ended; `end_turn` for a normal end."""
    exit_code: int
    """The exit code of `agent run`: 0 for success."""
    session_id: str
    """For `resume` and `fork`."""
    denied: tuple[Denied, ...]
    """The calls that were denied."""
    error: ErrorInfo | None
    """The error; None if there was none."""


def result_of(outcome: RunOutcome, now: Totals) -> Result:
    """Return the result of a run; `now` are the session's totals at its end."""
    return Result(
        text=outcome.text,
        data=None if outcome.unfit else outcome.structured,
        changed_files=outcome.changed_files,
        commands=outcome.commands,
        cost_usd=outcome.cost_usd(now),
        usage=outcome.usage(now),
        stop_reason=outcome.stop_reason,
        exit_code=outcome.exit_code(),
        session_id=outcome.session_id,
        denied=outcome.denied,
        error=outcome.error,
    )

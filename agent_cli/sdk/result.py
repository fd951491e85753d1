"""What a prompt came to."""

from typing import Any

import msgspec

from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.run_outcome import (
    ChangedFile,
    CommandRun,
    Denied,
    RunOutcome,
    UsageTotals,
    known_cost,
    usage_of,
)
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.protocol.usage import Totals


class Result(msgspec.Struct, frozen=True):
    """How a prompt ended. A failed one has a result too: see `stop_reason` and `error`."""

    text: str
    """The final answer."""
    data: Any
    """The answer as the value that `output` asked for; None where none was asked for, or it does not fit."""
    changed_files: tuple[ChangedFile, ...]
    """The files that changed, with any tool or command."""
    commands: tuple[CommandRun, ...]
    """The commands that were run."""
    cost_usd: float | None
    """Cost in US dollars; None when it is unknown."""
    usage: UsageTotals
    """Tokens."""
    stop_reason: StopReason
    """Why it ended; `end_turn` when it came to an end of its own."""
    exit_code: int
    """As `agent run` would have it: 0 for a success."""
    session_id: str
    """For `resume` and `fork`."""
    denied: tuple[Denied, ...]
    """The calls that were denied."""
    error: ErrorInfo | None
    """What went wrong; None when nothing did."""


def result_of(outcome: RunOutcome, now: Totals) -> Result:
    """Return the result of a run; `now` are the session's totals at its end."""
    spent = outcome.spent(now)
    return Result(
        text=outcome.text,
        data=None if outcome.unfit else outcome.structured,
        changed_files=outcome.changed_files,
        commands=outcome.commands,
        cost_usd=known_cost(spent),
        usage=usage_of(spent),
        stop_reason=outcome.stop_reason,
        exit_code=outcome.exit_code(),
        session_id=outcome.session_id,
        denied=outcome.denied,
        error=outcome.error,
    )

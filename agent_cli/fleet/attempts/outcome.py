"""Determine the outcome of an attempt from the end of its agent, its patch and `verify`."""

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.stop_reason import DENIED, EXIT_CODES, HUNG_UP, UNVERIFIED
from agent_cli.protocol.usage import UsageTotals

from ..attempt import Amount, Failure, Outcome


class RunEnd(msgspec.Struct, frozen=True):
    """The fields read from the `result` line of `agent run`."""

    session_id: str = ""
    stop_reason: str = ""
    usage: UsageTotals = UsageTotals()
    cost_usd: Amount | None = None
    cost_is_partial: bool = False
    turns: int = 0
    error: Failure | None = None


def read_result(line: bytes) -> RunEnd | None:
    """Parse the `result` line; return None if it is missing or invalid."""
    if not line:
        return None
    try:
        return decode_json(line, type=RunEnd)
    except msgspec.DecodeError:
        return None


_BY_CODE: dict[int, Outcome] = {
    0: "done",
    DENIED: "done",
    EXIT_CODES["usage_error"]: "setup",
    EXIT_CODES["auth_error"]: "auth",
    EXIT_CODES["provider_error"]: "provider",
    EXIT_CODES["cost_limit"]: "limit",
    EXIT_CODES["stuck"]: "stuck",
    UNVERIFIED: "unsolved",
    EXIT_CODES["interrupted"]: "cancelled",
    EXIT_CODES["terminated"]: "cancelled",
    HUNG_UP: "cancelled",
}
_BY_REASON: dict[str, Outcome] = {"content_filter": "refused", "hook_refused": "refused"}


def outcome_of_run(end: RunEnd | None, exit_code: int | None, *, is_agent: bool = True) -> Outcome:
    """Return the outcome from the end of the agent alone; a command in its place writes no result."""
    if not is_agent:
        return "done" if exit_code == 0 else "crash"
    if exit_code is None or (end is None and exit_code not in (HUNG_UP, 130, 143)):
        return "crash"
    if end and (found := _BY_REASON.get(end.stop_reason)):
        return found
    return _BY_CODE.get(exit_code, "crash")


def is_judged(outcome: Outcome) -> bool:
    """Return True if `verify` runs after this outcome; work that stopped at a limit is verified for the record."""
    return outcome in ("done", "limit", "stuck")


def judged(outcome: Outcome, verified: bool | None) -> Outcome:
    """Return the outcome after `verify`; `verified` is None without `verify`."""
    if outcome != "done" or verified is None:
        return outcome
    return "solved" if verified else "unsolved"

"""Reasons for the end of a turn, and the exit code for each: the only table of both."""

from typing import Literal, get_args

StopReason = Literal[
    "end_turn",
    "abandoned",
    "turn_limit",
    "cost_limit",
    "time_limit",
    "length_limit",
    "context_limit",
    "stuck",
    "no_answer",
    "content_filter",
    "rules_unmet",
    "hook_refused",
    "declined",
    "auth_error",
    "provider_error",
    "bad_model",
    "usage_error",
    "interrupted",
    "terminated",
    "internal_error",
]

EXIT_CODES: dict[StopReason, int] = {
    "end_turn": 0,
    "abandoned": 0,  # only in sessions of earlier versions
    "turn_limit": 5,
    "cost_limit": 5,
    "time_limit": 5,
    "length_limit": 5,  # the answer was cut off at the output limit repeatedly
    "context_limit": 5,
    "stuck": 7,
    "no_answer": 7,
    "content_filter": 7,
    "rules_unmet": 8,  # a rule requires an action before the end, and it was not done
    "hook_refused": 6,  # a user hook refused the prompt or ended the turn
    "declined": 130,  # the user was asked whether to continue, and declined
    "auth_error": 3,
    "provider_error": 4,
    "bad_model": 2,  # the provider does not know the model; nothing was started
    "usage_error": 2,  # wrong usage or configuration; nothing was started
    "interrupted": 130,
    "terminated": 143,
    "internal_error": 1,
}

DENIED = 6
"""A run that ended normally, but with at least one action denied for lack of approval."""
UNVERIFIED = 8
"""`--verify` failed, a rule about the end was not met, or the answer does not fit `--output-schema`."""
HUNG_UP = 129
"""`agent run` and the REPL: ended by SIGHUP, with the reason `terminated`."""
USAGE = 2
"""Wrong usage or configuration; nothing was started."""


class UsageError(Exception):
    """A command line, or what it names, cannot be used; the text says why and what to do instead. `USAGE` is its
    exit code."""


_PRECEDENCE = (130, 143, 1, 2, 3, 4, 5, 7, 8, 6)

assert set(EXIT_CODES) == set(get_args(StopReason))


def exit_code(reason: StopReason, *, denied: bool = False, verified: bool | None = None) -> int:
    """Return the exit code of a finished run. With several causes, the first in `_PRECEDENCE` (the documented
    order) wins."""
    causes = {EXIT_CODES[reason]}
    if denied:
        causes.add(DENIED)
    if verified is False:
        causes.add(UNVERIFIED)
    return next((code for code in _PRECEDENCE if code in causes), 0)

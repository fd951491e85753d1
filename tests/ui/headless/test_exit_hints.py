"""How a run that stopped early says what to do next, at a shell."""

from typing import get_args

import pytest

from agent_cli.protocol.stop_reason import EXIT_CODES, StopReason
from agent_cli.ui.headless.exit_hints import hint, stopped
from agent_cli.ui.text.lines import REASONS
from tests.rows import each_row

ENDED_WITH_AN_ERROR = ("auth_error", "provider_error", "bad_model", "internal_error", "context_limit")
"""Reasons that come with an error, which has its own next step."""
EARLY = [
    reason
    for reason in get_args(StopReason)
    if EXIT_CODES[reason] and reason not in (*ENDED_WITH_AN_ERROR, "declined", "usage_error")
]


@pytest.mark.parametrize("reason", EARLY)
def test_every_early_end_says_how_to_go_on(reason: StopReason) -> None:
    told = stopped(reason, saved=True, from_outside=False)
    assert told.startswith(f"stopped: {reason}. ") and "To go on: " in told and "/" not in told
    unsaved = stopped(reason, saved=False, from_outside=False)
    assert "agent run -c" not in unsaved and "--no-session" in unsaved


@pytest.mark.parametrize(
    ("reason", "from_outside", "names"),
    [
        ("turn_limit", False, ("--max-turns", "limits.turns")),
        ("cost_limit", False, ("--max-cost", "limits.session_cost_usd", "limits.day_cost_usd")),
        ("time_limit", False, ("limits.time_s",)),
        ("time_limit", True, ("--timeout",)),
    ],
)
def test_a_limit_names_what_raises_it(reason: StopReason, from_outside: bool, names: tuple[str, ...]) -> None:
    told = stopped(reason, saved=True, from_outside=from_outside)
    assert all(name in told for name in (*names, "agent run -c"))


@each_row("text", [*REASONS.values(), "Use /retry; or (/model), or (/context drop N)."])
def test_a_hint_names_no_command_of_the_repl_by_itself(text: str) -> None:
    told = hint(text)
    assert "/retry" not in told and "with /model" not in told and "(/model)" not in told
    assert "/context" not in told or "`agent -c`" in told

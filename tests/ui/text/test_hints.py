"""What to do next: after an error in each situation, and after a run that stopped early."""

import re
from itertools import product
from typing import Literal, get_args

import msgspec
import pytest

from agent_cli.protocol import events as ev
from agent_cli.protocol.hints import Hint, HintKind
from agent_cli.protocol.stop_reason import EXIT_CODES, StopReason
from agent_cli.ui.text.hints import Situation, advice, error_with_advice, run_stopped, with_advice
from tests.rows import each_row
from tests.ui.fake_client import SNAPSHOT

ENDED_WITH_AN_ERROR = ("auth_error", "provider_error", "bad_model", "internal_error", "context_limit")
"""Reasons that come with an error, which has its own next step."""
EARLY = [
    reason
    for reason in get_args(StopReason)
    if EXIT_CODES[reason] and reason not in (*ENDED_WITH_AN_ERROR, "declined", "usage_error")
]


@each_row("reason", EARLY)
def test_every_early_end_says_how_to_go_on(reason: StopReason) -> None:
    told = run_stopped(reason, saved=True, from_outside=False)
    assert told.startswith(f"stopped: {reason}. ") and "To continue: " in told and "/" not in told
    unsaved = run_stopped(reason, saved=False, from_outside=False)
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
    told = run_stopped(reason, saved=True, from_outside=from_outside)
    assert all(name in told for name in (*names, "agent run -c"))


FRONTS: tuple[Literal["repl", "shell"], ...] = ("repl", "shell")
SITUATIONS = [Situation(front, saved) for front, saved in product(FRONTS, (True, False))]
SLASH_COMMAND = re.compile(r"(?<![\w/.:])/[a-z]+")
NEEDS_A_SESSION = re.compile(r"agent (run )?-c|resume|--continue")
WITH_A_COMMAND = ("--model", "--continue", "--resume", "agent run", "agent models")
"""Flags and command lines for which the REPL has a command."""


@each_row("kind", get_args(HintKind))
def test_a_hint_fits_the_situation(kind: HintKind) -> None:
    for where in SITUATIONS:
        told = advice((Hint(kind, "WHAT"),), where)
        assert told and "{" not in told, where
        if where.front == "shell":
            assert not SLASH_COMMAND.search(told), told
        else:
            assert not any(flag in told for flag in WITH_A_COMMAND), told
        if not where.saved:
            assert not NEEDS_A_SESSION.search(told), told


def test_a_hint_names_what_it_is_about() -> None:
    about = {kind for kind in get_args(HintKind) if "WHAT" in advice((Hint(kind, "WHAT"),), SITUATIONS[0])}
    assert {"check_key", "check_model", "wait", "start_server", "proxy_login", "log"} <= about


def test_hints_are_joined_and_the_log_stands_on_a_line_of_its_own() -> None:
    hints = (Hint("check_key", "OPENAI_API_KEY"), Hint("restart"), Hint("log", "/state/a.log"))
    assert advice(hints, SITUATIONS[0]) == (
        "Check that OPENAI_API_KEY holds a valid key of this provider. Then restart and resume with `agent -c`.\n"
        "Log: /state/a.log"
    )


def test_an_error_from_an_older_file_keeps_its_words() -> None:
    old = msgspec.json.decode(b'{"kind": "auth", "message": "refused", "hint": "do this"}', type=ev.ErrorInfo)
    assert error_with_advice(old, SITUATIONS[0]) == old and old.hint == "do this" and old.hints == ()


ERROR = ev.ErrorInfo("auth", "x", hints=(Hint("retry"),))
WITH_ERROR: list[ev.TurnFailed | ev.OperationFailed | ev.RetryScheduled | ev.FellBack | ev.SessionClosed] = [
    ev.TurnFailed(stop_reason="auth_error", error=ERROR),
    ev.OperationFailed(operation="compact", error=ERROR),
    ev.RetryScheduled(attempt=2, delay_s=0.0, error=ERROR),
    ev.FellBack(model="a/b", error=ERROR),
    ev.SessionClosed(session_id="s", error=ERROR),
]


@each_row("event", WITH_ERROR)
def test_the_hint_of_an_event_is_worded_by_the_front_end(event: ev.AnyEvent) -> None:
    saved = msgspec.structs.replace(SNAPSHOT, session_path="/s.jsonl")
    unsaved = msgspec.structs.replace(SNAPSHOT, session_path="")
    worded = [with_advice(event, front, now) for front in FRONTS for now in (saved, unsaved)]
    assert [each.error.hint for each in worded] == [
        "Continue with /retry.",
        "Continue with /retry.",
        'Continue with `agent run -c "continue"`.',
        "Then run the task again.",
    ]


def test_every_event_with_an_error_is_worded() -> None:
    kinds = {kind for kind in get_args(ev.AnyEvent) if "error" in kind.__struct_fields__}
    assert kinds == {type(event) for event in WITH_ERROR}

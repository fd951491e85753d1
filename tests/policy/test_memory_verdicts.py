"""Who is asked before the agent's memory changes."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.policy.risk import risk
from agent_cli.protocol.actions import Allow, Ask, WriteMemory
from tests.policy.support import ruled
from tests.policy.test_authorize import kind

USER, PROJECT, NOTES = (
    WriteMemory("user", "user"),
    WriteMemory("project", "project"),
    WriteMemory("notes", "notes"),
)


@pytest.mark.parametrize(
    ("action", "plan", "ask", "auto", "yolo"),
    [
        (USER, "deny", "ask", "allow", "allow"),
        (PROJECT, "deny", "ask", "allow", "allow"),
        (NOTES, "deny", "allow", "allow", "allow"),
    ],
)
def test_the_table_of_modes(action: WriteMemory, plan: str, ask: str, auto: str, yolo: str) -> None:
    verdicts = [kind(authorize(action, ruled(mode=mode))) for mode in ("plan", "ask", "auto-edit", "yolo")]  # type: ignore[arg-type]
    assert verdicts == [plan, ask, auto, yolo]


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "yolo"])
def test_what_strangers_say_is_not_remembered_unasked(mode: str) -> None:
    policy = ruled(mode=mode, untrusted="evil.org")  # type: ignore[arg-type]
    for action in (USER, PROJECT):
        verdict = authorize(action, policy)
        assert isinstance(verdict, Ask) and "evil.org" in verdict.reason and not verdict.grant
    assert isinstance(authorize(NOTES, policy), Allow), "they go with the session, which stays marked"


def test_the_person_is_told_what_it_could_do() -> None:
    assert "later" in risk(USER, ruled()) and "user" in risk(USER, ruled())

"""What the tests of the policy share: a policy with the built-in rules, over a workspace that does not exist."""

import json
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.policy.authorize import Policy
from agent_cli.policy.rules.rule import BUILT_IN, Rules
from agent_cli.protocol.actions import Deny, Mode, Reach, Verdict
from tests.policy.test_authorize import policy

MODES: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "yolo")


def ruled(*rules: str, mode: Mode = "auto-edit", sandboxed: bool = True, **facts: Any) -> Policy:
    """A policy with the built-in rules and those given as `effect rule`."""
    given = policy(*rules, mode=mode, sandboxed=sandboxed)
    return msgspec.structs.replace(given, rules=Rules((*BUILT_IN, *given.rules)), **facts)


def corpus(name: str, key: str = "commands") -> list[dict[str, str]]:
    """The entries of a file of examples beside the tests."""
    found = json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))[key]
    assert isinstance(found, list)
    return found


def reach(verdict: Verdict) -> Reach:
    """How far something that may run would reach."""
    assert not isinstance(verdict, Deny), verdict
    return verdict.reach

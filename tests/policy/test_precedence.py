"""Deny beats ask beats allow for every kind of action, in whatever order the rules stand."""

from itertools import permutations

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    CallExternal,
    Deny,
    Fetch,
    Mode,
    ReadPath,
    RunCommand,
    WritePath,
)
from tests.policy.support import MODES, ruled
from tests.rows import each_row

ROOT = "/w/repo"
ACTIONS: dict[str, tuple[Action, str]] = {
    "fetch": (Fetch("https://example.org/a", "example.org"), "fetch(example.org)"),
    "mcp": (CallExternal("files", "list"), "mcp(files/list)"),
    "shell": (RunCommand("ls a", ROOT), "shell(ls a)"),
    "read": (ReadPath(f"{ROOT}/a", "a"), "read(a)"),
    "write": (WritePath(f"{ROOT}/a", "a"), "write(a)"),
}
VERDICTS = {"deny": Deny, "ask": Ask, "allow": Allow}


@each_row("name", ACTIONS)
@each_row("mode", [mode for mode in MODES if mode != "plan"])
@each_row("effects", [("deny", "ask", "allow"), ("ask", "allow"), ("deny", "allow"), ("deny", "ask")])
def test_the_strictest_rule_decides_whatever_the_order(name: str, mode: Mode, effects: tuple[str, ...]) -> None:
    action, pattern = ACTIONS[name]
    for order in permutations(effects):
        verdict = authorize(action, ruled(*(f"{effect} {pattern}" for effect in order), mode=mode))
        assert isinstance(verdict, VERDICTS[effects[0]]), (order, verdict)
        assert pattern.partition("(")[2] in verdict.rule

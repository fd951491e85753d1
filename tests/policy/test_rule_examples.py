"""Examples of what rules are meant to say are held against what they say."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.policy.rule_examples import Example, ExampleError, action_of, check, effect_of, read_example
from agent_cli.protocol.actions import Allow, CallExternal, Deny, Fetch, ReadPath, RunCommand, Verdict, WritePath
from tests.policy.support import ruled
from tests.policy.test_authorize import ROOT
from tests.rows import each_row

RULES = ruled(
    "allow shell(make *)", "deny write(src/generated/**)", "ask fetch(example.org)", mode="ask", sandboxed=False
)


def decide(kind: str, value: str) -> Verdict:
    return authorize(action_of(kind, value, ROOT, RULES.resolve), RULES)


def test_only_what_does_not_hold_is_a_problem() -> None:
    examples = (
        Example("allow", "shell(make all)", "f:1"), Example("deny", "write(src/generated/a)", "f:2"), Example("ask", "read(.env)", "f:3"),
        Example("allow", "shell(make all; curl x)", "f:4"), Example("ask", "fetch(https://example.org/a)", "f:5"),
        Example("allow", "nonsense", "f:6"), Example("deny", "mcp(db/drop)", "f:7"),
    )  # fmt: skip
    found = [(each.example.place, each.verdict is None, each.why) for each in check(examples, decide)]
    assert found == [
        ("f:4", False, "expected allow, got ask: `curl x` needs the network (mode ask)"),
        ("f:6", True, "'nonsense' is not an example; write shell(COMMAND), read(PATH), write(PATH), fetch(HOST)"),
        ("f:7", False, "expected deny, got ask: it calls the external tool db/drop (mode ask)"),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("shell(git log (x))", "shell", "git log (x)"),
        (" read( a ) ", "read", "a"),
        ("shell(a\nb)", "shell", "a\nb"),
    ],
)
def test_an_example_is_a_kind_and_what_stands_in_its_brackets(text: str, kind: str, value: str) -> None:
    assert read_example(text) == (kind, value)


@each_row("text", ["shell", "shell()", "shell( )", "bash(x)", "read x", ""])
def test_what_is_no_example_is_an_error(text: str) -> None:
    with pytest.raises(ExampleError, match="not an example"):
        read_example(text)


def test_each_kind_is_an_action_of_its_own() -> None:
    made = {
        kind: action_of(kind, "a/b", ROOT, RULES.resolve) for kind in ("shell", "read", "write", "fetch", "mcp")
    }
    assert made == {
        "shell": RunCommand("a/b", ROOT), "read": ReadPath(f"{ROOT}/a/b", f"{ROOT}/a/b"), "write": WritePath(f"{ROOT}/a/b", f"{ROOT}/a/b"),
        "fetch": Fetch("https://a/b/", "a"), "mcp": CallExternal("a", "b"),
    }  # fmt: skip
    assert [effect_of(Allow("x")), effect_of(Deny("x", "y"))] == ["allow", "deny"]

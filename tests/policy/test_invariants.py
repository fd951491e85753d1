"""What holds for every set of rules and every line, whatever they are."""

import os
from itertools import pairwise, permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.policy.authorize import authorize, combine, strictest
from agent_cli.policy.risk import risk
from agent_cli.policy.shell.line import parts_of
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    Deny,
    Fetch,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
)
from tests.fuzz import LEVEL, tries
from tests.policy.support import MODES, corpus, ruled
from tests.policy.test_authorize import ROOT

ORDER = ("inside", "network", "outside")
"""How far a command reaches, from the least to the most."""

_EXAMPLES = tries(120, LEVEL * 120)
_SIMPLE = (
    "ls", "cat a", "git status", "git push", "npm ci", "make", "rm -rf x", "rm -rf /", "docker ps", "cat .env", "echo x > a",
    "python x.py", "curl x", "git commit -m x", "timeout 5 make", "bash -c 'git fetch'", "find . -delete", "cp a /opt/x", "sudo make",
)  # fmt: skip
_PATTERNS = (
    "shell", "shell(git *)", "shell(make)", "shell(npm ci)", "shell(cat *)", "shell(docker *)", "outside", "outside(docker *)",
    "outside(make)", "read", "read(**/.env)", "read(.env)", "write(src/**)", "write", "fetch", "fetch(x.example)", "shell(rm *)",
)  # fmt: skip
_rules = st.lists(
    st.tuples(st.sampled_from(("allow", "ask", "deny")), st.sampled_from(_PATTERNS)).map(" ".join), max_size=5, unique=True
)  # fmt: skip
_lines = st.lists(st.sampled_from(_SIMPLE), min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from([" && ", "; ", " | ", " || ", "\n"]).map(lambda between: between.join(parts))
)
_actions: st.SearchStrategy[Action] = st.one_of(
    _lines.map(lambda line: RunCommand(line, ROOT)),
    st.sampled_from(["a", "src/b", ".env", ".git/config", "../x"]).map(lambda path: ReadPath(_real(path), path)),
    st.sampled_from(["a", "src/b", ".env", ".git/config", "../x"]).map(lambda path: WritePath(_real(path), path)),
    st.just(Fetch("https://x.example/", "x.example")),
)
_modes = st.sampled_from(MODES)


def _real(path: str) -> str:
    return os.path.normpath(os.path.join(ROOT, path))


def weight(verdict: Verdict) -> int:
    """How strict a verdict is."""
    return 2 if isinstance(verdict, Deny) else 1 if isinstance(verdict, Ask) else 0


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_actions, _rules, _modes, st.booleans(), st.randoms())
def test_the_order_of_rules_never_matters(action, rules, mode, sandboxed, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(rules)
    random.shuffle(shuffled)
    one = authorize(action, ruled(*rules, mode=mode, sandboxed=sandboxed))
    other = authorize(action, ruled(*shuffled, mode=mode, sandboxed=sandboxed))
    assert weight(one) == weight(other) and getattr(one, "reach", "") == getattr(other, "reach", "")


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize("rules", tuple(permutations(["allow shell", "ask outside", "ask outside(make)"])))
def test_a_rule_that_names_the_command_asks_wherever_it_stands(rules: tuple[str, ...], sandboxed: bool) -> None:
    verdict = authorize(RunCommand("make", ROOT), ruled(*rules, sandboxed=sandboxed))
    assert isinstance(verdict, Ask) and verdict.rule.startswith("ask outside(make)") and verdict.reach == "outside"


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_actions, _rules, _modes, st.booleans(), st.sampled_from(_PATTERNS))
def test_one_more_deny_rule_never_loosens(action, rules, mode, sandboxed, pattern) -> None:  # type: ignore[no-untyped-def]
    before = authorize(action, ruled(*rules, mode=mode, sandboxed=sandboxed))
    after = authorize(action, ruled(*rules, f"deny {pattern}", mode=mode, sandboxed=sandboxed))
    kept_in = pattern.startswith("outside") and isinstance(before, Ask | Allow) and isinstance(after, Ask | Allow)
    assert weight(after) >= weight(before) or (kept_in and ORDER.index(after.reach) <= ORDER.index(before.reach))


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_actions, _rules, _modes, st.booleans())
def test_strangers_text_and_an_unwritable_place_never_loosen(action, rules, mode, sandboxed) -> None:  # type: ignore[no-untyped-def]
    plain = ruled(*rules, mode=mode, sandboxed=sandboxed)
    for stricter in ({"untrusted": "x.example"}, {"unwritable": "it is a home directory"}):
        assert weight(authorize(action, msgspec.structs.replace(plain, **stricter))) >= weight(
            authorize(action, plain)
        )


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_lines, _rules, _modes, st.booleans())
def test_a_line_is_never_looser_than_one_of_its_parts(line, rules, mode, sandboxed) -> None:  # type: ignore[no-untyped-def]
    policy = ruled(*rules, mode=mode, sandboxed=sandboxed)
    whole = authorize(RunCommand(line, ROOT), policy)
    for shown, verdict in parts_of(line, ROOT, policy):
        assert weight(whole) >= weight(verdict), shown
        if not isinstance(whole, Deny) and not isinstance(verdict, Deny):
            assert ORDER.index(whole.reach) >= ORDER.index(verdict.reach), shown


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_actions, _rules, _modes)
def test_a_stricter_mode_is_never_looser_without_a_sandbox(action, rules, mode) -> None:  # type: ignore[no-untyped-def]
    verdicts = [weight(authorize(action, ruled(*rules, mode=each, sandboxed=False))) for each in MODES]
    assert all(one >= two for one, two in pairwise(verdicts))


@given(
    st.lists(
        st.sampled_from(
            [Allow("a"), Allow("b", "network"), Ask("c", "r"), Ask("d", "s", "g", "outside"), Deny("e", "t")]
        )
    )
)
def test_together_is_as_strict_and_reaches_as_far_as_its_parts(verdicts: list[Verdict]) -> None:
    for whole in (combine(verdicts), strictest(verdicts)):
        assert weight(whole) == max(map(weight, verdicts), default=0)
        if not isinstance(whole, Deny):
            reaches = [verdict.reach for verdict in verdicts if not isinstance(verdict, Deny)]
            assert whole.reach == max(reaches, key=ORDER.index, default="inside")


def test_every_verdict_names_what_decided_and_every_risk_is_one_line() -> None:
    for entry in (*corpus("commands.json")[::2], *corpus("everyday.json")[::2]):
        action = RunCommand(entry["command"], ROOT)
        for mode in MODES:
            verdict = authorize(action, ruled(mode=mode))
            assert verdict.rule and (isinstance(verdict, Allow) or verdict.reason), entry
        assert 0 < len(told := risk(action, ruled())) < 400 and "\n" not in told, entry

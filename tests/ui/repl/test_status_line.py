"""The status line: nothing that is as usual, the mode first and in its colour, and never wider than the screen."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.usage import Totals
from agent_cli.ui.repl.status_line import render_status
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, choose
from tests.fuzz import tries
from tests.ui.fake_client import SNAPSHOT


def status(width: int = 80, branch: str = "main", **state: object) -> str:
    return render_status(msgspec.structs.replace(SNAPSHOT, **state), branch, NONE, width)


def test_what_is_as_usual_is_not_said() -> None:
    said = status(sandbox="workspace-write (bubblewrap)", totals=Totals(requests=3, unpriced=3))
    assert said.split(" · ")[:2] == ["ask", "test/model"] and "sandbox" not in said and "$" not in said
    assert "sandbox off" in status(sandbox="off") and "$0.41" in status(totals=Totals(requests=3, cost_usd=0.41))


def test_what_matters_least_goes_first_and_then_the_model_is_cut() -> None:
    state = {"sandbox": "off", "totals": Totals(requests=1, cost_usd=0.41), "model": "anthropic/claude-sonnet-4-5"}
    for width, last in ((90, "main"), (76, "$0.41"), (66, "sonnet-4-5"), (36, "…")):
        said = status(width, **state)
        kept = [fact for fact in ("main", "$0.41", "sonnet-4-5") if fact in said]
        assert kept == ["main", "$0.41", "sonnet-4-5"][["main", "$0.41", "sonnet-4-5", "…"].index(last) :], said
        assert said.startswith("ask · anthropic/") and "sandbox off" in said


def test_each_mode_has_its_colour_and_yolo_cannot_be_overlooked() -> None:
    theme = choose(Ui(theme="dark"), {})
    looks = {}
    for mode in ("plan", "ask", "auto-edit", "yolo"):
        now = msgspec.structs.replace(SNAPSHOT, mode=mode)
        looks[mode] = render_status(now, "", theme, 80).partition("m")[0]
    assert len(set(looks.values())) == 4 and ";7;" in looks["yolo"]
    assert status(mode="yolo").startswith(" yolo  · ")


def test_sub_agents_at_work_are_counted() -> None:
    agents = tuple(
        AgentLine(f"i{state}", "explore-1", "explore", state, "find it", True, 1, None, 1.0, "", "")
        for state in ("queued", "running", "waiting", "done", "failed")
    )
    assert " · 3 sub-agents · " in status(agents=agents)
    assert "sub-agent" not in status(agents=agents[3:])


@pytest.mark.parametrize(
    ("tokens", "bar"), [(0, "─" * 10), (4_900, "━━━━━─────"), (10_000, "━" * 10), (99_999, "━" * 10)]
)
def test_the_bar_shows_how_full_the_context_is(tokens: int, bar: str) -> None:
    assert status(context_tokens=tokens).rpartition(" ")[0].endswith(bar)


def test_a_window_of_unknown_size_has_no_bar() -> None:
    assert status(context_window=None, context_tokens=1_200).endswith(" 1.2k")


@given(
    st.integers(10, 120), st.text(max_size=30), st.sampled_from(["off", "workspace-write", "none (no bubblewrap)"]),
    st.sampled_from(["plan", "yolo"]), st.text(st.characters(codec="utf-8"), max_size=80),
)  # fmt: skip
@settings(max_examples=tries(100), deadline=None)
def test_it_is_one_line_that_fits(width: int, branch: str, sandbox: str, mode: str, model: str) -> None:
    said = status(width, branch, sandbox=sandbox, mode=mode, model=model)
    assert "\n" not in said and lines.cells(said) <= width


def test_a_hook_that_takes_long_is_named() -> None:
    assert "hook Checking style" in status(hook="Checking style") and "hook" not in status()

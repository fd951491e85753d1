"""Edits as models write them are made right or refused; the counts are exact, so that a change of any shows."""

import difflib
from collections import Counter

import pytest

from agent_cli.tools.files.file_change import Edit
from agent_cli.tools.files.replace_text import with_edits
from agent_cli.tools.kit.base import ToolError
from tests.tools.edit_corpus import BOTH, cases, traps


def outcome(text: str, old: str, new: str) -> str | None:
    try:
        return with_edits(text, (Edit(old, new),), "f").text
    except ToolError:
        return None


def test_drifted_edits_are_made_as_intended() -> None:
    counts: Counter[str] = Counter()
    for case in cases():
        made = outcome(case.text, case.old, case.new)
        counts["right" if made == case.wanted else "refused" if made is None else "wrong"] += 1
        if made not in (None, case.wanted):
            diff = difflib.unified_diff(case.wanted.split("\n"), (made or "").split("\n"), lineterm="")
            raise AssertionError(f"{case.name}\n" + "\n".join(diff))
    total = counts.total()
    assert counts == {"right": 855, "refused": 7}
    assert counts["right"] >= 0.98 * total and total >= 200


@pytest.mark.long
def test_two_drifts_at_once_hardly_ever_go_wrong() -> None:
    """Some pairs of drifts destroy what tells one intention from another, so a few cannot be right."""
    counts: Counter[str] = Counter()
    drifts = [drift for name, drift in BOTH.items() if name != "no-break spaces"]
    for case in cases():
        if not case.name.endswith(("as it is", "a word of a comment", "in the file", "lines")):
            continue
        for one in drifts:
            for two in drifts:
                made = outcome(case.text, two(one(case.old)), two(one(case.new)))
                counts["right" if made == case.wanted else "refused" if made is None else "wrong"] += 1
    assert counts["right"] >= 0.9 * counts.total() and counts["wrong"] <= 0.001 * counts.total(), counts


def test_edits_that_could_be_meant_otherwise_are_refused() -> None:
    everything = list(traps())
    applied = [trap.name for trap in everything if outcome(trap.text, trap.old, trap.new) is not None]
    assert not applied
    assert len(everything) == TRAPS


TRAPS = 316

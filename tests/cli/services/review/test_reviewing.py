"""What the sessions of a review work with."""

from pathlib import Path
from typing import Any

import pytest

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.cli.services.review.reviewing import review_setup


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({}, None),
        ({"set": ["limits.cost_usd=3"]}, 3),
        ({"set": ["limits.cost_usd=3"], "max_cost": 2.0}, 2),
        ({"set": ["limits.session_cost_usd=1"], "max_cost": 2.0}, 1),
    ],
    ids=["none", "settings", "option", "session"],
)
def test_all_conversations_share_one_limit(tmp_path: Path, given: dict[str, Any], bound: float | None) -> None:
    budget = review_setup(ParsedOptions("run", {"cd": str(tmp_path), **given})).embedding.budget
    assert (budget and budget.cost_usd) == bound

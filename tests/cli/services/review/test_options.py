"""The options of a review: the table, and what is typed behind `/review`."""

from typing import Any

import pytest

from agent_cli.bootstrap.options import UsageError
from agent_cli.cli.services.review.options import FORMATS, OPTIONS, typed_options
from agent_cli.review.formats import all as formats
from tests.rows import each_row


def test_every_format_is_offered() -> None:
    assert formats.FORMATS == FORMATS


def test_neither_mode_nor_tools_can_be_chosen() -> None:
    assert not {"mode", "tools", "sandbox", "continue", "resume"} & {option.key for option in OPTIONS}


@each_row(
    ("line", "values"),
    [
        ("", {"positional": ""}),
        ("mind the user's locks", {"positional": "mind the user's locks"}),
        ("--base=main look at 'a b'", {"base": "main", "positional": "look at a b"}),
        ("--uncommitted --max-findings 3", {"uncommitted": True, "max_findings": 3, "positional": ""}),
        ("--max-cost 0.5", {"max_cost": 0.5, "positional": ""}),
    ],
)
def test_what_is_typed(line: str, values: dict[str, Any]) -> None:
    assert typed_options(line) == values


@pytest.mark.parametrize(
    ("line", "words"),
    [("--bose main", "unknown option"), ("--base", "needs a value"), ("--timeout x", "no number|not a")],
)
def test_what_is_typed_wrong(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        typed_options(line)

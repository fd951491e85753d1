"""How many examples a generated test tries: few by default, all with `AGENT_FUZZ`, as in `make test-long`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

LEVEL = int(os.environ.get("AGENT_FUZZ", "0"))
"""0 unless the run is a long one."""


def tries(usual: int, long: int = 0) -> int:
    """Return an eighth of the usual number, at least 10; in a long run the usual number, or `long` if that is more."""
    return max(usual, long) if LEVEL else max(min(usual, 10), usual // 8)


def only_long(values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a long run, and none in another: hundreds of tests that are not run would be
    collected by every worker all the same."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values if LEVEL]

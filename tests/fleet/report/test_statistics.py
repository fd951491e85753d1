"""Statistics against published values and plain counting."""

from itertools import combinations, product

import pytest

from agent_cli.fleet.report.statistics import (
    detectable_difference,
    pass_at_k,
    pass_hat_k,
    sign_test,
    wilson,
)
from tests.rows import each_row


@each_row(("n", "c"), [(n, c) for n in range(1, 7) for c in range(n + 1)])
def test_pass_at_k_counts_the_subsets_of_the_attempts(n: int, c: int) -> None:
    attempts = [True] * c + [False] * (n - c)
    for k in range(1, n + 1):
        chosen = list(combinations(attempts, k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
        assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


def test_wilson_is_the_published_interval() -> None:
    # Newcombe 1998, table I: 81 of 263, and the edges 0 of 20 and 1 of 29.
    assert wilson(81 / 263, 263) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert wilson(0.0, 20) == (0.0, pytest.approx(0.1611, abs=5e-5))
    assert wilson(1 / 29, 29) == (pytest.approx(0.0061, abs=5e-5), pytest.approx(0.1718, abs=5e-5))


@each_row(("up", "down"), [(0, 0), (5, 0), (1, 7), (10, 2), (6, 6), (15, 25)])
def test_the_sign_test_counts_the_outcomes_that_are_as_extreme(up: int, down: int) -> None:
    assert sign_test(up, down) == sign_test(down, up)
    if up + down <= 12:
        tosses = [sum(each) for each in product((0, 1), repeat=up + down)]
        extreme = sum(min(heads, up + down - heads) <= min(up, down) for heads in tosses)
        assert sign_test(up, down) == pytest.approx(extreme / len(tosses))
    else:
        assert sign_test(up, down) == pytest.approx(0.1539, abs=5e-5)


def test_more_tasks_make_smaller_differences_detectable() -> None:
    # Two groups of 385 find 50 % against 60.1 % with a power of 80 %.
    assert detectable_difference(0.5, 385) == pytest.approx(0.101, abs=5e-4)
    assert detectable_difference(1.0, 14) > detectable_difference(1.0, 100) > 0

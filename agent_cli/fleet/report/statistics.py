"""Statistics of solved tasks: pass@k, intervals, and significance of differences. Pure."""

from collections.abc import Iterable
from math import comb, sqrt

_Z = 1.959963984540054
"""Two-sided 95 %."""
_Z_POWER = 0.8416212335729143
"""Power 80 %."""


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Return the unbiased estimate that at least one of k attempts solves a task (Chen et al. 2021,
    arXiv:2107.03374): 1 - C(n-c, k) / C(n, k). There must be at least k attempts."""
    return 1.0 - comb(attempts - solved, k) / comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float:
    """Return the unbiased estimate that all of k attempts solve a task, pass^k (Yao et al. 2024,
    arXiv:2406.12045): C(c, k) / C(n, k)."""
    return comb(solved, k) / comb(attempts, k)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share of independent trials (Wilson 1927)."""
    square = _Z * _Z / count
    middle = share + square / 2
    half = _Z * sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def detectable_difference(share: float, count: int) -> float:
    """Return the smallest true difference that a comparison of two runs of this size detects with a power of 80 %,
    at a significance level of 5 %. The variance is that of the share moved towards one half by four trials
    (Agresti and Coull 1998), so that 0 and 1 do not imply certainty."""
    moved = (share * count + 2) / (count + 4)
    return min(1.0, (_Z + _Z_POWER) * sqrt(2 * moved * (1 - moved) / count))


def sign_test(up: int, down: int) -> float:
    """Return the exact two-sided p-value of McNemar's test for the number of pairs changed in each direction."""
    pairs = up + down
    tail = sum(comb(pairs, each) for each in range(min(up, down) + 1))
    return min(1.0, tail / (1 << pairs - 1)) if pairs else 1.0


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None for no values."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else None

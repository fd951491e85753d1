"""Compare what work costs with what less work of the same kind costs, in the same run.

A limit in seconds is true on one machine only. That ten times the input costs about ten times the CPU time holds on
all of them, and it is what separates linear work from quadratic work.
"""

import time
from collections.abc import Callable

_TIMES = 6
"""The large input is so many times the small one: quadratic work costs 36 times as much."""
_SLACK = 3.0
"""Linear work may cost so many times what is expected, for caches and the collection of garbage."""
_LEAST_S = 0.0005
"""Shorter measurements say nothing, so less is counted as much."""
_ROUNDS = 12
"""Work that is cheap enough ends with the first."""


def cpu_s(work: Callable[[], object]) -> float:
    """Measure the CPU time of this thread for a piece of work."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def assert_linear(work: Callable[[int], object], size: int, power: int = 1) -> None:
    """Fail unless `work` on six times `size` costs about six times the CPU time.

    With `power` 2, quadratic work passes, and only what grows faster fails.
    The best of a few rounds counts, since whatever else runs on a machine can only add to a measurement.
    """
    work(1)
    small = large = float("inf")
    for _ in range(_ROUNDS):
        small = min(small, cpu_s(lambda: work(size)))
        large = min(large, cpu_s(lambda: work(size * _TIMES)))
        if large <= _TIMES**power * _SLACK * max(small, _LEAST_S):
            return
    raise AssertionError(f"{_TIMES} times the size costs {large / small:.0f} times as much ({large:.3f} s)")


def assert_cheaper(work: Callable[[], object], reference: Callable[[], object], share: float) -> None:
    """Fail unless `work` costs less than `share` of the CPU time of `reference`."""
    best = other = float("inf")
    for _ in range(_ROUNDS):
        best, other = min(best, cpu_s(work)), min(other, cpu_s(reference))
        if best < share * max(other, _LEAST_S):
            return
    raise AssertionError(f"it costs {best / other:.2f} of its reference ({best:.4f} s of {other:.4f} s)")

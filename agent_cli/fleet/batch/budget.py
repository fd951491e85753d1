"""The budget of a batch: money is reserved before an attempt starts, so that no more than the budget is spent."""

from collections.abc import Iterable

from ..attempt import AttemptResult

_LEAST = 1.0
"""US dollars reserved for an attempt without a limit, until attempts have shown their usual cost."""
_MARGIN = 1.5
_PERCENTILE = 0.95
_SMALLEST = 0.000_001


class Budget:
    """Spent and reserved money, in US dollars. Without a limit everything may start."""

    def __init__(self, limit: float | None, earlier: Iterable[AttemptResult] = ()) -> None:
        self.limit = limit
        self.spent = 0.0
        self._costs: list[float] = []
        self._reserved: dict[str, float] = {}
        for result in earlier:
            self._book(result)

    @property
    def reserved(self) -> float:
        """The amount that running attempts may still spend."""
        return sum(self._reserved.values())

    @property
    def left(self) -> float:
        """The amount that may still be reserved."""
        return float("inf") if self.limit is None else self.limit - self.spent - self.reserved

    def reserve(self, key: str, max_cost: float | None) -> float | None:
        """Reserve money for an attempt; return the amount it may spend, None for no limit.

        Raises:
            ValueError: too little is left.
        """
        if self.limit is None:
            return max_cost
        wanted = max_cost if max_cost is not None else min(self._usual(), self.left)
        if wanted > self.left + _SMALLEST or wanted < _SMALLEST:
            needed = f", and the next attempt may cost {wanted:.4g}" if wanted > self.left else ""
            raise ValueError(f"{max(self.left, 0):.4g} USD of it are left{needed}")
        self._reserved[key] = wanted
        return wanted

    def _usual(self) -> float:
        """Return an estimate that 19 of 20 attempts do not exceed, with a margin."""
        if not self._costs:
            return _LEAST
        ordered = sorted(self._costs)
        return max(_LEAST, _MARGIN * ordered[min(len(ordered) - 1, int(_PERCENTILE * len(ordered)))])

    def settle(self, key: str, result: AttemptResult) -> None:
        """Record the cost of an attempt, and release the rest of its reservation. An attempt that ends twice is
        counted twice."""
        self._reserved.pop(key, None)
        self._book(result)

    def _book(self, result: AttemptResult) -> None:
        self.spent += result.spent_usd
        if result.cost_usd is not None:
            self._costs.append(result.cost_usd)

"""A limit on the total cost of several agents."""

from typing import TYPE_CHECKING

from .options import AgentError, is_amount

if TYPE_CHECKING:
    from agent_cli.engine.model_calls.budget import SharedBudget


class Budget:
    """A limit on the total cost of all agents that share it, for the lifetime of the program.

    A request that might cost more than is left is not made; the turn then ends with `cost_limit`.

    Raises:
        AgentError: the limit is not greater than 0.
    """

    def __init__(self, cost_usd: float) -> None:
        """`cost_usd` is the limit in US dollars."""
        if not is_amount(cost_usd):
            raise AgentError(f"a budget is a number greater than 0, not {cost_usd!r}")
        self.cost_usd = cost_usd
        self._shared: SharedBudget | None = None

    @property
    def spent_usd(self) -> float:
        """The amount spent, in US dollars; a call of unknown cost counts as its maximum possible cost."""
        return self._shared.spent_usd if self._shared is not None else 0.0

    def shared(self) -> "SharedBudget":
        """Return the budget that sessions enforce."""
        if self._shared is None:
            from agent_cli.engine.model_calls.budget import SharedBudget

            self._shared = SharedBudget(self.cost_usd)
        return self._shared

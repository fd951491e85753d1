"""Cost limits per prompt, session and day, checked before each request against its worst case."""

from collections.abc import Callable
from weakref import WeakSet

import msgspec

from agent_cli.model.types.base import ModelInfo, ModelRequest
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.records import ModelCalled
from agent_cli.session.session import Session
from agent_cli.store.state.daily_spend import SpendLog

from .limits import Bounds

_UNKNOWN_OUTPUT = 32_000
"""Output limit in tokens assumed for a model whose limit is unknown."""
_LEAST_OUTPUT = 1_024
"""A request that cannot pay for this many output tokens is not sent."""
_INPUT_MARGIN = 1.1
"""Safety factor, because the size of a request is an estimate."""


class OverBudget(Exception):
    """A request is not sent because it might cost more than is left. The message names the limit."""


class _Left(msgspec.Struct, frozen=True):
    usd: float
    bound: str


class SharedBudget:
    """A cost limit shared by several sessions in one process."""

    def __init__(self, cost_usd: float) -> None:
        self.cost_usd = cost_usd
        self.spent_usd = 0.0
        """A call of unknown cost counts at its maximum."""
        self.sessions: WeakSet[BudgetLimits] = WeakSet()

    def requested_usd(self) -> float:
        """Return the maximum cost of all requests in progress."""
        return sum(each.requested_usd() for each in self.sessions)


class BudgetLimits:
    """The cost limits of one session."""

    def __init__(
        self,
        session: Session,
        bounds: Bounds,
        day: SpendLog | None,
        tokens: Callable[[], int],
        parent: "BudgetLimits | None" = None,
        shared: SharedBudget | None = None,
    ) -> None:
        """`tokens` estimates the size of the next request. What a sub-agent spends also counts for its `parent`;
        `shared` is only set for a session without a parent."""
        self._session = session
        self._shared = shared
        if shared is not None:
            shared.sessions.add(self)
        self._parent = parent
        self._children: set[BudgetLimits] = set()
        """Limits of running sub-agents."""
        self._pending_usd = 0.0
        """Maximum cost of the request in progress."""
        if parent is not None:
            parent._children.add(self)
        self._bounds = bounds
        self._day = day
        self._tokens = tokens
        self._before_input = self._spent()
        self._warn_at = bounds.warn_cost_usd
        while self._warn_at is not None and self._warn_at <= self._known():
            self._warn_at *= 2  # the user already knew the cost of earlier runs

    def begin_input(self) -> None:
        """Start a new prompt with its full allowance."""
        self._before_input = self._spent()

    def book(self, call: ModelCalled) -> None:
        """Add the cost of a call, or its maximum, to the day's ledger."""
        self._pending_usd = 0.0
        cost_usd = call.at_most_usd if call.cost_usd is None else call.cost_usd
        if self._day is not None and cost_usd:
            self._day.add(cost_usd)
        self._book_shared(call)
        if self._parent is not None:
            self._parent._book_of(self._session.header.session_id, call)

    def _book_of(self, agent: str, call: ModelCalled) -> None:
        """Record a sub-agent's call in this session, so that all its totals include the cost."""
        self._session.append(
            msgspec.structs.replace(
                call, id=new_id("call"), turn_id="", kind="subagent", agent=call.agent or agent
            )
        )
        self._book_shared(call)
        if self._parent is not None:
            self._parent._book_of(agent, call)

    def _book_shared(self, call: ModelCalled) -> None:
        if self._shared is not None:
            self._shared.spent_usd += (call.at_most_usd if call.cost_usd is None else call.cost_usd) or 0.0

    def close(self) -> None:
        """Detach from the parent: the sub-agent has ended."""
        if self._parent is not None:
            self._parent._children.discard(self)

    def today_usd(self) -> float | None:
        """Return the day's cost so far; None when it is not recorded."""
        return None if self._day is None else self._day.today_usd()

    @property
    def bounded(self) -> bool:
        """True if there is a cost limit, which unknown prices would make ineffective."""
        return (
            self._bounds.on_cost or self._shared is not None or (self._parent is not None and self._parent.bounded)
        )

    def unbounded(self, info: ModelInfo) -> bool:
        """Return True if there is a cost limit that a model's unknown prices make ineffective."""
        return self.bounded and info.worst_case_usd(1, 1) is None

    def admit(self, info: ModelInfo, request: ModelRequest) -> ModelRequest:
        """Return the request with its output limited so that even the worst case stays within the budget.

        The output limit is a power of two, so that it rarely changes: most providers keep their cache only while a
        request begins with the same bytes.

        Raises:
            OverBudget: not even a short answer can be paid for.
        """
        self._pending_usd = 0.0
        left = self._left(self)
        if left is None:
            return request
        if left.usd <= 0:
            raise OverBudget(left.bound)
        tokens, longest = self.size(info, request)
        while (worst := info.worst_case_usd(tokens, longest) or 0.0) > left.usd:
            if longest <= _LEAST_OUTPUT:
                unknown = self._session.totals.at_most_usd
                note = f", of which up to {_usd(unknown)} is for answers whose cost is unknown" if unknown else ""
                raise OverBudget(f"{left.bound}{note}: the next request might cost {_usd(worst)}")
            longest = max(_LEAST_OUTPUT, 1 << (longest - 1).bit_length() - 1)
            request = msgspec.structs.replace(request, max_output_tokens=longest)
        self._pending_usd = worst
        return request

    def size(self, info: ModelInfo, request: ModelRequest) -> tuple[int, int]:
        """Return the maximum tokens of a request and of its answer."""
        longest = request.max_output_tokens or info.max_output_tokens or _UNKNOWN_OUTPUT
        return int(self._tokens() * _INPUT_MARGIN), longest

    def warning(self) -> str:
        """Return a warning for the user when the session has become expensive, once per doubling; otherwise
        empty."""
        spent = self._known()
        if self._warn_at is None or spent < self._warn_at:
            return ""
        while self._warn_at <= spent:
            self._warn_at *= 2
        return f"This session has cost {_usd(spent)} so far; the next reminder comes at {self._warn_at:g} USD."

    def _left(self, asking: "BudgetLimits") -> _Left | None:
        """Return the smallest remaining budget for the asking agent; None without a limit. Requests by others in
        progress count at their maximum cost."""
        requested = self.requested_usd() - asking._pending_usd
        spent = self._spent() + requested
        bounds = self._bounds
        each = []
        if bounds.cost_usd is not None:
            each.append(_left(bounds.cost_usd, spent - self._before_input, "one prompt", "cost_usd"))
        if bounds.session_cost_usd is not None:
            each.append(_left(bounds.session_cost_usd, spent, "one session", "session_cost_usd"))
        if bounds.day_cost_usd is not None and self._day is not None:
            today = self._day.today_usd() + requested
            each.append(_left(bounds.day_cost_usd, today, "one day", "day_cost_usd"))
        if self._shared is not None:
            together = self._shared.spent_usd + self._shared.requested_usd() - asking._pending_usd
            each.append(_left(self._shared.cost_usd, together, "all agents that share it", ""))
        if self._parent is not None and (left := self._parent._left(asking)) is not None:
            each.append(left)
        return min(each, key=lambda left: left.usd, default=None)

    def requested_usd(self) -> float:
        """Return the maximum cost of requests in progress, including those of sub-agents."""
        return self._pending_usd + sum(child.requested_usd() for child in self._children)

    def _spent(self) -> float:
        """Return the cost that counts towards the limits; calls of unknown cost count at their maximum."""
        return self._known() + self._session.totals.at_most_usd

    def _known(self) -> float:
        return self._session.totals.cost_usd or 0.0


def _left(bound_usd: float, spent_usd: float, what: str, key: str) -> _Left:
    named = f"limits.{key}; " if key else ""
    return _Left(bound_usd - spent_usd, f"{_usd(bound_usd)} for {what} ({named}{_usd(spent_usd)} spent)")


def _usd(amount: float) -> str:
    return f"{amount:.2f} USD" if amount >= 0.01 else f"{amount:.2g} USD"

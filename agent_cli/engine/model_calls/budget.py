"""Money: what a session, an input and a day may still cost, judged before each request by its worst case."""

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

import msgspec

from agent_cli.model.types.base import ModelInfo, ModelRequest
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.records import ModelCalled
from agent_cli.session.session import Session

from .limits import Bounds

_UNKNOWN_OUTPUT = 32_000
"""Longest answer assumed, in tokens, of a model whose limit is unknown."""
_LEAST_OUTPUT = 1_024
"""A request that could not pay for this many tokens of answer is not made."""
_INPUT_MARGIN = 1.1
"""The size of a request is an estimate."""


class OverBudget(Exception):
    """A request is not made, because it might cost more than is left; the text names the limit."""


class DayLedger(Protocol):
    """What all sessions spend on one day. `store.SpendLog` is one."""

    def add(self, cost_usd: float) -> None: ...

    def today_usd(self) -> float: ...


class _Left(msgspec.Struct, frozen=True):
    usd: float
    bound: str


class SharedBudget:
    """A bound on the money that several sessions of one process spend together."""

    def __init__(self, cost_usd: float) -> None:
        self.cost_usd = cost_usd
        self.spent_usd = 0.0
        """A call of unknown cost counts as the most it can have cost."""
        self.sessions: WeakSet[BudgetLimits] = WeakSet()

    def requested_usd(self) -> float:
        """Return the most that requests under way can cost."""
        return sum(each.requested_usd() for each in self.sessions)


class BudgetLimits:
    """The bounds on money of one session."""

    def __init__(
        self,
        session: Session,
        bounds: Bounds,
        day: DayLedger | None,
        tokens: Callable[[], int],
        parent: "BudgetLimits | None" = None,
        shared: SharedBudget | None = None,
    ) -> None:
        """`tokens` estimates the next request. What a sub-agent spends counts for its `parent` too; `shared` is of
        a session that has no parent."""
        self._session = session
        self._shared = shared
        if shared is not None:
            shared.sessions.add(self)
        self._parent = parent
        self._children: set[BudgetLimits] = set()
        """Those of sub-agents that run."""
        self._pending_usd = 0.0
        """The most that the request under way can cost."""
        if parent is not None:
            parent._children.add(self)
        self._bounds = bounds
        self._day = day
        self._tokens = tokens
        self._before_input = self._spent()
        self._warn_at = bounds.warn_cost_usd
        while self._warn_at is not None and self._warn_at <= self._known():
            self._warn_at *= 2  # what an earlier sitting spent was known then

    def begin_input(self) -> None:
        """A new input has its whole allowance."""
        self._before_input = self._spent()

    def book(self, call: ModelCalled) -> None:
        """Note in the day's ledger what a call cost, or may have cost at most."""
        self._pending_usd = 0.0
        cost_usd = call.at_most_usd if call.cost_usd is None else call.cost_usd
        if self._day is not None and cost_usd:
            self._day.add(cost_usd)
        self._book_shared(call)
        if self._parent is not None:
            self._parent._book_of(self._session.header.session_id, call)

    def _book_of(self, agent: str, call: ModelCalled) -> None:
        """Note in the session what a sub-agent's call cost, so that every sum has it."""
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
        """Count no longer for the parent: the sub-agent has ended."""
        if self._parent is not None:
            self._parent._children.discard(self)

    def today_usd(self) -> float | None:
        """Return what the day has cost so far; None when it is not recorded."""
        return None if self._day is None else self._day.today_usd()

    @property
    def bounded(self) -> bool:
        """Whether there is a bound that unknown prices would undo."""
        return (
            self._bounds.on_cost or self._shared is not None or (self._parent is not None and self._parent.bounded)
        )

    def unbounded(self, info: ModelInfo) -> bool:
        """Return whether there is a bound that a model's unknown prices make void."""
        return self.bounded and info.worst_case_usd(1, 1) is None

    def admit(self, info: ModelInfo, request: ModelRequest) -> ModelRequest:
        """Return the request, its answer bounded so that even the worst case stays within what is left.

        The bound is a power of two, so that it changes seldom: most providers keep their cache only while
        a request begins with the same bytes.

        Raises:
            OverBudget: not even a short answer could be paid.
        """
        self._pending_usd = 0.0
        left = self._left(self)
        if left is None:
            return request
        if left.usd <= 0:
            raise OverBudget(left.bound)
        tokens, longest = self.size(info, request)
        worst = info.worst_case_usd(tokens, longest)
        if worst is None or worst <= left.usd:
            self._pending_usd = worst or 0.0
            return request
        while longest > _LEAST_OUTPUT:
            longest = max(_LEAST_OUTPUT, 1 << (longest - 1).bit_length() - 1)
            worst = info.worst_case_usd(tokens, longest)
            if worst is None or worst <= left.usd:
                self._pending_usd = worst or 0.0
                return msgspec.structs.replace(request, max_output_tokens=longest)
        unknown = self._session.totals.at_most_usd
        counted = f", of which up to {_usd(unknown)} is for answers whose cost is unknown" if unknown else ""
        raise OverBudget(f"{left.bound}{counted}: the next request might cost {_usd(worst)}")

    def size(self, info: ModelInfo, request: ModelRequest) -> tuple[int, int]:
        """Return the most tokens that a request may have, and its answer."""
        longest = request.max_output_tokens or info.max_output_tokens or _UNKNOWN_OUTPUT
        return int(self._tokens() * _INPUT_MARGIN), longest

    def warning(self) -> str:
        """Return a question for the person when the session has become dear, once for each doubling; else
        empty."""
        spent = self._known()
        if self._warn_at is None or spent < self._warn_at:
            return ""
        while self._warn_at <= spent:
            self._warn_at *= 2
        return f"This session has cost {_usd(spent)} so far; the next reminder comes at {self._warn_at:g} USD."

    def _left(self, asking: "BudgetLimits") -> _Left | None:
        """Return the least that is left under any bound, for the agent that asks; None without one. What others
        have requested counts as the most that it can cost."""
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
        """Return the most that requests under way can cost, those of sub-agents included."""
        return self._pending_usd + sum(child.requested_usd() for child in self._children)

    def _spent(self) -> float:
        """Return what counts towards the bounds: a call of unknown cost as the most it can have cost."""
        return self._known() + self._session.totals.at_most_usd

    def _known(self) -> float:
        return self._session.totals.cost_usd or 0.0


def _left(bound_usd: float, spent_usd: float, what: str, key: str) -> _Left:
    named = f"limits.{key}; " if key else ""
    return _Left(bound_usd - spent_usd, f"{_usd(bound_usd)} for {what} ({named}{_usd(spent_usd)} spent)")


def _usd(amount: float) -> str:
    return f"{amount:.2f} USD" if amount >= 0.01 else f"{amount:.2g} USD"

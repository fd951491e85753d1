"""How much of the machine several things need together, and how much each is trusted with."""

from collections.abc import Iterable

from agent_cli.protocol.actions import Reach

ORDER: tuple[Reach, ...] = ("inside", "network", "outside")
"""From the least to the most."""


def widest(reaches: Iterable[Reach]) -> Reach:
    """Return the most that any of them is; `inside` for none."""
    return max(reaches, key=ORDER.index, default="inside")


def narrowest(reaches: Iterable[Reach]) -> Reach:
    """Return the least that any of them is; `outside` for none."""
    return min(reaches, key=ORDER.index, default="outside")


def exceeds(need: Reach, trusted: Reach) -> bool:
    """Return whether something would get more than it is trusted with."""
    return ORDER.index(need) > ORDER.index(trusted)

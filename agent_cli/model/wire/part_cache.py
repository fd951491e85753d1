"""Cache of each message in its wire format for the next request, which sends the same messages again.

Without it, writing a request takes longer the longer the conversation is: at a hundred calls it is a third of the
agent's own computing time per step, and each image is examined again.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from agent_cli.protocol.messages import begins_with

Item = TypeVar("Item")
Part = TypeVar("Part")


class PartCache(Generic[Item, Part]):
    """The parts of one request, each with the message or tool it was made from. Parts must not be modified,
    because they are sent again."""

    def __init__(self) -> None:
        self._how: object = None
        self._items: tuple[Item, ...] = ()
        self._parts: list[Part] = []

    def of(self, items: Sequence[Item], how: object, write: Callable[[Item], Part]) -> list[Part]:
        """Return the result of `write` for each item.

        Args:
            items: those of the request, which never change; results for other items are dropped.
            how: everything `write` depends on besides the item. If it changes, all parts are written again.
            write: pure.
        """
        if how != self._how:
            self._items, self._parts = (), []
        if begins_with(items, self._items):
            parts = self._parts
            parts += [write(item) for item in items[len(self._items) :]]
        else:  # by identity: items held here keep their address
            known = {id(item): part for item, part in zip(self._items, self._parts, strict=True)}
            parts = [known[id(item)] if id(item) in known else write(item) for item in items]
        self._how, self._items, self._parts = how, tuple(items), parts
        return list(parts)

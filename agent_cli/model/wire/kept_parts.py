"""What became of each message in a wire format, kept for the next request, which sends the same messages again.

Without it, writing a request takes longer the longer the conversation is: at a hundred calls a third of what the
agent itself computes for a step, and each picture is looked at again.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from agent_cli.protocol.messages import begins_with

Item = TypeVar("Item")
Part = TypeVar("Part")


class KeptParts(Generic[Item, Part]):
    """The parts of one request, each with the message or the tool it was made of. Nobody may change a part: it is
    sent again."""

    def __init__(self) -> None:
        self._how: object = None
        self._items: tuple[Item, ...] = ()
        self._parts: list[Part] = []

    def of(self, items: Sequence[Item], how: object, write: Callable[[Item], Part]) -> list[Part]:
        """Return what `write` makes of each item.

        Args:
            items: those of the request, which never change; what was made of others is forgotten.
            how: all that `write` depends on beside the item. Where it changes, everything is written anew.
            write: pure.
        """
        if how != self._how:
            self._items, self._parts = (), []
        if begins_with(items, self._items):
            parts = self._parts
            parts += [write(item) for item in items[len(self._items) :]]
        else:  # by identity: what is held here keeps its address
            known = {id(item): part for item, part in zip(self._items, self._parts, strict=True)}
            parts = [known[id(item)] if id(item) in known else write(item) for item in items]
        self._how, self._items, self._parts = how, tuple(items), parts
        return list(parts)

"""The model in use. It can be changed at any time; the running call keeps the one it began with."""

from collections.abc import Awaitable, Callable

from ..model.base import Model


class Models:
    """The model in use, and how to open another."""

    def __init__(self, model: Model, open_model: Callable[[str], Awaitable[Model]], effort: str) -> None:
        self.model = model
        self.effort = effort
        self._open = open_model
        self._retired: list[Model] = []

    async def switch(self, name: str) -> None:
        """Use another model from the next call on.

        Raises:
            Exception: it cannot be used; the present one stays.
        """
        fresh = await self._open(name)
        self._retired.append(self.model)  # a running call may still use it
        self.model = fresh

    async def close_retired(self) -> None:
        """Close the models that were replaced, when nothing runs."""
        while self._retired:
            await self._retired.pop().aclose()

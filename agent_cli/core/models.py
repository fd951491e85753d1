"""The model in use. It can be changed at any time; the running call keeps the one it began with."""

from collections.abc import Awaitable, Callable

from ..model.base import Model


class Models:
    """The chosen model, those that may stand in for it, and how to open another."""

    def __init__(
        self,
        model: Model,
        open_model: Callable[[str], Awaitable[Model]],
        effort: str,
        fallbacks: tuple[str, ...] = (),
    ) -> None:
        self.effort = effort
        self._chosen = model
        self._stand_in: Model | None = None
        self._open = open_model
        self._fallbacks = fallbacks
        self._tried = 0
        self._retired: list[Model] = []

    @property
    def model(self) -> Model:
        """The model that answers the next call."""
        return self._stand_in or self._chosen

    @property
    def may_fall_back(self) -> bool:
        """Whether another model is left to stand in."""
        return self._tried < len(self._fallbacks)

    async def fall_back(self) -> Model | None:
        """Let the next model of the list stand in; None when there is none left that can be opened."""
        while self.may_fall_back:
            name = self._fallbacks[self._tried]
            self._tried += 1
            if name == self._chosen.info.name:
                continue
            try:
                fresh = await self._open(name)
            except Exception:
                continue
            self._retire_stand_in()
            self._stand_in = fresh
            return fresh
        return None

    def back_to_first(self) -> None:
        """The chosen model answers again, as each input begins with it."""
        self._retire_stand_in()
        self._tried = 0

    async def switch(self, name: str) -> None:
        """Use another model from the next call on.

        Raises:
            Exception: it cannot be used; the present one stays.
        """
        fresh = await self._open(name)
        self.back_to_first()
        self._retired.append(self._chosen)  # a running call may still use it
        self._chosen = fresh

    async def close_retired(self) -> None:
        """Close the models that were replaced, when nothing runs."""
        while self._retired:
            await self._retired.pop().aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        self.back_to_first()
        await self.close_retired()
        await self._chosen.aclose()

    def _retire_stand_in(self) -> None:
        if self._stand_in is not None:
            self._retired.append(self._stand_in)
            self._stand_in = None

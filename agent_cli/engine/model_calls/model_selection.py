"""The model in use. It can be changed at any time; a running call keeps the model it began with."""

from collections.abc import Awaitable, Callable

from agent_cli.model.types.base import Model


class Models:
    """The chosen model, its fallbacks, and a way to open others."""

    def __init__(
        self,
        model: Model,
        open_model: Callable[[str], Awaitable[Model]],
        effort: str,
        fallbacks: tuple[str, ...] = (),
        small: str = "",
        *,
        is_shared: bool = False,
    ) -> None:
        """`small` names the model that writes summaries; empty for the main model. `is_shared`: `model` belongs to
        another session, which closes it."""
        self._shared = model if is_shared else None
        self.effort = effort
        self.chosen = model
        """The model that each prompt starts with."""
        self._fallback: Model | None = None
        self._open = open_model
        self._unopened = fallbacks
        self._spare: list[Model] = []
        self._tried = 0
        self._retired: list[Model] = []
        self._small_name = small
        self.small: Model | None = None
        """The model for summaries; None if no separate one is configured and usable. Only known after awaiting
        `ready`."""

    @property
    def model(self) -> Model:
        """The model for the next call."""
        return self._fallback or self.chosen

    @property
    def may_fall_back(self) -> bool:
        """True if another fallback is left. Only known after awaiting `ready`."""
        return self._tried < len(self._spare)

    async def ready(self) -> list[str]:
        """Open the fallbacks and the model for summaries, without network access. Return a message for each that
        cannot be used, only once."""
        problems = []
        small, self._small_name = self._small_name, ""
        if small and small != self.chosen.info.name:
            try:
                self.small = await self._open(small)
            except Exception as error:  # no key or unknown name: the main model writes the summaries
                problems.append(f"small_model cannot be used: {error}")
        for name in self._unopened:
            try:
                self._spare.append(await self._open(name))
            except Exception as error:  # no key or unknown name: the next one may be usable
                problems.append(f"The fallback model {name} cannot be used: {error}")
        self._unopened = ()
        return problems

    def fall_back(self) -> Model | None:
        """Switch to the next fallback and return it; None if there is none left."""
        while self.may_fall_back:
            spare = self._spare[self._tried]
            self._tried += 1
            if spare.info.name != self.chosen.info.name:
                self._fallback = spare
                return spare
        return None

    def back_to_first(self) -> None:
        """Return to the chosen model, as at the start of each prompt."""
        self._fallback = None
        self._tried = 0

    async def switch(self, name: str, *, check: bool = True) -> None:
        """Switch to another model from the next call on.

        Raises:
            Exception: it cannot be used, or with `check` its local server does not answer; the old model stays.
        """
        fresh = await self._open(name)
        if check:
            try:
                await fresh.reach()
            except BaseException:
                await fresh.aclose()
                raise
        self.back_to_first()
        self._retired.append(self.chosen)  # a running call may still use it
        self.chosen = fresh

    async def close_retired(self) -> None:
        """Close replaced models. Called when nothing is running."""
        while self._retired:
            await self._close(self._retired.pop())

    async def aclose(self) -> None:
        """Close all connections."""
        self.back_to_first()
        await self.close_retired()
        for model in (self.chosen, *self._spare, *((self.small,) if self.small else ())):
            await self._close(model)

    async def _close(self, model: Model) -> None:
        if model is not self._shared:
            await model.aclose()

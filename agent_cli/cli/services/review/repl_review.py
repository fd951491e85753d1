"""`/review`: a review in separate conversations, beside the session. A later review of the same target in the
session knows the earlier findings."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.layer import ConfigError
from agent_cli.model.routing import NoModel
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean
from agent_cli.review.finding import Finding, Review
from agent_cli.review.formats.text import text_lines
from agent_cli.review.git_reader import ReviewError
from agent_cli.review.material import Selection
from agent_cli.store.session_file import StoreError
from agent_cli.ui.headless.runner import StopHandle
from agent_cli.ui.text import lines

from .options import SESSION_OPTIONS, typed_options
from .reviewing import ReviewOrder, carry_out, order_of, review_setup

_EXPECTED = (ReviewError, UsageError, ConfigError, StoreError, NoModel, ModelError)


class ReplReviews:
    """The reviews of a session."""

    def __init__(self, setup: Setup, opened: OpenSession) -> None:
        self._setup = setup
        self._opened = opened
        self._known: dict[Selection, tuple[Finding, ...]] = {}

    async def lines(self, argument: str) -> AsyncGenerator[str, None]:
        """Yield progress, then the findings, as lines that are safe to print."""
        try:
            values = typed_options(argument)
            order = await order_of(values, self._setup.root)
        except (ReviewError, UsageError) as error:
            yield clean(str(error))
            return
        if not order.request.previous:
            request = msgspec.structs.replace(order.request, previous=self._known.get(order.selection, ()))
            order = msgspec.structs.replace(order, request=request)
        said: asyncio.Queue[str | None] = asyncio.Queue()
        work = asyncio.ensure_future(self._review(values, order, said))
        work.add_done_callback(lambda _: said.put_nowait(None))
        try:
            while (line := await said.get()) is not None:
                yield clean(line)
            review = work.result()
        except _EXPECTED as error:
            yield clean(str(error))
            return
        finally:
            work.cancel()
            await asyncio.wait({work})
        self._known[order.selection] = review.findings
        for line in text_lines(review):
            yield line
        if review.cost_usd is not None:
            yield f"The review cost {lines.dollars(review.cost_usd)}, which is not part of this session's cost."

    async def _review(
        self, values: dict[str, object], order: ReviewOrder, said: "asyncio.Queue[str | None]"
    ) -> Review:
        now, given = self._opened.agent.snapshot(), self._setup.chosen.values
        chosen = {option.key: given[option.key] for option in SESSION_OPTIONS if option.key in given}
        chosen |= {"model": now.model, "cd": str(self._setup.root)}
        if now.effort:
            chosen["effort"] = now.effort
        if "max_cost" in given:
            chosen["max_cost"] = given["max_cost"]
        chosen |= {key: values[key] for key in ("max_cost", "timeout") if key in values}
        stopper = StopHandle()
        if isinstance(timeout_s := values.get("timeout"), float):
            asyncio.get_running_loop().call_later(timeout_s, stopper.stop, "time_limit")
        return await carry_out(review_setup(ParsedOptions("run", chosen)), order, said.put_nowait, stopper)

"""Requests and notifications from a server, passed from the SDK's callbacks to our handlers."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as wire
from mcp.client.session import ClientRequestContext

from ..types.client import Handlers, SamplingRequest, ServerError
from .content import elicitation_of
from .session import plain

_SAMPLE_TOKENS = 1_000


class CallClock:
    """Time limits of a call: in total, and without progress."""

    def __init__(self, total_s: float, idle_s: float) -> None:
        now = asyncio.get_running_loop().time()
        self.total_s, self.idle_s = total_s, idle_s
        self._end, self._idle_end = now + total_s, now + idle_s

    def moved(self) -> None:
        """Record progress."""
        self._idle_end = asyncio.get_running_loop().time() + self.idle_s

    def shift(self, seconds: float) -> None:
        """Exclude a period during which the server waited for us."""
        self._end += seconds
        self._idle_end += seconds

    @property
    def left_s(self) -> float:
        """Remaining time of the call in seconds."""
        return min(self._end, self._idle_end) - asyncio.get_running_loop().time()

    @property
    def limit(self) -> str:
        """The limit that is reached first, in words."""
        return f"{self.total_s:g} s" if self._end <= self._idle_end else f"{self.idle_s:g} s without progress"


class ServerQuestions:
    """The callbacks of a session. While one waits for the user or the model, the clocks of all calls are stopped,
    because the server cannot continue without the answer."""

    def __init__(self, handlers: Handlers) -> None:
        self.waiting = 0
        """Number of unanswered questions."""
        self._handlers = handlers
        self._clocks: set[CallClock] = set()

    @contextlib.contextmanager
    def timed(self, clock: CallClock) -> Iterator[CallClock]:
        """Stop a clock while the server waits for us."""
        self._clocks.add(clock)
        try:
            yield clock
        finally:
            self._clocks.discard(clock)

    async def elicit(
        self, context: ClientRequestContext, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult | wire.ErrorData:
        """Ask the user a question."""
        with self._time_stands_still():
            answer = await self._handlers.elicit(elicitation_of(plain(params)))
        content = answer.values if answer.action == "accept" else None
        return wire.ElicitResult(action=answer.action, content=content)

    async def sample(
        self, context: ClientRequestContext, params: wire.CreateMessageRequestParams
    ) -> wire.CreateMessageResult | wire.ErrorData:
        """Ask the model."""
        given = plain(params)
        messages = tuple((each["role"], _text_of(each["content"])) for each in given.get("messages", ()))
        most = int(given.get("maxTokens") or _SAMPLE_TOKENS)
        asked = SamplingRequest(given.get("systemPrompt") or "", messages, most)
        try:
            with self._time_stands_still():
                said = await self._handlers.sample(asked)
        except ServerError as error:
            return wire.ErrorData(code=wire.INVALID_REQUEST, message=str(error))
        return wire.CreateMessageResult(
            role="assistant",
            content=wire.TextContent(type="text", text=said.text),
            model=said.model,
            stop_reason=said.stop_reason,
        )

    async def roots(self, context: ClientRequestContext) -> wire.ListRootsResult:
        """Return the folders of the workspace."""
        roots = [wire.Root.model_validate({"uri": Path(root).as_uri()}) for root in self._handlers.roots()]
        return wire.ListRootsResult(roots=roots)

    async def log(self, params: wire.LoggingMessageNotificationParams) -> None:
        """Log a message."""
        said = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        self._handlers.log(f"{params.level}: {said}")

    async def hear(self, message: Any) -> None:
        """Handle a notification, or an item that is not a message."""
        if getattr(message, "method", "").endswith("/list_changed"):
            self._handlers.changed()

    @contextlib.contextmanager
    def _time_stands_still(self) -> Iterator[None]:
        began = asyncio.get_running_loop().time()
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            for clock in self._clocks:
                clock.shift(asyncio.get_running_loop().time() - began)


def _text_of(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(str(each.get("text") or f"[{each.get('type')}]") for each in blocks)

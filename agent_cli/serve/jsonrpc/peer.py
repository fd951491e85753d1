"""A side of a JSON-RPC connection: it handles incoming requests and sends its own."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from . import messages
from .channel import Channel, LineTooLong
from .messages import Disconnected, Request, RequestId, Response, RpcError

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Handles a request or a notification, given method and params; raises RpcError if it is invalid."""

CANCEL_METHOD = "$/cancel_request"
_MOST_AT_ONCE = 256
_MOST_UNSENT = 4_000_000
"""Number of unsent bytes above which no more is read from a client that sends requests without reading answers."""
_GRACE_S = 1.0
"""Seconds that requests continue after the end of the input, which may be a file."""
_CLOSE_S = 15.0
"""Seconds allowed for cancelled requests to end afterwards."""


class Peer:
    """A connection. Requests run concurrently, each in a task; tasks start in order of arrival."""

    def __init__(self, channel: Channel, handler: Handler) -> None:
        """`handler` is called for each request and each notification."""
        self._channel = channel
        self._handler = handler
        self._ids = count(1)
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def run(self) -> None:
        """Serve until the other side closes; then end the work that runs for it."""
        try:
            async for line in self._channel.lines():
                self._take(line)
                if self._channel.unsent > _MOST_UNSENT:
                    await self._channel.writable()
        except LineTooLong as error:
            self._channel.write(messages.encode_error(None, RpcError(messages.INVALID_REQUEST, str(error))))
        finally:
            await self._end()

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and return its result. Cancellation is reported to the other side.

        Raises:
            RpcError: the other side answers with an error.
            Disconnected: the other side is gone.
        """
        if self._is_over:
            raise Disconnected
        identifier = next(self._ids)
        answer = self._asked[identifier] = asyncio.get_running_loop().create_future()
        self._channel.write(messages.encode_request(method, params, identifier))
        try:
            return await answer
        except asyncio.CancelledError:
            self.notify(CANCEL_METHOD, {"requestId": identifier})
            raise
        finally:
            del self._asked[identifier]

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; see `writable` for a side that reads slowly."""
        self._channel.write(messages.encode_request(method, params))

    async def writable(self) -> None:
        """Wait until few bytes are queued for sending."""
        await self._channel.writable()

    def _take(self, line: bytes) -> None:
        try:
            message = messages.decode(line)
        except RpcError as error:
            identifier, error.data = error.data, None
            self._channel.write(messages.encode_error(identifier, error))
            return
        match message:
            case Response():
                self._answered(message)
            case Request(method=method, params=params, id=None) if method == CANCEL_METHOD:
                self._cancel(params)
            case Request(id=None):
                self._begin(self._notified(message))
            case Request(id=identifier):
                self._request(message, identifier)

    def _answered(self, message: Response) -> None:
        asked = self._asked.get(message.id) if message.id is not None else None
        if asked is None or asked.done():  # unknown or already answered
            return
        if message.error is not None:
            asked.set_exception(message.error)
        else:
            asked.set_result(message.result)

    def _cancel(self, params: dict[str, Any]) -> None:
        identifier = params.get("requestId", params.get("id"))
        if isinstance(identifier, int | str) and (task := self._running.get(identifier)) is not None:
            task.cancel()

    def _request(self, message: Request, identifier: RequestId | None) -> None:
        assert identifier is not None
        problem = None
        if identifier in self._running:
            problem = RpcError(messages.INVALID_REQUEST, f"A request with the id {identifier!r} still runs.")
        elif len(self._running) >= _MOST_AT_ONCE:
            problem = RpcError(messages.OVERLOADED, f"{_MOST_AT_ONCE} requests run already; wait for one to end.")
        if problem is not None:
            self._channel.write(messages.encode_error(identifier, problem))
            return
        task = self._running[identifier] = self._begin(self._answer(message, identifier))
        task.add_done_callback(lambda done: self._never_began(identifier) if done.cancelled() else None)

    def _never_began(self, identifier: RequestId) -> None:
        """Answer a request that was cancelled before its first step, so that its task never ran."""
        self._running.pop(identifier, None)
        self._channel.write(messages.encode_error(identifier, _cancelled()))

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task

    async def _notified(self, message: Request) -> None:
        with contextlib.suppress(RpcError):  # a notification gets no response, not even an error
            await self._handler(message.method, message.params)

    async def _answer(self, message: Request, identifier: RequestId) -> None:
        try:
            answer = messages.encode_result(identifier, await self._handler(message.method, message.params))
        except RpcError as error:
            answer = messages.encode_error(identifier, error)
        except asyncio.CancelledError:
            answer = messages.encode_error(identifier, _cancelled())
        except Exception as error:
            print(f"agent: {message.method}: {type(error).__name__}: {error}", file=sys.stderr)
            said = RpcError(messages.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            answer = messages.encode_error(identifier, said)
        finally:
            self._running.pop(identifier, None)
        self._channel.write(answer)

    async def _end(self) -> None:
        self._is_over = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(Disconnected())
        if self._beside:
            await asyncio.wait(self._beside, timeout=_GRACE_S)
        if tasks := set(self._beside):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CLOSE_S)


def _cancelled() -> RpcError:
    return RpcError(messages.CANCELLED, "The request was cancelled.")

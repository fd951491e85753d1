"""A session of the engine inside this process: prompts go in one at a time, their events come out."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import Client
from agent_cli.protocol.operations import Interrupt
from agent_cli.protocol.stop_reason import StopReason

from .approvals import Answers
from .options import AgentError

_STOP_S = 10.0
"""Seconds that a stopped turn has to end."""


class Session:
    """An open session; `aclose` stops its tasks, not the engine."""

    def __init__(self, client: Client, answers: Answers) -> None:
        self.client = client
        self._answers = answers
        self._replies: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        """Held while a prompt runs."""
        self._holder: asyncio.Task[object] | None = None
        """The task that holds it."""
        self._is_stopping = False
        """True while its prompt is stopped because a loop was left."""
        self._is_ending = False
        self._events: asyncio.Queue[ev.AnyEvent] = asyncio.Queue()
        self._is_closed = False
        self._pump = asyncio.create_task(self._take_events())

    async def end_work(self) -> None:
        """Stop the running prompt, and begin no further one."""
        self._is_ending = True
        if self.client.snapshot().busy:
            await self._stop("terminated")

    async def aclose(self) -> None:
        """Stop processing events."""
        tasks = (self._pump, *self._replies)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self._is_closed:
            self._is_closed = True
            error = ev.ErrorInfo("closed", "The session did not end in time.")
            self._events.put_nowait(ev.SessionClosed(session_id="", error=error))

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait for the prompts before, and let none run beside.

        Raises:
            AgentError: the session has ended, or the task itself keeps a prompt before from ending.
        """
        task = asyncio.current_task()
        if self._holder is task:
            await self._let_go()
        async with self._turn:
            if self._is_ending:
                raise AgentError("the agent was closed before this prompt began")
            self._holder = task
            try:
                yield
            finally:
                self._holder, self._is_stopping = None, False

    async def _let_go(self) -> None:
        """Let a loop that this task has left begin to stop its turn: the event loop closes its generator."""
        for _ in range(3):
            await asyncio.sleep(0)
        if self._holder is asyncio.current_task() and not self._is_stopping:
            raise AgentError(
                "the loop over stream() is not over: end it first, or write"
                " `async with aclosing(agent.stream(…)) as events:` to leave it"
            )

    async def events_of(self, submission: str) -> AsyncGenerator[ev.AnyEvent, None]:
        """Yield the events up to the end of a submission; the last event is that end, or the end of the session.
        If the generator is closed early, the submission is stopped, and its end awaited."""
        if self._is_closed and self._events.empty():
            yield ev.SessionClosed(session_id="", error=ev.ErrorInfo("closed", "The session is closed."))
            return
        has_ended = False
        try:
            while not has_ended:
                event = await self._events.get()
                has_ended = _ends(event, submission)
                yield event
        finally:
            if not has_ended:
                self._is_stopping = True
                await to_its_end(self._stopped(submission))

    @contextlib.asynccontextmanager
    async def time_limit(self, timeout_s: float | None) -> AsyncIterator[None]:
        """Stop the running turn after a timeout."""
        limit = asyncio.create_task(self._stop_after(timeout_s)) if timeout_s is not None else None
        try:
            yield
        finally:
            if limit is not None:
                limit.cancel()

    async def _stop_after(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)
        await self._stop("time_limit")

    async def _stop(self, reason: StopReason) -> None:
        await self.client.submit(Interrupt(reason))

    async def _stopped(self, submission: str) -> None:
        await self._stop("interrupted")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                while not _ends(await self._events.get(), submission):
                    pass

    def advised(self, error: ev.ErrorInfo) -> ev.ErrorInfo:
        """Return an error with its advice as text."""
        from agent_cli.ui.text.hints import error_with_advice, situation

        return error_with_advice(error, situation("shell", self.client.snapshot()))

    async def _take_events(self) -> None:
        from agent_cli.ui.text.hints import with_advice

        async for event in self.client.events():
            if isinstance(event, ev.SessionClosed):
                self._is_closed = True
            if isinstance(event, ev.ApprovalRequested | ev.QuestionAsked):
                task = asyncio.create_task(self._reply(event))
                self._replies.add(task)
                task.add_done_callback(self._replies.discard)
            if getattr(event, "error", None) is not None:
                event = with_advice(event, "shell", self.client.snapshot())
            self._events.put_nowait(event)

    async def _reply(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        """Answer a request of the engine."""

        def warn(text: str) -> None:
            notice = ev.Notice(level="warning", text=text)
            place = {"seq": event.seq, "submission_id": event.submission_id, "time": event.time}
            self._events.put_nowait(msgspec.structs.replace(notice, **place))

        match event:
            case ev.ApprovalRequested():
                await self.client.submit(await self._answers.approval(event, warn))
            case ev.QuestionAsked():
                await self.client.submit(await self._answers.reply(event, warn))


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work to its end, however often the waiting task is cancelled meanwhile, and raise that afterwards.
    Cancel scopes of anyio, and so of many web servers, cancel again and again."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _ends(event: ev.AnyEvent, submission: str) -> bool:
    return isinstance(event, ev.SessionClosed) or (
        isinstance(event, ev.TERMINAL) and event.submission_id == submission
    )

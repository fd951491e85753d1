"""Open sessions by id, each with a log of its events."""

import asyncio
import os

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import Client
from agent_cli.protocol.operations import Interrupt

from .event_log import EventLog
from .host import Host, HostError, OpenedSession, Opening


class HostedSession:
    """An open session that any number of clients read."""

    def __init__(self, opened: OpenedSession) -> None:
        """Process the events of an open session from now on."""
        self.opened = opened
        self.client: Client = opened.client
        self.notes = opened.notes
        self.session_id = opened.client.snapshot().session_id
        self.log = EventLog()
        self._pending: dict[str, ev.AnyEvent] = {}
        self._pump = asyncio.create_task(self._take_events())

    @property
    def pending(self) -> tuple[ev.AnyEvent, ...]:
        """The approvals and questions that wait for an answer."""
        return tuple(self._pending.values())

    async def aclose(self) -> None:
        """Stop the work of the session, save and close it; its last events are in the log afterwards."""
        if self.client.snapshot().busy:
            await self.client.submit(Interrupt("terminated"))
        await self.opened.aclose()
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        if not self.log.is_over:
            lost = ev.ErrorInfo("closed", "The session did not end in time.")
            self.log.append(ev.SessionClosed(seq=self.log.last + 1, session_id=self.session_id, error=lost))

    async def _take_events(self) -> None:
        async for event in self.client.events():
            match event:
                case ev.ApprovalRequested(request_id=request_id) | ev.QuestionAsked(request_id=request_id):
                    self._pending[request_id] = event
                case ev.ApprovalResolved(request_id=request_id) | ev.QuestionResolved(request_id=request_id):
                    self._pending.pop(request_id, None)
            self.log.append(event)


class Hub:
    """The open sessions of a process. A session is never opened twice: clients that resume an open session share
    it."""

    def __init__(self, host: Host) -> None:
        """`host` opens sessions that are not open yet."""
        self._host = host
        self._open: dict[str, HostedSession] = {}
        self._opening: dict[str, asyncio.Task[HostedSession]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[HostedSession]] = set()
        self._is_closed = False

    @property
    def open_sessions(self) -> tuple[HostedSession, ...]:
        """The open sessions, oldest first."""
        return tuple(each for each in self._open.values() if not each.log.is_over)

    def find(self, session_id: str) -> HostedSession | None:
        """Return an open session; None if no open session has the id."""
        found = self._open.get(session_id)
        return found if found is not None and not found.log.is_over else None

    async def open(self, opening: Opening) -> HostedSession:
        """Open a session, or return it if it is open.

        Raises:
            HostError: it cannot be opened.
        """
        if self._is_closed:
            raise HostError("The server is shutting down.")
        if not opening.session_id or opening.fork:
            return await asyncio.shield(self._begin(self._copyable(opening)))
        if (found := self.find(opening.session_id)) is not None:  # the open session may be unsaved
            return found
        identifier = self._host.find(opening.session_id)
        if (closing := self._closing.get(identifier)) is not None:
            await asyncio.shield(closing)
        if (found := self.find(identifier)) is not None:
            return found
        opening = msgspec.structs.replace(opening, session_id=identifier)
        if (task := self._opening.get(identifier)) is None:
            task = self._begin(opening)
            if opening.save:  # an unsaved copy is another session, which nobody else has asked for
                self._opening[identifier] = task
                task.add_done_callback(lambda _: self._opening.pop(identifier))
        return await asyncio.shield(task)

    async def close(self, session_id: str) -> bool:
        """Close a session; return True if it was open."""
        session = self._open.pop(session_id, None)
        if session is None:
            return False
        task = self._closing[session_id] = asyncio.create_task(session.aclose())
        task.add_done_callback(lambda _: self._closing.pop(session_id))
        await asyncio.shield(task)
        return True

    async def aclose(self) -> None:
        """Close all sessions; those still being opened are cancelled."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._closing.values(), return_exceptions=True)
        sessions, self._open = list(self._open.values()), {}
        await asyncio.gather(*(session.aclose() for session in sessions), return_exceptions=True)

    def _copyable(self, opening: Opening) -> Opening:
        """Return an opening without the copy, for a new session, if nothing of the open session is saved yet."""
        found = self.find(opening.session_id)
        if found is None or (state := found.client.snapshot()).turns or os.path.exists(state.session_path):
            return opening
        return msgspec.structs.replace(opening, session_id="", fork=False)

    def _begin(self, opening: Opening) -> "asyncio.Task[HostedSession]":
        task = asyncio.create_task(self._opened(opening))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _opened(self, opening: Opening) -> HostedSession:
        session = HostedSession(await self._host.open(opening))
        if (dead := self._open.pop(session.session_id, None)) is not None:  # its engine failed
            await dead.aclose()
        self._open[session.session_id] = session
        return session

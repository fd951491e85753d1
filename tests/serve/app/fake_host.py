"""Sessions without an engine for a server under test: events are emitted by hand."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from agent_cli.protocol.client import ContextPicture, RewindPoint, Snapshot
from agent_cli.protocol.events import AnyEvent, SessionClosed
from agent_cli.protocol.operations import Operation
from agent_cli.serve.sessions.host import HostError, Opening, SavedSession
from tests.ui.fake_client import SNAPSHOT


class FakeSession:
    """An open session; see `OpenedSession` and `Client`."""

    def __init__(self, session_id: str) -> None:
        self.client = self
        self.notes = ("a note",)
        self.session_id = session_id
        self.busy = False
        self.submitted: list[Operation] = []
        self.may_close = asyncio.Event()
        self.may_close.set()
        self._events = asyncio.Queue[AnyEvent]()
        self._seq = 0

    def emit(self, *events: AnyEvent) -> None:
        for event in events:
            self._seq += 1
            self._events.put_nowait(msgspec.structs.replace(event, seq=self._seq))

    async def submit(self, operation: Operation) -> str:
        self.submitted.append(operation)
        return f"sub_{len(self.submitted)}"

    async def events(self) -> AsyncIterator[AnyEvent]:
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, SessionClosed):
                return

    def snapshot(self) -> Snapshot:
        return msgspec.structs.replace(SNAPSHOT, session_id=self.session_id, busy=self.busy)

    def context(self) -> ContextPicture:
        raise NotImplementedError

    def replay(self) -> Iterator[tuple[AnyEvent, ...]]:
        return iter(())

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        return ()

    async def diff(self) -> str:
        return ""

    async def aclose(self) -> None:
        await self.may_close.wait()
        self.emit(SessionClosed(session_id=self.session_id))
        await asyncio.sleep(0)


class FakeHost:
    """Opens such sessions; see `Host`. `saved` has ids of what is on disk."""

    def __init__(self, *saved: str) -> None:
        self.saved = list(saved)
        self.opened: list[FakeSession] = []
        self.openings: list[Opening] = []
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def open(self, opening: Opening) -> FakeSession:
        self.openings.append(opening)
        await self.may_open.wait()
        self.opened.append(FakeSession(opening.session_id or f"new{len(self.openings)}"))
        return self.opened[-1]

    def find(self, session_id: str) -> str:
        found = [each for each in self.saved if each.startswith(session_id)]
        if len(found) != 1:
            raise HostError(f"no session {session_id}")
        return found[0]

    def sessions(self, cwd: str = "") -> Sequence[SavedSession]:
        return [SavedSession(each, "/work", each, 0.0) for each in self.saved]

    def delete(self, session_id: str) -> None:
        self.saved.remove(session_id)

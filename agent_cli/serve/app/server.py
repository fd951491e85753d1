"""The app server: clients that share open sessions, and its shutdown."""

import asyncio
from collections.abc import Callable

import msgspec

from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import AnyEvent

from ..jsonrpc.channel import Channel
from ..sessions.host import Host
from ..sessions.hosted import HostedSession, Hub
from .connection import Connection

_LAST_EVENTS_S = 2.0
"""Seconds allowed for the last events of sessions to reach clients at shutdown."""


class ServerFacts(msgspec.Struct, frozen=True):
    """Parameters of a server other than its host."""

    version: str
    """Version of the program."""
    cwd: str
    """Absolute path of the default folder for sessions."""
    idle_s: float
    """Seconds after which a session without clients and without work is closed."""
    with_advice: Callable[[AnyEvent, Snapshot], AnyEvent]
    """Adds the advice on an event's error as text."""


class AppServer:
    """Serves any number of clients."""

    def __init__(self, host: Host, facts: ServerFacts) -> None:
        """Create a server without connections or sessions."""
        self._facts = facts
        self._host = host
        self._hub = Hub(host)
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._idle = asyncio.create_task(self._close_idle())
        self.over = asyncio.Event()
        """Set when the server must shut down."""

    async def serve(self, channel: Channel, *, is_only: bool = False) -> None:
        """Serve a client until it disconnects; if it is the only one, the server shuts down then."""
        connection = Connection(self._hub, self._host, self._facts, channel, self.over.set)
        task = self._connections[connection] = asyncio.create_task(connection.run())
        await asyncio.wait({task})
        if is_only:
            self.over.set()
        if not self.over.is_set():
            await self._dismiss(connection)

    async def aclose(self) -> None:
        """Close all sessions, deliver their last events to the clients, and disconnect them."""
        self.over.set()
        self._idle.cancel()
        await self._hub.aclose()
        connections = list(self._connections)
        await asyncio.gather(*(each.delivered(_LAST_EVENTS_S) for each in connections))
        await asyncio.gather(*(self._dismiss(each) for each in connections))

    async def _dismiss(self, connection: Connection) -> None:
        if (task := self._connections.pop(connection, None)) is not None:
            task.cancel()
            await asyncio.gather(task, connection.aclose(), return_exceptions=True)
            await connection.channel.aclose()

    async def _close_idle(self) -> None:
        """Close sessions without clients in which nothing has happened for a while."""
        seen: dict[HostedSession, int] = {}
        while True:
            await asyncio.sleep(self._facts.idle_s)
            idle = {each: each.log.last for each in self._hub.open_sessions if not self._is_used(each)}
            for session, last in idle.items():
                if seen.get(session) == last and not self._is_used(session):
                    await self._hub.close(session.session_id)
            seen = idle

    def _is_used(self, session: HostedSession) -> bool:
        now = session.client.snapshot()
        return (
            any(each.watches(session) for each in self._connections)
            or now.busy
            or now.compacting
            or any(job.state == "running" for job in now.jobs)
            or any(agent.state not in ENDED for agent in now.agents)
        )

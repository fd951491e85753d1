"""A client of the app server: its requests, and the events sent to it."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from agent_cli.protocol import operation_json
from agent_cli.protocol.events import AnyEvent

from ..jsonrpc.channel import Channel
from ..jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, RpcError
from ..jsonrpc.peer import Peer
from ..sessions.event_log import Gone, Reader
from ..sessions.host import Host, HostError, Opening
from ..sessions.hosted import HostedSession, Hub
from . import methods as m
from .params import read, read_operation, refuse

if TYPE_CHECKING:
    from .server import ServerFacts

SESSION_ERROR = -32000
"""A session cannot be opened, found or deleted."""
EVENTS_GONE = -32002
"""Events are no longer available; `data.oldest` is the number of the oldest that is."""


class Connection:
    """The connection of a client, from its first line to its last."""

    def __init__(
        self, hub: Hub, host: Host, facts: "ServerFacts", channel: Channel, on_shutdown: Callable[[], None]
    ) -> None:
        """Nothing is read yet. `on_shutdown` is called when the client requests the shutdown of the server."""
        self._hub = hub
        self._host = host
        self._facts = facts
        self.channel = channel
        self._on_shutdown = on_shutdown
        self._peer = Peer(channel, self._handle)
        self._is_ready = False
        self._watched: dict[HostedSession, asyncio.Task[None]] = {}
        self._stuck = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until it disconnects or lags too far behind."""
        serving = asyncio.create_task(self._peer.run())
        stuck = asyncio.create_task(self._stuck.wait())
        try:
            await asyncio.wait({serving, stuck}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.cancel()
            stuck.cancel()
            await asyncio.gather(serving, stuck, return_exceptions=True)

    async def aclose(self) -> None:
        """Stop sending events."""
        await _stopped(*self._watched.values())
        self._watched.clear()

    async def delivered(self, timeout_s: float) -> None:
        """Wait until the client has received the last events of sessions that have ended."""
        if self._watched:
            await asyncio.wait(self._watched.values(), timeout=timeout_s)

    def watches(self, session: HostedSession) -> bool:
        """Return True if the client receives the events of a session."""
        return session in self._watched

    async def _handle(self, name: str, given: dict[str, Any]) -> Any:
        if not self._is_ready and name != "initialize":
            raise RpcError(INVALID_REQUEST, "The first request is `initialize`.")
        method = m.METHODS.get(name)
        try:
            if method is None:
                session_id, operation = read_operation(name, given)
                return m.Submitted(submission_id=await self._session(session_id).client.submit(operation))
            return await self._answer(read(given, method.params))
        except HostError as error:
            raise RpcError(SESSION_ERROR, str(error)) from error

    async def _answer(self, params: m.Params) -> msgspec.Struct:
        match params:
            case m.Initialize():
                return self._initialize(params)
            case m.SessionOpen():
                return await self._open(params)
            case m.SessionList(cwd=cwd):
                found = await asyncio.to_thread(self._host.sessions, cwd)
                return m.Sessions(
                    sessions=tuple(found), open=tuple(each.session_id for each in self._hub.open_sessions)
                )
            case m.SessionDelete(session_id=session_id):
                return await self._delete(session_id)
            case m.Shutdown():
                self._on_shutdown()
                return m.Nothing()
            case m.SessionParams():
                return await self._answer_of(self._session(params.session_id), params)
            case _:
                raise AssertionError(params)

    async def _answer_of(self, session: HostedSession, params: m.SessionParams) -> msgspec.Struct:
        """Answer a request on an open session."""
        match params:
            case m.SessionLeave():
                await self._leave(session)
            case m.SessionClose():
                await self._hub.close(session.session_id)
            case m.SessionSnapshot():
                return m.SnapshotTaken(
                    seq=session.log.last, snapshot=session.client.snapshot(), pending=session.pending
                )
            case m.SessionContext():
                return session.client.context()
            case m.SessionHistory(skip=skip, turns=turns):
                return await _history(session, skip, turns)
            case m.SessionRewindPoints():
                return m.RewindPoints(points=session.client.rewind_points())
            case m.SessionDiff():
                return m.Diff(diff=await session.client.diff())
            case m.EventsSince(seq=seq, limit=limit):
                return self._since(session, seq, limit)
            case _:
                raise AssertionError(params)
        return m.Nothing()

    def _initialize(self, params: m.Initialize) -> m.Initialized:
        if params.protocol_version != m.PROTOCOL_VERSION:
            refuse(
                f"this server speaks version {m.PROTOCOL_VERSION}, not {params.protocol_version}"
                " - at `$.protocol_version`"
            )
        self._is_ready = True
        return m.Initialized(
            protocol_version=m.PROTOCOL_VERSION,
            name="agent-cli",
            version=self._facts.version,
            cwd=self._facts.cwd,
            methods=(*m.METHODS, *operation_json.NAMES),
            events=tuple(str(each.__struct_config__.tag) for each in get_args(AnyEvent)),
        )

    async def _open(self, params: m.SessionOpen) -> m.SessionOpened:
        if params.fork and not params.session_id:
            refuse("a copy needs `session_id`, the session that it is of - at `$.fork`")
        before = self._hub.open_sessions
        cwd = params.cwd or ("" if params.session_id else self._facts.cwd)
        given = msgspec.structs.asdict(params) | {"cwd": cwd}
        del given["after"]
        session = await self._hub.open(Opening(**given))
        started = session not in before
        if not started and (params.after or 0) > session.log.last:
            refuse(f"the last event is number {session.log.last}; `seq` of an answer is one - at `$.after`")
        await self._leave(session)
        after = 0 if started else session.log.last if params.after is None else params.after
        with _held():
            reader = session.log.reader(after, self._stuck.set)
        # no await from here on: the answer is written before the first event
        task = self._watched[session] = asyncio.create_task(self._send_events(session, reader))
        task.add_done_callback(lambda _: self._forget(session, task))
        return m.SessionOpened(
            session_id=session.session_id,
            started=started,
            seq=session.log.last,
            notes=session.notes,
            snapshot=session.client.snapshot(),
            pending=session.pending,
        )

    def _session(self, session_id: str) -> HostedSession:
        """Return an open session."""
        if (session := self._hub.find(session_id)) is None:
            problem = f"No session {session_id[:100]!r} is open; `session/open` opens one."
            raise RpcError(INVALID_PARAMS, problem, {"field": "session_id", "problem": problem})
        return session

    async def _delete(self, session_id: str) -> m.Nothing:
        identifier = session_id if self._hub.find(session_id) is not None else self._host.find(session_id)
        if self._hub.find(identifier) is not None:
            raise HostError(f"Session {identifier} is open; `session/close` closes it.")
        await asyncio.to_thread(self._host.delete, identifier)
        return m.Nothing()

    def _since(self, session: HostedSession, seq: int, limit: int) -> m.Events:
        with _held():
            reader = session.log.reader(seq)
        try:
            found = [self._worded(event, session) for _, event in zip(range(limit), reader.held(), strict=False)]
        finally:
            reader.close()
        return m.Events(events=tuple(found), last=session.log.last)

    async def _leave(self, session: HostedSession) -> None:
        if (watching := self._watched.pop(session, None)) is not None:
            await _stopped(watching)

    def _forget(self, session: HostedSession, task: "asyncio.Task[None]") -> None:
        if self._watched.get(session) is task:
            del self._watched[session]

    async def _send_events(self, session: HostedSession, reader: Reader) -> None:
        """Send the next event whenever the client has read most of the earlier ones: meanwhile events are joined
        in the log, and none waits here."""
        try:
            while (event := await reader.next()) is not None:
                worded = self._worded(event, session)
                self._peer.notify(m.EVENT, m.EventParams(session.session_id, worded))
                await self._peer.writable()
        except Gone:
            return  # it lags too far behind: `run` ends the connection
        finally:
            reader.close()

    def _worded(self, event: AnyEvent, session: HostedSession) -> AnyEvent:
        if getattr(event, "error", None) is None:
            return event
        return self._facts.with_advice(event, session.client.snapshot())


@contextlib.contextmanager
def _held() -> Any:
    """Convert `Gone` into a protocol error."""
    try:
        yield
    except Gone as error:
        raise RpcError(EVENTS_GONE, str(error), {"oldest": error.oldest}) from error


async def _history(session: HostedSession, skip: int, turns: int) -> m.History:
    found: list[tuple[AnyEvent, ...]] = []
    for at, turn in enumerate(session.client.replay()):
        if len(found) > turns:
            break
        if at >= skip:
            found.append(turn)
        await asyncio.sleep(0)  # turns are read on demand: let other tasks run in between
    return m.History(turns=tuple(reversed(found[:turns])), has_more=len(found) > turns)


async def _stopped(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

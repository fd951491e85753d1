"""Adaptations of the SDK's session: lists that survive a bad entry, calls without hidden requests, a limit on
requests from a server, and the choice of the protocol era."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import anyio
import mcp_types as wire
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from ..types.client import ServerError
from .http_failures import HttpFailure, carried
from .incoming import parts_of, substitute

_ROUNDS = 10
"""Maximum number of times a modern server may ask back within one call."""
_MOST_QUESTIONS = 100
"""Maximum number of times a legacy server may ask back between two of our calls."""
_ROUND_PAUSE_S = 0.1
_NO_HANDSHAKE = (
    wire.UNSUPPORTED_PROTOCOL_VERSION, wire.METHOD_NOT_FOUND, wire.INVALID_REQUEST, wire.INVALID_PARAMS
)  # fmt: skip
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_CALLED: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)
_BLOCK: TypeAdapter[Any] = TypeAdapter(wire.ContentBlock)

Sent = Awaitable[Any]


class UnansweredQuestion(Exception):
    """A server asks for something that it is not given; the text says what."""


def plain(model: Any) -> dict[str, Any]:
    """Return a message's content as the JSON sent on the wire."""
    value: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def is_modern(session: ClientSession) -> bool:
    """Return True if the session uses a revision without a handshake."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS


class TolerantDispatcher(JSONRPCDispatcher[Any]):
    """Removes what the SDK would reject: bad entries of lists, and from results what is not valid."""

    def __init__(
        self, reads: Any, writes: Any, report: Callable[[str], None], give_up: Callable[[Exception], None]
    ) -> None:
        """Create a dispatcher. `report` receives a line for each removed entry, `give_up` the reason to end the
        connection."""
        self.revision = LATEST_HANDSHAKE_VERSION
        """The negotiated revision, once known."""
        self.incoming = CountedStream(reads, give_up)
        super().__init__(self.incoming, writes)  # type: ignore[arg-type]
        self._report = report

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        if method == "tools/call":
            self.incoming.asked = 0
        result = await super().send_raw_request(method, params, opts, **more)
        if (key := _LISTS.get(method)) is not None:
            return self._sound_list(method, key, result)
        if method == "tools/call" and self._refusal(method, result):
            return _sound_result(result)
        return result

    def _sound_list(self, method: str, key: str, result: dict[str, Any]) -> dict[str, Any]:
        found = result.get(key)
        if not isinstance(found, list) or not self._refusal(method, result):
            return result
        if self._refusal(method, {**result, key: []}):
            return result  # the fault is not in the entries
        kept = []
        for entry in map(_sound_tool, found) if key == "tools" else found:
            if why := self._refusal(method, {**result, key: [entry]}):
                name = entry.get("name") if isinstance(entry, dict) else None
                self._report(f"(left out) {key}: {name!r}: {why}")
            else:
                kept.append(entry)
        return {**result, key: kept}

    def _refusal(self, method: str, result: dict[str, Any]) -> str:
        """Return why the SDK would reject a result; empty if it accepts it."""
        try:
            methods.parse_server_result(method, self.revision, result)
        except ValidationError as error:
            first = error.errors()[0]
            return f"{'.'.join(map(str, first['loc'][-2:]))}: {first['msg']}"
        return ""


class CountedStream:
    """The messages of a server; ends after too many questions since our last call."""

    def __init__(self, stream: Any, give_up: Callable[[Exception], None]) -> None:
        self.asked = 0
        self._stream = stream
        self._give_up = give_up

    @property
    def last_context(self) -> Any:
        """The context that the SDK carries from sender to receiver; None if the transport has none."""
        return getattr(self._stream, "last_context", None)

    async def __aenter__(self) -> "CountedStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self._stream:
            message = getattr(item, "message", None)
            if isinstance(message, wire.JSONRPCRequest) and message.method != "ping":
                self.asked += 1
                if self.asked > _MOST_QUESTIONS:
                    self._give_up(
                        UnansweredQuestion(
                            f"asked more than {_MOST_QUESTIONS} questions during one call and was stopped"
                        )
                    )
                    return
            yield item


class MessageChannel(Protocol):
    """A way to a server that carries whole messages, such as its standard streams."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yield what the server sends until the connection ends."""
        ...

    def reject(self, line: bytes) -> None:
        """Log what is not a message."""
        ...

    async def send(self, message: bytes) -> None:
        """Send one message.

        Raises:
            ServerError: it cannot be delivered.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


def _messages(line: bytes, channel: MessageChannel) -> Iterator[wire.JSONRPCMessage]:
    """Yield the messages in a line. What is not one goes to the log; if it was meant as an answer, an error takes
    its place."""
    try:
        parts = parts_of(line)
    except ValueError:
        channel.reject(line)
        return
    for part in parts:
        try:
            yield wire.jsonrpc_message_adapter.validate_json(part, by_name=False)
        except ValueError:
            channel.reject(part)
            if (error := substitute(part)) is not None:
                yield error


@contextlib.asynccontextmanager
async def over_channel(channel: MessageChannel, on_failure: Callable[[HttpFailure], None]) -> AsyncIterator[Any]:
    """Carry the SDK's messages over a channel, which is closed with the context. Failures are the channel's to
    report: here, there is only its end."""
    into_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    into_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with into_session:
            async for line in channel.lines():
                for message in _messages(line, channel):
                    await into_session.send(SessionMessage(message))

    async def write() -> None:
        async with from_session:
            async for each in from_session:
                try:
                    await channel.send(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                except ServerError:
                    await into_session.aclose()
                    return

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield from_server, into_server
    finally:
        from_server.close()
        into_server.close()
        await channel.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def negotiate(session: ClientSession, *, legacy: bool) -> None:
    """Agree on a protocol revision: ask for the modern one unless the server is known to be `legacy`, and fall
    back to the handshake on any other response.

    Raises:
        MCPError: it refuses both.
    """
    if legacy:
        await _shake_hands(session)
        return
    try:
        await session.discover()
    except MCPError as error:
        if error.code == wire.UNSUPPORTED_PROTOCOL_VERSION and not _names_legacy(error):
            raise
        await _shake_hands(session)
    except (ValidationError, RuntimeError):  # a response of another kind, or one that names only legacy revisions
        await _shake_hands(session)


async def call_tool(
    session: ClientSession, name: str, arguments: Mapping[str, Any], progress: ProgressFnT
) -> dict[str, Any]:
    """Call a tool and return its result. No list is fetched and no output schema checked; only if a server wants
    arguments in headers is its list fetched once, since the SDK learns of them from the list."""

    def send(answers: Any, state: str | None) -> Sent:
        params = wire.CallToolRequestParams(
            name=name, arguments=dict(arguments), input_responses=answers, request_state=state
        )
        request = wire.CallToolRequest(params=params)
        return session.send_request(request, _CALLED, progress_callback=progress)

    try:
        return await answering(session, send)
    except MCPError as error:
        if error.code != wire.HEADER_MISMATCH:
            raise
    await session.list_tools()
    return await answering(session, send)


async def answering(session: ClientSession, send: Callable[[Any, str | None], Sent]) -> dict[str, Any]:
    """Send a request; if the server first needs answers from the client, provide them and send it again.

    Raises:
        UnansweredQuestion: it asks too often, or for something that is refused.
    """
    answers: dict[str, Any] | None = None
    state: str | None = None
    for _ in range(_ROUNDS + 1):
        result = await send(answers, state)
        if not isinstance(result, wire.InputRequiredResult):
            return plain(result)
        asked, state, answers = result.input_requests or {}, result.request_state, {}
        for key, request in asked.items():
            answers[key] = await _answer(session, key, request)
        if not asked:
            await asyncio.sleep(_ROUND_PAUSE_S)
    raise UnansweredQuestion(f"asked back more than {_ROUNDS} times during one call")


async def _answer(session: ClientSession, key: str, request: Any) -> Any:
    meta = request.params.meta if request.params else None
    context = ClientRequestContext(session=session, request_id=key, meta=meta)
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, wire.ErrorData):
        raise UnansweredQuestion(f"asked for what it is not given ({request.method}): {answer.message}")
    return answer


async def _shake_hands(session: ClientSession) -> None:
    """Shake hands; with a server that refuses to, because it was slow to start or has become modern, do without.

    Raises:
        MCPError: it refuses both.
    """
    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in _NO_HANDSHAKE or carried(error.data) is not None:
            raise
        try:
            await session.discover()
        except (MCPError, ValidationError, RuntimeError):
            raise error from None


def _names_legacy(error: MCPError) -> bool:
    """Return True if the supported revisions include one with a handshake, or the server does not list them."""
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return not isinstance(named, list) or any(isinstance(each, str) and each < "2026" for each in named)


def _sound_tool(entry: Any) -> Any:
    """Return the definition of a tool with the type of its arguments, which is always `object` and often not
    written, and without an invalid output schema."""
    if not isinstance(entry, dict):
        return entry
    taken, given = entry.get("inputSchema"), entry.get("outputSchema")
    if isinstance(taken, dict) and "type" not in taken:
        entry = {**entry, "inputSchema": {**taken, "type": "object"}}
    if given is not None and not (isinstance(given, dict) and given.get("type") == "object"):
        entry = {key: value for key, value in entry.items() if key != "outputSchema"}
    return entry


def _sound_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call in a form that the SDK accepts, with all that can be understood: the call has
    been made, and its result cannot be had again."""
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    sound = {**result, "content": list(map(_sound_block, blocks))}
    if structured is not None and not isinstance(structured, dict):
        sound["structuredContent"] = {"result": structured}  # as the SDKs wrap plain values
    if not isinstance(result.get("_meta"), dict):
        sound.pop("_meta", None)
    return sound


def _sound_block(block: Any) -> Any:
    """Return a content block, without annotations if these are not valid, or an explanatory text instead of it."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, dict) and not _is_known(block):
        plainer = {key: value for key, value in block.items() if key not in ("annotations", "_meta")}
        return plainer if _is_known(plainer) else _replacement(block)
    return block if _is_known(block) else _replacement(block)


def _is_known(block: Any) -> bool:
    try:
        _BLOCK.validate_python(block, by_name=False)
        return True
    except ValidationError:
        return False


def _replacement(block: Any) -> dict[str, str]:
    kind = block.get("type") if isinstance(block, dict) else type(block).__name__
    return {"type": "text", "text": f"[content of the type {str(kind)[:40]}, which is not supported]"}

"""An MCP server based on the MCP SDK: tools are listed and called, approvals are elicited, in both eras of the
protocol.

A legacy client is asked within the call. A modern client gets the question as the result, and repeats the call
with the answer; until then the call waits without running anything.
"""

import asyncio
import contextlib
import logging
import secrets
from typing import Any

import mcp_types as wire
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from agent_cli import __version__

from ..engine_link import ANSWER, Question
from ..served import Outcome, Served
from .stdio import standard_streams

logging.getLogger("mcp").setLevel(logging.CRITICAL)

_ANSWER_S = 600.0
"""Seconds that a modern client has to return with an answer."""
_CLOSE_S = 15.0
_PROGRESS_CHARS = 300
_READERS = frozenset({"read_file", "list_dir", "glob", "grep", "repo_map", "recall", "search_history"})
_READS = wire.ToolAnnotations(read_only_hint=True)
"""Without it, a client has to assume that a tool changes things, and asks before each call."""
_ELICITS = wire.ClientCapabilities(elicitation=wire.ElicitationCapability())
_INSTRUCTIONS = (
    "Tools of a coding agent that work in {root}. What they may do is decided by the user's permission rules; a"
    " call that is denied says which rule decided."
)


class _Call:
    """A running call; its questions wait for answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: asyncio.Task[Outcome | None]
        self.context: Any = None
        """The context of the request that currently waits for the call."""
        self.question: Question | None = None
        self._asked = asyncio.Event()
        self._answer: asyncio.Future[str | None] | None = None
        self._steps = 0

    async def ask(self, question: Question) -> str | None:
        """Ask the user and wait for the answer."""
        self.question, self._answer = question, asyncio.get_running_loop().create_future()
        self._asked.set()
        return await self._answer

    def answer(self, said: str | None) -> None:
        """Deliver the answer."""
        self.question = None
        self._asked.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(said)

    async def progress(self, text: str) -> None:
        """Report progress to the waiting request."""
        self._steps += 1
        line = " ".join(text.split())[-_PROGRESS_CHARS:]
        with contextlib.suppress(Exception):  # nobody listens any more
            await self.context.session.report_progress(self._steps, None, line)

    async def moved(self) -> None:
        """Wait until the call ends or asks a question."""
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({self.task, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()


class _McpServer:
    """Handles the requests of a client."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._waiting: dict[str, _Call] = {}
        """Calls of modern clients that wait for an answer, by the token returned with it."""
        self._running: set[asyncio.Task[Outcome | None]] = set()

    async def list_tools(self, context: Any, params: Any) -> wire.ListToolsResult:
        """Return the tools with their schemas."""
        found = await self._served.tools()
        return wire.ListToolsResult(
            tools=[
                wire.Tool(
                    name=each.name,
                    description=each.description,
                    input_schema=each.parameters,
                    annotations=_READS if each.name in _READERS else None,
                )
                for each in found
            ]
        )

    async def call_tool(
        self, context: Any, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Start a call, or resume one that has asked a question."""
        call = self._resumed(params) or self._begun(context, params)
        call.context = context
        try:
            while True:
                await call.moved()
                if call.task.done():
                    return self._result(call)
                question = call.question
                assert question is not None
                if not context.session.can_send_request:
                    return self._returned(call, question)
                call.answer(await _elicited(context, question))
        except BaseException:
            call.task.cancel()
            raise

    async def aclose(self) -> None:
        """Cancel the calls that run or wait."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_CLOSE_S)

    def _begun(self, context: Any, params: wire.CallToolRequestParams) -> _Call:
        call = _Call(params.name)
        can_ask = bool(context.session.check_client_capability(_ELICITS))
        carried_out = self._served.call(
            params.name, dict(params.arguments or {}), can_ask, call.ask, call.progress
        )
        call.task = asyncio.create_task(carried_out)
        self._running.add(call.task)
        call.task.add_done_callback(self._running.discard)
        return call

    def _resumed(self, params: wire.CallToolRequestParams) -> _Call | None:
        """Return the call that a request resumes, after delivering its answer."""
        if params.request_state is None:
            return None
        call = self._waiting.get(params.request_state)
        if call is None or call.name != params.name:
            raise MCPError(wire.INVALID_PARAMS, "The call waits no longer; make it again.")
        del self._waiting[params.request_state]
        response = (params.input_responses or {}).get(ANSWER)
        call.answer(_said(response, call.question))
        return call

    def _returned(self, call: _Call, question: Question) -> wire.InputRequiredResult:
        """Return a question as the result; without an answer the call is cancelled after a while."""
        token = secrets.token_urlsafe(16)
        self._waiting[token] = call
        asyncio.get_running_loop().call_later(_ANSWER_S, self._give_up, token)
        form = wire.ElicitRequestFormParams(message=question.message, requested_schema=question.form)
        return wire.InputRequiredResult(
            input_requests={ANSWER: wire.ElicitRequest(params=form)}, request_state=token
        )

    def _give_up(self, token: str) -> None:
        if call := self._waiting.pop(token, None):
            call.task.cancel()

    @staticmethod
    def _result(call: _Call) -> wire.CallToolResult:
        try:
            outcome = call.task.result()
        except Exception as error:
            return _as_result(Outcome(f"{type(error).__name__}: {error}", is_error=True))
        if outcome is None:
            raise MCPError(wire.INVALID_PARAMS, f"There is no tool named {call.name!r}.")
        return _as_result(outcome)


def _as_result(outcome: Outcome) -> wire.CallToolResult:
    images = [wire.ImageContent(data=each.data, mime_type=each.media_type) for each in outcome.images]
    text = wire.TextContent(text=outcome.text)
    return wire.CallToolResult(content=[text, *images], is_error=outcome.is_error)


async def _elicited(context: Any, question: Question) -> str | None:
    try:
        answer = await context.session.elicit_form(question.message, question.form, context.request_id)
    except Exception:  # the client cannot ask after all, or its answer is invalid
        return None
    return _said(answer, question)


def _said(answer: Any, question: Question | None) -> str | None:
    if question is None or getattr(answer, "action", "") != "accept":
        return None
    return question.answer_in(answer.content)


async def serve_stdio(served: Served, root: str) -> None:
    """Serve a client on standard input and output, until it closes them."""
    requests = _McpServer(served)
    server: Server[Any] = Server(
        "agent-cli",
        version=__version__,
        instructions=_INSTRUCTIONS.format(root=root),
        on_list_tools=requests.list_tools,
        on_call_tool=requests.call_tool,
    )
    async with standard_streams() as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            await requests.aclose()
            await served.aclose()

"""A model that makes the calls a client requests, so that programs that bring their own model use the same path as
all calls."""

from collections.abc import AsyncGenerator

from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.usage import Usage

from .types.base import (
    CallPiece,
    CallStart,
    Finished,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Prices,
    TextPiece,
    Unconnected,
    UsageReport,
)

_WINDOW = 1_000_000_000
"""The client keeps its own conversation; this one is never compacted."""


class ClientCalls(Unconnected):
    """A `Model` that answers each prompt with the call the client requested, then ends the turn."""

    def __init__(self, name: str) -> None:
        """Create a model. `name` is that of the model that would continue the session later."""
        self.info = ModelInfo(name, context_window=_WINDOW, prices=Prices(input=0.0, output=0.0))
        """Its name, and a price of 0."""
        self._call: tuple[str, str] | None = None
        self._number = 0
        self.result: ToolResult | None = None
        """The result of the last call, as a model reads it."""

    def request_call(self, tool: str, arguments: str) -> None:
        """Answer the next prompt with a call; `arguments` is JSON."""
        self._call, self.result = (tool, arguments), None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the requested call; after it was made, store its result and end the turn."""
        call, self._call = self._call, None
        if call is not None and request.may_call:
            self._number += 1
            yield CallStart(0, f"client_{self._number}", call[0])
            yield CallPiece(0, call[1])
        else:
            results = (each for each in reversed(request.messages) if isinstance(each, ToolResult))
            self.result = next(results, None)
            yield TextPiece("Done.")
        yield UsageReport(Usage(input=0, output=0))
        yield Finished("stop", "stop") if call is None else Finished("tool_calls", "tool_calls")

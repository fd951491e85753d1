"""Convert LiteLLM's chunks to model events, and signed reasoning in both directions."""

from collections.abc import Iterator
from typing import Any

from agent_cli.protocol.messages import AssistantMessage, Reasoning

from ..types.base import ModelEvent, ModelRequest, ReasoningDone, ReasoningPiece
from ..types.json import Json
from ..types.provider_table import Route
from ..wire.chat.stream import ChatStream


class LiteLLMStream:
    """Parser for one answer. Chunks have the Chat Completions shape, with `thinking_blocks` added."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._chat = ChatStream(provider)
        self._thought = ""

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        """Yield the events of one chunk, ignoring its finish reason, which may be invented.

        Raises:
            ModelError: it reports an error.
        """
        for choice in chunk.get("choices") or ():
            choice["finish_reason"] = None
            delta = choice.get("delta") or {}
            blocks = delta.get("thinking_blocks")
            if blocks:
                delta["reasoning_content"] = None
                for block in blocks:
                    yield from self._thinking(block)
        yield from self._chat.chunk(chunk)

    def end(self, raw_finish: str) -> Iterator[ModelEvent]:
        """Yield the last events.

        Args:
            raw_finish: the provider's finish reason; empty if there was none.

        Raises:
            ModelError: `truncated` if there was none.
        """
        if self._thought:
            yield self._done("")
        yield from self._chat.chunk({"choices": [{"delta": {}, "finish_reason": raw_finish}]})
        yield from self._chat.end()

    def _thinking(self, block: dict[str, Any]) -> Iterator[ModelEvent]:
        if block.get("type") == "redacted_thinking":
            yield ReasoningDone(
                Reasoning(signature=str(block.get("data", "")), provider=self._provider, redacted=True)
            )
            return
        text = block.get("thinking") or ""
        if block.get("signature") and text == self._thought:
            text = ""  # newer releases repeat the whole thought with its signature
        if text:
            self._thought += text
            yield ReasoningPiece(text)
        if block.get("signature"):
            yield self._done(block["signature"])

    def _done(self, signature: str) -> ReasoningDone:
        block = Reasoning(self._thought, signature, self._provider)
        self._thought = ""
        return ReasoningDone(block)


def with_signatures(body: Json, request: ModelRequest, route: Route) -> Json:
    """Return the body with signed reasoning restored in answers of the same provider."""
    answers = [message for message in request.messages if isinstance(message, AssistantMessage)]
    sent = [message for message in body["messages"] if message["role"] == "assistant"]
    for message, answer in zip(sent, answers, strict=True):
        blocks = [
            _thinking_block(block)
            for block in answer.reasoning
            if block.signature and block.provider == route.provider
        ]
        if blocks:
            message["thinking_blocks"] = blocks
    return body


def _thinking_block(block: Reasoning) -> Json:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.signature}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}

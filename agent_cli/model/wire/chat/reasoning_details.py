"""Blocks of reasoning that a gateway wants back unchanged: `reasoning_details` of OpenRouter and others, and
`thinking_blocks` of LiteLLM's proxy. Without them, Gemini and Claude refuse the next request of a turn with tool
calls, or go on without their thoughts. While they stream, they come in pieces. A block is stored as reasoning: its
text as the text, the rest as the signature."""

from collections.abc import Iterator

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import Reasoning

from ...types.json import Json, join_surrogates, text_of

DETAILS, THINKING = "reasoning_details", "thinking_blocks"
"""Fields of a message."""
REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Fields with reasoning as plain text; which one depends on the server. Some releases of vLLM write both, but read
only the first."""
_TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}
"""Field with the readable text, by type of the block; other types have none."""
_THINKING_TYPES = ("thinking", "redacted_thinking")


class DetailCollector:
    """Joins the pieces of blocks. A piece continues the block before it if that has the same type and number, or
    the same type and no signature yet; blocks without text are never split."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Json, list[str]]] = []
        self.has_text = False
        """True if a block had readable text."""

    def add(self, delta: Json) -> str:
        """Add the blocks of one chunk; return the readable text in them."""
        added = ""
        for field in (DETAILS, THINKING):
            given = delta.get(field)
            for block in given if isinstance(given, list) else ():
                if isinstance(block, dict):
                    added += self._add(block)
        self.has_text = self.has_text or bool(added)
        return added

    def _add(self, block: Json) -> str:
        field = _TEXT_FIELDS.get(text_of(block.get("type")), "")
        text = text_of(block.get(field))
        rest = {name: value for name, value in block.items() if name != field and value is not None}
        if field and self._blocks and _continues(self._blocks[-1][0], rest):
            before, texts = self._blocks[-1]
            if "signature" in rest and text == "".join(texts):
                text = ""  # some releases of LiteLLM repeat the whole thought with its signature
            before.update(rest)
        else:
            self._blocks.append((rest, []))
        self._blocks[-1][1].append(text)
        return text

    def blocks(self, provider: str) -> Iterator[Reasoning]:
        """Yield the blocks."""
        for rest, texts in self._blocks:
            signature = msgspec.json.encode(rest).decode()
            yield Reasoning(join_surrogates("".join(texts)), signature, provider)


def _continues(before: Json, rest: Json) -> bool:
    is_alike = all(before.get(name) == rest.get(name) for name in ("type", "index"))
    return is_alike and ("index" in rest or "signature" not in before)


def sent_details(reasoning: tuple[Reasoning, ...], provider: str) -> dict[str, list[Json]]:
    """Return the blocks that this provider gave with an answer, by the field in which they go back."""
    sent: dict[str, list[Json]] = {}
    for block in reasoning:
        if block.provider != provider or not block.signature.startswith("{"):
            continue
        try:
            detail = decode_json(block.signature)
        except msgspec.DecodeError:
            continue
        kind = text_of(detail.get("type"))
        if text_field := _TEXT_FIELDS.get(kind):
            detail[text_field] = block.text
        if kind in _THINKING_TYPES:
            detail.pop("index", None)  # which counts pieces of the stream, and is no field of a request
            sent.setdefault(THINKING, []).append(detail)
        else:
            sent.setdefault(DETAILS, []).append(detail)
    return sent

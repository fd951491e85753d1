"""The field `reasoning_details` of OpenRouter and other gateways: a list of reasoning blocks, in pieces while they
stream, that is sent back unchanged. Without it, Gemini refuses the next request of a turn with tool calls, and
Claude loses its thoughts. A detail is stored as a block of reasoning: its text as the text, the rest as the
signature."""

from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import Reasoning

from ...types.json import Json, join_surrogates, text_of

_TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Field with the readable text, by type; other types have none."""


class DetailCollector:
    """Joins the pieces of details. A piece continues the detail before it if that has the same type and number;
    details without text are never split."""

    def __init__(self) -> None:
        self._details: list[tuple[Json, list[str]]] = []
        self.has_text = False
        """True if a detail had readable text."""

    def add(self, details: Any) -> str:
        """Add the list of one chunk; return the readable text in it."""
        added = ""
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            field = _TEXT_FIELDS.get(text_of(detail.get("type")), "")
            text = text_of(detail.get(field))
            rest = {name: value for name, value in detail.items() if name != field and value is not None}
            if field and self._details and _continues(self._details[-1][0], rest):
                self._details[-1][0].update(rest)
            else:
                self._details.append((rest, []))
            self._details[-1][1].append(text)
            added += text
        self.has_text = self.has_text or bool(added)
        return added

    def blocks(self, provider: str) -> Iterator[Reasoning]:
        """Yield the details as blocks of reasoning."""
        for rest, texts in self._details:
            signature = msgspec.json.encode(rest).decode()
            yield Reasoning(join_surrogates("".join(texts)), signature, provider)


def _continues(before: Json, rest: Json) -> bool:
    return all(before.get(name) == rest.get(name) for name in ("type", "index"))


def sent_details(reasoning: tuple[Reasoning, ...], provider: str) -> list[Json]:
    """Return the details that this provider gave with an answer."""
    sent: list[Json] = []
    for block in reasoning:
        if block.provider != provider or not block.signature.startswith("{"):
            continue
        try:
            detail = decode_json(block.signature)
        except msgspec.DecodeError:
            continue
        field = _TEXT_FIELDS.get(text_of(detail.get("type")), "")
        sent.append(detail | {field: block.text} if field else detail)
    return sent

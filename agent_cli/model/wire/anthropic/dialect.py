"""Anthropic Messages, the wire format of Claude and of compatible servers."""

import re
from collections.abc import Mapping

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Message

from ...types.base import Fallback, LearnedLimits, ModelInfo, ModelRequest
from ...types.json import Json
from ...types.provider_table import Route
from .. import unsupported_parts
from ..dialect import OUTPUT_LIMIT, Dialect, EncodedRequest
from ..part_cache import PartCache
from ..unsupported_parts import EFFORT, ELSEWHERE, IN_A_TOOL, picture_fallbacks, schema_fallback
from .request import messages_body
from .stream import MessagesStream

_VERSION = "2023-06-01"
_BETA = "thinking-binding-controls-2026-08-01"
"""Allows `thinking.block_binding`, and changes nothing by itself."""
_VERSIONED = lazy_regex(r"/v\d+$")

_PREFIX = "The provider drops thinking that no longer fits the conversation, as after a summary, from now on."
_EFFORT = "This model does not think by effort; it is left out from now on."
_UNBEGUN = "Thinking cannot begin in the middle of an answer; this conversation continues without it."
_REASONING = "The provider does not accept earlier thinking; it is left out from now on."
_NO_MARKS = "This server does not cache by marks; they are left out from now on."
_NO_CHOICE = "This server does not know `tool_choice`; it is left out from now on."
_SHORTER = "The output limit is lowered to what this model takes."


class AnthropicDialect(Dialect):
    """`POST …/v1/messages`."""

    lists = "messages"
    fallbacks: tuple[Fallback, ...] = (
        schema_fallback(r"output_config(?!\.effort)|output_format|json_schema|structured[ _-]?outputs?"),
        Fallback(OUTPUT_LIMIT, lazy_regex(r"max_tokens"), _SHORTER),
        Fallback("prefix", lazy_regex(r"prefix_mismatch_behavior"), _PREFIX, lasting=False),
        Fallback(
            "effort",
            lazy_regex(
                r"\bthinking\.(?:type|enabled|adaptive|disabled|budget|display)|\boutput_config\b|\bbudget_tokens\b"
                r"|^thinking: |" + EFFORT,
                re.IGNORECASE,
            ),
            _EFFORT,
            elsewhere=ELSEWHERE,
        ),
        Fallback("begun", lazy_regex(r"expected `thinking`", re.IGNORECASE), _UNBEGUN, lasting=False, sure=True),
        Fallback(
            "reasoning",
            lazy_regex(r"\bsignature\b|thinking\W{0,3} blocks?\b|redacted_thinking|\.thinking\b|block_binding"),
            _REASONING,
            lasting=False,
            sure=True,
            elsewhere=IN_A_TOOL,
        ),
        *picture_fallbacks(400, 404, 415, 422),
        Fallback("cache_marks", lazy_regex(r"cache_control"), _NO_MARKS),
        Fallback("tool_choice", lazy_regex(r"tool_choice"), _NO_CHOICE),
    )

    def __init__(self, route: Route, info: ModelInfo) -> None:
        """Create a dialect. `info` gives the maximum answer length, which this format requires in each request."""
        super().__init__(route)
        self._info = info
        self._kept: PartCache[Message, list[Json]] = PartCache()
        self.path = "/messages" if _VERSIONED.search(route.base_url.rstrip("/")) else "/v1/messages"

    def headers(self) -> Mapping[str, str]:
        headers = {"anthropic-version": _VERSION}
        if self._route.provider == "anthropic":
            headers["anthropic-beta"] = _BETA
        if self._route.api_key:
            headers["x-api-key"] = self._route.api_key
        return headers

    def write(self, request: ModelRequest, learned: LearnedLimits) -> EncodedRequest:
        return messages_body(self._route, self._info, request, learned, self._kept)

    def sends(self, fallback: Fallback, body: Json) -> bool:
        match fallback.name:
            case "output_limit" | "cache_marks":
                return True
            case "effort" | "begun":
                return "thinking" in body or "effort" in body.get("output_config", {})
            case unsupported_parts.ANSWER_SCHEMA:
                return "format" in body.get("output_config", {})
            case "tool_choice":
                return "tool_choice" in body
        kinds = {block["type"] for message in body["messages"] for block in _blocks(message["content"])}
        if fallback.name in ("images", "pictures"):
            return "image" in kinds
        return bool(kinds & {"thinking", "redacted_thinking"})

    def reader(self) -> MessagesStream:
        return MessagesStream(self._route.provider)


def _blocks(content: list[Json]) -> list[Json]:
    """Return all blocks, including those inside results."""
    inner = [block["content"] for block in content if isinstance(block.get("content"), list)]
    return [*content, *(each for blocks in inner for each in blocks)]

"""Chat Completions, the wire format of most hosted providers and of every local server."""

import re

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Message

from ...text_calls.prompt import TOOLS_FALLBACK
from ...types.base import Fallback, LearnedLimits, ModelRequest
from ...types.json import Json
from ...types.provider_table import Route
from ..dialect import OUTPUT_LIMIT, Dialect, EncodedRequest
from ..part_cache import PartCache
from ..unsupported_parts import ANSWER_SCHEMA, EFFORT, ELSEWHERE, IN_A_TOOL, picture_fallbacks, schema_fallback
from .reasoning_details import DETAILS, REASONING_FIELDS, THINKING
from .request import chat_body, roles_repeat
from .stream import ChatStream

_EFFORT = "This model takes no reasoning effort; it is left out from now on."
_NO_REASONING = "This server does not accept earlier reasoning; it is left out from now on."
_REASONING_BACK = "This server wants earlier reasoning sent back; it is from now on."
_SHORTER = "The output limit is lowered to what this model takes."
_MUST = r"reasoning_content.{0,60}(?:must|required|missing)|missing.{0,20}reasoning_content"
_SENT_BACK = {*REASONING_FIELDS, DETAILS, THINKING}
_BY_TEMPLATE = (400, 422, 500)
"""Statuses of a server whose chat template raises an error."""
_FIELDS: dict[str, tuple[str, ...]] = {
    ANSWER_SCHEMA: ("response_format",),
    "effort": ("reasoning_effort", "reasoning"),
    "stream_options": ("stream_options",),
    "tool_choice": ("tool_choice",),
    "tools": ("tools",),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    OUTPUT_LIMIT: ("max_tokens", "max_completion_tokens"),
}


class ChatDialect(Dialect):
    """`POST …/chat/completions`."""

    path = "/chat/completions"
    lists = "messages"
    fallbacks: tuple[Fallback, ...] = (
        schema_fallback(
            r"response_?format|response mime type|json_schema|structured[ _-]?outputs?|\bgrammar\b|guided[ _]"
        ),
        TOOLS_FALLBACK,
        Fallback("stream_options", lazy_regex("stream_options"), "This server does not report token counts."),
        Fallback(
            "no_reasoning",
            lazy_regex(_MUST, re.IGNORECASE | re.DOTALL),
            _REASONING_BACK,
            sure=True,
            elsewhere=IN_A_TOOL,
        ),
        Fallback(
            "reasoning",
            lazy_regex(
                r"\breasoning_(?:content|details)\b|\bthinking_blocks\b|\bmessages?\b.{0,60}['\"`.]reasoning\b",
                re.IGNORECASE,
            ),
            _NO_REASONING,
            sure=True,
            elsewhere=lazy_regex(rf"{IN_A_TOOL.pattern}|{_MUST}", re.IGNORECASE | re.DOTALL),
        ),
        Fallback("effort", lazy_regex(EFFORT, re.IGNORECASE), _EFFORT, elsewhere=ELSEWHERE),
        Fallback("tool_choice", lazy_regex("tool_choice"), "This server does not know `tool_choice`; left out."),
        *picture_fallbacks(400, 404, 415, 422),
        Fallback(
            "system_role",
            lazy_regex(
                r"system role (?:is )?not supported|only user(?:,| and) (?:\w+,? )*assistant roles are", re.I
            ),
            "This model takes no system prompt; it is sent at the beginning of the first message from now on.",
            (400, 422, 500),
            sure=True,
        ),
        Fallback(
            "repeated_roles",
            lazy_regex(
                r"roles? (?:must|should) (?:strictly )?alternate|unexpected role 'user' after role", re.IGNORECASE
            ),
            "This model wants user and assistant to alternate; short messages are put between from now on.",
            _BY_TEMPLATE,
            sure=True,
        ),
        Fallback(OUTPUT_LIMIT, lazy_regex(r"max_(completion_)?tokens"), _SHORTER),
        Fallback(
            "max_tokens",
            lazy_regex(r"max_(completion_)?tokens(?!.{0,40}(?:too large|at most|<=|> ?\d))"),
            "The output limit is named as asked for.",
        ),
    )

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._kept: PartCache[Message, Json] = PartCache()

    def write(self, request: ModelRequest, learned: LearnedLimits) -> EncodedRequest:
        return chat_body(self._route, request, learned, self._kept)

    def sends(self, fallback: Fallback, body: Json) -> bool:
        match fallback.name:
            case "images" | "pictures":
                return any(_has_image(each.get("content")) for each in body["messages"])
            case "repeated_roles":
                return roles_repeat(body["messages"])
            case "system_role":
                return any(each["role"] == "system" for each in body["messages"])
            case "reasoning":
                return any(_SENT_BACK & each.keys() for each in body["messages"])
            case "no_reasoning":
                answers = (each for each in body["messages"] if each["role"] == "assistant")
                return any(answer.keys().isdisjoint(REASONING_FIELDS) for answer in answers)
        return any(field in body for field in _FIELDS[fallback.name])

    def reader(self) -> ChatStream:
        return ChatStream(self._route.provider, echoes_reasoning=self._route.quirks.echoes_reasoning)


def _has_image(parts: object) -> bool:
    return isinstance(parts, list) and any(part["type"] == "image_url" for part in parts)

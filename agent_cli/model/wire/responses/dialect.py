"""OpenAI Responses, the wire format of OpenAI's reasoning models, which support tools only here."""

import re

from agent_cli.protocol.lazy_regex import lazy_regex

from ...types.base import Fallback, LearnedLimits, ModelInfo, ModelRequest
from ...types.json import Json
from ...types.provider_table import Route
from .. import unsupported_parts
from ..dialect import OUTPUT_LIMIT, Dialect, EncodedRequest
from ..unsupported_parts import EFFORT, ELSEWHERE, IN_A_TOOL, picture_fallbacks, schema_fallback
from .request import KeptInput, responses_body
from .stream import ResponsesStream

_NO_INCLUDE = "This model does not hand out its reasoning; it is not asked for from now on."
_NO_SUMMARY = "Reasoning summaries are not available here; they are no longer requested."
_REASONING = "The provider does not accept earlier reasoning; it is left out from now on."
_EFFORT = "This model takes no reasoning effort; it is left out from now on."
_NO_KEY = "This server does not know `prompt_cache_key`; it is left out from now on."
_NO_PHASE = "This server does not know `phase`; it is left out from now on."
_NO_CHOICE = "This server does not know `tool_choice`; it is left out from now on."
_SHORTER = "The output limit is lowered to what this model takes."


_NO_STRICT = "Tools are described without the strict form, which this model does not take."
_STRICT = lazy_regex(r"\bstrict\b|invalid schema for (?:function|tool)|additionalProperties", re.IGNORECASE)


class ResponsesDialect(Dialect):
    """`POST …/responses`."""

    path = "/responses"
    lists = "input"
    fallbacks: tuple[Fallback, ...] = (
        schema_fallback(r"text\.format|response_?format|json_schema|structured[ _-]?outputs?|['\"`]text['\"`]"),
        Fallback(
            "include",
            lazy_regex(
                r"encrypted content is not supported|['\"`.]include\b|\binclude(?:\[|:|$)|supplied: include\b"
                r"|reasoning\.encrypted_content",
                re.IGNORECASE,
            ),
            _NO_INCLUDE,
            elsewhere=ELSEWHERE,
        ),
        Fallback(
            "summary",
            lazy_regex(r"reasoning\.summary|reasoning summar(?:y|ies)|['\"`]summary['\"`]"),
            _NO_SUMMARY,
            sure=True,
            elsewhere=ELSEWHERE,
        ),
        Fallback(
            "reasoning",
            lazy_regex(
                r"encrypted.content|of type .reasoning.|reasoning item|\brs_\w+|type: reasoning", re.IGNORECASE
            ),
            _REASONING,
            statuses=(400, 404, 422),
            lasting=False,
            sure=True,
            elsewhere=IN_A_TOOL,
        ),
        Fallback("effort", lazy_regex(EFFORT, re.IGNORECASE), _EFFORT, elsewhere=ELSEWHERE),
        *picture_fallbacks(400, 404, 415, 422),
        Fallback("prompt_cache_key", lazy_regex(r"prompt_cache_key"), _NO_KEY),
        Fallback("phase", lazy_regex(r"\bphase\b"), _NO_PHASE),
        Fallback("strict", _STRICT, _NO_STRICT),
        Fallback("tool_choice", lazy_regex(r"tool_choice"), _NO_CHOICE),
        Fallback(OUTPUT_LIMIT, lazy_regex(r"max_output_tokens"), _SHORTER),
    )

    def __init__(self, route: Route, info: ModelInfo) -> None:
        """Create a dialect. `info` gives the efforts the model supports."""
        super().__init__(route)
        self._info = info
        self._kept = KeptInput()

    def write(self, request: ModelRequest, learned: LearnedLimits) -> EncodedRequest:
        return responses_body(self._route, self._info, request, learned, self._kept)

    def sends(self, fallback: Fallback, body: Json) -> bool:
        items: list[Json] = body["input"]
        match fallback.name:
            case "summary" | "effort":
                return fallback.name in body.get("reasoning", {})
            case "reasoning":
                return any(item["type"] == "reasoning" for item in items)
            case "phase":
                return any("phase" in item for item in items)
            case "images" | "pictures":
                return any(_has_image(item.get("content")) or _has_image(item.get("output")) for item in items)
            case "strict":
                return any(tool["strict"] for tool in body.get("tools", ()))
            case unsupported_parts.ANSWER_SCHEMA:
                return "text" in body
            case "output_limit":
                return "max_output_tokens" in body
        return fallback.name in body

    def reader(self) -> ResponsesStream:
        return ResponsesStream(self._route.provider)


def _has_image(parts: object) -> bool:
    return isinstance(parts, list) and any(part["type"] == "input_image" for part in parts)

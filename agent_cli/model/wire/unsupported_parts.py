"""Patterns that recognize refusals of parts common to several wire formats: efforts and images.

A single word is no reason to omit something permanently: a message of the conversation or a tool may contain it.
So the refusal must be about the field itself, or about what the model supports.
"""

import re

from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.base import Fallback

_LEVEL = r"['\"`](?:none|minimal|low|medium|high|xhigh|max)['\"`]"
_OF_OTHERS = r"(?![\w.]*[ _.](?:content|items?|blocks?|models?|tokens?|summar|encrypted))"
IN_A_TOOL = lazy_regex(
    r"\b(?:tool|function)s?\s*[.\[]\s*\d|\b(?:function|tool)s?(?: named?)?:? ?['\"`“]\w|\bschema for\b",
    re.IGNORECASE,
)
"""Matches a refusal that is about one tool."""
ELSEWHERE = lazy_regex(IN_A_TOOL.pattern + r"|\b(?:messages?|input|contents)\s*[.\[]\s*\d", re.IGNORECASE)
"""Matches a refusal that is about one tool or one message."""

THINKING = (
    r"(?:not|n't|no) (?:currently )?support(?:s|ed|ing)? (?:the )?(?:extended |adaptive )?(?:thinking|reasoning)\b"
    + _OF_OTHERS
    + r"|\b(?:thinking|reasoning)\b"
    + _OF_OTHERS
    + r"(?: (?:mode|level|value|input))? (?:is |are )?(?:not |un)(?:supported|available|enabled|allowed)"
    r"|\bthinking[ _]?(?:level|budget|config|mode)|\b(?:think|thinking|reasoning) value\b"
    r"|only works in thinking mode|reasoning is mandatory"
)
"""Matches a refusal by a model that does not think, or only in its own way."""
EFFORT = (
    r"\breasoning[._ ]?effort\b|(?<!best )(?<!best-)(?<![\w./])effort\b(?! (?:to|was)\b)"
    rf"|(?:unsupported|invalid) value:? {_LEVEL}.{{0,80}}values are:? {_LEVEL}"
    r"|(?:supplied|parameter|argument|field|name|property|key)s?:? ['\"`]?reasoning\b(?!\.)" + _OF_OTHERS + "|"
    r"^(?:body\.)?reasoning: |" + THINKING
)
"""Matches a refusal of the effort as the OpenAI formats spell it."""

_PICTURE = r"(?:image|vision|visual|picture|multi-?modal)s?(?:_url)?\b"
_OF_A_FILE = (
    r"(?!['\"`]?[ _/]?(?:format|type|size|media|mime|resolution|dimension|encoding|file|data|detail|url|ext|part)"
    r"|/\w|s? larger|s? with)"
)
_CAN_SEE = lazy_regex(
    rf"(?:not|n't|no) (?:currently |yet )?(?:support|accept|allow|take)\w* (?:\w+ ){{0,2}}{_PICTURE}{_OF_A_FILE}"
    rf"|\b{_PICTURE}{_OF_A_FILE}['\"`]?(?: (?:inputs?|understanding|content|modality|parts?))*"
    r" (?:is |are )?(?:not|un)(?: currently| yet)? ?(?:support|enabled|allowed|available|permitted|accepted)"
    r"|no endpoints? found .{0,40}(?:image|vision|multimodal)"
    r"|not (?:an? )?(?:vision|multi-?modal)\b|image_url is only supported by|at most 0 image"
    r"|(?:text-only|text only) model|only (?:support|accept|take)s? text|expected ['\"`]?text['\"`]?(?!\w)"
    r"|unexpected item type in content|unsupported content\[\]\.type|(?:required|needed) for image input"
    r"|content['\"`]? ?: (?:value )?must be a string",
    re.IGNORECASE,
)
"""Matches text about what the model supports, not about one image."""
_NO_IMAGES = "This model does not accept images; they are left out from now on."
_NOT_THESE = "An image was refused without saying which one: images are left out until the end of this session."


def picture_fallbacks(*statuses: int) -> tuple[Fallback, Fallback]:
    """Return the fallbacks for refused images: omitted permanently if the model supports none, otherwise for
    now."""
    return (
        # 500 is what llama.cpp answers
        Fallback("images", _CAN_SEE, _NO_IMAGES, (*statuses, 500), sure=True, elsewhere=IN_A_TOOL),
        Fallback(
            "pictures",
            lazy_regex(r"\b(?:image|picture|vision|multimodal)", re.IGNORECASE),
            _NOT_THESE,
            (*statuses, 413),
            lasting=False,
            sure=True,
            elsewhere=IN_A_TOOL,
        ),
    )


ANSWER_SCHEMA = "answer_schema"
"""Name of the fallback that omits the answer schema."""
_NO_SCHEMA = "This server does not hold the answer to the schema; the model is only told of it from now on."


def schema_fallback(words: str) -> Fallback:
    """Return the fallback for servers that refuse the answer schema. It is not remembered, because the refusal may
    concern only this schema."""
    found = lazy_regex(words, re.IGNORECASE)
    return Fallback(ANSWER_SCHEMA, found, _NO_SCHEMA, (400, 404, 422, 500, 501), lasting=False, sure=True)

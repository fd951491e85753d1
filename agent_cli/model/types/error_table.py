"""Providers' error responses as data: codes, statuses and, where they give nothing else, phrases of their
messages. Separate from `classify`, so that supporting a new provider means adding rows.

Sources: the providers' own error pages and error bodies quoted in public bug reports.
"""

import re

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from .base import ErrorKind

BY_CODE: dict[str, ErrorKind] = {
    # Chat Completions and Responses: OpenAI, Azure and providers that copy their codes
    "context_length_exceeded": "context_overflow",
    "insufficient_quota": "quota",
    "credit_balance_exhausted": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "usage_not_included": "quota",
    "usage_limit_reached": "rate_limit",  # a subscription's window, with `resets_in_seconds`
    "rate_limit_exceeded": "rate_limit",
    "ratelimitreached": "rate_limit",
    "too_many_requests": "rate_limit",
    "slow_down": "overloaded",
    "server_overloaded": "overloaded",
    "server_is_overloaded": "overloaded",
    "nocapacity": "overloaded",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "unsupported_country_region_territory": "permission",
    "model_not_found": "not_found",
    "deploymentnotfound": "not_found",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "invalid_prompt": "content_filter",
    # Anthropic
    "authentication_error": "auth",
    "permission_error": "permission",
    "billing_error": "quota",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    # Gemini: `details[].reason`, and the scope of a quota
    "api_key_invalid": "auth",
    "api_key_service_blocked": "permission",
    "service_disabled": "permission",
    "quota_per_day": "quota",
    "permission_denied": "permission",
    # DeepSeek, Moonshot
    "insufficient_balance": "quota",
    "exceeded_current_quota_error": "quota",
    "engine_overloaded_error": "overloaded",
    "rate_limit_reached_error": "rate_limit",
    "invalid_authentication_error": "auth",
    # LiteLLM's proxy
    "budget_exceeded": "quota",
    # Mistral
    "rate_limited": "rate_limit",
    "invalid_model": "not_found",
    # Groq
    "model_decommissioned": "not_found",
    "tool_use_failed": "malformed",  # the model wrote a call that cannot be parsed: a retry may succeed
    # Cerebras
    "request_quota_exceeded": "rate_limit",
    "token_quota_exceeded": "rate_limit",
    "queue_exceeded": "overloaded",
    # Z.ai: business codes inside a 429, a 400 or a stream
    "1113": "quota",
    "1211": "not_found",
    "1261": "context_overflow",
    "1301": "content_filter",
    "1302": "rate_limit",
    "1303": "rate_limit",
    "1304": "quota",  # the day's calls are used up
    "1305": "overloaded",
    "1308": "rate_limit",  # a subscription's window of some hours
    "1309": "quota",  # the subscription has ended
    "1310": "quota",  # the week's or the month's allowance is used up
    "1311": "permission",  # the subscription does not include the model
    "1312": "overloaded",
    "1313": "permission",  # the account is restricted
    # DashScope
    "arrearage": "quota",
    "data_inspection_failed": "content_filter",
    # GitHub Models, llama.cpp, Copilot
    "tokens_limit_reached": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_max_prompt_tokens_exceeded": "context_overflow",
}
"""Error kinds by the provider's code, type, status word or reason, in lower case."""

BY_STATUS: dict[int, ErrorKind] = {
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not_found",
    405: "not_found",
    407: "unsupported",
    408: "timeout",
    409: "server",
    413: "too_large",
    425: "server",
    429: "rate_limit",
    498: "overloaded",
    503: "overloaded",
    504: "timeout",
    522: "timeout",
    524: "timeout",
    529: "overloaded",
}
STATUS_OF_TYPE = {"invalid_request_error": 400, "api_error": 500, "server_error": 503}
"""Statuses for errors that arrive inside a 200."""


class Phrase(msgspec.Struct, frozen=True):
    """Message pattern for errors that status and codes do not identify."""

    words: re.Pattern[str]
    statuses: frozenset[int]
    kind: ErrorKind
    source: str
    """Providers that use this wording."""


def _phrase(words: str, statuses: set[int], kind: ErrorKind, source: str) -> Phrase:
    return Phrase(lazy_regex(words, re.IGNORECASE), frozenset(statuses), kind, source)


_OVERFLOW = {400, 413, 422, 429, 500}

PHRASES: tuple[Phrase, ...] = (
    _phrase(r"max_(completion_)?tokens is too large", {400, 422}, "bad_request", "OpenAI"),
    _phrase(
        r"request too large for .{0,200}limit \d+, requested \d+", _OVERFLOW, "context_overflow", "OpenAI, Groq"
    ),
    _phrase(r"context[_ ]length|context window|maximum context", _OVERFLOW, "context_overflow", "most of them"),
    _phrase(
        r"prompt is too long|max_tokens` exceed context", _OVERFLOW, "context_overflow", "Anthropic, Fireworks"
    ),
    _phrase(r"input token count.{0,60}exceed", _OVERFLOW, "context_overflow", "Gemini"),
    _phrase(r"maximum prompt length is \d+", _OVERFLOW, "context_overflow", "xAI"),
    _phrase(r"too large for model", _OVERFLOW, "context_overflow", "Mistral"),
    _phrase(r"exceeded model token limit", _OVERFLOW, "context_overflow", "Moonshot"),
    _phrase(r"reduce the length of the", _OVERFLOW, "context_overflow", "OpenAI, vLLM, Cerebras"),
    _phrase(r"exceed.{0,40}context|context size", _OVERFLOW, "context_overflow", "llama.cpp"),
    _phrase(r"longer than the maximum model length", _OVERFLOW, "context_overflow", "vLLM"),
    _phrase(
        r"tokens to keep from the initial prompt|n_keep.{0,20}>= n_ctx", _OVERFLOW, "context_overflow", "LM Studio"
    ),
    _phrase(r"input (is )?too long|input length.{0,30}exceed", _OVERFLOW, "context_overflow", "Bedrock, Ollama"),
    _phrase(
        r"max_new_tokens` must be <=|inputs` must have less than", _OVERFLOW, "context_overflow", "Together, TGI"
    ),
    _phrase(r"prompt token count.{0,20}exceeds", _OVERFLOW, "context_overflow", "GitHub Copilot"),
    _phrase(r"greater than max_seq_len", {*_OVERFLOW, 503}, "context_overflow", "TabbyAPI"),
    _phrase(r"too many tokens: (total number|size limit)", _OVERFLOW, "context_overflow", "Cohere"),
    _phrase(r"prompt exceeds max length", _OVERFLOW, "context_overflow", "Zhipu"),
    _phrase(r"range of input length should be", _OVERFLOW, "context_overflow", "DashScope"),
    _phrase(r"request body too large for .{0,60}tokens", _OVERFLOW, "context_overflow", "GitHub Models"),
    _phrase(r"(incorrect|invalid|not valid).{0,8} api key|api key not valid", {400, 403}, "auth", "xAI, Gemini"),
    _phrase(r"no connected db", {400}, "auth", "LiteLLM's proxy without a database: any key but the master key"),
    _phrase(r"missing scopes|insufficient permissions", {401, 403}, "permission", "OpenAI"),
    _phrase(r"location is not supported|country.{0,20}not supported", {400, 403}, "permission", "Gemini, OpenAI"),
    _phrase(
        r"current quota|credit balance|insufficient (balance|credits|funds)|billing|requires more credits",
        {400, 402, 403, 429},
        "quota",
        "OpenAI, Anthropic, DeepSeek, OpenRouter",
    ),
    _phrase(
        r"specified API usage limits|extra usage is required|used all available credits|out of credits"
        r"|any credits|spending limit",
        {400, 403, 429},
        "quota",
        "Anthropic, xAI",
    ),
    _phrase(
        r"capacity exceeded|exceeds? the maximum usage size allowed during peak",
        {429, 500, 503},
        "overloaded",
        "Mistral, Azure",
    ),
    _phrase(
        r"model not exist|not a valid model|invalid model\b",
        {400, 422},
        "not_found",
        "DeepSeek, OpenRouter, Mistral",
    ),
    _phrase(
        r"try pulling it first|no models? loaded|unexpected endpoint or method",
        {400, 404, 500},
        "not_found",
        "Ollama, LM Studio",
    ),
    _phrase(
        r"not support (tool|function)|support tool use|tool.{0,30}not supported|requires --enable-auto-tool-choice"
        r"|requires --jinja",
        {400, 404, 422, 500},
        "unsupported",
        "Ollama, OpenRouter, vLLM, llama.cpp",
    ),
    _phrase(r"requires more system memory", {500}, "unsupported", "Ollama"),
    _phrase(
        r"flagged|moderation|content filtering policy|content management policy",
        {400, 403},
        "content_filter",
        "OpenAI, OpenRouter, Anthropic, Azure",
    ),
)
"""Checked in order; the first match decides. The only place where message texts determine a kind."""

_N = r"(\d[\d,]*)"
LIMIT = lazy_regex(
    rf"maximum (?:context|prompt) length (?:is|of|:) ?{_N}|maximum context length: {_N}"  # OpenAI, xAI
    rf"|> {_N} maximum|context limit: [\d,+ ]+> {_N}"  # Anthropic
    rf"|context size \({_N}|n_ctx \({_N}"  # llama.cpp, LM Studio
    rf"|with {_N} maximum context|limit {_N}, requested"  # Mistral, Groq
    rf"|maximum number of tokens allowed \(?{_N}"  # Gemini
    rf"|context (?:length|window|size) of (?:only )?{_N}"  # LM Studio, llama-cpp-python
    rf"|maximum model length of {_N}|model token limit: {_N}"  # vLLM, Moonshot
    rf"|while limit is {_N}|must be <= {_N}|must have less than {_N}"  # Cerebras, Together, TGI
    rf"|exceeds the limit of {_N}|exceed the configured limit of {_N}"  # GitHub Copilot, OpenAI
    rf"|max_seq_len {_N}|cannot exceed {_N}"  # TabbyAPI, Cohere
    rf"|input length should be \[\d+, {_N}\]|max size: {_N} tokens",  # DashScope, GitHub Models
    re.IGNORECASE | re.ASCII,
)
"""The real context window in an overflow message: one group matches."""
HTML_PAGE = "an HTML page instead of an answer: "
"""Prefix of an error message whose body was a web page."""
REQUEST_ID_HEADERS = (
    "x-request-id", "request-id", "x-oai-request-id", "x-amzn-requestid", "apim-request-id", "x-ms-request-id",
    "x-generation-id", "mistral-correlation-id", "x-kong-request-id", "cf-ray",
)  # fmt: skip
"""Headers that hold the request id, in order of preference."""

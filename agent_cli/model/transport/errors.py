"""Explain a failed model call to the user: what happened, the provider's message, the next step."""

from typing import Literal, assert_never

import msgspec

from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.hints import Hint, HintKind

from ..types.base import ErrorKind, ModelError, NotSent
from ..types.error_table import HTML_PAGE
from ..types.provider_table import ProviderSpec, provider_spec
from .connection_errors import Unreachable


class _Failure(msgspec.Struct, frozen=True):
    """Description of a failure and advice; `{provider}` and `{limit}` are filled in."""

    what: str
    hint: HintKind
    about: Literal["", "provider", "keys", "base", "wait"] = ""
    """The fact that the hint names."""


_FAILURES: dict[ErrorKind, _Failure] = {
    "auth": _Failure("{provider} refused the key", "check_key", "keys"),
    "permission": _Failure("{provider} does not allow this", "no_access"),
    "quota": _Failure("the account at {provider} has no credit left", "add_credit"),
    "not_found": _Failure("{provider} does not know this model or address", "check_model", "base"),
    "bad_request": _Failure("{provider} refused the request", "read_message"),
    "context_overflow": _Failure(
        "the conversation is larger than the model's context{limit}", "shorten_conversation"
    ),
    "too_large": _Failure("the request is too large for {provider}", "shorten_request"),
    "rate_limit": _Failure("rate limited by {provider}", "wait", "wait"),
    "overloaded": _Failure("{provider} is overloaded", "try_again", "wait"),
    "server": _Failure("{provider} failed", "server_failed", "wait"),
    "timeout": _Failure("{provider} did not answer in time", "slow_server", "provider"),
    "stalled": _Failure("{provider} fell silent", "silent_server", "provider"),
    "connection": _Failure("cannot talk to {provider}", "check_connection"),
    "truncated": _Failure("the stream from {provider} ended early", "answer_cut"),
    "malformed": _Failure("{provider} sent something unreadable", "wrong_protocol"),
    "not_api": _Failure("what answered is not {provider}", "not_the_provider", "base"),
    "content_filter": _Failure("{provider} withheld the answer", "rephrase"),
    "unsupported": _Failure("this cannot be done with {provider} here", "change_request"),
}

_WEB_PAGE = _Failure("a web page answered, not {provider}", "web_page", "base")
_BY_OTHERS = frozenset({401, 403, 404, 405, 407})
"""Refusals that arrive as a web page from an intermediary, or from an entirely different server."""

_TITLES = {
    "openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini", "openrouter": "OpenRouter", "xai": "xAI",
    "deepseek": "DeepSeek", "mistral": "Mistral", "groq": "Groq", "moonshot": "Moonshot", "zai": "Z.ai",
    "cerebras": "Cerebras", "ollama": "Ollama", "lm_studio": "LM Studio", "llamacpp": "llama.cpp",
    "hosted_vllm": "vLLM", "together_ai": "Together AI", "fireworks_ai": "Fireworks AI", "deepinfra": "DeepInfra",
    "nvidia_nim": "NVIDIA NIM", "dashscope": "DashScope",
}  # fmt: skip
"""How providers write their own names; others are shown as the configuration names them."""


def explain(error: ModelError, model: str) -> ErrorInfo:
    """Return the error in words for the user.

    Args:
        error: raised by a client.
        model: `provider/model`, or the provider alone.
    """
    if isinstance(error, NotSent):
        return ErrorInfo(kind=error.kind, message=error.message, hints=(Hint("check_machine"),))
    is_page = error.message.startswith(HTML_PAGE) and (error.status or 200) in _BY_OTHERS | {200}
    failure = _WEB_PAGE if is_page else _FAILURES["connection" if isinstance(error, Unreachable) else error.kind]
    provider = model.partition("/")[0]
    limit = f", {error.limit_tokens:,} tokens" if error.limit_tokens else ""
    status = f" (HTTP {error.status})" if error.status else ""
    said = error.message.removeprefix(HTML_PAGE if is_page else "").strip() or "no reason was given"
    return ErrorInfo(
        kind=error.kind,
        message=f"{failure.what.format(provider=_TITLES.get(provider, provider), limit=limit)}{status}: {said}",
        hints=(_hint(error, provider, failure),),
        request_id=error.request_id,
    )


def _hint(error: ModelError, provider: str, failure: _Failure) -> Hint:
    spec = provider_spec(provider)
    local = spec is not None and spec.local
    if local and error.kind == "connection" and (not isinstance(error, Unreachable) or error.hop == "tcp"):
        return Hint("start_server", spec.start_with) if spec and spec.start_with else Hint("check_server")
    if local and error.kind == "not_found":
        return Hint("load_model")
    if isinstance(error, Unreachable):
        return error.hint
    if error.kind == "bad_request" and "/v1/responses" in error.message:  # newer OpenAI models behind a gateway
        return Hint("use_responses", provider)
    match failure.about:
        case "":
            return Hint(failure.hint)
        case "provider":
            return Hint(failure.hint, provider)
        case "keys":
            return Hint(failure.hint, _keys(spec, provider))
        case "base":
            places = (*(spec.base_url_vars[:1] if spec else ()), f"`providers.{provider}.base_url`")
            return Hint(failure.hint, " or ".join(places))
        case "wait":
            from ..types.retry_after import wait_in_words

            return Hint(failure.hint, wait_in_words(error.retry_after_s))
        case _:
            assert_never(failure.about)


def _keys(spec: ProviderSpec | None, provider: str) -> str:
    if spec is not None and spec.key_vars:
        return " or ".join(spec.key_vars)
    from ..types.litellm_names import litellm_providers

    configured = f"the variable named in `providers.{provider}.api_key_env`"
    if provider not in litellm_providers():
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY, which LiteLLM reads, or {configured},"

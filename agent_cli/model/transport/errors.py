"""A failed model call told to the user: what happened, the provider's words, the next step."""

import msgspec

from agent_cli.protocol.events import ErrorInfo

from ..types.base import ErrorKind, ModelError, NotSent
from ..types.error_table import HTML_PAGE
from ..types.provider_table import ProviderSpec, provider_spec
from .connection_errors import Unreachable


class _Words(msgspec.Struct, frozen=True):
    """`{provider}`, `{keys}`, `{base}`, `{wait}` and `{limit}` are filled in."""

    what: str
    hint: str


_WORDS: dict[ErrorKind, _Words] = {
    "auth": _Words(
        "{provider} refused the key",
        "Check that {keys} holds a valid key of this provider.",
    ),
    "permission": _Words(
        "{provider} does not allow this", "The key may lack access to this model; choose another with /model."
    ),
    "quota": _Words(
        "the account at {provider} has no credit left", "Add credit there, or choose another model with /model."
    ),
    "not_found": _Words(
        "{provider} does not know this model or address",
        "Check the model's name (`agent models` lists known ones, /model chooses) and the base URL in {base}.",
    ),
    "bad_request": _Words(
        "{provider} refused the request",
        "Its own words say why; change what they name, or choose another model with /model.",
    ),
    "context_overflow": _Words(
        "the conversation is larger than the model's context{limit}",
        "Use /compact, choose a model with a larger window with /model, or start with fewer tools (--tools core).",
    ),
    "too_large": _Words(
        "the request is too large for {provider}", "Leave out large files or images, or /compact."
    ),
    "rate_limit": _Words(
        "{provider} limits the rate of requests", "Wait {wait}, or choose another model with /model."
    ),
    "overloaded": _Words("{provider} is overloaded", "Try again in {wait}, or choose another model with /model."),
    "server": _Words("{provider} failed", "Try again in {wait}; its status page may say more."),
    "timeout": _Words(
        "{provider} did not answer in time",
        "Check the network and any proxy; slow servers need larger `providers.{provider}.timeouts`.",
    ),
    "stalled": _Words(
        "{provider} fell silent",
        "Use /retry; slow servers need larger `providers.{provider}.timeouts` (first_byte_s, idle_s).",
    ),
    "connection": _Words(
        "cannot talk to {provider}", "Check the network, any proxy and the base URL, then /retry."
    ),
    "truncated": _Words(
        "the answer of {provider} broke off without an end", "Use /retry; a proxy in between may cut long answers."
    ),
    "malformed": _Words(
        "{provider} sent something unreadable", "Use /retry; check that the base URL speaks this model's protocol."
    ),
    "not_api": _Words(
        "what answered is not {provider}",
        "Check the base URL ({base}), any proxy, and whether the network wants a login: open a page in a browser.",
    ),
    "content_filter": _Words("{provider} withheld the answer", "Rephrase the request, or choose another model."),
    "unsupported": _Words(
        "this cannot be done with {provider} here", "Change what the message names, or choose another model."
    ),
}

_WEB_PAGE = _Words(
    "a web page answered, not {provider}",
    "A wrong base URL ({base}), a proxy, a firewall or the network's login page may be in between.",
)
_BY_OTHERS = frozenset({401, 403, 404, 405, 407})
"""Refusals that come as a web page from something in front of the provider, or from quite another server."""

_NOT_SENT = "`agent doctor` checks this machine; `agent models` lists known models."
_DAY_S = 86_400
_LONG_S = 60 * _DAY_S


def explain(error: ModelError, model: str) -> ErrorInfo:
    """Return the error in words for the user.

    Args:
        error: what a client raised.
        model: `provider/model`, or the provider alone.
    """
    if isinstance(error, NotSent):
        return ErrorInfo(kind=error.kind, message=error.message, hint=_NOT_SENT)
    is_page = error.message.startswith(HTML_PAGE) and (error.status or 200) in _BY_OTHERS | {200}
    words = _WEB_PAGE if is_page else _WORDS["connection" if isinstance(error, Unreachable) else error.kind]
    provider = model.partition("/")[0]
    spec = provider_spec(provider)
    limit = f", {error.limit_tokens:,} tokens" if error.limit_tokens else ""
    fill = {
        "provider": provider,
        "keys": _keys(spec, provider),
        "base": " or ".join((*(spec.base_url_vars[:1] if spec else ()), f"`providers.{provider}.base_url`")),
        "wait": _wait(error.retry_after_s),
        "limit": limit,
    }
    status = f" (HTTP {error.status})" if error.status else ""
    said = error.message.removeprefix(HTML_PAGE if is_page else "").strip() or "no reason was given"
    return ErrorInfo(
        kind=error.kind,
        message=f"{words.what.format(**fill)}{status}: {said}",
        hint=_hint(error, spec, words.hint).format(**fill),
        request_id=error.request_id,
    )


def _hint(error: ModelError, spec: ProviderSpec | None, usual: str) -> str:
    local = spec is not None and spec.local
    if local and error.kind == "connection" and (not isinstance(error, Unreachable) or error.hop == "tcp"):
        return "Is the server running? " + (
            f"Start it with {spec.start_with}." if spec and spec.start_with else ""
        )
    if local and error.kind == "not_found":
        return "Download or load the model first, and check the base URL; `agent models` lists what is there."
    if isinstance(error, Unreachable):
        return error.hint.replace("{", "{{").replace("}", "}}")
    return usual


def _keys(spec: ProviderSpec | None, provider: str) -> str:
    if spec is not None and spec.key_vars:
        return " or ".join(spec.key_vars)
    from ..types.litellm_names import litellm_providers

    configured = f"the variable named in `providers.{provider}.api_key_env`"
    if provider not in litellm_providers():
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY, which LiteLLM reads, or {configured},"


def _wait(seconds: float | None) -> str:
    if seconds is None:
        return "a minute"
    if not seconds <= _LONG_S:
        return "a long time"
    if seconds < 120:
        return f"{max(1.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.0f} days"

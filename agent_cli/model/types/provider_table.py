"""Provider data: addresses, variables, wire format and quirks.

A provider is the part of a model's name before the first slash, spelled as in LiteLLM. Providers missing from this
table are left to LiteLLM, unless the configuration gives them a base URL.
"""

from typing import Literal

import msgspec

from agent_cli.config.schema import Timeouts, Wire
from agent_cli.protocol.lazy_regex import lazy_regex

_USER = lazy_regex(r"(?<=://)[^/?#]*@")


class ImageLimits(msgspec.Struct, frozen=True):
    """Limits of a provider for images."""

    largest_bytes: int = 20_000_000
    """Length of the base64 text."""
    longest_side: int = 8_000
    """In pixels."""


class Quirks(msgspec.Struct, frozen=True):
    """Deviations of a server from the common denominator of its wire format."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasoning_field: Literal["", "reasoning_content", "reasoning"] = ""
    """Field of an assistant message in which its reasoning must be sent back; empty: it must not be sent."""
    reasoning_details: bool = True
    """Blocks of reasoning that the server gave with an answer in `reasoning_details` or `thinking_blocks` are sent
    back with it."""
    echoes_reasoning: bool = False
    """Reasoning that the server gave as plain text is sent back with its answer, in the same field. Models that
    reason between tool calls are trained to see it, and the server finds the conversation in its cache."""
    effort_field: Literal["", "reasoning_effort", "reasoning"] = "reasoning_effort"
    """Form in which the effort is sent: a plain field, `{"reasoning": {"effort": …}}`, or nowhere."""
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh")
    """Supported efforts; others are mapped to the nearest lower one."""
    short_ids: bool = False
    """Call ids must be nine letters or digits."""
    longest_id: int = 40
    """Maximum length of a call id in characters; longer ones are replaced."""
    answers_results: bool = False
    """Refuses a user message directly after results: a short answer is inserted between them."""
    alternates: bool = False
    """Requires user and assistant messages to alternate: a short one is inserted between two of the same role."""
    cache_marks: bool = False
    """Passes `cache_control` marks on to Claude."""
    thought_signatures: bool = False
    """Calls come with a signature in `extra_content.google` that must be sent back (Gemini)."""
    images: ImageLimits = ImageLimits()
    schema_beside_tools: bool = False
    """Accepts an answer schema together with callable tools. Servers that constrain the output with a grammar then
    prevent tool calls."""
    text_calls: bool = False
    """Its servers may return tool calls as the text a model wrote; the text is then searched for them."""


class ProviderSpec(msgspec.Struct, frozen=True):
    """A row of the table."""

    wire: Wire = "chat_completions"
    base_url: str = ""
    base_url_vars: tuple[str, ...] = ()
    """Variables that replace the base URL; the first one set wins. Default: NAME_API_BASE."""
    key_vars: tuple[str, ...] = ()
    """Variables that may hold the key; the first one set wins. Default: NAME_API_KEY."""
    local: bool = False
    """Runs on this machine and needs no key."""
    start_with: str = ""
    """Command that starts a local server."""
    default_model: str = ""
    """Used if no model is named and this provider has a key."""
    quirks: Quirks = Quirks()


class Route(msgspec.Struct, frozen=True):
    """Destination of the requests for one model."""

    name: str
    """`provider/model`."""
    provider: str
    model: str
    """Name used by the server."""
    wire: Wire
    base_url: str = ""
    """Empty: the client's own default."""
    api_key: str = ""
    headers: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    quirks: Quirks = Quirks()

    @property
    def key(self) -> str:
        """Key under which limits learned about this model at this address are stored."""
        return f"{self.name} {self.address}"

    @property
    def address(self) -> str:
        """The base URL without user name and password, safe to show and store."""
        return without_user(self.base_url)

    def __repr__(self) -> str:
        """Return a representation without the key and the headers, which may hold secrets."""
        return f"Route({self.name!r}, wire={self.wire!r}, base_url={self.address!r})"


_LOW_TO_HIGH = ("low", "medium", "high")
_NO_EFFORT = Quirks(effort_field="")
UNKNOWN = Quirks(echoes_reasoning=True, text_calls=True)
"""Of servers that are not in the table."""
_LOCAL = msgspec.structs.replace(UNKNOWN, efforts=_LOW_TO_HIGH)

_ROWS = {
    "anthropic": ProviderSpec(
        wire="anthropic_messages",
        base_url="https://api.anthropic.com",
        base_url_vars=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
        default_model="claude-sonnet-5-5",
        quirks=Quirks(images=ImageLimits(largest_bytes=5_000_000), schema_beside_tools=True),
    ),
    "openai": ProviderSpec(
        base_url="https://api.openai.com/v1",
        base_url_vars=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        default_model="gpt-6.1-sol",
        quirks=Quirks(max_tokens_field="max_completion_tokens", schema_beside_tools=True),
    ),
    "gemini": ProviderSpec(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-4-argon",
        quirks=Quirks(efforts=("minimal", "low", "medium", "high"), thought_signatures=True),
    ),
    "openrouter": ProviderSpec(
        base_url="https://openrouter.ai/api/v1",
        default_model="openrouter/auto",
        quirks=Quirks(effort_field="reasoning", cache_marks=True),
    ),
    "xai": ProviderSpec(
        base_url="https://api.x.ai/v1",
        default_model="grok-4.5",
        quirks=Quirks(efforts=_LOW_TO_HIGH),
    ),
    "deepseek": ProviderSpec(
        base_url="https://api.deepseek.com/v1",
        default_model="deepseek-v4-pro",
        quirks=Quirks(reasoning_field="reasoning_content", effort_field=""),
    ),
    "mistral": ProviderSpec(
        base_url="https://api.mistral.ai/v1",
        default_model="devstral-latest",
        quirks=Quirks(effort_field="", short_ids=True, answers_results=True),
    ),
    "groq": ProviderSpec(
        base_url="https://api.groq.com/openai/v1",
        default_model="openai/gpt-oss-120b",
        quirks=Quirks(max_tokens_field="max_completion_tokens", efforts=_LOW_TO_HIGH),
    ),
    "moonshot": ProviderSpec(
        base_url="https://api.moonshot.ai/v1",
        default_model="kimi-k2.7-code",
        quirks=Quirks(reasoning_field="reasoning_content", effort_field=""),
    ),
    "zai": ProviderSpec(
        base_url="https://api.z.ai/api/paas/v4",
        default_model="glm-5.3",
        quirks=Quirks(reasoning_field="reasoning_content", effort_field=""),
    ),
    "cerebras": ProviderSpec(
        base_url="https://api.cerebras.ai/v1",
        default_model="gpt-oss-120b",
        quirks=Quirks(max_tokens_field="max_completion_tokens", reasoning_field="reasoning", efforts=_LOW_TO_HIGH),
    ),
    "together_ai": ProviderSpec(
        base_url="https://api.together.xyz/v1",
        base_url_vars=("TOGETHERAI_API_BASE", "TOGETHER_API_BASE"),
        key_vars=("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
        default_model="openai/gpt-oss-120b",
        quirks=Quirks(efforts=_LOW_TO_HIGH),
    ),
    "fireworks_ai": ProviderSpec(
        base_url="https://api.fireworks.ai/inference/v1",
        base_url_vars=("FIREWORKS_API_BASE",),
        key_vars=("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        default_model="accounts/fireworks/models/gpt-oss-120b",
        quirks=Quirks(efforts=_LOW_TO_HIGH),
    ),
    "deepinfra": ProviderSpec(
        base_url="https://api.deepinfra.com/v1/openai",
    ),
    "nvidia_nim": ProviderSpec(
        base_url="https://integrate.api.nvidia.com/v1",
        quirks=_NO_EFFORT,
    ),
    "dashscope": ProviderSpec(
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        quirks=_NO_EFFORT,
    ),
    "ollama": ProviderSpec(
        wire="ollama_chat",
        base_url="http://127.0.0.1:11434",
        base_url_vars=("OLLAMA_API_BASE", "OLLAMA_HOST"),
        local=True,
        start_with="`ollama serve`",
        quirks=Quirks(efforts=("none", "low", "medium", "high"), text_calls=True),
    ),
    "lm_studio": ProviderSpec(
        base_url="http://127.0.0.1:1234/v1",
        local=True,
        start_with="`lms server start`",
        quirks=_LOCAL,
    ),
    "llamacpp": ProviderSpec(
        base_url="http://127.0.0.1:8080/v1",
        local=True,
        start_with="`llama-server -m MODEL.gguf --jinja`",
        quirks=_LOCAL,
    ),
    "hosted_vllm": ProviderSpec(
        base_url="http://127.0.0.1:8000/v1",
        base_url_vars=("HOSTED_VLLM_API_BASE", "VLLM_API_BASE"),
        key_vars=("HOSTED_VLLM_API_KEY", "VLLM_API_KEY"),
        local=True,
        start_with="`vllm serve MODEL --enable-auto-tool-choice`",
        quirks=_LOCAL,
    ),
}


def _with_usual_variables(name: str, spec: ProviderSpec) -> ProviderSpec:
    """Return a row with the variables by which most programs configure the provider, unless it names others."""
    return msgspec.structs.replace(
        spec,
        base_url_vars=spec.base_url_vars or (f"{name.upper()}_API_BASE",),
        key_vars=spec.key_vars or (f"{name.upper()}_API_KEY",),
    )


PROVIDERS = {name: _with_usual_variables(name, spec) for name, spec in _ROWS.items()}
"""In the order in which they are tried if no model is named; local servers come last."""

ALIASES = {
    "vllm": "hosted_vllm",
    "ollama_chat": "ollama",
    "together": "together_ai",
    "fireworks": "fireworks_ai",
}
"""Alternative spellings of providers."""

BARE_NAMES = {
    "gpt-": "openai", "chatgpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai",
    "claude-": "anthropic", "gemini-": "gemini", "deepseek-": "deepseek", "grok-": "xai",
    "mistral-": "mistral", "codestral-": "mistral", "devstral-": "mistral", "kimi-": "moonshot",
}  # fmt: skip
"""Provider of a model named without one, by the prefix of its name."""


def without_user(url: str) -> str:
    """Return a URL without user name and password."""
    return _USER.sub("", url)


def provider_spec(provider: str) -> ProviderSpec | None:
    """Return the row of a provider, or None if it is not in the table."""
    return PROVIDERS.get(ALIASES.get(provider, provider))

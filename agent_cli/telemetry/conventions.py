"""External names of spans and attributes: those of OpenTelemetry for GenAI if there is one, ours (`agent.*`)
otherwise. The only table to change when the conventions do; they are still in development."""

from agent_cli.protocol.lazy_regex import lazy_regex

from .span import Span, SpanKind

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
"""The version of the conventions that these names follow."""
SCOPE = "agent_cli"
SERVICE = "agent-cli"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
"""Seconds from the last attempt's request."""
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""All input tokens, including cached ones."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
"""Includes reasoning."""
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
"""The earlier name of the same number, which back ends still read."""
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
MCP_METHOD = "mcp.method.name"
ERROR = "error.type"
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
COMMAND = "agent.command"
"""The attributes that contain content, each only if the user requested it."""

KIND = "agent.span.kind"
AGENT_ID = "agent.id"
"""Session id of the sub-agent; the session's own spans have none."""
BACKGROUND = "agent.background"
MODE = "agent.mode"
SANDBOX = "agent.sandbox"
RESUMED = "agent.resumed"
STOP_REASON = "agent.stop_reason"
STEPS = "agent.steps"
TOOL_CALLS = "agent.tool_calls"
COST_USD = "agent.cost_usd"
"""The known part of the cost; `UNPRICED` counts attempts without a known cost."""
UNPRICED = "agent.unpriced_attempts"
ATTEMPTS = "agent.attempts"
CALL_KIND = "agent.call.kind"
CACHED_SHARE = "agent.cached_share"
"""Share of the input tokens read from the provider's cache, 0 to 1."""
ATTEMPT = "agent.attempt"
DELAY_S = "agent.retry.delay_s"
PARKED = "agent.retry.parked"
STATUS = "agent.tool.status"
ARGUMENTS_CHARS = "agent.tool.arguments_chars"
RESULT_CHARS = "agent.tool.result_chars"
EXIT_CODE = "agent.tool.exit_code"
CHANGED_FILES = "agent.tool.changed_files"
RULE = "agent.rule"
MCP_SERVER = "agent.mcp.server"
OUTCOME = "agent.outcome"
TOKENS_BEFORE = "agent.compaction.tokens_before"
TOKENS_AFTER = "agent.compaction.tokens_after"
HOW = "agent.compaction.how"
HOOK_EVENT = "agent.hook.event"
HOOK_DECISION = "agent.hook.decision"

_PROVIDERS = {
    "gemini": "gcp.gemini", "vertex_ai": "gcp.vertex_ai", "mistral": "mistral_ai", "xai": "x_ai",
    "moonshot": "moonshot_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai", "watsonx": "ibm.watsonx.ai",
}  # fmt: skip
"""Our provider prefixes whose names differ in the conventions."""
_NAME = lazy_regex(r"[\w.:@+/-]{1,128}", 0)
_TOOL_NAME = lazy_regex(r"[\w-]{1,128}", 0)
"""What providers accept as the name of a tool."""
_RULE_NUMBER = lazy_regex(r".*(rule \d+)", 0)
_MODE_RULE = lazy_regex(r"mode [\w-]{1,16}", 0)
_CLIENT, _INTERNAL = 3, 1
_OPERATIONS: dict[SpanKind, str] = {"agent": "invoke_agent", "model": "chat", "tool": "execute_tool"}


def operation(kind: SpanKind) -> str:
    """Return `gen_ai.operation.name` of a kind of span; empty if the conventions do not define one."""
    return _OPERATIONS.get(kind, "")


def span_name(span: Span) -> str:
    """Return the external name of a span, such as `chat MODEL`, which does not include the provider."""
    match span.kind:
        case "agent" | "tool":
            return f"{_OPERATIONS[span.kind]} {span.name}"
        case "model":
            return f"chat {model_name(span.name)}"
        case "hook":
            return f"hook {span.name}"
        case "compaction":
            return "compaction"
        case _:
            return f"wait.{span.kind}"


def span_kind(span: Span) -> int:
    """Return the OTLP number of a span's kind: client for a model call, internal for others."""
    return _CLIENT if span.kind == "model" else _INTERNAL


def provider(model: str) -> str:
    """Return `gen_ai.provider.name` of a model named `provider/name`."""
    prefix = model.partition("/")[0]
    return _PROVIDERS.get(prefix, prefix)


def model_name(model: str) -> str:
    """Return a model's name without its provider."""
    return model.partition("/")[2] or model


def plain(name: str) -> str:
    """Return a name chosen by a model or a server if it is a plain name, else `other`: an invented name may be
    content."""
    return name if name.isascii() and _NAME.fullmatch(name) else "other"


def tool_name(name: str) -> str:
    """Return a name that a tool can have, else `other`: a model may call a path, a command or an address."""
    return name if name.isascii() and _TOOL_NAME.fullmatch(name) else "other"


def rule_name(rule: str) -> str:
    """Return the rule that decided, without its file and its pattern."""
    if _MODE_RULE.fullmatch(rule) or rule in ("the user", "sandbox"):
        return rule
    found = _RULE_NUMBER.fullmatch(rule)
    return found.group(1) if found else "rule" if rule else ""


def mcp_server(tool: str) -> str:
    """Return the MCP server of a tool named `mcp__SERVER__TOOL`; empty for other tools."""
    return tool.split("__")[1] if tool.startswith("mcp__") and tool.count("__") >= 2 else ""

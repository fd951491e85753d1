"""What a refusal teaches, in the words that providers and servers really use: the part it is about and no
other, and nothing at all when it is about the conversation or a tool."""

from typing import NamedTuple

import msgspec
import pytest

from agent_cli.model.catalog.server_query import CapabilityProbe
from agent_cli.model.types.base import LearnedLimits, ModelError, ModelInfo, ModelRequest, ToolSpec
from agent_cli.model.types.classify import classify
from agent_cli.model.types.info import Facts
from agent_cli.model.types.provider_table import Quirks, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.chat.ollama import OllamaDialect
from agent_cli.model.wire.dialect import Dialect, learn_from_refusal, refused_message
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import AssistantMessage, Image, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import EFFORTS, REFUSABLE
from tests.rows import each_row

TOOLS = tuple(ToolSpec(name, "Does.", {"type": "object"}) for name in ("think_tool", "effort", "view_image"))
REQUEST = ModelRequest(
    system="s",
    messages=(
        UserMessage(id="u", text="hi", images=(Image("image/png", "aGk="),)),
        AssistantMessage(
            id="a",
            reasoning=(Reasoning("hm", "s", "p"),),
            calls=(ToolCall("c", "think_tool", "{}"),),
            model="p/m",
        ),
        ToolResult(id="r", call_id="c", tool="think_tool", status="ok", text="x"),
        UserMessage(id="u2", text="go on"),
    ),
    tools=TOOLS,
    may_call=False,
    effort="high",
    max_output_tokens=50_000,
    session_id="s",
)
QUIRKS = Quirks(reasoning_field="reasoning_content")
ROUTE = Route("p/m", "p", "m", "chat_completions", "http://x/v1", quirks=QUIRKS)
CLAUDE = msgspec.structs.replace(ROUTE, name="p/claude-opus-4-8", model="claude-opus-4-8")
INFO = ModelInfo("p/m").plus(Facts("server", 32_768, images=True, reasoning=True))
DIALECTS: dict[str, Dialect] = {
    "chat": ChatDialect(ROUTE),
    "anthropic": AnthropicDialect(CLAUDE, ModelInfo("p/claude-opus-4-8")),
    "responses": ResponsesDialect(ROUTE, ModelInfo("p/m")),
    "ollama": OllamaDialect(ROUTE, CapabilityProbe(INFO)),
}


class Case(NamedTuple):
    dialect: str
    text: str
    taught: str
    """Name of the part; `efforts=…` and `longest=…` for what is kept of it; empty for nothing."""
    status: int = 400


CASES = [
    # effort
    Case("chat", "Unrecognized request argument supplied: reasoning_effort", "effort"),
    Case("chat", "Unsupported parameter: 'reasoning_effort' is not supported with this model.", "effort"),
    Case("chat", "Unsupported value: 'reasoning_effort' does not support 'high' with this model. Supported values are: 'low' and 'medium'.", "efforts=low,medium"),
    Case("chat", "Unsupported value: 'high' is not supported with the 'gpt-5.1' model. Supported values are: 'none', 'low', and 'medium'.", "efforts=none,low,medium"),
    Case("chat", "Argument not supported on this model: reasoningEffort", "effort"),
    Case("chat", "Model grok-4 does not support parameter reasoningEffort.", "effort"),
    Case("chat", "property 'reasoning_effort' is unsupported", "effort"),
    Case("chat", "`reasoning_effort` must be one of `low` or `medium`", "efforts=low,medium"),
    Case("chat", "body.reasoning_effort: Extra inputs are not permitted", "effort", 422),
    Case("chat", 'Invalid JSON payload received. Unknown name "reasoning_effort": Cannot find field.', "effort"),
    Case("chat", "Thinking level is not supported for this model.", "effort"),
    Case("chat", "Budget 0 is invalid. This model only works in thinking mode.", "effort"),
    Case("chat", "Reasoning is mandatory for this endpoint and cannot be disabled.", "effort"),
    Case("chat", '"llama3.1:8b" does not support thinking', "effort"),
    Case("chat", "invalid reasoning value: 'high' (must be \"medium\", \"low\")", "efforts=low,medium"),
    Case("chat", "Unknown parameter: 'reasoning'.", "effort"),
    Case("chat", "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Please use /v1/responses instead.", "effort"),
    Case("anthropic", '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort".', "effort"),
    Case("anthropic", "adaptive thinking is not supported on this model", "effort"),
    Case("anthropic", "output_config: Extra inputs are not permitted", "effort"),
    Case("anthropic", "thinking: Extra inputs are not permitted", "effort"),
    Case("anthropic", "This model does not support the effort parameter.", "effort"),
    Case("anthropic", "This model does not support effort level 'high'. Supported levels: low, medium, max", "efforts=low,medium,max"),
    Case("anthropic", "'claude-3-5-haiku' does not support thinking.", "effort"),
    Case("responses", "Unsupported parameter: 'reasoning.effort' is not supported with this model.", "effort"),
    Case("responses", "Unsupported value: 'high' is not supported with the 'gpt-5.1' model. Supported values are: 'low' and 'medium'.", "efforts=low,medium"),
    Case("responses", "Unknown parameter: 'reasoning'.", "effort"),
    Case("ollama", '"qwen3-coder:30b" does not support thinking', "effort"),
    Case("ollama", 'think value "high" is not supported for this model', "effort"),
    Case("ollama", "json: cannot unmarshal string into Go struct field ChatRequest.think of type bool", "effort"),
    # reasoning sent back, or not
    Case("chat", "messages.1.reasoning_content: Extra inputs are not permitted", "reasoning"),
    Case("chat", "Unrecognized request argument supplied: reasoning_content", "reasoning"),
    Case("chat", "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]", "reasoning"),
    Case("chat", "messages[1].reasoning_content is not allowed in input", "reasoning"),
    Case("anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block", "reasoning"),
    Case("anthropic", "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.", "begun"),
    Case("responses", "The encrypted content for item rs_1 could not be verified.", "reasoning"),
    Case("responses", "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "reasoning"),
    # other parts
    Case("chat", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens"),
    Case("chat", "max_tokens is too large: 50000. This model supports at most 16384 completion tokens, whereas you provided 50000.", "longest=16384"),
    Case("chat", "Unsupported parameter: stream_options", "stream_options"),
    Case("chat", "`tools` is not supported with this model", "tools"),
    Case("anthropic", "max_tokens: 50000 > 8192, which is the maximum allowed number of output tokens for x", "longest=8192"),
    Case("anthropic", "tools.2.cache_control: Extra inputs are not permitted", "cache_marks"),
    Case("responses", "Your organization must be verified to generate reasoning summaries.", "summary"),
    Case("responses", "Unsupported parameter: 'reasoning.summary' is not supported with this model.", "summary"),
    Case("responses", "Encrypted content is not supported with this model.", "include"),
    Case("responses", "Unknown parameter: 'include'.", "include"),
    # a model without eyes
    Case("chat", "No endpoints found that support image input", "images", 404),
    Case("chat", "this model does not support image input", "images"),
    Case("chat", "Model does not support images. Please use a model that does.", "images"),
    Case("chat", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "images", 500),
    Case("anthropic", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "images", 500),
    Case("responses", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "images", 500),
    Case("chat", "Image input modality is not enabled for models/x", "images"),
    Case("chat", "x/y is not a multimodal model", "images"),
    Case("chat", "vision is not supported by this deployment", "images"),
    Case("chat", "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1", "images", 422),
    Case("chat", "Invalid content type. image_url is only supported by certain models.", "images"),
    Case("chat", "'messages.1' : for 'role:user' the following must be satisfied[('messages.1.content' : value must be a string)]", "images"),
    Case("chat", "At most 0 image(s) may be provided in one request.", "images"),
    Case("anthropic", "'claude-2.1' does not support image input.", "images"),
    Case("responses", "Invalid content type: image_url is not supported by this model", "images"),
    Case("ollama", "Failed to create new sequence: this model is missing data required for image input", "images", 500),
    # a chat template that is strict about roles
    Case("chat", "Conversation roles must alternate user/assistant/user/assistant/...", "repeated_roles"),
    Case("chat", "After the optional system message, conversation roles must alternate user/assistant/user/assistant/... at row 14, column 27:", "repeated_roles", 500),
    Case("chat", "Expected: 'Unexpected role 'user' after role 'tool'", "repeated_roles"),
    Case("chat", "System role not supported", "system_role"),
    Case("chat", "Only user and assistant roles are supported!", "system_role", 500),
    # a bad picture: which one it is was not said
    Case("chat", "Invalid image data: the picture could not be decoded", "pictures"),
    Case("chat", "You uploaded an unsupported image. Please make sure your image is valid.", "pictures"),
    Case("chat", "The request failed because the image format is not supported by the API.", "pictures"),
    Case("chat", "image type image/tiff is not supported", "pictures"),
    Case("anthropic", "Could not process image", "pictures"),
    Case("anthropic", "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", "pictures"),
    Case("anthropic", "The model does not support image format webp", "pictures"),
    Case("responses", "The image data you provided does not represent a valid image.", "pictures"),
    Case("ollama", "Failed to process inputs: invalid image input", "pictures", 500),
    # nothing that can be left out
    Case("anthropic", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", ""),
    Case("responses", "Invalid 'input[0].content[1].image_url'. Could not decode the image.", ""),
    Case("chat", "Invalid schema for function 'think_tool': not supported", ""),
    Case("chat", "Invalid schema for function 'effort': schema must be an object, unknown keyword", ""),
    Case("chat", "Invalid schema for function 'view_image': 'image' is not supported", ""),
    Case("chat", "tools[1].function.name: 'effort' is invalid", ""),
    Case("chat", "Unknown tool 'reasoning': not supported", ""),
    Case("chat", "messages.0.content: reasoning is not supported here", ""),
    Case("chat", "invalid request: best effort was made", ""),
    Case("chat", "an unexpected error; contact support about reasoning models", ""),
    Case("anthropic", "tools.1.custom.name: `effort` is invalid", ""),
    Case("anthropic", "tools.0.custom.input_schema.properties.thinking: unknown type", ""),
    Case("anthropic", "temperature: Extra inputs are not permitted", ""),
    Case("responses", "Invalid 'tools[0].name': 'effort' is not supported", ""),
    Case("responses", "Unknown parameter: 'temperature'. Please include the request ID req_1.", ""),
    Case("responses", "Missing required parameter: 'input[1].summary'.", ""),
    Case("ollama", "template: unknown function 'think_tool'", ""),
]  # fmt: skip


def taught_by(case: Case, learnt: LearnedLimits | None = None) -> str:
    dialect = DIALECTS[case.dialect]
    known = learnt or LearnedLimits()
    written = dialect.write(REQUEST, known)
    found = learn_from_refusal(dialect, written, ModelError("bad_request", case.text, status=case.status), known)
    if found is None:
        return ""
    if found.learned.efforts != known.efforts:
        return f"efforts={','.join(found.learned.efforts or ())}"
    if found.learned.max_output_tokens != known.max_output_tokens:
        return f"longest={found.learned.max_output_tokens}"
    (name,) = set(found.learned.refused) - set(known.refused)
    assert found.lasting == (name in REFUSABLE and (case.dialect, name) not in FLEETING)
    return name


FLEETING = {("anthropic", "reasoning"), ("responses", "reasoning")}


@each_row("case", CASES)
def test_a_refusal_teaches_what_it_is_about(case: Case) -> None:
    assert taught_by(case) == case.taught


@pytest.mark.parametrize(
    "text",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "Missing `reasoning_content` field in the assistant message at message index 1",
    ],
)
def test_reasoning_that_must_be_sent_back_is_sent_back(text: str) -> None:
    dialect = ChatDialect(msgspec.structs.replace(ROUTE, quirks=Quirks()))
    written = dialect.write(REQUEST, LearnedLimits())
    found = learn_from_refusal(dialect, written, ModelError("bad_request", text, status=400), LearnedLimits())
    assert found is not None and found.learned.refused == ("no_reasoning",)
    again = dialect.write(REQUEST, found.learned)
    assert "reasoning_content" in again.body["messages"][2]
    assert learn_from_refusal(dialect, again, ModelError("bad_request", text, status=400), found.learned) is None


def test_a_refusal_inside_a_success_teaches_too() -> None:
    body = {"error": {"message": "Unsupported parameter: 'reasoning_effort'", "type": "invalid_request_error"}}
    dialect = DIALECTS["chat"]
    error = classify(None, body)
    found = learn_from_refusal(dialect, dialect.write(REQUEST, LearnedLimits()), error, LearnedLimits())
    assert error.status is None and found is not None and found.learned.refused == ("effort",)
    bad = classify(None, {"error": {"message": "messages.1: no", "type": "invalid_request_error"}})
    assert refused_message(dialect.write(REQUEST, LearnedLimits()), bad, "messages") == "u"


def test_an_error_about_something_else_teaches_nothing() -> None:
    dialect = DIALECTS["chat"]
    written = dialect.write(REQUEST, LearnedLimits())
    for kind in ("context_overflow", "content_filter", "quota"):
        error = ModelError(kind, "reasoning_effort, image input: not supported", status=400)  # type: ignore[arg-type]
        assert learn_from_refusal(dialect, written, error, LearnedLimits()) is None


def test_a_figure_that_is_none_teaches_nothing() -> None:
    for figure in (",", "9" * 400, "0"):
        assert taught_by(Case("anthropic", f"max_tokens: at most {figure} tokens", "")) == ""


def test_every_lasting_repair_may_be_remembered() -> None:
    lasting = {repair.name for each in DIALECTS.values() for repair in each.fallbacks if repair.lasting}
    assert lasting - {"output_limit"} == REFUSABLE and set(EFFORTS) >= {"none", "max"}


@each_row("name", ["images", "pictures"])
@each_row("wire", list(DIALECTS))
def test_pictures_are_left_out_whichever_way_they_were_refused(wire: str, name: str) -> None:
    dialect = DIALECTS[wire]
    repair = next(each for each in dialect.fallbacks if each.name == name)
    assert dialect.sends(repair, dialect.write(REQUEST, LearnedLimits()).body)
    assert not dialect.sends(repair, dialect.write(REQUEST, LearnedLimits(refused=(name,))).body)

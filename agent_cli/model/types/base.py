"""The protocol every model client implements, and its values.

A client converts a provider-neutral `ModelRequest` to its wire format and the provider's stream to `ModelEvent`s.
It reports an end only if the provider sent one: a stream that stops without raises `ModelError("truncated")`.
Nothing outside this package sees provider-specific shapes.
"""

import re
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, Protocol

import msgspec

from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.messages import AssistantMessage, Finish, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import LearnedLimits as LearnedLimits
from agent_cli.protocol.usage import Usage

from .info import ModelInfo as ModelInfo
from .info import Prices as Prices


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as described to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""


class ModelRequest(msgspec.Struct, frozen=True):
    """Everything one call sends. `messages` is valid: each call is answered exactly once, directly after the
    assistant message that made it, and its arguments are a JSON object."""

    system: str
    messages: tuple[UserMessage | AssistantMessage | ToolResult, ...]
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """False: the answer must be text. The tools are still sent, so that the request keeps its prefix."""
    must_call: str = ""
    """The tool the answer must call; empty if the model decides."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema of an object that the answer must match, if the server can enforce it; the model is also told of
    it. Applies to text, not to calls."""
    effort: str = ""
    """none, minimal, low, medium, high, xhigh, max; empty leaves it to the provider."""
    max_output_tokens: int | None = None
    session_id: str = ""
    """Groups the requests of one conversation, for providers that use it as a cache key."""


class TextPiece(msgspec.Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ReasoningPiece(msgspec.Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class ReasoningDone(msgspec.Struct, frozen=True):
    """A complete reasoning block, with the data that must be sent back to the provider."""

    block: Reasoning


class CallStart(msgspec.Struct, frozen=True):
    """Start of a tool call. `index` numbers the calls of this answer from 0 without gaps."""

    index: int
    id: str
    name: str


class CallPiece(msgspec.Struct, frozen=True):
    """Continuation of a call: a fragment of its argument text, or of a name that arrived late."""

    index: int
    arguments: str = ""
    name: str = ""
    signature: str = ""
    """The provider's opaque signature of the reasoning behind the call."""
    problem: str = ""
    """Why a textual call cannot be parsed."""


class UsageReport(msgspec.Struct, frozen=True):
    """Token usage of the call as counted by the provider."""

    usage: Usage


class Finished(msgspec.Struct, frozen=True):
    """The provider ended the answer. `raw` is its own reason."""

    finish: Finish
    raw: str


class Retrying(msgspec.Struct, frozen=True):
    """An attempt failed and another follows; everything received so far is void."""

    attempt: int
    """Number of the next attempt; 2 for the first retry."""
    delay_s: float
    error: ErrorInfo
    parked: bool = False
    """True if the wait is for a distant limit reset, longer than retries usually last."""
    usage: Usage | None = None
    """Known usage of the failed attempt."""


class TextWasThought(msgspec.Struct, frozen=True):
    """All text of this answer so far was reasoning, which the server did not tell apart, unless it ends within a
    block of code or talks about the tags."""

    provider: str
    mark: str
    """What stood between reasoning and answer."""

    @staticmethod
    def holds_for(text: str) -> bool:
        """Return True unless a text ends within a block of code, or contains the tag that begins reasoning: where
        a template has written it, it is not in the text."""
        return text.count("```") % 2 == 0 and "<think>" not in text


class Adjusted(msgspec.Struct, frozen=True):
    """A part of the request is omitted or changed, now and in future, because the model does not support it. Sent
    before anything else is received."""

    text: str
    """Description of what was omitted, for the user."""
    error: ErrorInfo | None = None
    """The refusal; None if the limitation was known without one."""


class Alive(msgspec.Struct, frozen=True):
    """Data arrived that contains nothing to show yet, such as a keep-alive."""


ModelEvent = (
    TextPiece | ReasoningPiece | ReasoningDone | TextWasThought | CallStart | CallPiece | UsageReport | Finished
    | Retrying | Adjusted | Alive
)  # fmt: skip


class Answer(msgspec.Struct, frozen=True):
    """A complete answer, assembled from its events."""

    text: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish: Finish = "interrupted"
    raw_finish: str = ""


ErrorKind = Literal[
    "auth", "permission", "quota", "not_found", "bad_request", "context_overflow", "too_large",
    "rate_limit", "overloaded", "server", "timeout", "stalled", "connection", "truncated", "malformed",
    "content_filter", "unsupported", "not_api",
]  # fmt: skip

RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"rate_limit", "overloaded", "server", "timeout", "stalled", "connection", "truncated", "malformed", "not_api"}
)


class ModelError(Exception):
    """A model call failed.

    Attributes:
        kind: the kind of failure, from a closed set.
        message: the provider's own message.
        status: HTTP status, if any.
        sorted_as: the status used for classification: `status`, or for an error inside a successful response
            the status that its text stands for.
        retry_after_s: seconds the provider asked to wait.
        request_id: the provider's id of the request.
        limit_tokens: the real context window, if an overflow error names it.
        usage: known usage of the failed attempt.
        message_id: the conversation message that the provider refuses, if it names one.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        limit_tokens: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.status = status
        self.sorted_as = status
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.limit_tokens = limit_tokens
        self.usage = usage
        self.message_id = ""

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.kind in RETRYABLE


class NotSent(ModelError):
    """The request could not be built; the message is complete and not from a provider."""


class Memory(Protocol):
    """Storage for learned limits, across sessions."""

    def recall(self, key: str) -> LearnedLimits:
        """Return what is known about a model; an empty value if nothing is. Never raises."""

    def learn(self, key: str, learned: LearnedLimits) -> None:
        """Merge limits with those known. Never raises: limits that cannot be stored are learned again."""

    def replace(self, key: str, learned: LearnedLimits) -> None:
        """Replace the known limits. Never raises."""


Trace = Callable[[str, dict[str, Any]], None]
"""Receives the model's name and the body of each request before it is sent."""


class Model(Protocol):
    """A language model. `stream` may be cancelled at any await and leaves no connection open."""

    @property
    def info(self) -> ModelInfo: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Make one call.

        Raises:
            ModelError: the call failed; nothing received before may be acted upon.
        """

    async def reach(self) -> None:
        """Check that a server on this machine or network is reachable; others are assumed to be.

        Raises:
            ModelError: it is not reachable.
        """

    def forget_effort(self) -> None:
        """Forget refused efforts: another one was chosen and is to be tried."""

    async def aclose(self) -> None:
        """Close connections."""


class Unconnected:
    """Base class of models without a connection of their own: always reachable, nothing learned, nothing to
    close."""

    async def reach(self) -> None:
        """Do nothing."""

    def forget_effort(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class Fallback(msgspec.Struct, frozen=True):
    """A part of a request to omit or change if a model turns out not to support it."""

    name: str
    """Name stored in `LearnedLimits.refused`."""
    words: re.Pattern[str]
    """Pattern that matches refusals of this part."""
    text: str
    """Message for the user."""
    statuses: tuple[int, ...] = (400, 422)
    lasting: bool = True
    """True if it applies to the model whatever is sent, so that it is remembered beyond this client; otherwise it
    may concern one conversation only."""
    sure: bool = False
    """True if the pattern alone identifies a refusal, whatever the rest of the message says."""
    elsewhere: re.Pattern[str] | None = None
    """Pattern that shows that the refusal is about something else."""


def takes_pictures(learned: LearnedLimits) -> bool:
    """Return True if images are sent because none was refused so far."""
    return not {"images", "pictures"} & set(learned.refused)

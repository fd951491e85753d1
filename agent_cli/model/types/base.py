"""The one protocol every model client fulfils, and the values it speaks in.

A client turns a provider-neutral `ModelRequest` into its wire format and the provider's stream into
`ModelEvent`s. It reports an end only when the provider said so: a stream that stops without one raises
`ModelError("truncated")`. Nothing outside this package sees a provider's own shapes.
"""

import re
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, Protocol

import msgspec

from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.learned import LearnedLimits as LearnedLimits
from agent_cli.protocol.messages import AssistantMessage, Finish, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import Usage

from .info import ModelInfo as ModelInfo
from .info import Prices as Prices


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""


class ModelRequest(msgspec.Struct, frozen=True):
    """Everything one call sends. `messages` is valid: each call is answered once, right behind the
    assistant message that made it, and its arguments are a JSON object."""

    system: str
    messages: tuple[UserMessage | AssistantMessage | ToolResult, ...]
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """False: the answer must be text. The tools are still sent, so that the request keeps its prefix."""
    must_call: str = ""
    """The tool that the answer has to call; empty where that is up to the model."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema of an object that the answer has to fit, where the server can hold the model to it; the model is
    told of it besides. It binds texts, not calls."""
    effort: str = ""
    """none, minimal, low, medium, high, xhigh, max; empty leaves it to the provider."""
    max_output_tokens: int | None = None
    session_id: str = ""
    """Groups the requests of one conversation, for providers that keep their cache by it."""


class TextPiece(msgspec.Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ReasoningPiece(msgspec.Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class ReasoningDone(msgspec.Struct, frozen=True):
    """A reasoning block is complete, with what must be replayed to the provider."""

    block: Reasoning


class CallStart(msgspec.Struct, frozen=True):
    """A tool call begins. `index` numbers the calls of this answer from 0 without gaps."""

    index: int
    id: str
    name: str


class CallPiece(msgspec.Struct, frozen=True):
    """More of a call: a fragment of its argument text, or of a name that arrived late."""

    index: int
    arguments: str = ""
    name: str = ""
    signature: str = ""
    """The provider's opaque proof of the thought behind the call."""
    problem: str = ""
    """Why a call that was written as text cannot be read."""


class UsageReport(msgspec.Struct, frozen=True):
    """What the call used, as the provider counts."""

    usage: Usage


class Finished(msgspec.Struct, frozen=True):
    """The provider ended the answer. `raw` is its own word for why."""

    finish: Finish
    raw: str


class Retrying(msgspec.Struct, frozen=True):
    """An attempt failed and another follows; everything received so far is void."""

    attempt: int
    """The attempt to come, 2 for the first retry."""
    delay_s: float
    error: ErrorInfo
    parked: bool = False
    """The wait is for a limit's reset far ahead, longer than retrying usually lasts."""
    usage: Usage | None = None
    """What the failed attempt is known to have used."""


class Adjusted(msgspec.Struct, frozen=True):
    """A part of the request is left out or changed, now and in future, because the model does not take it.
    Nothing has been received yet."""

    text: str
    """What was left out, for the user."""
    error: ErrorInfo | None = None
    """The refusal; None when it was known without one."""


class Alive(msgspec.Struct, frozen=True):
    """Data came that holds nothing to show yet, such as a keep-alive."""


ModelEvent = (
    TextPiece | ReasoningPiece | ReasoningDone | CallStart | CallPiece | UsageReport | Finished | Retrying
    | Adjusted | Alive
)  # fmt: skip


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, assembled from its events."""

    text: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish: Finish = "interrupted"
    raw_finish: str = ""
    attempts: int = 1


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
        kind: what went wrong, from a closed set.
        message: the provider's own words.
        status: HTTP status, where there was one.
        sorted_as: the status it was sorted by: `status`, or the one that its words stand for where it came
            inside a success.
        retry_after_s: seconds the provider asked to wait.
        request_id: the provider's id of the request.
        limit_tokens: the real context window, when an overflow error names it.
        usage: what the failed attempt is known to have used.
        message_id: the message of the conversation that the provider refuses, when it names one.
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
        """Whether the same request may succeed later."""
        return self.kind in RETRYABLE


class NotSent(ModelError):
    """No request could even be made; the message says all, and none of it was said by a provider."""


class Memory(Protocol):
    """Keeps what was learnt, across sessions."""

    def recall(self, key: str) -> LearnedLimits:
        """Return what is known of a model; an empty value when nothing is. Never raises."""
        ...

    def learn(self, key: str, learnt: LearnedLimits) -> None:
        """Keep it. Never raises: what cannot be kept is learnt again."""
        ...

    def replace(self, key: str, learnt: LearnedLimits) -> None:
        """Keep it in place of what is known. Never raises."""
        ...


Trace = Callable[[str, dict[str, Any]], None]
"""Is given the model's name and the body of each request before it is sent."""


class Model(Protocol):
    """A language model. `stream` may be cancelled at any await and leaves no connection behind."""

    @property
    def info(self) -> ModelInfo: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call.

        Raises:
            ModelError: the call failed; nothing received before it may be acted upon.
        """
        ...

    async def reach(self) -> None:
        """Ask whether a server on this machine or network is there; others are taken to be.

        Raises:
            ModelError: it is not.
        """
        ...

    def forget_effort(self) -> None:
        """Forget which efforts were refused: another one was chosen, and is to be tried."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class Fallback(msgspec.Struct, frozen=True):
    """A part of a request that a model may turn out not to take."""

    name: str
    """Kept in `LearnedLimits.refused`."""
    words: re.Pattern[str]
    """How a refusal names it."""
    text: str
    """What the user is told."""
    statuses: tuple[int, ...] = (400, 422)
    lasting: bool = True
    """It holds for the model whatever is sent, so that it is remembered beyond this client; else it may be
    about one conversation only."""
    sure: bool = False
    """The words alone tell that it is refused, whatever else is said."""
    elsewhere: re.Pattern[str] | None = None
    """What shows that the words are about something else."""


def takes_pictures(learnt: LearnedLimits) -> bool:
    """Return whether pictures are sent: none of them was refused so far."""
    return not {"images", "pictures"} & set(learnt.refused)

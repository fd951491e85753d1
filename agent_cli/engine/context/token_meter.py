"""Size of the next request: the provider's own count for the last call, plus an estimate of what was added since.
Never a sum over calls."""

from collections.abc import Callable, Iterable

import msgspec

from agent_cli.model.types.base import ModelInfo, ToolSpec
from agent_cli.protocol.client import ContextPart
from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage, begins_with
from agent_cli.protocol.usage import CHARS_PER_TOKEN
from agent_cli.session.session import Session
from agent_cli.tools.kit.output import MAX_RESULT_TOKENS
from agent_cli.tools.registry import PRESETS, Registry

DEFAULT_WINDOW = 128_000
"""Assumed for decisions when the model's window is unknown; never displayed."""
_MESSAGE_OVERHEAD = 4
IMAGE_TOKENS = 1_500
"""Estimated tokens of an image."""
_MARGIN = 0.05
_RESERVED_OUTPUT = 8_000
_RESULT_SHARE = 6
"""One tool result gets at most this fraction (1/n) of the space for the conversation."""
_LEAST_RESULT_TOKENS = 500
_INSTRUCTIONS = "\n\n# Instructions from "
"""Start of the project's own part of a system prompt."""
_QUICKLY = 500
"""Maximum number of messages for which the ratio is computed after a call."""
_MOST_OFF = 2.5
"""Maximum factor by which an estimate is assumed to be off."""


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per four characters, at least 1 if it is not empty."""
    return -(-len(text) // CHARS_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    match message:
        case UserMessage():
            size = text_tokens(message.lead + message.text) + IMAGE_TOKENS * len(message.images)
        case AssistantMessage():
            size = text_tokens(message.text)
            size += sum(text_tokens(call.name + call.arguments) + 8 for call in message.calls)
            size += sum(text_tokens(block.text) for block in message.reasoning if block.signature or block.field)
        case ToolResult():
            size = text_tokens(message.text) + IMAGE_TOKENS * len(message.images)
    return size + _MESSAGE_OVERHEAD


def estimate(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages."""
    return sum(message_tokens(message) for message in messages)


class OfferedTools:
    """The tools offered in a session's requests: all of them, unless the window turns out to be too small."""

    def __init__(self, session: Session, registry: Registry) -> None:
        self._session = session
        self.specs = tuple(ToolSpec(each.name, each.description, each.parameters) for each in registry.specs())

    def drop_unused(self) -> tuple[str, ...]:
        """Offer only the basic tools and those already called, and return the names of the others. Those still run
        if called."""
        messages = self._session.visible()
        called = {call.name for each in messages if isinstance(each, AssistantMessage) for call in each.calls}
        kept = called.union(PRESETS["core"])
        gone = tuple(each.name for each in self.specs if each.name not in kept)
        self.specs = tuple(each for each in self.specs if each.name in kept)
        return gone


class TokenMeter:
    """Measures one session for the model in use."""

    def __init__(
        self, session: Session, info: Callable[[], ModelInfo], tools: Callable[[], tuple[ToolSpec, ...]]
    ) -> None:
        self._session = session
        self._info = info
        self._tools = tools
        self._learned: dict[str, int] = {}
        self._ratio = 1.0
        """Tokens by the provider's count per estimated token."""
        self._refused_ratio = 0.0
        """The ratio at which a refused request fills the window; 0 once a call has reported a size again."""
        self._learned_from = ""
        """Id of the call that `_ratio` was computed from."""
        self._distrusted = ""
        """Id of the last call if its count is known to be wrong."""
        self._counted: tuple[tuple[Message, ...], int] = ((), 0)
        """The messages estimated last, and their tokens. The next request begins with them."""
        self._offered: tuple[tuple[ToolSpec, ...], int] = ((), 0)
        """The offered tools, and their tokens."""

    def window(self) -> int | None:
        """Return the context window in tokens, if known."""
        info = self._info()
        return self._learned.get(info.name) or info.context_window

    def learn_window(self, tokens: int) -> None:
        """Record the real window of the model in use, as stated by a provider in an error."""
        self._learned[self._info().name] = tokens

    def budget(self) -> int:
        """Return the tokens that a request may have: the window minus reserved output and a margin."""
        window = self.window() or DEFAULT_WINDOW
        reserved = min(self._info().max_output_tokens or _RESERVED_OUTPUT, _RESERVED_OUTPUT, window // 4)
        return int((window - reserved) * (1 - _MARGIN))

    def result_tokens(self) -> int:
        """Return the maximum tokens of one tool result: a share of the window, so that results do not swamp a
        small one."""
        return min(MAX_RESULT_TOKENS, max(_LEAST_RESULT_TOKENS, self.budget() // _RESULT_SHARE))

    def tokens(self) -> int:
        """Estimate the size of the next request for decisions. After a refusal as too large, the request counts as
        filling the window."""
        return max(self.shown_tokens(), int(self._estimated() * self._refused_ratio))

    def shown_tokens(self) -> int:
        """Estimate the size of the next request for display."""
        last = self._session.view.last_call
        if last is not None and last[1].id != self._distrusted:
            index, call = last
            known = call.usage.context if call.usage else None
            if known is not None and call.model == self._info().name:
                self._refused_ratio = 0.0
                new = self._added_since(index)
                added = estimate(new)
                self._learn_ratio(call.id, known, added)
                pictures = IMAGE_TOKENS * sum(len(m.images) for m in new if not isinstance(m, AssistantMessage))
                return known + pictures + int((added - pictures) * self._ratio)
        return int(self._estimated() * self._ratio)

    def _learn_ratio(self, call_id: str, known: int, added: int) -> None:
        """Compute the ratio of the provider's count to the estimate after a call, unless that would be slow."""
        if call_id != self._learned_from and len(self._session.visible()) <= _QUICKLY:
            self._learned_from = call_id
            ratio = known / max(1, self._estimated() - added)
            self._ratio = min(_MOST_OFF, max(1 / _MOST_OFF, ratio))

    def was_refused(self) -> None:
        """Record that the provider refused a request as too large although it was measured to fit. It counts as
        filling the window until a call reports a size again."""
        last = self._session.view.last_call
        self._distrusted = last[1].id if last else ""
        full = self.window() or self.budget()
        self._refused_ratio = max(self._ratio, full / max(1, self._estimated()))

    def tokens_after(self, before: int, after: int) -> int:
        """Return the size of the next request once messages estimated at `before` are estimated at `after`."""
        return int(self.tokens() - (before - after) * max(self._ratio, self._refused_ratio))

    def at_least(self) -> int:
        """Return a likely lower bound for the next request; 0 if the provider's own count shows that its window is
        larger than known."""
        last = self._session.view.last_call
        taken = last[1].usage.context if last and last[1].usage else None
        window = self.window()
        return 0 if taken and window and taken > window else self._estimated()

    def _estimated(self) -> int:
        fixed = text_tokens(self._session.header.system) + self._tool_tokens()
        visible = self._session.visible()
        before, tokens = self._counted
        if not begins_with(visible, before):
            before, tokens = (), 0
        self._counted = visible, tokens + sum(map(message_tokens, visible[len(before) :]))
        return fixed + self._counted[1]

    def source(self) -> str:
        """Describe how `tokens` was determined."""
        return "last response + estimate" if self._session.view.last_call else "estimate"

    def parts(self) -> tuple[ContextPart, ...]:
        """Return the estimated contents of the window by kind."""
        own, _, given = self._session.header.system.partition(_INSTRUCTIONS)
        sums = {
            "system prompt": text_tokens(own),
            "tools": self._tool_tokens(),
            "instructions": text_tokens(given),
        }
        for message in self._session.visible():
            name = part_of(message)
            attached = 0
            if isinstance(message, UserMessage) and message.attachments:
                attached = sum(text_tokens(each.text) for each in message.attachments)
                sums["attached files"] = sums.get("attached files", 0) + attached
            sums[name] = sums.get(name, 0) + message_tokens(message) - attached
        return tuple(ContextPart(name, tokens) for name, tokens in sums.items())

    def _added_since(self, index: int) -> list[Message]:
        """Return the messages after a call, without the answer it produced, which its usage already includes."""
        added = [
            record
            for record in self._session.records[index + 1 :]
            if isinstance(record, UserMessage | AssistantMessage | ToolResult)
        ]
        return added[1:] if added and isinstance(added[0], AssistantMessage) else added

    def _tool_tokens(self) -> int:
        tools = self._tools()
        if self._offered[0] is not tools:
            self._offered = (tools, text_tokens(msgspec.json.encode(tools).decode()))
        return self._offered[1]


def part_of(message: Message) -> str:
    """Return the name of the window part that a message belongs to."""
    if isinstance(message, ToolResult):
        return "tool results"
    if isinstance(message, AssistantMessage):
        return "answers and calls"
    return {"human": "your messages", "summary": "summary"}.get(message.origin, "hints")

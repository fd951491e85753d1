"""Steps of a session, computed from its records: the parts of each request, the usage and cost so far, and the
points where the provider's cache was lost. Pure.

Requests are not recorded as a whole. Their contents are estimated from the messages sent at that moment; the rest
of the provider's count is `rest`: tool definitions, reasoning, and estimation errors.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from agent_cli.protocol.records import (
    REWRITES,
    AnyRecord,
    CompactionSaved,
    Header,
    ModelCalled,
    Shortened,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.protocol.usage import CHARS_PER_TOKEN, Usage

from .costs import is_cache_lost, long_pause
from .projection import Projection

Origin = Literal[
    "system", "prompts", "attachments", "answers", "files", "commands", "other_tools", "summaries", "rest"
]
"""Part of a request. `system`: the system prompt with its instructions. `prompts`: the user's text, and the facts
and hints sent with it. `files`: results of tools that read or change files."""
ORIGINS: tuple[Origin, ...] = get_args(Origin)

_COMMANDS = frozenset({"shell", "jobs"})
_FILES = frozenset("read_file write_file edit_file apply_patch list_dir grep glob repo_map edit_notebook".split())


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One model call of the conversation, with the state after it ended."""

    number: int
    """Number among all model calls of the session, from 1."""
    time: float
    model: str
    turn_id: str
    usage: Usage | None
    cost_usd: float | None
    spent_usd: float | None
    """Cost of all calls so far, including those of sub-agents and compactions; None until a call reports its
    cost."""
    parts: dict[Origin, int]
    """Estimated tokens of the request by origin. They add up to the provider's count if there is one."""
    tools: dict[str, int] = {}
    """Estimated tokens of each tool's results in the request."""
    compacted: bool = False
    """True if messages were summarized or shortened since the previous step."""
    cache_lost: str = ""
    """Why much less was read from the cache than in the previous step; empty if that is not the case."""

    @property
    def cached_share(self) -> float | None:
        """Share of the request that was read from the provider's cache, 0 to 1."""
        return self.usage.cached_share if self.usage else None


def steps_of(records: Iterable[AnyRecord]) -> Iterator[Step]:
    """Yield the steps of a session; the first record is its header."""
    meter = _Meter()
    spent: float | None = None
    number = 0
    before: ModelCalled | None = None
    broken = ""
    compacted = False
    for record in records:
        meter.add(record)
        if isinstance(record, REWRITES):
            broken = _reason(record)
            compacted = compacted or isinstance(record, CompactionSaved | Shortened)
        if not isinstance(record, ModelCalled):
            continue
        number += 1
        if record.cost_usd is not None:
            spent = (spent or 0.0) + record.cost_usd
        if record.kind == "main" and record.usage is not None:
            yield Step(
                number=number, time=record.time, model=record.model, turn_id=record.turn_id, usage=record.usage,
                cost_usd=record.cost_usd, spent_usd=spent, parts=meter.parts(record.usage), compacted=compacted,
                tools=meter.tools(), cache_lost=_cache_lost(before, record, broken),
            )  # fmt: skip
            before, broken, compacted = record, "", False


def _cache_lost(before: ModelCalled | None, now: ModelCalled, broken: str) -> str:
    """Return why a step read much less from the cache than the previous one; empty if it did not."""
    if before is None or before.usage is None or now.usage is None:
        return ""
    if not is_cache_lost(before.usage, now.usage):
        return ""
    if before.model != now.model:
        return "another model"
    return broken or long_pause(before, now) or "for no recorded reason"


def _reason(record: AnyRecord) -> str:
    match record:
        case CompactionSaved() | Shortened():
            return "compaction"
        case TurnsUndone() | TurnsRedone():
            return "undo or redo"
        case _:
            return "earlier messages were changed"


class _Meter:
    """Estimates the parts of the next request."""

    def __init__(self) -> None:
        self._records: list[AnyRecord] = []
        self._system = 0
        self._chars: dict[Origin, int] = dict.fromkeys(ORIGINS, 0)
        self._of_tools: dict[str, int] = {}
        self._view = Projection(self._records, Path("/"), lambda: self._records)

    def add(self, record: AnyRecord) -> None:
        """Process one record."""
        self._records.append(record)
        self._view.update()
        if isinstance(record, Header):
            self._system = len(record.system)
        if isinstance(record, UserMessage | AssistantMessage | ToolResult):
            self._count(record)
        elif isinstance(record, REWRITES):
            self._chars, self._of_tools = dict.fromkeys(ORIGINS, 0), {}
            for message in self._view.visible():
                self._count(message)

    def tools(self) -> dict[str, int]:
        """Return the estimated tokens of each tool's results in the next request."""
        return {tool: chars // CHARS_PER_TOKEN for tool, chars in self._of_tools.items()}

    def parts(self, usage: Usage) -> dict[Origin, int]:
        """Return the tokens of a request by origin, scaled to add up to the provider's count."""
        tokens = {origin: chars // CHARS_PER_TOKEN for origin, chars in self._chars.items()}
        tokens["system"] += self._system // CHARS_PER_TOKEN
        estimated = sum(tokens.values())
        if (sent := usage.sent) is None:
            return tokens
        if sent >= estimated:
            tokens["rest"] = sent - estimated
        else:
            tokens = {origin: count * sent // estimated for origin, count in tokens.items()}
            tokens["rest"] = sent - sum(tokens.values())
        return tokens

    def _count(self, message: Message) -> None:
        match message:
            case UserMessage(origin="summary"):
                self._chars["summaries"] += len(message.text)
            case UserMessage():
                self._chars["prompts"] += len(message.text) + len(message.context)
                self._chars["attachments"] += sum(len(each.text) for each in message.attachments)
            case AssistantMessage():
                self._chars["answers"] += len(message.text) + sum(len(each.arguments) for each in message.calls)
            case ToolResult():
                origin: Origin = "files" if message.tool in _FILES else "other_tools"
                self._of_tools[message.tool] = self._of_tools.get(message.tool, 0) + len(message.text)
                self._chars["commands" if message.tool in _COMMANDS else origin] += len(message.text)

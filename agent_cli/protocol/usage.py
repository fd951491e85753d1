"""Token counts and costs of model calls, and limits that servers state. Unknown values are None, never 0: a call
without a report has an unknown cost."""

from typing import Literal, get_args

import msgspec

CHARS_PER_TOKEN = 4
"""Characters of text, or bytes of UTF-8, per token: an estimate for English and code, used without a real
count."""
CallKind = Literal["main", "summary", "limit", "sampling", "subagent"]
"""Purpose of a model call: a step, a compaction, the closing summary when a limit is reached, a request of an MCP
server, or a sub-agent."""
NON_CONVERSATION_KINDS: frozenset[CallKind] = frozenset({"summary", "sampling", "subagent"})
"""Calls whose answers are not part of the conversation."""


class Tokens(msgspec.Struct, frozen=True):
    """Token counts by kind. `input` excludes tokens read from or written to the cache."""

    input: int | None = None
    output: int | None = None
    """Includes reasoning."""
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    @property
    def sent(self) -> int | None:
        """All input tokens, including those read from or written to the cache."""
        return None if self.input is None else self.input + (self.cache_read or 0) + (self.cache_write or 0)

    @property
    def known(self) -> int:
        """All tokens, sent and answered; unknown counts add nothing."""
        return sum(count or 0 for count in (self.input, self.output, self.cache_read, self.cache_write))

    @property
    def cached_share(self) -> float | None:
        """Share of the sent tokens that was read from the provider's cache, 0 to 1."""
        return self.cache_read / self.sent if self.cache_read is not None and self.sent else None


class Usage(Tokens, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one model call."""

    @property
    def context(self) -> int | None:
        """Tokens that the next request starts with: everything sent plus everything answered."""
        return None if self.sent is None else self.sent + (self.output or 0)


class UsageTotals(Tokens, frozen=True):
    """Token totals of the run; null where no provider reported them."""

    requests: int = 0


class Totals(UsageTotals, frozen=True):
    """Sums over model calls of all kinds. A field stays None until a call reports it."""

    cost_usd: float | None = None
    unpriced: int = 0
    """Number of calls with unknown cost; if not 0, `cost_usd` is a lower bound."""
    at_most_usd: float = 0.0
    """Upper bound of the cost of calls with unknown cost, beyond `cost_usd`, as far as prices are known."""
    unmetered: int = 0
    """Number of calls with unknown cost that reported no tokens; if not 0, the counts are lower bounds."""

    def plus(self, usage: Usage | None, cost_usd: float | None, at_most_usd: float | None = None) -> "Totals":
        """Return the totals plus one more call. A call without usage still counts as a request."""
        unmetered = usage is None and cost_usd is None
        usage = usage or Usage()
        return Totals(
            input=_add(self.input, usage.input),
            output=_add(self.output, usage.output),
            cache_read=_add(self.cache_read, usage.cache_read),
            cache_write=_add(self.cache_write, usage.cache_write),
            reasoning=_add(self.reasoning, usage.reasoning),
            requests=self.requests + 1,
            cost_usd=self.cost_usd if cost_usd is None else (self.cost_usd or 0.0) + cost_usd,
            unpriced=self.unpriced + (cost_usd is None),
            at_most_usd=self.at_most_usd + (at_most_usd or 0.0),
            unmetered=self.unmetered + unmetered,
        )

    def since(self, before: "Totals") -> "Totals":
        """Return the difference from earlier totals; a field that was never reported stays unknown. If calls were
        added but no input tokens, nothing was reported at all."""
        silent = self.requests > before.requests and self.input == before.input

        def gain(new: int | None, old: int | None) -> int | None:
            return None if new is None or silent else new - (old or 0)

        cost = None if self.cost_usd is None else self.cost_usd - (before.cost_usd or 0.0)
        requests, unpriced = self.requests - before.requests, self.unpriced - before.unpriced
        return Totals(
            input=gain(self.input, before.input),
            output=gain(self.output, before.output),
            cache_read=gain(self.cache_read, before.cache_read),
            cache_write=gain(self.cache_write, before.cache_write),
            reasoning=gain(self.reasoning, before.reasoning),
            requests=requests,
            cost_usd=None if requests and unpriced == requests else cost,
            unpriced=unpriced,
            at_most_usd=self.at_most_usd - before.at_most_usd,
            unmetered=self.unmetered - before.unmetered,
        )


class CostLine(msgspec.Struct, frozen=True):
    """Cost of one model for one cause."""

    cause: str
    """`turns`, `summaries`, `closing words`, `sub-agents`, `MCP servers` or `failed attempts`."""
    model: str
    totals: Totals


def _add(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[str, ...] = get_args(Effort)
"""Levels of reasoning effort, ascending."""
REFUSABLE = frozenset(
    {
        "tools", "strict", "effort", "tool_choice", "images", "cache_marks", "stream_options", "max_tokens",
        "reasoning", "no_reasoning", "include", "summary", "prompt_cache_key", "phase",
        "repeated_roles", "system_role",
    }
)  # fmt: skip
"""Parts of a request that may be remembered as refused: the names of all permanent `dialect.Repair` values."""
MOST_TOKENS = 100_000_000
"""A larger number is not a plausible context window or output limit."""


class LearnedLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server revealed about one model by refusing requests."""

    context_window: int | None = None
    """Tokens, as stated in an overflow error."""
    refused: tuple[str, ...] = ()
    """Parts of a request that the server does not accept, by the names of `dialect.Repair`."""
    efforts: tuple[str, ...] | None = None
    """The effort levels that the server lists as supported."""
    max_output_tokens: int | None = None
    """Maximum tokens of an answer, as stated when a larger limit was refused."""

    def merged(self, newer: "LearnedLimits") -> "LearnedLimits":
        """Return these limits updated with newer ones, perhaps learned by another process: refusals accumulate,
        and newer numbers replace older ones."""
        return LearnedLimits(
            newer.context_window or self.context_window,
            (*self.refused, *(name for name in newer.refused if name not in self.refused)),
            newer.efforts if newer.efforts is not None else self.efforts,
            newer.max_output_tokens or self.max_output_tokens,
        )

    def sound(self) -> "LearnedLimits":
        """Return a copy without meaningless values: unknown names and impossible numbers."""
        efforts = tuple(name for name in EFFORTS if name in (self.efforts or ()))
        return LearnedLimits(
            _tokens(self.context_window),
            tuple(dict.fromkeys(name for name in self.refused if name in REFUSABLE)),
            efforts or None,
            _tokens(self.max_output_tokens),
        )


def _tokens(count: int | None) -> int | None:
    return count if count is not None and 1 <= count <= MOST_TOKENS else None

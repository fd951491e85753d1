"""Limits learned from refused requests: a value that `model` creates and `store` saves."""

import msgspec

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
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

"""What servers teach by refusing something: a value that the model room makes and the store keeps."""

import msgspec

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model may be asked to think, rising."""
REFUSABLE = frozenset(
    {
        "tools", "strict", "effort", "tool_choice", "images", "cache_marks", "stream_options", "max_tokens",
        "reasoning", "no_reasoning", "include", "summary", "prompt_cache_key", "phase",
        "repeated_roles", "system_role",
    }
)  # fmt: skip
"""Parts of a request that may be remembered as refused: the names of every lasting `dialect.Repair`."""
MOST_TOKENS = 100_000_000
"""A figure beyond it is no window and no answer's length."""


class LearnedLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server taught about one model by refusing something."""

    context_window: int | None = None
    """Tokens, as an overflow error named it."""
    refused: tuple[str, ...] = ()
    """Parts of a request it does not take, by the names of `dialect.Repair`."""
    efforts: tuple[str, ...] | None = None
    """The efforts it said it knows."""
    max_output_tokens: int | None = None
    """The longest answer, as a refused limit named it."""

    def merged(self, newer: "LearnedLimits") -> "LearnedLimits":
        """This and what was learnt since, perhaps by another program: refusals add up, figures are the
        newer ones."""
        return LearnedLimits(
            newer.context_window or self.context_window,
            (*self.refused, *(name for name in newer.refused if name not in self.refused)),
            newer.efforts if newer.efforts is not None else self.efforts,
            newer.max_output_tokens or self.max_output_tokens,
        )

    def sound(self) -> "LearnedLimits":
        """Return the same without what can mean nothing: unknown names, impossible figures."""
        efforts = tuple(name for name in EFFORTS if name in (self.efforts or ()))
        return LearnedLimits(
            _tokens(self.context_window),
            tuple(dict.fromkeys(name for name in self.refused if name in REFUSABLE)),
            efforts or None,
            _tokens(self.max_output_tokens),
        )


def _tokens(count: int | None) -> int | None:
    return count if count is not None and 1 <= count <= MOST_TOKENS else None

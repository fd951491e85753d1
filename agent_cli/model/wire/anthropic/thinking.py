"""Differences between the models with the Anthropic Messages format, as data: how thinking is controlled, and the
maximum answer length if nothing else is known.

Sources: Anthropic's documentation of thinking, effort and the migration guides of each model.
"""

import re
from typing import Literal

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex


class Thinking(msgspec.Struct, frozen=True):
    """Thinking controls of a family of models."""

    kind: Literal["none", "budget", "adaptive"]
    """`budget`: a number of tokens. `adaptive`: the model decides, guided by an effort."""
    efforts: tuple[str, ...] = ()
    """Supported efforts; others are mapped to the nearest lower one."""
    by_default: bool = False
    """True if it thinks unless told otherwise, without showing it unless asked."""
    off: Literal["disabled", "between_tools", ""] = "disabled"
    """The type that switches thinking off; empty if it cannot be. `between_tools` leaves the short notes between
    tool calls."""


_ALL = ("low", "medium", "high", "xhigh", "max")
_FAMILIES: tuple[tuple[str, Thinking], ...] = (
    (r"haiku-5", Thinking("adaptive", _ALL, by_default=True)),
    (r"sonnet-5-5", Thinking("adaptive", _ALL, by_default=True, off="between_tools")),
    (r"fable|mythos|(opus|sonnet)-5-[1-9]", Thinking("adaptive", _ALL, by_default=True, off="")),
    (r"(opus|sonnet)-5", Thinking("adaptive", _ALL, by_default=True)),
    (r"opus-4-[78]", Thinking("adaptive", _ALL)),
    (r"(opus|sonnet)-4-6", Thinking("adaptive", ("low", "medium", "high", "max"))),
    (r"(opus|sonnet|haiku)-4|claude-3-7", Thinking("budget")),
    (r"claude-(instant|[123])", Thinking("none")),
    (r"claude-", Thinking("adaptive", _ALL)),
    (r"", Thinking("budget")),
)
"""Patterns of model names, first match wins; the last row is for other vendors' models with this format."""

BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
"""Tokens for each effort, for models that take a budget."""
LEAST_BUDGET = 1024

_ANSWERS: tuple[tuple[str, int], ...] = (
    (r"claude-3-5", 8192),
    (r"claude-(instant|2|3-(haiku|sonnet|opus))", 4096),
    (r"", 32_000),
)
"""Maximum answer length for models missing from the catalogue, in tokens. A value that is too large is refused
with the limit named.
"""

_MUST_FIT = lazy_regex(r"claude-(instant|[123])|(opus|sonnet|haiku)-4(?!-?[5-9](?!\d))")
"""Models before Claude 4.5, which refuse a request if prompt and maximum answer together exceed the window; newer
ones end the answer when the window is full."""


def must_fit(model: str) -> bool:
    """Return True if prompt and maximum answer must fit the window together."""
    return _MUST_FIT.search(model.lower().replace(".", "-")) is not None


def thinking_of(model: str) -> Thinking:
    """Return how a model's thinking is controlled."""
    name = model.lower().replace(".", "-")
    return next(thinking for pattern, thinking in _FAMILIES if re.search(pattern, name))


def longest_answer(model: str) -> int:
    """Return the maximum answer length in tokens if nothing else is known."""
    name = model.lower().replace(".", "-")
    return next(tokens for pattern, tokens in _ANSWERS if re.search(pattern, name))

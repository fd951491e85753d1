"""Known facts about a model: sizes, capabilities and prices, each figure with its source.

Separate from the catalogue because several sources add facts over the life of a client: each source gives a
`Facts`, and `ModelInfo.plus` keeps the better source's value for every figure.
"""

from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec

from agent_cli.protocol.usage import Usage

Source = Literal["configuration", "learnt", "server", "catalogue", "litellm", "unknown"]
"""Best first. `learnt`: a server named the figure when it refused a request."""
_RANK: dict[str, int] = {source: place for place, source in enumerate(get_args(Source))}
_PER_MILLION = 1_000_000


class Rates(msgspec.Struct, frozen=True, omit_defaults=True):
    """Prices in US dollars per million tokens; None if unknown."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    """For writes to a cache that lasts an hour instead of minutes."""

    def dearest_input(self) -> float | None:
        """Return the highest possible price of a prompt token; None if the plain price is unknown."""
        if self.input is None:
            return None
        return max(self.input, self.cache_write or 0.0, self.cache_read or 0.0)


RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


class LongPrompt(msgspec.Struct, frozen=True):
    """Rates for a whole request whose prompt exceeds a limit."""

    above: int
    """Prompt tokens, including cached ones."""
    rates: Rates
    """A rate of None is the same as for short prompts."""


class Prices(Rates, frozen=True, omit_defaults=True):
    """Prices of a model."""

    long: tuple[LongPrompt, ...] = ()
    """Higher rates for long prompts, by increasing limit."""

    def rates_for(self, prompt_tokens: int) -> Rates:
        """Return the rates for a request by prompt length, including cached tokens."""
        rates: Rates = self
        for tier in self.long:
            if prompt_tokens > tier.above:
                own = {name: getattr(tier.rates, name) for name in RATES}
                rates = Rates(**{name: getattr(rates, name) if own[name] is None else own[name] for name in RATES})
        return rates


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a model from one source; None or empty if the source does not say."""

    source: Source
    context_window: int | None = None
    """In tokens."""
    max_output_tokens: int | None = None
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    prices: Prices = Prices()

    def figures(self) -> Iterator[tuple[str, Any]]:
        """Yield name and value of every known figure."""
        for name in FIGURES:
            if (value := getattr(self, name)) is not None:
                yield name, value
        for name in (*RATES, "long"):
            if (value := getattr(self.prices, name)) not in (None, ()):
                yield name, value


FIGURES = ("context_window", "max_output_tokens", "tools", "images", "reasoning", "efforts")


class ModelInfo(msgspec.Struct, frozen=True):
    """Merged facts about a model; None if unknown."""

    name: str
    """`provider/model`."""
    context_window: int | None = None
    """Tokens of prompt and answer together, or of the prompt alone if the provider defines it so."""
    max_output_tokens: int | None = None
    prices: Prices = Prices()
    tools: bool | None = None
    """True if tools are supported; the next two fields say the same of images and reasoning effort."""
    images: bool | None = None
    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    """Supported efforts."""
    sources: dict[str, Source] = {}
    """Source of each known figure: the names of `FIGURES`, of `RATES`, and `long`."""

    def source(self, figure: str) -> Source:
        """Return the source of a figure."""
        return self.sources.get(figure, "unknown")

    def plus(self, facts: Facts) -> "ModelInfo":
        """Return these facts merged with another source's. The better source wins, between equals the newer one,
        whatever the order of merging."""
        sources = dict(self.sources)
        taken: dict[str, Any] = {}
        for name, value in facts.figures():
            if _RANK[facts.source] <= _RANK[self.source(name)]:
                taken[name] = value
                sources[name] = facts.source
        rates = {name: taken.pop(name, getattr(self.prices, name)) for name in RATES}
        tiers = taken.pop("long", self.prices.long)
        prices = Prices(**rates, long=tuple(_fitting(tier, sources) for tier in tiers))
        return msgspec.structs.replace(self, **taken, prices=prices, sources=sources)

    def cost_usd(self, usage: Usage | None) -> float | None:
        """Return the price of one call, or None if a needed price or count is unknown. Cache tokens without a
        price of their own count as ordinary prompt tokens, which is seldom less than they cost."""
        if usage is None or usage.input is None or usage.output is None:
            return None
        read, write = usage.cache_read or 0, usage.cache_write or 0
        rates = self.prices.rates_for(usage.input + read + write)
        parts = (
            (usage.input, rates.input),
            (usage.output, rates.output),
            (read, rates.input if rates.cache_read is None else rates.cache_read),
            (write, rates.input if rates.cache_write is None else rates.cache_write),
        )
        if any(tokens and price is None for tokens, price in parts):
            return None
        return sum(tokens * (price or 0.0) for tokens, price in parts) / _PER_MILLION

    def worst_case_usd(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the maximum cost of a call of this size: the whole prompt at the highest prompt rate. None if a
        price is unknown."""
        rates = self.prices.rates_for(input_tokens)
        prompt = rates.dearest_input()
        if prompt is None or rates.output is None:
            return None
        return (input_tokens * prompt + output_tokens * rates.output) / _PER_MILLION


def _fitting(tier: LongPrompt, sources: dict[str, Source]) -> LongPrompt:
    """Return the tier without rates for which a better source than its own gave a price."""
    own = _RANK[sources.get("long", "unknown")]
    beaten = {name: None for name in RATES if _RANK[sources.get(name, "unknown")] < own}
    return msgspec.structs.replace(tier, rates=msgspec.structs.replace(tier.rates, **beaten)) if beaten else tier

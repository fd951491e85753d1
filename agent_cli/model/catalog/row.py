"""A model as a row of `catalog.json`, and conversion from an entry of LiteLLM's table.

Separate from the catalogue because its generator and the reader of the table share it.
"""

from typing import Any

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.info import RATES, Facts, LongPrompt, Prices, Rates, Source

_PER_MILLION = 1_000_000
_ABILITIES = {"t": "supports_function_calling", "i": "supports_vision", "r": "supports_reasoning"}
"""A small letter means yes, a capital no, a missing one unknown."""
_EFFORTS = {"n": "none", "m": "minimal", "l": "low", "d": "medium", "h": "high", "x": "xhigh", "z": "max"}
_COSTS = {
    "input": "input_cost_per_token{}",
    "output": "output_cost_per_token{}",
    "cache_read": "cache_read_input_token_cost{}",
    "cache_write": "cache_creation_input_token_cost{}",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr{}",
}
_TIER = lazy_regex(r"input_cost_per_token(_above_(\d+)k_tokens)")

Money = float | None
Tier = tuple[int, Money, Money, Money, Money, Money]
"""Token limit above which the rates apply, followed by the rates in the order of `RATES`."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """The catalogue's data on a model, prices in US dollars per million tokens."""

    window: int | None = None
    longest: int | None = None
    input: Money = None
    output: Money = None
    cache_read: Money = None
    cache_write: Money = None
    cache_write_1h: Money = None
    abilities: str = ""
    """Letters for tools, images and reasoning: `tiR` supports tools and images but not reasoning."""
    efforts: str = ""
    """One letter per supported effort; empty if unknown."""
    long: tuple[Tier, ...] = ()

    def cells(self) -> list[Any]:
        """Return the JSON cells: whole numbers without a fraction, trailing defaults omitted."""
        cells = [_plain(cell) for cell in msgspec.to_builtins(self)]
        defaults = [_plain(cell) for cell in msgspec.to_builtins(Row())]
        while cells and cells[-1] == defaults[len(cells) - 1]:
            cells.pop()
        return cells


def facts_of(row: Row, source: Source) -> Facts:
    """Return the facts in a row."""
    tiers = tuple(LongPrompt(above, Rates(*rates)) for above, *rates in row.long)
    rates = (row.input, row.output, row.cache_read, row.cache_write, row.cache_write_1h)
    efforts = tuple(name for letter, name in _EFFORTS.items() if letter in row.efforts)
    tools, images, reasoning = (
        True if letter in row.abilities else False if letter.upper() in row.abilities else None
        for letter in _ABILITIES
    )
    return Facts(
        source, row.window, row.longest, tools, images, reasoning, efforts or None, Prices(*rates, long=tiers)
    )


def row_of(entry: dict[str, Any]) -> Row:
    """Convert an entry of LiteLLM's table."""
    rates, tiers = _priced(entry)
    return Row(
        window=_whole(entry.get("max_input_tokens") or entry.get("max_tokens")),
        longest=_whole(entry.get("max_output_tokens")),
        input=rates["input"],
        output=rates["output"],
        cache_read=rates["cache_read"],
        cache_write=rates["cache_write"],
        cache_write_1h=rates["cache_write_1h"],
        abilities="".join(_letter(letter, entry.get(key)) for letter, key in _ABILITIES.items()),
        efforts=_efforts(entry),
        long=tiers,
    )


def _priced(entry: dict[str, Any]) -> tuple[dict[str, Money], tuple[Tier, ...]]:
    """Return the rates for short prompts and the tiers for longer ones. The table has tiers as fields with the
    limit in their name, or as a list of ranges."""
    ranges = entry.get("tiered_pricing")
    if isinstance(ranges, list) and ranges and "input_cost_per_token" not in entry:
        parts = [(int(part["range"][0]), _rates(part)) for part in ranges if "range" in part]
        return (parts[0][1] if parts else _rates({})), tuple(map(_tier, parts[1:]))
    bounds = sorted({int(found[2]) for key in entry if (found := _TIER.fullmatch(key))})
    tiers = [(bound * 1000, _rates(entry, f"_above_{bound}k_tokens")) for bound in bounds]
    return _rates(entry), tuple(map(_tier, tiers))


def _tier(part: tuple[int, dict[str, Money]]) -> Tier:
    above, rates = part
    return (above, *(rates[name] for name in RATES))  # type: ignore[return-value]


def _rates(entry: dict[str, Any], suffix: str = "") -> dict[str, Money]:
    return {name: _per_million(entry.get(key.format(suffix))) for name, key in _COSTS.items()}


def _per_million(price: Any) -> Money:
    return round(price * _PER_MILLION, 6) if isinstance(price, int | float) else None


def _efforts(entry: dict[str, Any]) -> str:
    """Return the letters of the efforts an entry names. An entry that mentions any level supports the usual
    three."""
    levels = entry.get("reasoning_effort_levels")
    if isinstance(levels, list) and levels:
        return "".join(letter for letter, name in _EFFORTS.items() if name in levels)
    said = {name: entry.get(f"supports_{name}_reasoning_effort") for name in _EFFORTS.values()}
    if not any(value is not None for value in said.values()):
        return ""
    usual = ("low", "medium", "high")
    return "".join(
        letter for letter, name in _EFFORTS.items() if said[name] or (said[name] is None and name in usual)
    )


def _letter(letter: str, value: Any) -> str:
    return letter if value is True else letter.upper() if value is False else ""


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _plain(cell: Any) -> Any:
    if isinstance(cell, list | tuple):
        return [_plain(each) for each in cell]
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell

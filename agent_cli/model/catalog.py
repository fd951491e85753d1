"""Context windows and prices. Order: configuration, the server's own word, the catalogue shipped with the
program, LiteLLM's table read as data when it is installed, unknown. Unknown stays None."""

import functools
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..config.schema import ModelOverride
from .base import ModelInfo, Prices

CATALOGUE = Path(__file__).with_name("catalog.json")
_LITELLM_FILE = "model_prices_and_context_window_backup.json"
_PER_MILLION = 1_000_000

Row = tuple[int | None, int | None, float | None, float | None, float | None, float | None]
"""Window, longest answer; US dollars per million tokens of input, output, cache reads, cache writes."""


def model_info(
    name: str,
    override: ModelOverride | None = None,
    *,
    reported: ModelInfo | None = None,
    deep: bool = False,
) -> ModelInfo:
    """What is known of a model; every fact from the first source that has it.

    Args:
        name: `provider/model`.
        override: what the configuration says.
        reported: what the server said of itself.
        deep: also look into LiteLLM's table (a few milliseconds).
    """
    known = _catalogued(name) or (_from_litellm(name) if deep else None) or ModelInfo(name)
    if reported is not None:
        known = _over(reported, known)
    if override is not None:
        prices = msgspec.convert(msgspec.structs.asdict(override.prices), Prices)
        given = ModelInfo(name, override.context_window, override.max_output_tokens, prices, "configuration")
        known = _over(given, known)
    return known


def known(query: str = "") -> Iterator[ModelInfo]:
    """The models of the catalogue whose name contains all words of `query`, by provider."""
    words = query.lower().split()
    for provider, models in _catalogue().items():
        for model, row in models.items():
            name = f"{provider}/{model}"
            if all(word in name.lower() for word in words):
                yield _info(name, row)


@functools.cache
def _catalogue() -> dict[str, dict[str, Row]]:
    return msgspec.json.decode(CATALOGUE.read_bytes(), type=dict[str, dict[str, Row]])


def _catalogued(name: str) -> ModelInfo | None:
    provider, _, model = name.partition("/")
    catalogue = _catalogue()
    row = catalogue.get(provider, {}).get(model)
    if row is not None:
        return _info(name, row)
    owner, slash, inner = model.partition("/")
    if not slash:
        return None
    # A router's name for another provider's model: the window is the model's, the price is the router's.
    inner = inner.partition(":")[0]
    models = catalogue.get(owner, {})
    row = models.get(inner) or models.get(inner.replace(".", "-"))
    return _info(name, (row[0], row[1], None, None, None, None)) if row else None


def _info(name: str, row: Row) -> ModelInfo:
    return ModelInfo(name, row[0], row[1], Prices(*row[2:]), "catalogue")


def _over(first: ModelInfo, second: ModelInfo) -> ModelInfo:
    """The first one's facts, the second one's where it has none."""
    pairs = zip(msgspec.structs.astuple(first.prices), msgspec.structs.astuple(second.prices), strict=True)
    prices = Prices(*(one if one is not None else other for one, other in pairs))
    window = first.context_window if first.context_window is not None else second.context_window
    longest = first.max_output_tokens if first.max_output_tokens is not None else second.max_output_tokens
    empty = first.context_window is None and first.max_output_tokens is None and first.prices == Prices()
    return ModelInfo(second.name, window, longest, prices, second.source if empty else first.source)


def litellm_table() -> Path | None:
    """LiteLLM's table, found without importing the package; None when it is not installed."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(_LITELLM_FILE)
    return path if path.is_file() else None


def row_of(entry: dict[str, Any]) -> Row:
    """A row from an entry of LiteLLM's table."""
    window = entry.get("max_input_tokens") or entry.get("max_tokens")
    prices = (
        entry.get("input_cost_per_token"),
        entry.get("output_cost_per_token"),
        entry.get("cache_read_input_token_cost"),
        entry.get("cache_creation_input_token_cost"),
    )
    longest = entry.get("max_output_tokens")
    each = tuple(None if price is None else round(price * _PER_MILLION, 6) for price in prices)
    return (_whole(window), _whole(longest), *each)  # type: ignore[return-value]


def _from_litellm(name: str) -> ModelInfo | None:
    """One entry, cut out of the file without reading the rest as JSON."""
    path = litellm_table()
    if path is None:
        return None
    text = path.read_text(encoding="utf-8")
    for key in (name, name.partition("/")[2]):
        at = text.find(f"\n    {json.dumps(key)}: {{")
        if at >= 0:
            entry, _ = json.JSONDecoder().raw_decode(text, text.index("{", at + len(key)))
            window, longest, *prices = row_of(entry)
            return ModelInfo(name, window, longest, Prices(*prices), "litellm")
    return None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None

"""Offline facts about models: the catalogue shipped with the program, else LiteLLM's table, read as data if it is
installed. Unknown values stay None, never 0."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.schema import ModelOverride
from agent_cli.protocol.json_text import decode_json

from ..types.info import Facts, ModelInfo, Prices
from .row import Row, facts_of, row_of

CATALOGUE = Path(__file__).with_name("catalog.json")
_LITELLM_FILE = "model_prices_and_context_window_backup.json"


def model_info(name: str, override: ModelOverride | None = None, *, deep: bool = False) -> ModelInfo:
    """Return the facts known about a model before its server is asked; each figure comes from the best source.

    Args:
        name: `provider/model`.
        override: values from the configuration.
        deep: also search LiteLLM's table if the catalogue has nothing (a few milliseconds).
    """
    info = ModelInfo(name)
    facts = _catalogued(name) or (_from_litellm(name) if deep else None)
    if facts is not None:
        info = info.plus(facts)
    return info if override is None else info.plus(configured(override))


def configured(override: ModelOverride) -> Facts:
    """Return the facts given in the configuration."""
    prices = msgspec.convert(msgspec.structs.asdict(override.prices), Prices)
    return Facts(
        "configuration", override.context_window, override.max_output_tokens,
        override.tools, override.images, override.reasoning, prices=prices,
    )  # fmt: skip


def known(query: str = "") -> Iterator[ModelInfo]:
    """Yield the catalogue's models whose name contains all words of `query`, grouped by provider."""
    words = query.lower().split()
    for provider, rows in _providers().items():
        for model, row in decode_json(rows, type=dict[str, Row]).items():
            name = f"{provider}/{model}"
            if all(word in name.lower() for word in words):
                yield ModelInfo(name).plus(facts_of(row, "catalogue"))


def _providers() -> dict[str, msgspec.Raw]:
    """Return the undecoded rows of each provider: usually one is needed, and decoding all would take 0.3 MB."""
    return decode_json(CATALOGUE.read_bytes(), type=dict[str, msgspec.Raw])


def _row(provider: str, *models: str) -> Row | None:
    """Return the row of the first of these models that has one."""
    rows = decode_json(_providers().get(provider, b"{}"), type=dict[str, msgspec.Raw])
    raw = next((rows[model] for model in models if model in rows), None)
    return decode_json(raw, type=Row) if raw is not None else None


def _catalogued(name: str) -> Facts | None:
    provider, _, model = name.partition("/")
    row = _row(provider, model)
    if row is not None:
        return facts_of(row, "catalogue")
    owner, slash, inner = model.partition("/")
    if not slash:
        return None
    # A router's name for another provider's model: the window is the model's, the price is the router's.
    inner = inner.partition(":")[0]
    row = _row(owner, inner, inner.replace(".", "-"))
    return msgspec.structs.replace(facts_of(row, "catalogue"), prices=Prices()) if row else None


def litellm_table() -> Path | None:
    """Return the path of LiteLLM's table, found without importing the package; None if it is not installed."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(_LITELLM_FILE)
    return path if path.is_file() else None


def _from_litellm(name: str) -> Facts | None:
    """Return one entry, cut from the file without parsing the rest as JSON."""
    import json

    path = litellm_table()
    if path is None:
        return None
    text = path.read_text(encoding="utf-8")
    for key in (name, name.partition("/")[2]):
        at = text.find(f"\n    {json.dumps(key)}: {{")
        if at >= 0:
            entry: dict[str, Any]
            entry, _ = json.JSONDecoder().raw_decode(text, text.index("{", at + len(key)))
            return facts_of(row_of(entry), "litellm")
    return None

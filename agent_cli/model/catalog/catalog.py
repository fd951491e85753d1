"""What is known of models without asking anybody: the catalogue shipped with the program, else LiteLLM's
table, read as data when it is installed. Unknown stays None, never 0."""

import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.schema import ModelOverride

from ..types.info import Facts, ModelInfo, Prices
from .row import Row, facts_of, row_of

CATALOGUE = Path(__file__).with_name("catalog.json")
_LITELLM_FILE = "model_prices_and_context_window_backup.json"


def model_info(name: str, override: ModelOverride | None = None, *, deep: bool = False) -> ModelInfo:
    """Return what is known of a model before its server is asked; every figure from the best source that has it.

    Args:
        name: `provider/model`.
        override: what the configuration says.
        deep: also look into LiteLLM's table when the catalogue has nothing (a few milliseconds).
    """
    info = ModelInfo(name)
    facts = _catalogued(name) or (_from_litellm(name) if deep else None)
    if facts is not None:
        info = info.plus(facts)
    return info if override is None else info.plus(configured(override))


def configured(override: ModelOverride) -> Facts:
    """Return what the configuration says."""
    prices = msgspec.convert(msgspec.structs.asdict(override.prices), Prices)
    return Facts(
        "configuration", override.context_window, override.max_output_tokens,
        override.tools, override.images, override.reasoning, prices=prices,
    )  # fmt: skip


def known(query: str = "") -> Iterator[ModelInfo]:
    """Yield the models of the catalogue whose name contains all words of `query`, by provider."""
    words = query.lower().split()
    for provider, models in _catalogue().items():
        for model, row in models.items():
            name = f"{provider}/{model}"
            if all(word in name.lower() for word in words):
                yield ModelInfo(name).plus(facts_of(row, "catalogue"))


@functools.cache
def _catalogue() -> dict[str, dict[str, Row]]:
    return msgspec.json.decode(CATALOGUE.read_bytes(), type=dict[str, dict[str, Row]])


def _catalogued(name: str) -> Facts | None:
    provider, _, model = name.partition("/")
    catalogue = _catalogue()
    row = catalogue.get(provider, {}).get(model)
    if row is not None:
        return facts_of(row, "catalogue")
    owner, slash, inner = model.partition("/")
    if not slash:
        return None
    # A router's name for another provider's model: the window is the model's, the price is the router's.
    inner = inner.partition(":")[0]
    models = catalogue.get(owner, {})
    row = models.get(inner) or models.get(inner.replace(".", "-"))
    return msgspec.structs.replace(facts_of(row, "catalogue"), prices=Prices()) if row else None


def litellm_table() -> Path | None:
    """LiteLLM's table, found without importing the package; None when it is not installed."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(_LITELLM_FILE)
    return path if path.is_file() else None


def _from_litellm(name: str) -> Facts | None:
    """One entry, cut out of the file without reading the rest as JSON."""
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

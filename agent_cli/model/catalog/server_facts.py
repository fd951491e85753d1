"""Facts about models parsed from the responses of servers' own endpoints. No I/O: `server_query` sends the
requests.

No shape is trusted: what a server omits, or sends in another type, stays unknown.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.usage import EFFORTS

from ..types.info import Facts, Prices
from ..types.json import Json, object_of, text_of

OLLAMA_WINDOW = 32_768
"""Context window, in tokens, requested from Ollama for a model trained for more: every token takes memory."""
_PER_MILLION = 1_000_000
_WINDOWS = (
    "max_model_len", "loaded_context_length", "context_window", "context_length", "max_context_length",
    "max_input_tokens",
)  # fmt: skip
_OUTPUTS = ("max_completion_tokens", "max_output_tokens")
_NUM_CTX = lazy_regex(r"^\s*num_ctx\s+(\d+)\s*$", re.MULTILINE)


def from_list(answer: Any, model: str) -> Facts | None:
    """Parse `GET …/models` of vLLM, OpenRouter, Groq, Mistral, Together, llama.cpp and many gateways; None if the
    model is not listed or has no facts."""
    entry = _entry(_items(answer, "data"), model)
    if entry is None:
        return None
    top, meta = object_of(entry.get("top_provider")), object_of(entry.get("meta"))
    windows = [
        _first(entry, _WINDOWS),
        _first(top, ("context_length",)),
        _first(meta, ("n_ctx", "context_window")),
    ]
    known = [window for window in windows if window is not None]
    facts = Facts(
        "server",
        context_window=min(known) if known else None,
        max_output_tokens=_first(entry, _OUTPUTS) or _first(top, _OUTPUTS),
        tools=_tools(entry),
        images=_images(entry),
        reasoning=_listed(entry, "supported_parameters", ("reasoning", "reasoning_effort", "include_reasoning")),
        prices=_prices(object_of(entry.get("pricing"))),
    )
    return facts if any(True for _ in facts.figures()) else None


def from_props(answer: Any) -> Facts | None:
    """Parse llama.cpp's `GET /props`: the context of one slot, which is what one request may fill."""
    props = object_of(answer)
    window = _first(object_of(props.get("default_generation_settings")), ("n_ctx",)) or _first(props, ("n_ctx",))
    if window is None:
        return None
    return Facts("server", window, images=_flag(object_of(props.get("modalities")), "vision"))


def from_lm_studio(answer: Any, model: str) -> Facts | None:
    """Parse LM Studio's `GET /api/v0/models`. A model that is not loaded yet has no window: the context it will be
    loaded with is a user setting there."""
    entry = _entry(_items(answer, "data"), model)
    if entry is None:
        return None
    kind = entry.get("type")
    return Facts(
        "server",
        context_window=_first(entry, ("loaded_context_length",)),
        tools=_listed(entry, "capabilities", ("tool_use",)) or None,
        images=kind == "vlm" if kind in ("llm", "vlm") else None,
    )


def from_ollama(show: Any, running: Any, model: str) -> Facts | None:
    """Parse Ollama's `POST /api/show` and `GET /api/ps`.

    The window is the one to request: the model file's own `num_ctx`, else that of the running model if it is
    larger than `OLLAMA_WINDOW` (requesting another would reload it), else `OLLAMA_WINDOW`; never more than the
    model was trained for.
    """
    shown = object_of(show)
    if not shown or "error" in shown:
        return None
    inside = object_of(shown.get("model_info"))
    trained = next(
        (size for key in inside if key.endswith(".context_length") if (size := _first(inside, (key,)))), None
    )
    pinned = _NUM_CTX.search(text_of(shown.get("parameters")))
    loaded = running_window(running, model) or 0
    wanted = int(pinned[1]) if pinned else max(loaded, OLLAMA_WINDOW)
    abilities = shown.get("capabilities")
    can = (lambda name: name in abilities) if isinstance(abilities, list) else lambda name: None
    return Facts(
        "server",
        context_window=min(wanted, trained) if trained else wanted,
        tools=can("tools"),
        images=can("vision"),
        reasoning=can("thinking"),
        efforts=_ollama_efforts(shown),
    )


def running_window(running: Any, model: str) -> int | None:
    """Return the actual context window of a model loaded by Ollama, from `GET /api/ps`; None if it is not
    loaded."""
    entry = _entry(_items(running, "models"), model, alone=False)
    return _first(entry, ("context_length",)) if entry is not None else None


def _ollama_efforts(shown: Json) -> tuple[str, ...] | None:
    """Return the named thinking levels of a model that has these instead of on and off."""
    values = object_of(shown.get("thinking")).get("values")
    names = tuple(name for name in EFFORTS if name in values) if isinstance(values, list) else ()
    return names or None


def _entry(items: Iterable[Json], model: str, *, alone: bool = True) -> Json | None:
    """Return the entry of a model; with `alone`, also a single entry of another name, because a server with one
    model often lists it under a different name."""
    items = list(items)
    for item in items:
        if model in _names(item):
            return item
    return items[0] if alone and len(items) == 1 else None


def _names(item: Json) -> Iterator[str]:
    for key in ("id", "name", "model", "canonical_slug", "root"):
        if name := text_of(item.get(key)):
            yield name
            yield name.removesuffix(":latest")
            yield f"{name}:latest"


def _items(answer: Any, key: str) -> Iterator[Json]:
    listed = answer.get(key) if isinstance(answer, dict) else answer
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict):
            yield item


def _tools(entry: Json) -> bool | None:
    said = _flag(object_of(entry.get("capabilities")), "function_calling")
    if said is None:
        said = _flag(entry, "supports_tools")
    return said if said is not None else _listed(entry, "supported_parameters", ("tools",))


def _images(entry: Json) -> bool | None:
    said = _flag(object_of(entry.get("capabilities")), "vision")
    if said is None:
        said = _flag(entry, "supports_image_input")
    return (
        said if said is not None else _listed(object_of(entry.get("architecture")), "input_modalities", ("image",))
    )


def _prices(pricing: Json) -> Prices:
    """Parse OpenRouter's prices: US dollars per token, as text; a negative price means that it varies."""
    return Prices(
        input=_money(pricing.get("prompt")),
        output=_money(pricing.get("completion")),
        cache_read=_money(pricing.get("input_cache_read")),
        cache_write=_money(pricing.get("input_cache_write")),
    )


def _money(value: Any) -> float | None:
    try:
        dollars = float(value) if isinstance(value, str) else -1.0
    except ValueError:
        return None
    return round(dollars * _PER_MILLION, 6) if 0 <= dollars < 1 else None


def _listed(entry: Json, key: str, names: tuple[str, ...]) -> bool | None:
    values = entry.get(key)
    return any(name in values for name in names) if isinstance(values, list) else None


def _first(entry: Json, keys: Iterable[str]) -> int | None:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _flag(entry: Json, key: str) -> bool | None:
    value = entry.get(key)
    return value if isinstance(value, bool) else None

"""Provider names known to LiteLLM, read from its source as text: importing it takes seconds, and only then could
it report an unknown name."""

import functools
import importlib.util
import re
from collections.abc import Collection
from pathlib import Path

_LIST = re.compile(r"^class LlmProviders\(.*?(?=^\S)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'^    \w+ = "([\w-]+)"', re.MULTILINE)


@functools.cache
def litellm_providers() -> frozenset[str]:
    """Return the prefixes of model names; empty if the package is not installed or its list has moved."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return frozenset()
    try:
        source = (Path(spec.origin).parent / "types" / "utils.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return frozenset()
    listed = _LIST.search(source)
    return frozenset(_NAME.findall(listed.group())) if listed else frozenset()


def nearest(provider: str, known: Collection[str]) -> str:
    """Return a sentence suggesting the names probably meant; empty if none is similar."""
    import difflib

    near = difflib.get_close_matches(provider, known, 3)
    return f"Did you mean {' or '.join(near)}? " if near else ""

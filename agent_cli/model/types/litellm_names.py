"""The providers LiteLLM knows, read from its source as text: importing it takes seconds, and its own answer to
an unknown name comes only after that."""

import functools
import importlib.util
import re
from collections.abc import Collection
from pathlib import Path

_LIST = re.compile(r"^class LlmProviders\(.*?(?=^\S)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'^    \w+ = "([\w-]+)"', re.MULTILINE)


@functools.cache
def litellm_providers() -> frozenset[str]:
    """Prefixes of model names; empty when the package is not installed or its list is not where it was."""
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
    """Return a sentence with the names that were probably meant; empty when none is near."""
    import difflib

    near = difflib.get_close_matches(provider, known, 3)
    return f"Did you mean {' or '.join(near)}? " if near else ""

"""TOML as other agents write it. The files come with repositories and are read before anybody is asked, so none
may keep the program busy, or be too deep for what is done with it later."""

import re
from typing import Any

from .json_comments import DEEPEST, is_deep

_MOST_PARTS = 64
_NAME = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_NAME}[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}")
"""The library needs quadratic time for the parts of a key."""


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return the content of a file.

    Raises:
        ValueError: it is not valid, or nested too deeply.
    """
    import tomllib

    text = data.decode("utf-8-sig")
    if _LONG_KEY.search(text):
        raise ValueError(f"it has a key of more than {_MOST_PARTS} parts")
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if is_deep(found):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return found

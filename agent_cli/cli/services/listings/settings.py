"""Configuration keys with their values and sources, as the front ends show them."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.bootstrap.setup import Setup
from agent_cli.config.schema import Config
from agent_cli.redaction.env_names import is_secret
from agent_cli.redaction.redactor import Redactor
from agent_cli.ui import services

_USER_INFO = re.compile(r"^(\w+://)[^/@\s]+@")
"""A user and password, or a token, in a URL."""
_UNSET = "built-in default"


def config(setup: Setup, redactor: Redactor) -> tuple[services.ConfigLine, ...]:
    """Return every key with its value and source; values that are or may be secrets are masked."""
    defaults = dict(flatten(msgspec.to_builtins(Config())))
    found = []
    for key, value in flatten(msgspec.to_builtins(setup.config)):
        place = setup.loaded.place(key)
        is_default = place == _UNSET or (key in defaults and defaults[key] == value)
        found.append(services.ConfigLine(key, shown_value(key, value, redactor), place, is_default))
    return tuple(found)


def flatten(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every leaf; an empty mapping is a leaf."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from flatten(value, f"{prefix}{key}.")
    else:
        yield prefix.rstrip("."), values


def shown_value(key: str, value: Any, redactor: Redactor) -> str:
    """Return a value as JSON without credentials. All headers are masked, variables by their names, and passwords
    in URLs."""
    *_, inner, name = ("", "", *key.split("."))
    if isinstance(value, str):
        value = _USER_INFO.sub(r"\1[masked]@", value)
    if isinstance(value, str) and (inner == "headers" or (inner == "env" and is_secret(name, value))):
        return '"[masked]"'
    return redactor.mask(msgspec.json.encode(value).decode(), assignments=True)

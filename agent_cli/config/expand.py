"""Expand variables in the configuration: `${NAME}`, and `${NAME:-default}` for optional ones.

Values are expanded only when they are used, so that displays of the configuration show the names, never the
values.
"""

from collections.abc import Mapping

from agent_cli.protocol.lazy_regex import lazy_regex

from .layer import ConfigError

_REFERENCE = lazy_regex(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, env: Mapping[str, str], key: str) -> str:
    """Replace variable references with their values.

    Args:
        text: the configuration value.
        env: environment variables.
        key: the dotted key of the value, for the message.

    Raises:
        ConfigError: a variable without a default is not set.
    """

    for name, _ in _REFERENCE.findall(text):
        if name not in env and f"${{{name}}}" in text:
            raise ConfigError(f"{key}: the variable {name} is not set; set it, or write ${{{name}:-default}}")
    return expanded(text, env)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Replace variable references with their values, unset ones with an empty string."""
    return _REFERENCE.sub(lambda found: env.get(found[1]) or found[2] or "", text)

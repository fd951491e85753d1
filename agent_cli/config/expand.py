"""Expand variables in the configuration: `${NAME}`, and `${NAME:-default}` where it may be missing.

Values are expanded when they are used, so that what shows the configuration shows the names, never what they hold.
"""

import re
from collections.abc import Mapping

from .layer import ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, env: Mapping[str, str], key: str) -> str:
    """Put in what variables hold.

    Args:
        text: the value.
        env: environment variables.
        key: the dotted key it stands at, for the message.

    Raises:
        ConfigError: a variable without a default is not set.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        if given := env.get(name) or default:
            return given
        if default is not None:
            return ""
        raise ConfigError(f"{key}: the variable {name} is not set; set it, or write ${{{name}:-default}}")

    return _REFERENCE.sub(value, text)

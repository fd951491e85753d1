#!/bin/sh
cat >settings.py <<'END'
"""Settings of the client."""

DEFAULTS = {"address": "localhost", "port": 8443, "timeout": 30}


def load(values):
    """Return the settings, with the defaults for what is not given."""
    unknown = set(values) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown settings: {sorted(unknown)}")
    settings = {**DEFAULTS, **values}
    if settings["timeout"] <= 0:
        raise ValueError("timeout must be above 0")
    settings["url"] = f"http://{settings['address']}:{settings['port']}"
    return settings
END
cat >README.md <<'END'
# Client

Settings: `address`, `port` (8443 unless given), and `timeout` in seconds (30 unless given).
END

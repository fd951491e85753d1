"""Settings of the client."""

<<<<<<< HEAD
DEFAULTS = {"host": "localhost", "port": 8080, "timeout": 30}
=======
DEFAULTS = {"address": "localhost", "port": 8443}
>>>>>>> rename-host


def load(values):
    """Return the settings, with the defaults for what is not given."""
    unknown = set(values) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown settings: {sorted(unknown)}")
    settings = {**DEFAULTS, **values}
<<<<<<< HEAD
    if settings["timeout"] <= 0:
        raise ValueError("timeout must be above 0")
    settings["url"] = f"http://{settings['host']}:{settings['port']}"
=======
    settings["url"] = f"http://{settings['address']}:{settings['port']}"
>>>>>>> rename-host
    return settings

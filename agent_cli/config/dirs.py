"""Where the agent's own files live on this machine."""

import os
from pathlib import Path

_NAME = "agent-cli"


def config_dir() -> Path:
    """Return the user's configuration folder; `AGENT_CONFIG_DIR` moves it."""
    if moved := os.environ.get("AGENT_CONFIG_DIR"):
        return Path(moved).absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir(_NAME))


def state_dir() -> Path:
    """Return the folder of sessions, checkpoints and logs; `AGENT_STATE_DIR` moves it."""
    if moved := os.environ.get("AGENT_STATE_DIR"):
        return Path(moved).absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir(_NAME))

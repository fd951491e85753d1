"""Locations of the agent's own files on this machine."""

import os
import sys
from pathlib import Path
from typing import Literal

_NAME = "agent-cli"


def config_dir() -> Path:
    """Return the user's configuration folder; `AGENT_CONFIG_DIR` overrides it.

    Raises:
        ConfigError: there is no home directory.
    """
    return _own_dir("config", ".config")


def state_dir() -> Path:
    """Return the folder of sessions, checkpoints and logs; `AGENT_STATE_DIR` overrides it.

    Raises:
        ConfigError: there is no home directory.
    """
    return _own_dir("state", ".local/state")


def _own_dir(kind: Literal["config", "state"], below_home: str) -> Path:
    """Return a folder: on Linux the XDG folder, as platformdirs has it, whose import takes a twentieth of the time
    to the first paint."""
    if moved := os.environ.get(f"AGENT_{kind.upper()}_DIR"):
        return Path(moved).absolute()
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        base, home = os.environ.get(f"XDG_{kind.upper()}_HOME", ""), os.environ.get("HOME", "")
        if os.path.isabs(base):
            return Path(base, _NAME)
        if os.path.isabs(home):
            return Path(home, below_home, _NAME)
    import platformdirs

    try:
        return Path(
            platformdirs.user_config_dir(_NAME) if kind == "config" else platformdirs.user_state_dir(_NAME)
        )
    except RuntimeError as error:  # as in a container with an arbitrary user id
        from .layer import ConfigError

        raise ConfigError(
            "there is no home directory: HOME is not set, and the user has no account here; set HOME, or"
            " AGENT_STATE_DIR and AGENT_CONFIG_DIR"
        ) from error


def plugins_dir(state: Path) -> Path:
    """Return the folder of plug-ins, beside the state folder, because sandboxed commands may read the scripts of a
    plug-in but nothing of the state."""
    return state.with_name(f"{state.name}-plugins")


def worktrees_dir(state: Path) -> Path:
    """Return the folder of git worktrees, beside the state folder, because sandboxed commands of a session in a
    worktree may write there but not to the state."""
    return state.with_name(f"{state.name}-worktrees")


def unsent_traces_dir(state: Path) -> Path:
    """Return the folder of traces not yet accepted by a collector."""
    return state / "traces"


def has_plugins(state: Path) -> bool:
    """Return True if a plug-in was ever added."""
    return os.path.exists(plugins_dir(state) / PLUGIN_LIST)


PLUGIN_LIST = "installed.json"
"""The file in the plug-in folder that lists the plug-ins."""
MANIFESTS = {
    "claude": ".claude-plugin/plugin.json",
    "codex": ".codex-plugin/plugin.json",
    "gemini": "gemini-extension.json",
}
"""Manifest files of plug-ins by product, in search order."""
MARKET_FILES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
"""Files that list the plug-ins of a marketplace."""
PLUGIN_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
"""Files of a project that may request plug-ins."""


def declares_plugins(root: Path) -> bool:
    """Return True if a file exists in which a project may declare plug-ins."""
    return any(os.path.lexists(root / name) for name in (*MANIFESTS.values(), *MARKET_FILES, *PLUGIN_SETTINGS))


SERVER_FILES_OF_PROJECTS = (
    *(".mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json", "opencode.jsonc"),
    *(".opencode/opencode.json", ".opencode/opencode.jsonc", ".cursor/mcp.json", ".vscode/mcp.json"),
)
"""Project files in which other agents define MCP servers, in order of precedence."""
SERVER_FILES_OF_USERS = (
    *(".claude.json", ".codex/config.toml", ".gemini/settings.json", ".config/opencode/opencode.json"),
    *(".config/opencode/opencode.jsonc", ".cursor/mcp.json"),
)
"""Files in a home directory in which other agents define MCP servers."""


HOOK_FILES = (
    *(".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml"),
    *(".gemini/settings.json", ".cursor/hooks.json"),
)
"""Files of a project or home directory in which other agents define hooks."""


def defines_hooks(root: Path) -> bool:
    """Return True if a file exists in which another agent may define hooks."""
    home = home_dir()
    return any(os.path.exists(folder / name) for folder in (root, home) for name in HOOK_FILES)


def home_dir() -> Path:
    """Return the user's home directory; a nonexistent path if it is unknown."""
    return Path(os.path.expanduser("~"))


def defines_servers(root: Path) -> bool:
    """Return True if a file exists in which another agent may define MCP servers."""
    home = home_dir()
    places = [
        *(root / name for name in SERVER_FILES_OF_PROJECTS),
        *(home / name for name in SERVER_FILES_OF_USERS),
    ]
    return any(map(os.path.exists, places))

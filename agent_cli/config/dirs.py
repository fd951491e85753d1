"""Where the agent's own files live on this machine."""

import os
import sys
from pathlib import Path

_NAME = "agent-cli"


def config_dir() -> Path:
    """Return the user's configuration folder; `AGENT_CONFIG_DIR` moves it."""
    if moved := os.environ.get("AGENT_CONFIG_DIR"):
        return Path(moved).absolute()
    if place := _xdg_dir("XDG_CONFIG_HOME", ".config"):
        return place
    import platformdirs

    return Path(platformdirs.user_config_dir(_NAME))


def state_dir() -> Path:
    """Return the folder of sessions, checkpoints and logs; `AGENT_STATE_DIR` moves it."""
    if moved := os.environ.get("AGENT_STATE_DIR"):
        return Path(moved).absolute()
    if place := _xdg_dir("XDG_STATE_HOME", ".local/state"):
        return place
    import platformdirs

    return Path(platformdirs.user_state_dir(_NAME))


def _xdg_dir(variable: str, below_home: str) -> Path | None:
    """Return the folder that XDG gives on Linux, as platformdirs does, whose import is a twentieth of the way to
    the first paint; None elsewhere."""
    if sys.platform != "linux" or "ANDROID_DATA" in os.environ:
        return None
    base, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if os.path.isabs(base):
        return Path(base, _NAME)
    return Path(home, below_home, _NAME) if os.path.isabs(home) else None


def plugins_dir(state: Path) -> Path:
    """Return the folder of plug-ins, beside that of the state: commands in the sandbox may read the scripts of a
    plug-in, and nothing of the state."""
    return state.with_name(f"{state.name}-plugins")


def worktrees_dir(state: Path) -> Path:
    """Return the folder of git worktrees, beside that of the state: commands in the sandbox of a session in one
    may write there, and nothing to the state."""
    return state.with_name(f"{state.name}-worktrees")


def unsent_traces_dir(state: Path) -> Path:
    """Return the folder of traces that no collector has taken yet."""
    return state / "traces"


def has_plugins(state: Path) -> bool:
    """Return whether a plug-in was ever added."""
    return os.path.exists(plugins_dir(state) / PLUGIN_LIST)


PLUGIN_LIST = "installed.json"
"""The file in that folder which names them."""
MANIFESTS = {
    "claude": ".claude-plugin/plugin.json",
    "codex": ".codex-plugin/plugin.json",
    "gemini": "gemini-extension.json",
}
"""The file that names a plug-in of a product, in the order they are looked for."""
MARKET_FILES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
"""Files that name the plug-ins of a marketplace."""
PLUGIN_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
"""Files of a project that may ask for plug-ins."""


def declares_plugins(root: Path) -> bool:
    """Return whether there is a file with which a project may declare plug-ins."""
    return any(os.path.lexists(root / name) for name in (*MANIFESTS.values(), *MARKET_FILES, *PLUGIN_SETTINGS))


SERVER_FILES_OF_PROJECTS = (
    *(".mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json", "opencode.jsonc"),
    *(".cursor/mcp.json", ".vscode/mcp.json"),
)
"""Files of a project in which other agents look for MCP servers, the nearest first."""
SERVER_FILES_OF_USERS = (
    *(".claude.json", ".codex/config.toml", ".gemini/settings.json", ".config/opencode/opencode.json"),
    ".cursor/mcp.json",
)
"""Those in a home directory."""


HOOK_FILES = (
    *(".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml"),
    *(".gemini/settings.json", ".cursor/hooks.json"),
)
"""Files of a project or a home directory in which other agents look for hooks."""


def defines_hooks(root: Path) -> bool:
    """Return whether there is a file in which another agent may define hooks."""
    home = home_dir()
    return any(os.path.exists(folder / name) for folder in (root, home) for name in HOOK_FILES)


def home_dir() -> Path:
    """Return the user's home directory; one that is not there where it is not known."""
    return Path(os.path.expanduser("~"))


def defines_servers(root: Path) -> bool:
    """Return whether there is a file in which another agent may define MCP servers."""
    home = home_dir()
    places = [
        *(root / name for name in SERVER_FILES_OF_PROJECTS),
        *(home / name for name in SERVER_FILES_OF_USERS),
    ]
    return any(map(os.path.exists, places))

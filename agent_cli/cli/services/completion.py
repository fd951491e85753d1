"""Sessions, servers and plug-ins for a shell's completion.

Apart from the commands, several of which take the id of a session.
"""

from agent_cli.config.layer import ConfigError
from agent_cli.store.session_file import StoreError

from ..setup.options import ParsedOptions, UsageError

_OFFERED = 20
_TITLE_CHARS = 60


def session_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions of this directory whose ids begin so, newest first, each with its title, which is the
    first prompt where none was given; none where they cannot be read."""
    from agent_cli.ui.text.lines import one_line

    from ..setup.setup import Setup

    try:
        setup = Setup(ParsedOptions("agent", {}))
        infos = setup.sessions.list(setup.root, limit=_OFFERED)
    except (UsageError, ConfigError, StoreError, OSError):
        return []
    return [(info.id, one_line(info.title, _TITLE_CHARS)) for info in infos if info.id.startswith(incomplete)]


def server_names(incomplete: str) -> list[str]:
    """Return the MCP servers whose names begin so; none where they cannot be read."""
    from ..setup.mcp_servers import every_server, found_servers
    from ..setup.setup import Setup

    try:
        found = found_servers(Setup(ParsedOptions("agent", {})))
    except (UsageError, ConfigError, OSError):
        return []
    return [each.name for each in every_server(found) if each.name.startswith(incomplete)]


def plugin_names(incomplete: str) -> list[str]:
    """Return the plug-ins whose names begin so; none where they cannot be read."""
    from agent_cli.extensions.plugins.plugin import PluginError

    from ..setup.plugins import store_of
    from ..setup.setup import Setup

    try:
        found = store_of(Setup(ParsedOptions("agent", {}))).installed()
    except (UsageError, ConfigError, PluginError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]

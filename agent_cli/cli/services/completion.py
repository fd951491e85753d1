"""Sessions for a shell's completion.

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

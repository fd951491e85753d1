"""`agent setup`: ask for a provider's key at a terminal, if none is set yet."""

import asyncio
import sys

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.model.routing import MissingKey, NoModel
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.serve.sessions.host import HostError, LoginNeeded
from agent_cli.ui.text.theme import is_plain

from .editor import EditorHost


def setup_command() -> int:
    """Check whether a model can be used, and ask for a key if none can."""
    return set_up(ParsedOptions("agent", {}))


def set_up(chosen: ParsedOptions) -> int:
    """Ask for a key at a terminal, unless a model can be used; return the exit code."""
    if (missing := _missing(chosen)) is None:
        print("A model can be used: nothing to set up.")
        print("To add a key of another provider, start `agent -m PROVIDER/MODEL`.", file=sys.stderr)
        return 0
    from ...services.early_result import cannot_start

    setup = Setup(chosen)
    code = cannot_start(missing)
    if is_plain(setup.config.ui, sys.stdin, sys.stdout):
        return code
    from ...services.key_entry import ask_for_key

    provider = missing.provider if isinstance(missing, MissingKey) else ""
    return 0 if ask_for_key(setup, provider) else EXIT_CODES["auth_error"]


def _missing(chosen: ParsedOptions) -> NoModel | MissingKey | None:
    try:
        asyncio.run(EditorHost(chosen).check_login())
    except LoginNeeded as error:
        assert isinstance(error.__cause__, NoModel | MissingKey)
        return error.__cause__
    except HostError as error:  # a key would not help
        raise UsageError(str(error)) from error
    return None

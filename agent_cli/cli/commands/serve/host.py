"""Open sessions for the clients of a server, with the options of its command line."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import FrontEnd, OpenSession
from agent_cli.bootstrap.setup import Embedding, Setup, with_values
from agent_cli.config.layer import ConfigError
from agent_cli.model.routing import MissingKey, NoModel
from agent_cli.model.types.base import ModelError
from agent_cli.policy.rules.rule import RuleError
from agent_cli.protocol.paths import can_be_path
from agent_cli.serve.sessions.host import Host, HostError, LoginNeeded, Opening, SavedSession
from agent_cli.store.catalog import describe
from agent_cli.store.file_names import id_in
from agent_cli.store.session_file import StoreError

from ...services.serving import RunningSession
from ...services.trust_prompt import inert_lines, pending_trust_requests

_WRONG = (UsageError, ConfigError, RuleError, NoModel, ModelError, StoreError)
_MOST_LISTED = 1000
_LEARN_AFTER_S = 0.5
"""Delay before connecting MCP servers whose tools are unknown, once the session is open."""


def check_trace(chosen: ParsedOptions) -> None:
    """Check and create the trace file of a server, which all sessions share.

    Raises:
        UsageError: it cannot be written, or its format supports only one session.
    """
    if (name := chosen.text("trace")) is None:
        return
    from agent_cli.telemetry.export.otlp_json import resource_of
    from agent_cli.telemetry.export.trace_file import TraceFileError, open_trace

    path = Path(os.path.expanduser(name)).absolute()
    if path.suffix == ".json":
        raise UsageError(f"--trace {name}: a .json file holds one session; for a server, name a .jsonl file")
    try:
        open_trace(path, resource_of()).close()
    except TraceFileError as error:
        raise UsageError(str(error)) from error


@contextmanager
def host_errors() -> Iterator[None]:
    """Raise what is wrong with a session or its settings as the error of a host."""
    try:
        yield
    except (NoModel, MissingKey) as error:
        raise LoginNeeded(str(error)) from error
    except _WRONG as error:
        raise HostError(str(error)) from error


class Opened(RunningSession):
    """A session with a running engine; see `OpenedSession`."""

    def __init__(self, setup: Setup, opened: OpenSession) -> None:
        """Use a built engine that is not running yet."""
        super().__init__(opened)
        self.setup = setup
        self.notes = (*opened.notes, *inert_lines(pending_trust_requests(setup)))


class SessionHost(Host):
    """Opens, finds and deletes saved sessions."""

    def __init__(self, chosen: ParsedOptions, front: FrontEnd) -> None:
        """`chosen` are options for every session; `front` describes what its clients can be asked."""
        self._chosen = chosen
        self._front = front

    async def open(self, opening: Opening) -> Opened:
        with host_errors():
            setup = self._setup(opening)
            opened = await Opened(setup, await open_session(setup, self._front)).begin()
        if opened.built.servers is not None:
            opened.built.servers.learn_in_background(_LEARN_AFTER_S)
        return opened

    def find(self, session_id: str) -> str:
        with host_errors():
            return id_in(Setup(self._chosen).sessions.find(session_id))

    def sessions(self, cwd: str = "") -> Sequence[SavedSession]:
        if not can_be_path(cwd):
            return ()
        with host_errors():
            found = Setup(self._chosen).sessions.list(Path(cwd) if cwd else None, _MOST_LISTED)
        return [
            SavedSession(each.id, each.cwd, each.title, each.updated, each.turns, each.cost_usd) for each in found
        ]

    def delete(self, session_id: str) -> None:
        from agent_cli.store.retention import discard

        from ..sessions.pruning import forgetting

        with host_errors():
            setup = Setup(self._chosen)
            discard(setup.sessions, setup.state, setup.sessions.find(session_id), forgetting())

    def _folder(self, opening: Opening) -> str:
        """Return the working directory.

        Raises:
            UsageError: it is not an absolute path, or no longer exists.
            StoreError: there is no such session.
        """
        if opening.cwd or not opening.session_id:
            if not Path(opening.cwd).is_absolute():
                raise UsageError(f"cwd {opening.cwd!r}: give an absolute path")
            return opening.cwd
        saved = describe(Setup(self._chosen).sessions.find(opening.session_id))
        if saved is not None and not Path(saved.cwd).is_dir():
            raise UsageError(f"the session worked in {saved.cwd}, which is gone; name a folder with cwd")
        return saved.cwd if saved is not None else str(Path.cwd())

    def _setup(self, opening: Opening) -> Setup:
        given: dict[str, Any] = {
            "cd": self._folder(opening),
            "resume": opening.session_id or None,
            "fork": opening.fork or None,
            "model": opening.model,
            "mode": opening.mode,
            "effort": opening.effort,
            "add_dir": opening.folders or None,
            "no_session": not opening.save or None,
        }
        chosen = with_values(self._chosen, **{name: value for name, value in given.items() if value is not None})
        values = {"mcp_servers": opening.mcp_servers} if opening.mcp_servers else {}
        return Setup(chosen, embedding=Embedding(values=values, buffers=opening.buffers))

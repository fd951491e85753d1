"""Definition of a server and of the user's permissions for it, as configured."""

import hashlib
from typing import Literal

import msgspec

from agent_cli.config.schema import McpTools

Transport = Literal["stdio", "http", "sse"]


class OAuthSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """OAuth settings that the server does not announce itself."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Port of the loopback redirect; 0 for any free port."""
    callback_host: str = "127.0.0.1"
    """Host of the redirect address; the listener is the same."""


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server definition with variables expanded."""

    name: str
    transport: Transport
    command: tuple[str, ...] = ()
    """Program and arguments, for `stdio`."""
    env: dict[str, str] = {}
    """Variables for its process besides the few that every server gets."""
    cwd: str = ""
    """Absolute path; empty for the root of the workspace."""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuthSettings = OAuthSettings()
    enabled: bool = True
    timeout_s: float = 600.0
    """Maximum duration of a call."""
    idle_timeout_s: float = 60.0
    """Maximum duration of a call without progress."""
    start_timeout_s: float = 120.0
    tools: McpTools = McpTools()
    """Which of its tools the model may see."""
    max_result_tokens: int | None = None
    """Maximum size of a result given to the model; None for the limit of all tools."""
    sampling: bool = False
    """True if it may request completions from the user's model."""
    sandbox: bool = False
    """True if its process is confined like commands, with the network."""
    source: str = ""
    """The file that defines it."""
    is_project: bool = False
    """True if a repository defines it, so that it needs the user's trust before it starts."""
    plugin_root: str = ""
    """The folder of the plug-in it belongs to; empty if none."""
    problem: str = ""
    """Why it cannot start, such as an unset variable; empty if it can."""

    @property
    def fingerprint(self) -> str:
        """Hash of the fields that determine which server answers: definitions with the same fingerprint are the
        same server."""
        decisive = (self.transport, self.command, sorted(self.env.items()), self.cwd, self.url)
        return hashlib.sha256(msgspec.json.encode((*decisive, sorted(self.headers.items())))).hexdigest()[:32]

    @property
    def address(self) -> str:
        """The command or URL, in one line."""
        return self.url or " ".join(self.command)

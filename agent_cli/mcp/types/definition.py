"""How a server is reached and what the user allows it, as configuration defines it."""

import hashlib
from typing import Literal

import msgspec

Transport = Literal["stdio", "http", "sse"]


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which tools of a server the model may see, by patterns such as `read_*`."""

    allow: tuple[str, ...] = ()
    """Only these; empty for all."""
    deny: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    """Those whose definitions go into every request, whatever their size."""


class OAuthSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a login needs that the server does not say itself."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Of the loopback redirect; 0 for any free port."""


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server, its variables expanded."""

    name: str
    transport: Transport
    command: tuple[str, ...] = ()
    """Program and arguments, for `stdio`."""
    env: dict[str, str] = {}
    """Variables that its process gets beside the few that every server gets."""
    cwd: str = ""
    """Absolute path; empty for the root of the workspace."""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuthSettings = OAuthSettings()
    enabled: bool = True
    timeout_s: float = 600.0
    """The longest a call may take."""
    idle_timeout_s: float = 60.0
    """The longest a call may take without progress."""
    start_timeout_s: float = 120.0
    tools: ToolChoice = ToolChoice()
    max_result_tokens: int | None = None
    """The longest result the model is given; None for the bound of all tools."""
    sampling: bool = False
    """Whether it may request completions from the user's model."""
    sandbox: bool = False
    """Whether its process is confined as commands are, with the network."""
    source: str = ""
    """The file that defines it."""
    is_project: bool = False
    """Whether a repository brought it, so that it needs the user's trust before it starts."""
    plugin_root: str = ""
    """The folder of the plug-in that brings it; empty for none."""
    problem: str = ""
    """Why it cannot start, such as a variable that is not set; empty when it can."""

    @property
    def fingerprint(self) -> str:
        """The hash of what decides who answers: two definitions with the same one are the same server."""
        decisive = (self.transport, self.command, sorted(self.env.items()), self.cwd, self.url)
        return hashlib.sha256(msgspec.json.encode((*decisive, sorted(self.headers.items())))).hexdigest()[:32]

    @property
    def address(self) -> str:
        """What is started or contacted, in one line."""
        return self.url or " ".join(self.command)

"""Create a route's HTTP connection."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_cli import __version__

from ..types.provider_table import Route

if TYPE_CHECKING:
    from .http import Connection


def open_connection(route: Route, headers: Mapping[str, str]) -> "Connection":
    """Return a connection with the route's headers. Loads the transport: 10 ms the first time.

    Raises:
        ModelError: address, key or proxy settings are unusable.
    """
    from .http import Connection

    given = {name.lower(): value for name, value in route.headers.items()}
    common = {"user-agent": f"agent-cli/{__version__}", "accept": "text/event-stream"}
    return Connection(route.base_url, {**common, **headers, **given}, route.timeouts)

"""All servers of a session and their tools."""

import asyncio
import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from agent_cli.protocol.client import ServerStatus
from agent_cli.tools.kit.base import Tool
from agent_cli.tools.kit.output import counted

from .catalog.offer_store import OfferStore
from .catalog.tool_selection import allowed_tools, as_new, entries, is_always, tokens
from .connection import Connect, Connection, Sample
from .tools.find_tools import CallTool, FindTools
from .tools.server_tool import ServerTool
from .types.client import ServerError
from .types.definition import ServerDefinition
from .types.offer import Entry, Offer

_ATTEMPT_S = 130.0


class Servers:
    """The servers of a session. None is started before one of its tools is called or `learn` is."""

    def __init__(
        self,
        definitions: Sequence[ServerDefinition],
        store: OfferStore,
        connect: Connect,
        roots: tuple[str, ...],
        *,
        inert: tuple[ServerDefinition, ...] = (),
        notes: tuple[str, ...] = (),
        before_restart: Callable[[ServerDefinition], None] = lambda definition: None,
    ) -> None:
        """Create the servers. `inert` are those the project defines and the user has not trusted; `notes` are
        errors in definition files; `before_restart` is called when the user restarts a server."""
        self.inert = inert
        self.notes = notes
        self._before_restart = before_restart
        self.connections = {each.name: Connection(each, store, connect, roots) for each in definitions}
        self._tools: dict[tuple[str, str], ServerTool] = {}
        self._listed: dict[str, Entry] = {}
        self._listed_from: tuple[object, ...] = ()
        """The servers whose tools are in the list, and the known state of each."""
        self._learning: asyncio.Task[None] | None = None
        self._known_before = {name for name, each in self.connections.items() if each.known}
        """The servers described to the model in the tools' definitions."""

    def offered_tools(self, max_tokens: int) -> tuple[Tool, ...]:
        """Return the tools for the requests of this session, in a fixed order: all tools of servers if they take
        no more than `max_tokens`, else those always sent and the search for the others. The result stays the
        same while servers come, go and change."""
        if not any(self._is_usable(connection) for connection in self.connections.values()):
            return ()
        known = self.entries()
        is_complete = all(each.known for each in self.connections.values() if self._is_usable(each))
        if is_complete and sum(tokens(entry.tool) for entry in known) <= max_tokens:
            return tuple(map(self._tool, known))
        choices = {name: each.definition.tools for name, each in self.connections.items()}
        always = [each for each in known if is_always(each.tool.name, choices[each.server])]
        return (*map(self._tool, always), self._search, CallTool(self.find, self.unknown))

    @cached_property
    def _search(self) -> FindTools:
        servers: Mapping[str, Sequence[Entry]] = {
            name: self._entries_of(each) for name, each in self.connections.items() if self._is_usable(each)
        }
        return FindTools(servers, lambda name: self.connections[name].instructions, self.entries, self.learn)

    def usable(self) -> tuple[Connection, ...]:
        """Return the servers that may be used now."""
        return tuple(filter(self._is_usable, self.connections.values()))

    def entries(self) -> tuple[Entry, ...]:
        """Return every tool that the model may call, sorted by name."""
        return tuple(self._by_name().values())

    def find(self, name: str) -> Tool | None:
        """Return a tool by its name for the model."""
        entry = self._by_name().get(name)
        return self._tool(entry) if entry else None

    def _by_name(self) -> dict[str, Entry]:
        """Return the tools of all servers in use; the list is rebuilt only if the known state of one has
        changed."""
        usable = self.usable()
        now = tuple(part for each in usable for part in (each, each.known))
        if len(now) != len(self._listed_from) or any(map(operator.is_not, now, self._listed_from)):
            found = sorted(
                (entry for each in usable for entry in self._entries_of(each)), key=lambda entry: entry.name
            )
            self._listed, self._listed_from = {entry.name: entry for entry in found}, now
        return self._listed

    def unknown(self, name: str) -> str:
        """Return the message that there is no such tool, with the names probably meant, or that its server is
        switched off or was never started."""
        import difflib

        for each in self.connections.values():
            server = each.definition.name
            if not self._is_usable(each):
                if any(entry.name == name for entry in self._entries_of(each)):
                    return f"The MCP server {server} is switched off."
            elif each.known is None and name.startswith(f"mcp__{server}__"):
                unasked = f"The tools of the MCP server {server} are not known yet. Call find_tools: it starts it."
                return each.error or unasked
        near = difflib.get_close_matches(name, [entry.name for entry in self.entries()], n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Use find_tools."
        return f"There is no tool named {name!r}. {hint}"

    async def learn(self) -> tuple[str, ...]:
        """Start the servers whose offer is unknown and fetch it; return why some cannot be used."""
        unknown = [each for each in self.connections.values() if self._is_usable(each) and each.known is None]
        await asyncio.gather(*(self._attempt(each) for each in unknown))
        return tuple(each.error for each in unknown if each.known is None)

    def learn_in_background(self, after_s: float) -> None:
        """Call `learn` in the background after a delay."""
        self._learning = asyncio.create_task(self._learn_later(after_s))

    async def _learn_later(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.learn()

    def news(self) -> dict[str, str]:
        """Return news for the model about servers that connected since the session began."""
        return {
            f"MCP server {name}": f"connected, {counted(len(self._entries_of(each)), 'tool')}; see find_tools"
            for name, each in self.connections.items()
            if each.known and name not in self._known_before and self._is_usable(each)
        }

    def status(self) -> tuple[ServerStatus, ...]:
        """Return the state of all servers, untrusted ones last."""
        inert = (
            ServerStatus(each.name, "untrusted", each.address, each.source, (), 0, "not trusted, so not started")
            for each in self.inert
        )
        return (*map(self._status, self.connections.values()), *inert)

    async def restart(self, name: str) -> str:
        """Restart a server at the user's request; return why it does not start, or an empty string."""
        connection = self.connections[name]
        await connection.aclose()
        connection.restarted()
        self._before_restart(connection.definition)
        await self._attempt(connection)
        return connection.error

    async def turn(self, name: str, *, on: bool) -> str:
        """Switch a server on or off for this session. A server that is off is ended, and calls to it are refused;
        switched on, it is started at its next use. Return why that is impossible, or an empty string."""
        connection = self.connections[name]
        await connection.turn(on=on)
        return connection.definition.problem if on else ""

    def allow_sampling(self, sample: Sample) -> None:
        """Let servers whose definition permits it ask the model."""
        for each in self.connections.values():
            each.sampling = sample

    async def aclose(self) -> None:
        """End all connections, and the servers that we started."""
        if self._learning is not None:
            self._learning.cancel()
        await asyncio.gather(*(each.aclose() for each in self.connections.values()), return_exceptions=True)

    async def _attempt(self, connection: Connection) -> None:
        with contextlib.suppress(ServerError, TimeoutError):  # the failure is in its status
            await asyncio.wait_for(connection.ready(), _ATTEMPT_S)

    def _tool(self, entry: Entry) -> ServerTool:
        key = (entry.name, entry.tool.digest)
        if key not in self._tools:
            self._tools[key] = ServerTool(entry, self.connections[entry.server])
        return self._tools[key]

    def _entries_of(self, connection: Connection) -> tuple[Entry, ...]:
        """Return a server's tools as the model sees them: definitions changed since the approval are in their
        approved form, and new ones without their texts."""
        known = connection.known
        if known is None:
            return ()
        tools = allowed_tools(known.offer.tools, connection.definition.tools)
        shown = [known.approved.get(tool.name) or as_new(tool) for tool in tools]
        return entries(connection.definition.name, shown)

    @staticmethod
    def _is_usable(connection: Connection) -> bool:
        return connection.state not in ("broken", "off")

    def _status(self, connection: Connection) -> ServerStatus:
        definition, known = connection.definition, connection.known
        offer = known.offer if known else Offer()
        found = self._entries_of(connection)
        return ServerStatus(
            name=definition.name,
            state=connection.state,
            address=definition.address,
            source=definition.source,
            tools=tuple(entry.tool.name for entry in found),
            tokens=sum(tokens(entry.tool) for entry in found),
            error=connection.error,
            prompts=tuple(prompt.name for prompt in offer.prompts),
            server=f"{offer.server}, protocol {offer.protocol}" if offer.protocol else "",
            log=tuple(connection.log_lines),
        )

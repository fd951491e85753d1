"""Tools `find_tools` and `call_tool`, for servers with too many tools to send in every request. The description of
these two is fixed when the session begins."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import ResultKind
from agent_cli.protocol.sanitize import visible
from agent_cli.tools.kit.base import (
    BasicTool,
    ForeignTool,
    LeadsToTools,
    NamesTool,
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
)

from ..catalog.tool_selection import catalogue
from ..types.offer import Entry
from .schemas import object_schema
from .server_tool import described, server_words

if TYPE_CHECKING:
    from ..catalog.search import ToolIndex

_OF_SERVERS = "mcp__"
_FOUND = 8
_MOST_FOUND = 20
_DESCRIPTION_CHARS = 600
_SCHEMA_CHARS = 3_000
_RESULT_CHARS = 24_000
"""Limit for one search; the worst matches are listed without their parameters."""

_ABOUT = """\
Find tools of the user's MCP servers by what they do. The result holds their names, descriptions and parameters; \
call one with call_tool. Search before saying that something cannot be done. More servers may have connected \
since this list was made:
"""


class FindParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `find_tools`."""

    query: Annotated[str, msgspec.Meta(description="What the tool should do, or its name")]
    limit: Annotated[int, msgspec.Meta(description="8 unless given", ge=1, le=_MOST_FOUND)] = _FOUND


class FindTools(BasicTool, LeadsToTools):
    """Finds tools of servers."""

    name = "find_tools"
    leads_to = _OF_SERVERS
    label = "Find tools"
    Params = FindParams
    result_kind: ResultKind = "summary"

    def __init__(
        self,
        servers: Mapping[str, Sequence[Entry]],
        said: Callable[[str], str],
        entries: Callable[[], Sequence[Entry]],
        learn: Callable[[], Awaitable[tuple[str, ...]]],
    ) -> None:
        """Create the tool. The model is told of `servers` with their tools, and what they say about these.
        `entries` returns the tools known at the time of a search; `learn` connects to unknown servers, and returns
        why some cannot be used."""
        self.description = _ABOUT + catalogue(servers, {name: said(name).split("\n")[0] for name in servers})
        self._servers = servers
        self._said = said
        self._entries = entries
        self._learn = learn
        self._indexed: tuple[Entry, ...] = ()
        self._index: ToolIndex | None = None

    def narrowed(self, allows: Callable[[str], bool]) -> "FindTools":
        def allowed(found: Sequence[Entry]) -> list[Entry]:
            return [each for each in found if allows(each.name)]

        servers = {name: allowed(found) for name, found in self._servers.items()}
        kept = {name: left for name, left in servers.items() if left or not self._servers[name]}
        return FindTools(kept, self._said, lambda: allowed(self._entries()), self._learn)

    def title(self, params: FindParams) -> str:
        return params.query

    async def run(self, params: FindParams, context: ToolContext) -> ToolOutcome:
        problems = await self._learn()
        entries = tuple(self._entries())
        found = await asyncio.to_thread(self._found, entries, params)  # ten thousand tools take a second
        if not found:
            none = f"None of {len(entries)} tools fits. Try other words for what it should do."
            none = none if entries else "There are no tools to find."
            return ToolOutcome(text="\n".join((none, *problems)))
        names = ", ".join(entry.name for entry in found)
        return ToolOutcome(
            text="\n\n".join((*_shown(found), *self._words(found, context.is_visible), *problems)), display=names
        )

    def _words(self, found: Sequence[Entry], is_visible: Callable[[str], bool]) -> Iterator[str]:
        """Yield what the servers of the found tools say about them, if the model does not see it already."""
        for server in dict.fromkeys(entry.server for entry in found):
            words = server_words(server, self._said(server))
            if words and not is_visible(words):
                yield words

    def _found(self, entries: tuple[Entry, ...], params: FindParams) -> list[Entry]:
        """Return the tools that match a query; a full tool name returns only that tool."""
        from ..catalog.search import ToolIndex

        if self._index is None or entries != self._indexed:
            self._indexed, self._index = entries, ToolIndex(entries)
        found = self._index.find(params.query, params.limit)
        return found[:1] if found and found[0].name == params.query.strip() else found


class CallParams(msgspec.Struct, frozen=True):
    """Parameters of `call_tool`."""

    name: str
    arguments: dict[str, Any] = {}


class CallTool(BasicTool, ForeignTool, NamesTool, LeadsToTools):
    """Calls a tool that was found; from then on the call counts as that tool's."""

    name = "call_tool"
    leads_to = _OF_SERVERS
    label = "Call"
    description = "Call a tool that find_tools found, by its full name."
    Params = CallParams

    def __init__(self, find: Callable[[str], Tool | None], unknown: Callable[[str], str]) -> None:
        """Create the tool. `unknown` returns the message for an unknown name."""
        self._find = find
        self._unknown = unknown

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "arguments": {"type": "object", "description": "As the tool's parameters say"},
            },
            "required": ["name"],
        }

    def read_arguments(self, arguments: dict[str, Any]) -> CallParams:
        name, given = arguments.get("name"), arguments.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise ToolError("call_tool needs `name`, a tool that find_tools found. Nothing was run.")
        if isinstance(given, str):
            given = _from_text(given)
        if not isinstance(given, dict):
            raise ToolError("`arguments` must be an object. Nothing was run.")
        others = {key: value for key, value in arguments.items() if key not in ("name", "arguments")}
        return CallParams(name, given or others)

    def meant_call(self, params: CallParams) -> tuple[Tool, Any]:
        tool = self._find(params.name)
        if tool is None:
            raise ToolError(f"{self._unknown(params.name)} Nothing was run.")
        return tool, tool.read_arguments(params.arguments)  # type: ignore[attr-defined]

    def unknown(self, name: str) -> str:
        return self._unknown(name) if name.startswith(_OF_SERVERS) else ""

    def narrowed(self, allows: Callable[[str], bool]) -> "CallTool":
        return CallTool(
            lambda name: self._find(name) if allows(name) else None,
            lambda name: self._unknown(name) if allows(name) else f"{name} is not among your tools.",
        )

    def title(self, params: CallParams) -> str:
        return params.name

    async def run(self, params: CallParams, context: ToolContext) -> ToolOutcome:
        raise ToolError("call_tool runs no tool itself.")


def _shown(found: Sequence[Entry]) -> Iterator[str]:
    """Yield descriptions of the tools, best first; a single one is shown in full."""
    if len(found) == 1:
        yield f"{found[0].name}\n{described(found[0].tool)}\nparameters: {_schema(found[0])}"
        return
    room = _RESULT_CHARS
    for entry in found:
        schema = _schema(entry)
        description = described(entry.tool)
        if len(description) > _DESCRIPTION_CHARS:
            description = f"{description[:_DESCRIPTION_CHARS]}…"
        if len(schema) > min(_SCHEMA_CHARS, room):
            schema = f"too long to list; find_tools with the query {entry.name} shows them"
        text = f"{entry.name}\n{description}\nparameters: {schema}"
        room -= len(text)
        yield text


def _schema(entry: Entry) -> str:
    return visible(msgspec.json.encode(object_schema(entry.tool.input_schema)).decode())


def _from_text(text: str) -> Any:
    try:
        return decode_json(text)
    except msgspec.DecodeError as error:
        raise ToolError(f"`arguments` is not a JSON object: {error}. Nothing was run.") from error

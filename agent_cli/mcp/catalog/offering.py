"""Which tools of servers go into every request and which are found by a search; their names for the model."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from agent_cli.protocol.sanitize import visible
from agent_cli.protocol.usage import CHARS_PER_TOKEN

from ..types.definition import ToolChoice
from ..types.offer import ToolDefinition
from .search import Entry

_LONGEST = 64
"""What every provider takes."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_CATALOGUE_TOKENS = 1_100
_SUMMARY_CHARS = 120


def model_name(server: str, tool: str) -> str:
    """Return `mcp__SERVER__TOOL`. Six letters of a hash follow where characters have to be replaced or cut, or the
    server's name would not end at the mark: two tools never share a name."""
    plain = f"mcp__{server}__{tool}"
    name = _OTHER.sub("_", plain)
    if name == plain and len(name) <= _LONGEST and "__" not in f"{server}.".replace("_.", "__"):
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[: _LONGEST - 7]}_{mark}"


def allowed_tools(tools: Sequence[ToolDefinition], choice: ToolChoice) -> tuple[ToolDefinition, ...]:
    """Return the tools that the model may see, sorted by name: servers send them in any order."""
    found = (
        tool
        for tool in tools
        if (not choice.allow or _matches(tool.name, choice.allow)) and not _matches(tool.name, choice.deny)
    )
    return tuple(sorted(found, key=lambda tool: tool.name))


def entries(server: str, tools: Sequence[ToolDefinition]) -> tuple[Entry, ...]:
    """Return tools under the names that the model calls them by."""
    return tuple(Entry(model_name(server, tool.name), server, tool) for tool in tools)


def is_always(tool: str, choice: ToolChoice) -> bool:
    """Return whether a tool goes into every request, whatever its size."""
    return _matches(tool, choice.always)


def tokens(tool: ToolDefinition) -> int:
    """Estimated size of a tool's definition in a request."""
    size = len(tool.name) + len(tool.description.encode()) + len(msgspec.json.encode(tool.input_schema))
    return size // CHARS_PER_TOKEN + 12


def catalogue(servers: Mapping[str, Sequence[Entry]], summaries: Mapping[str, str]) -> str:
    """Return the text that names the tools to search among, at most about 1,100 tokens: each server with the
    number of its tools and the first line of its own instructions, then as many names as there is room for."""
    heads = {name: _head(name, found, summaries.get(name, "")) for name, found in sorted(servers.items())}
    room = _CATALOGUE_TOKENS * CHARS_PER_TOKEN - sum(map(len, heads.values()))
    share = max(0, room // max(1, len(heads)))
    lines = []
    for name, head in heads.items():
        named = _named([entry.tool.name for entry in servers[name]], share)
        lines.append(f"{head}: {named}" if named else head)
    return "\n".join(lines)


def _head(name: str, found: Sequence[Entry], summary: str) -> str:
    shown = " ".join(visible(summary).split())[:_SUMMARY_CHARS]
    count = f"{len(found)} tools" if found else "not connected yet"
    return f"- {name} ({count})" + (f' "{shown}"' if shown else "")


def _named(names: Sequence[str], room: int) -> str:
    shown: list[str] = []
    for name in names:
        word = " ".join(visible(name).split())[:64]
        if room < len(word) + 8:
            return ", ".join([*shown, "…"]) if shown else ""
        room -= len(word) + 2
        shown.append(word)
    return ", ".join(shown)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

"""Select which server tools are sent in every request and which are found by search, and name them for the
model.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from agent_cli.config.schema import McpTools
from agent_cli.protocol.sanitize import clip, visible_line
from agent_cli.protocol.usage import CHARS_PER_TOKEN

from ..types.offer import Entry, ToolDefinition

_LONGEST = 64
"""The maximum accepted by every provider."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_CATALOGUE_TOKENS = 1_100
_HEADS_SHARE = 0.5
"""Share of the catalogue; server instructions are left out if they would take more."""
_SUMMARY_CHARS = 120
_NAME_CHARS = 64
_NEW = "New since the user approved this server. Its description is shown to the user at its first call."
_TEXTS = frozenset({"description", "title", "$comment", "examples", "default"})
"""Keys of a schema whose values do not decide what is valid."""


def model_name(server: str, tool: str) -> str:
    """Return `mcp__SERVER__TOOL`. Six characters of a hash are appended if characters must be replaced or cut, or
    if the end of the server's name would be ambiguous: two tools never share a name."""
    plain = f"mcp__{server}__{tool}"
    name = _OTHER.sub("_", plain)
    if name == plain and len(name) <= _LONGEST and "__" not in f"{server}.".replace("_.", "__"):
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[: _LONGEST - 7]}_{mark}"


def allowed_tools(tools: Sequence[ToolDefinition], choice: McpTools) -> tuple[ToolDefinition, ...]:
    """Return the tools that the model may see, sorted by name because servers send them in any order. Of two with
    one name the first counts."""
    found = (
        tool
        for tool in {tool.name: tool for tool in reversed(tools)}.values()
        if (not choice.allow or _matches(tool.name, choice.allow)) and not _matches(tool.name, choice.deny)
    )
    return tuple(sorted(found, key=lambda tool: tool.name))


def entries(server: str, tools: Sequence[ToolDefinition]) -> tuple[Entry, ...]:
    """Return tools under the names used by the model."""
    return tuple(Entry(model_name(server, tool.name), server, tool) for tool in tools)


def as_new(tool: ToolDefinition) -> ToolDefinition:
    """Return a tool that the user has not approved yet, without its texts, which could be instructions to the
    model. Its first call shows them to the user."""
    return ToolDefinition(tool.name, description=_NEW, input_schema=_without_texts(tool.input_schema))


def _without_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_texts(each) for each in value]
    if isinstance(value, dict):
        # A property may have such a name; its value is a schema.
        kept = {key: each for key, each in value.items() if key not in _TEXTS or isinstance(each, dict)}
        return {key: _without_texts(each) for key, each in kept.items()}
    return value


def is_always(tool: str, choice: McpTools) -> bool:
    """Return True if a tool is sent in every request, whatever its size."""
    return _matches(tool, choice.always)


def tokens(tool: ToolDefinition) -> int:
    """Estimate the size of a tool's definition in a request."""
    size = len(tool.name) + len(tool.description.encode()) + len(msgspec.json.encode(tool.input_schema))
    return size // CHARS_PER_TOKEN + 12


def catalogue(servers: Mapping[str, Sequence[Entry]], summaries: Mapping[str, str]) -> str:
    """Return the text that lists the searchable tools, at most about 1,100 tokens: each server with its number of
    tools and the first line of its instructions, then as many names as fit, with the space shared evenly."""
    room = _CATALOGUE_TOKENS * CHARS_PER_TOKEN
    heads = {name: _head(name, found, summaries.get(name, "")) for name, found in sorted(servers.items())}
    if sum(map(len, heads.values())) > room * _HEADS_SHARE:
        heads = {name: _head(name, servers[name], "") for name in heads}
    shown, left = _first(heads.values(), room)
    names = {name: _plain_names(servers[name]) for name in list(heads)[: len(shown)]}
    rooms = _shared({name: len(", ".join(words)) + 2 for name, words in names.items()}, left)
    lines = [_line(head, names[name], rooms[name]) for head, name in zip(shown, names, strict=True)]
    if more := len(heads) - len(shown):
        lines.append(f"- and {more} more servers")
    return "\n".join(lines)


def _head(name: str, found: Sequence[Entry], summary: str) -> str:
    shown = clip(visible_line(summary), _SUMMARY_CHARS)
    count = f"{len(found)} tools" if found else "not connected yet"
    return f"- {clip(visible_line(name), _NAME_CHARS)} ({count})" + (f' "{shown}"' if shown else "")


def _first(heads: Iterable[str], room: int) -> tuple[list[str], int]:
    """Return the heads that fit, and the remaining space."""
    shown: list[str] = []
    for head in heads:
        if len(head) + 1 > room:
            break
        room -= len(head) + 1
        shown.append(head)
    return shown, room


def _plain_names(found: Sequence[Entry]) -> list[str]:
    return [clip(visible_line(entry.tool.name), _NAME_CHARS) for entry in found]


def _shared(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """Share space evenly; what one server does not need goes to the others."""
    given: dict[str, int] = {}
    for name in sorted(wanted, key=lambda name: (wanted[name], name)):
        given[name] = min(wanted[name], room // (len(wanted) - len(given)))
        room -= given[name]
    return given


def _line(head: str, names: Sequence[str], room: int) -> str:
    """Return a server's line with the names that fit; names are never cut."""
    text = ", ".join(names)
    if len(text) + 2 > room:
        text = text[: max(0, room - 5)].rpartition(", ")[0]
        text = f"{text}, …" if text else ""
    return f"{head}: {text}" if text else head


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

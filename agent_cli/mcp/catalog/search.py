"""Search the tools of MCP servers by what they do."""

from collections.abc import Iterator, Sequence

from agent_cli.tools.ranking.search_index import Document, SearchIndex

from ..types.offer import Entry


class ToolIndex:
    """A search index of tools."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._index = SearchIndex(map(_document, entries))

    def find(self, query: str, limit: int) -> list[Entry]:
        """Return the tools that match a query, best first; matches of the name, in full or in part, count most."""
        return [self._entries[name] for name in self._index.find(query, limit)]


def _document(entry: Entry) -> Document:
    tool = entry.tool
    return Document(
        entry.name, tool.name, f"{tool.description} {tool.title}", entry.server, " ".join(_parameters(entry))
    )


def _parameters(entry: Entry) -> Iterator[str]:
    properties = entry.tool.input_schema.get("properties")
    if isinstance(properties, dict):
        for name, schema in properties.items():
            text = schema.get("description") if isinstance(schema, dict) else ""
            yield f"{name} {text if isinstance(text, str) else ''}"

"""`search_history`: finds again what was compacted away, spilled to a file, or said in earlier sessions."""

from typing import Annotated

import msgspec

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome


class SearchHistoryParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `search_history` takes."""

    query: Annotated[str, msgspec.Meta(description="Words, names, numbers")]


class SearchHistory(BasicTool):
    """Asks the session, which knows its own records and where the earlier ones are."""

    name = "search_history"
    label = "Search the history for"
    Params = SearchHistoryParams

    def title(self, params: SearchHistoryParams) -> str:
        return params.query

    async def run(self, params: SearchHistoryParams, context: ToolContext) -> ToolOutcome:
        if not params.query.strip():
            raise ToolError("The query is empty; give some words to look for.")
        text, untrusted = await context.search_history(params.query)
        return ToolOutcome(text=text, untrusted=untrusted)

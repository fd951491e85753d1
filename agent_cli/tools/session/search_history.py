"""`search_history`: search what was compacted, spilled to a file, or said in earlier sessions."""

from typing import Annotated

import msgspec

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome


class SearchHistoryParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `search_history`."""

    query: Annotated[str, msgspec.Meta(description="Words, names, numbers")]


class SearchHistory(BasicTool):
    """Delegates the search to the session, which has its own records and access to earlier sessions."""

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

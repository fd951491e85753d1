"""`recall`: the full text of an earlier result or message, page by page, after it was shortened or compacted; and
`search_history`: search what was compacted, spilled to a file, or said in earlier sessions."""

from typing import Annotated

import msgspec

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome
from ..kit.output import PAGE_BYTES_PER_TOKEN, counted


class RecallParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `recall`."""

    id: Annotated[str, msgspec.Meta(description="Id of the call or message, from the note or the search")]
    offset: Annotated[int, msgspec.Meta(description="First line, from 1")] = 1
    limit: Annotated[int, msgspec.Meta(description="Number of lines")] = 2000
    column: Annotated[int, msgspec.Meta(description="Only line `offset`, from this character (from 1)")] = 0


class Recall(BasicTool):
    """Pages through earlier text. Following the notes shows every character exactly once."""

    name = "recall"
    label = "Recall"
    Params = RecallParams

    def title(self, params: RecallParams) -> str:
        return params.id

    async def run(self, params: RecallParams, context: ToolContext) -> ToolOutcome:
        found = context.recall(params.id.strip())
        if found is None:
            raise ToolError(
                f"There is no earlier call or message with the id {params.id!r}; search_history finds ids."
            )
        text, untrusted = found
        lines = text.removesuffix("\n").split("\n")
        first, column = params.offset, max(0, params.column)
        first = max(1, first if first >= 0 else len(lines) + 1 + first)
        if first > len(lines):
            raise ToolError(f"The result has {counted(len(lines), 'line')}; there is no line {first}.")
        room = int(PAGE_BYTES_PER_TOKEN * context.max_tokens())
        page = [] if column else _page(lines[first - 1 :][: max(1, params.limit)], room)
        if page:
            shown = "\n".join([*page, _page_note(params.id, first, len(page), len(lines))])
        else:
            shown = _part(params.id, lines, first, max(1, column), room)
        return ToolOutcome(text=shown, untrusted=untrusted)


def _page(lines: list[str], room: int) -> list[str]:
    """Return as many lines as fit `room` bytes; none if the first is too long."""
    for at, line in enumerate(lines):
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return lines[:at]
    return lines


def _page_note(call_id: str, first: int, count: int, total: int) -> str:
    last = first + count - 1
    note = f"Lines {first}-{last} of {total}, as it was then"
    return f"[{note}{_to_go_on(call_id, offset=last + 1)}]" if last < total else f"[{note}]"


def _part(call_id: str, lines: list[str], number: int, column: int, room: int) -> str:
    """Return a part of one line, from `column` on.

    Raises:
        ToolError: the line is shorter.
    """
    line = lines[number - 1]
    if column > max(1, len(line)):
        raise ToolError(f"Line {number} has {counted(len(line), 'character')}; there is none at {column}.")
    part = line[column - 1 :][:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    last = column + len(part) - 1
    note = f"Line {number} of {len(lines)}, characters {column}-{last} of {len(line)}"
    if last < len(line):
        note += _to_go_on(call_id, offset=number, column=last + 1)
    elif number < len(lines):
        note += _to_go_on(call_id, offset=number + 1)
    return f"{part}\n[{note}]"


def _to_go_on(call_id: str, **place: int) -> str:
    return f". To continue: recall {msgspec.json.encode({'id': call_id, **place}).decode()}"


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

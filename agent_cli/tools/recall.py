"""`recall`: the whole text of an earlier call's result, page by page, after it was shortened or folded away."""

from typing import Annotated

import msgspec

from ..protocol.actions import Action
from .base import Preview, ToolContext, ToolError, ToolOutcome

_MAX_CHARS = 30_000


class RecallParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `recall` takes."""

    id: Annotated[str, msgspec.Meta(description="Of the call, as the note in the text gives it")]
    offset: Annotated[int, msgspec.Meta(description="First line, from 1")] = 1


class Recall:
    """Pages through what was said earlier."""

    name = "recall"
    Params = RecallParams
    editable = ""

    def title(self, params: RecallParams) -> str:
        return params.id

    def actions(self, params: RecallParams, context: ToolContext) -> tuple[Action, ...]:
        return ()

    async def preview(self, params: RecallParams, context: ToolContext) -> Preview:
        return Preview(f"Recall {params.id}")

    async def run(self, params: RecallParams, context: ToolContext) -> ToolOutcome:
        text = context.recall(params.id.strip())
        if text is None:
            raise ToolError(f"There is no earlier call with the id {params.id!r} in this session.")
        lines = text.splitlines()
        first = max(1, params.offset)
        if first > max(1, len(lines)):
            raise ToolError(f"The result has {len(lines)} lines; there is no line {first}.")
        shown = _page(lines[first - 1 :])
        last = first + len(shown) - 1
        note = f"[Lines {first}-{last} of {len(lines)}"
        if last < len(lines):
            note += f". To go on: recall {msgspec.json.encode({'id': params.id, 'offset': last + 1}).decode()}"
        return ToolOutcome(text="\n".join([*shown, f"{note}]"]))


def _page(lines: list[str]) -> list[str]:
    """As many lines as fit a page, one at least; of a line longer than that, its head and tail."""
    page: list[str] = []
    room = _MAX_CHARS
    for line in lines:
        if len(line) > _MAX_CHARS:
            half = _MAX_CHARS // 4
            line = f"{line[:half]} […{len(line) - 2 * half} characters left out…] {line[-half:]}"
        room -= len(line) + 1
        if page and room < 0:
            break
        page.append(line)
    return page

"""`finish`: the model states that the task is done and how it was checked; this ends the turn."""

from typing import Annotated

import msgspec

from agent_cli.protocol.messages import ResultKind

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome


class FinishParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `finish`."""

    summary: Annotated[str, msgspec.Meta(description="What was done, how it was verified, what is left")]


class Finish(BasicTool):
    """Ends the turn with a summary."""

    name = "finish"
    label = "Finish"
    Params = FinishParams
    result_kind: ResultKind = "answer"

    def title(self, params: FinishParams) -> str:
        return next(iter(params.summary.strip().splitlines()), "")

    async def run(self, params: FinishParams, context: ToolContext) -> ToolOutcome:
        if not params.summary.strip():
            raise ToolError("The summary is empty.")
        return ToolOutcome(text=params.summary.strip(), finished=True)

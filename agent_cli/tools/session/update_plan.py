"""`update_plan`: the model's list of steps, shown to the user."""

import msgspec

from agent_cli.protocol.messages import PlanItem, ResultKind

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome

_MAX_ITEMS = 30


class PlanParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `update_plan`."""

    items: tuple[PlanItem, ...]


class UpdatePlan(BasicTool):
    """Replaces the whole plan."""

    name = "update_plan"
    label = "Plan"
    Params = PlanParams
    result_kind: ResultKind = "summary"

    def title(self, params: PlanParams) -> str:
        done = sum(item.status == "done" for item in params.items)
        return f"{done} of {len(params.items)} done"

    async def run(self, params: PlanParams, context: ToolContext) -> ToolOutcome:
        if len(params.items) > _MAX_ITEMS:
            raise ToolError(f"A plan has at most {_MAX_ITEMS} items; this one has {len(params.items)}.")
        if any(not item.text.strip() for item in params.items):
            raise ToolError("Every item of the plan needs a text.")
        if sum(item.status == "in_progress" for item in params.items) > 1:
            raise ToolError("At most one item can be in_progress. The plan was not changed.")
        return ToolOutcome(text=f"Plan updated: {self.title(params)}.", plan=params.items)

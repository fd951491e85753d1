"""Tools that steer the turn: `ask_user` asks a question that only the user can answer, and is offered if a user is
present; `update_plan` shows the model's list of steps; with `finish`, the model states that the task is done and
how it was checked, which ends the turn."""

from typing import Annotated

import msgspec

from agent_cli.protocol.messages import PlanItem, ResultKind

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome

_MAX_ITEMS = 30


class AskParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `ask_user`."""

    question: str
    options: Annotated[tuple[str, ...], msgspec.Meta(description="Likely answers, best first")] = ()


class AskUser(BasicTool):
    """Asks the user a question and returns the answer."""

    name = "ask_user"
    label = "Ask"
    Params = AskParams
    result_kind: ResultKind = "question"

    def title(self, params: AskParams) -> str:
        return params.question.strip().splitlines()[0] if params.question.strip() else ""

    async def run(self, params: AskParams, context: ToolContext) -> ToolOutcome:
        if not params.question.strip():
            raise ToolError("The question is empty.")
        if context.ask is None:
            raise ToolError("No user is here to answer. Decide yourself, and say what you assumed.")
        answer = await context.ask(params.question, params.options)
        return ToolOutcome(text=f"The user answered: {answer}", display=answer)


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

"""update_plan and ask_user."""

import msgspec
import pytest

from agent_cli.protocol.messages import PlanItem
from agent_cli.tools.kit.base import ToolContext, ToolError
from tests.tools.calls import call


async def test_a_plan_is_replaced_whole(context: ToolContext) -> None:
    items = [{"text": "a", "status": "done"}, {"text": "b", "status": "in_progress"}, {"text": "c"}]
    outcome = await call(context, "update_plan", items=items)
    assert outcome.plan == (PlanItem("a", "done"), PlanItem("b", "in_progress"), PlanItem("c", "pending"))
    assert outcome.text == "Plan updated: 1 of 3 done."
    assert (await call(context, "update_plan", items=[])).plan == ()


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"text": "a", "status": "in_progress"}] * 2, "At most one"),
        ([{"text": "a"}] * 31, "at most 30"),
        ([{"text": " "}], "needs a text"),
        ([{"text": "a", "status": "doing"}], "Invalid enum value"),
    ],
)
async def test_wrong_plans_are_refused(context: ToolContext, items: list[dict[str, str]], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        await call(context, "update_plan", items=items)


async def test_a_question_is_answered_by_the_user(context: ToolContext) -> None:
    asked = []

    async def ask(question: str, options: tuple[str, ...]) -> str:
        asked.append((question, options))
        return "blue"

    with pytest.raises(ToolError, match="No user is here"):
        await call(context, "ask_user", question="Which?")
    context = msgspec.structs.replace(context, ask=ask)
    outcome = await call(context.for_call("c", emit=print), "ask_user", question="Which?", options=["red", "blue"])
    assert outcome.text == "The user answered: blue" and asked == [("Which?", ("red", "blue"))]
    with pytest.raises(ToolError, match="empty"):
        await call(context, "ask_user", question="")

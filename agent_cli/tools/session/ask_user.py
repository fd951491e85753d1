"""`ask_user`: ask a question that only the user can answer. Offered only if a user is present."""

from typing import Annotated

import msgspec

from agent_cli.protocol.messages import ResultKind

from ..kit.base import BasicTool, ToolContext, ToolError, ToolOutcome


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

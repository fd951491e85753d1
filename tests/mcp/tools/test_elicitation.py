"""Questions of servers, answered in the session's dialog."""

from typing import Any

import pytest

from agent_cli.mcp.tools.elicitation import asked_in_session
from agent_cli.mcp.types.client import Elicitation, ElicitationAnswer, FormField


class Dialog:
    """A user who gives these answers, and what they were asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        self.asked.append((question, options))
        return self.answers.pop(0)


async def answered(field: FormField, *answers: str) -> tuple[ElicitationAnswer, Dialog]:
    dialog = Dialog(*answers)
    elicit = asked_in_session(dialog.ask)
    assert elicit is not None
    return await elicit("demo", Elicitation("Which?", (field,))), dialog


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [("number", "2.5", 2.5), ("integer", "3", 3), ("boolean", "yes", True), ("text", " hi ", "hi")],
)
async def test_an_answer_has_the_kind_of_its_field(kind: Any, said: str, value: object) -> None:
    answer, _ = await answered(FormField("a", kind=kind), said)
    assert answer == ElicitationAnswer("accept", {"a": value})


@pytest.mark.parametrize("said", ["nan", "inf", "-Infinity", "1e999", "many"])
async def test_what_is_no_number_of_json_is_asked_again(said: str) -> None:
    answer, dialog = await answered(FormField("a", kind="number"), said, "7")
    assert answer.values == {"a": 7.0} and f"“{said}” is not a number." in dialog.asked[1][0]


@pytest.mark.parametrize("said", ["ok", "oui", "yes, please", "1"])
async def test_what_is_neither_yes_nor_no_is_asked_again(said: str) -> None:
    answer, dialog = await answered(FormField("a", kind="boolean", default="True"), said, "")
    assert answer.values == {"a": True} and "Answer yes or no." in dialog.asked[1][0]
    assert (await answered(FormField("a", kind="boolean"), "No"))[0].values == {"a": False}


async def test_an_option_with_a_comma_can_be_chosen() -> None:
    field = FormField("a", kind="choices", options=("Paris, France", "Rome", "Oslo"))
    assert (await answered(field, "Paris, France"))[0].values == {"a": ["Paris, France"]}
    assert (await answered(field, "Rome, Oslo"))[0].values == {"a": ["Rome", "Oslo"]}


@pytest.mark.parametrize("said", ["Decline", "Skip"])
async def test_a_servers_own_option_is_never_taken_for_ours(said: str) -> None:
    field = FormField("a", kind="choice", options=("Accept", "Decline", "Skip"))
    answer, dialog = await answered(field, said)
    assert answer == ElicitationAnswer("accept", {"a": said})
    assert dialog.asked[0][1] == (*field.options, "Skip the question", "Decline the question")
    declined, _ = await answered(field, "Decline the question")
    assert declined == ElicitationAnswer("decline")
    skipped, _ = await answered(field, "Skip the question")
    assert skipped == ElicitationAnswer("accept", {})

"""Questions of sub-agents, in both dialogs."""

from collections.abc import Callable

import msgspec
import pytest

from agent_cli.protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.operations import ApprovalAnswer, Decision, Operation
from agent_cli.ui.dialogs.approval import ApprovalDialog
from agent_cli.ui.dialogs.dialog_queue import DialogQueue
from agent_cli.ui.dialogs.question import QuestionDialog
from agent_cli.ui.plain.approval import ApprovalLines
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE
from tests.ui.tool_events import approval_item

COMMAND = approval_item(
    "c1", "shell", "npm test", "npm test", "command", "runs a script", "mode ask", "shell(npm *)", "{}", ""
)
DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
EDIT = approval_item("c2", "edit_file", "x", DIFF, "diff", "it changes x", "mode ask", "", "{}", "", is_edit=True)


def request(*items: ApprovalItem, agent: str = "explore-2") -> ApprovalRequested:
    return ApprovalRequested(
        request_id=f"r-{agent}", items=items or (COMMAND,), agent_name=agent, agent_task="find the flaky test"
    )


@pytest.mark.parametrize(
    ("items", "question"),
    [
        ((COMMAND,), "explore-2 wants to run  npm test ?"),
        ((EDIT,), "explore-2: Edit x?"),
        ((COMMAND, msgspec.structs.replace(COMMAND, call_id="c3")), "explore-2: Allow call 1 of 2?"),
    ],
)
def test_the_question_names_the_sub_agent_and_its_task(items: tuple[ApprovalItem, ...], question: str) -> None:
    rows = ApprovalDialog(request(*items), 0.0).draw(NONE, 80, 20)
    at = rows.index(f"? {question}")
    assert rows[at + 1] == "  find the flaky test"
    assert "mode ask" in rows[at + 2] or "edits need approval" in rows[at + 2]
    plain = "\n".join(ApprovalLines(request(*items)).facts())
    assert "explore-2" in plain and "\nIts task: find the flaky test\nWhy: " in plain


@pytest.mark.parametrize("width", [20, 30, 40, 80])
def test_the_question_keeps_to_the_width_and_holds_the_whole_command(width: int) -> None:
    command = "npm run the-whole-suite -- --with-coverage --in-band"
    item = msgspec.structs.replace(COMMAND, title=command, preview=command)
    rows = ApprovalDialog(request(item), 0.0).draw(NONE, width, 30)
    assert all(lines.cells(row) <= width for row in rows), rows
    assert command.replace(" ", "") in "".join(rows).replace(" ", "")


def test_a_refusal_with_words_is_the_answer_to_its_request() -> None:
    asking = ApprovalDialog(request(), 0.0)
    asking.entered("use make instead")
    assert asking.answer == ApprovalAnswer("r-explore-2", (Decision("c1", False, "use make instead"),))


def test_a_grant_for_the_session_says_that_it_holds_for_sub_agents_and_the_mode_is_not_offered() -> None:
    asking = ApprovalDialog(request(), 0.0)
    asking.entered("a")
    assert "This session, with its sub-agents" in "\n".join(asking.draw(NONE, 80, 20))
    asking = ApprovalDialog(request(EDIT), 0.0)
    assert not asking.may_accept_edits
    assert ApprovalDialog(request(EDIT, agent=""), 0.0).may_accept_edits


def test_the_options_of_a_question_stand_below_who_asks_it() -> None:
    asked = QuestionAsked(
        request_id="q", question="Which?", options=("left", "right"), agent_name="explore-2", agent_task="find it"
    )
    assert QuestionDialog(asked, 0.0).draw(NONE, 80, 20)[0] == "  explore-2 asks: Which?"


class Line:
    """An input line that remembers what is put into it."""

    is_typing = is_answering = False
    rescued = 0

    def type(self, text: str) -> None: ...
    def type_answer(self, text: str) -> None: ...
    def answered(self) -> None: ...
    def follow(self) -> None: ...

    def move_to_draft(self) -> None:
        self.rescued += 1


def queue_of(*agents: str) -> tuple[DialogQueue, list[Operation], Callable[[], str]]:
    submitted: list[Operation] = []
    queue = DialogQueue(Line(), lambda text, wrap=True: None, submitted.append, lambda: None, lambda: 100.0)
    for agent in agents:
        queue.ask(ApprovalDialog(request(agent=agent), 0.0))
    return queue, submitted, lambda: queue.dialog.agent_name if queue.dialog else "none"


def test_questions_of_several_come_one_after_another() -> None:
    queue, submitted, asking = queue_of("a-1", "a-2", "a-3")
    for name in ("a-1", "a-2", "a-3"):
        assert asking() == name
        queue.entered("y")
    assert asking() == "none" and not queue.waits
    assert [each.request_id for each in submitted if isinstance(each, ApprovalAnswer)] == [
        "r-a-1",
        "r-a-2",
        "r-a-3",
    ]


def test_when_the_turn_ends_questions_in_the_background_stay() -> None:
    queue, _, asking = queue_of("a-1", "", "a-2")
    queue.clear({"a-2"})
    assert asking() == "a-2" and not queue.waits
    queue.clear()
    assert asking() == "none" and not queue.waits


def test_the_questions_of_a_sub_agent_end_with_it() -> None:
    queue, submitted, asking = queue_of("a-1", "a-2", "a-1")
    queue.agent_ended("a-1")
    assert asking() == "a-2"
    queue.entered("y")
    assert asking() == "none" and not queue.waits and len(submitted) == 1

"""What waits during a turn, as rows and on its way back."""

import msgspec
import pytest

from agent_cli.protocol.client import WaitingInput
from agent_cli.protocol.events import InputReturned
from agent_cli.protocol.messages import PlanItem
from agent_cli.ui.repl import pending_input
from tests.ui.fake_client import SNAPSHOT


def test_rows_name_what_waits_and_where_the_plan_stands() -> None:
    plan = (PlanItem("read", "done"), PlanItem("mend", "in_progress"), PlanItem("test", "pending"))
    held = (WaitingInput("steer", "left"), WaitingInput("prompt", "later"), WaitingInput("command", "/undo 2"))
    now = msgspec.structs.replace(SNAPSHOT, busy=True, plan=plan, waiting=held)
    rows = pending_input.rows(now, 80, can_take_back=True)
    assert rows == ["plan 1/3: mend", "steers: left", "queued: later", "queued: /undo 2  (↑ takes it back)"]
    idle = msgspec.structs.replace(now, busy=False, waiting=())
    assert pending_input.rows(idle, 80, can_take_back=True) == []


@pytest.mark.parametrize(
    ("event", "draft", "text", "said"),
    [
        (InputReturned(texts=("left", "later")), "my", "left\n\nlater", ""),
        (InputReturned(commands=("/undo 2",)), "", "/undo 2", ""),
        (InputReturned(commands=("/undo 2",)), "my", "", "Not carried out: /undo 2."),
        (
            InputReturned(texts=("one",), commands=("/undo", "/compact x")),
            "",
            "one",
            "Not carried out: /undo, /compact x.",
        ),
    ],
)
def test_what_is_handed_back_stands_in_the_line_and_a_command_only_where_it_is_one(
    event: InputReturned, draft: str, text: str, said: str
) -> None:
    assert pending_input.restore(event, draft) == (text, said)

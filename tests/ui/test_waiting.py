"""What waits during a turn, as rows and on its way back."""

import msgspec

from agent_cli.protocol.messages import PlanItem
from agent_cli.ui.waiting import Waiting

from .fake_client import SNAPSHOT


def test_the_newest_comes_back_first_and_what_was_delivered_never() -> None:
    waiting = Waiting()
    waiting.steer("left")
    waiting.queue("later")
    waiting.steer("right")
    waiting.delivered("left")
    assert waiting.take_back(("later",)) == "right"
    assert waiting.take_back(("later",)) == "later"
    assert waiting.take_back(()) == ""


def test_guidance_that_was_not_delivered_is_given_back_once() -> None:
    waiting = Waiting()
    waiting.steer("left")
    waiting.steer("right")
    assert waiting.turn_over() == ["left", "right"]
    assert waiting.turn_over() == []


def test_rows_name_what_waits_and_where_the_plan_stands() -> None:
    waiting = Waiting()
    waiting.steer("left")
    plan = (PlanItem("read", "done"), PlanItem("mend", "in_progress"), PlanItem("test", "pending"))
    now = msgspec.structs.replace(SNAPSHOT, busy=True, plan=plan, queued=("later",))
    rows = waiting.rows(now, 80, can_take_back=True)
    assert rows == ["plan 1/3: mend", "steers: left", "queued: later  (↑ takes it back)"]
    idle = msgspec.structs.replace(now, busy=False, queued=())
    assert Waiting().rows(idle, 80, can_take_back=True) == []

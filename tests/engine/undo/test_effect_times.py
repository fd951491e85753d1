"""Files are told apart by times, so a clock that is set while the agent works must not make its changes another's."""

import math
import os
import time
from pathlib import Path

import pytest

from agent_cli.engine.undo.effect_times import EffectTimes
from agent_cli.protocol.messages import FileChange


class SetClock:
    """A clock that is wrong by some seconds until it is set right, as the kernel's that stamps files here is."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.mark.parametrize("goes_on", [False, True], ids=["ended", "going on"])
@pytest.mark.parametrize("ahead_s", [3600.0, 0.0, -3600.0], ids=["set back", "right", "set forward"])
def test_a_file_changed_while_the_clock_is_set_is_the_agents(
    tmp_path: Path, ahead_s: float, goes_on: bool
) -> None:
    clock = SetClock(ahead_s)
    times = EffectTimes(clock)
    with times.effect(lambda _: math.inf if goes_on else 0.0):
        clock.ahead_s = 0.0
        (tmp_path / "ours").touch()
    assert times.foreign(tmp_path, [FileChange("ours", kind="added")]) == ()


def test_a_file_from_before_the_clock_was_set_back_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    past_s = time.time() - os.stat(tmp_path / "theirs").st_ctime
    time.sleep(max(0.0, 0.1 - past_s))
    clock = SetClock(3600.0)
    times = EffectTimes(clock)
    with times.effect():
        clock.ahead_s = 0.0
    assert times.foreign(tmp_path, [FileChange("theirs", kind="added")]) == ("theirs",)

"""Rewind by parts, decisions on conflicts, and that each redo is the exact mirror of what it brings back."""

import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.engine.undo.turn_undo import NothingToRestore, TurnUndo
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Rewound
from agent_cli.protocol.records import AnyRecord, TurnsRedone, TurnsUndone
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.session import Session
from agent_cli.session.undo_state import taken_back
from agent_cli.workspace.checkpoints.copy_store import Copies
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from tests.engine.harness import header, memory_in
from tests.fuzz import LEVEL, tries


class Talk:
    """A session whose turns are written by hand, on a real folder with real checkpoints."""

    def __init__(self, base: Path, *, copies: bool = False) -> None:
        self.root = base / "work"
        self.root.mkdir(exist_ok=True)
        self.base = base
        self.copies = copies
        self.session = Session([header(self.root)], None, saved=True)
        self.told: list[object] = []
        self.runner = ProcessRunner()
        self.restart()

    def restart(self) -> None:
        """As another process with the same session."""
        store = Copies(self.root, self.base / "copies") if self.copies else Checkpoints(
            self.root, self.base / "store", "s1", self.runner.run, timeout_s=90.0
        )  # fmt: skip
        self.undoing = TurnUndo(self.session, lambda: store, self.told.append, memory_in(self.base))

    async def turn(self, number: int, **files: str | None) -> None:
        """A prompt that writes files, by way of their dotless names; None deletes."""
        turn_id = f"t{number}"
        self.session.append(UserMessage(id=f"m{number}", turn_id=turn_id, text=f"prompt {number}", origin="human"))
        if files:
            paths = tuple(str(self.root / name) for name in files)
            with self.undoing.effect():
                await self.undoing.before_effect(TurnScope(lambda event: None, turn_id=turn_id), paths)
                for name, text in files.items():
                    self.write(name, text)
            await self.undoing.after_turn(turn_id)

    def write(self, name: str, text: str | None) -> None:
        if text is None:
            (self.root / name).unlink()
        else:
            (self.root / name).write_text(text, encoding="utf-8")

    def state(self) -> tuple[dict[str, str], list[str]]:
        """Files with their content, and the prompts that count."""
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(self.root.iterdir())}
        return files, [message.text for message in self.session.view.prompts]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    it = Talk(tmp_path)
    await it.turn(1, a="1", b="1")
    await it.turn(2, a="2")
    await it.turn(3, a="3", b=None, c="3")
    yield it
    await it.runner.aclose()


BEFORE_2 = {"a": "1", "b": "1"}
AFTER_3 = {"a": "3", "c": "3"}
ALL = ["prompt 1", "prompt 2", "prompt 3"]


@pytest.mark.parametrize(
    ("what", "state"),
    [("both", (BEFORE_2, ALL[:1])), ("code", (BEFORE_2, ALL)), ("conversation", (AFTER_3, ALL[:1]))],
)
async def test_a_rewind_takes_back_what_it_is_told_and_redo_mirrors_it(
    talk: Talk, what: Rewound, state: tuple[dict[str, str], list[str]]
) -> None:
    count, prompt, report = await talk.undoing.rewind("t2", what)
    assert (count, prompt, report.conflicts) == (2, "prompt 2", ())
    assert talk.state() == state
    talk.restart()
    _, prompt, report = await talk.undoing.redo()
    assert (prompt, report.conflicts) == ("prompt 2", ())
    assert talk.state() == (AFTER_3, ALL)


@pytest.mark.parametrize(
    "parts", [("both", "code"), ("both", "conversation"), ("code", "both"), ("code", "conversation")]
)
async def test_parts_taken_one_after_the_other_come_back_in_reverse(
    talk: Talk, parts: tuple[Rewound, ...]
) -> None:
    states = [talk.state()]
    for what, turn in zip(parts, ("t3", "t2"), strict=True):
        await talk.undoing.rewind(turn, what)
        states.append(talk.state())
    for state in reversed(states[:-1]):
        await talk.undoing.redo()
        assert talk.state() == state
    with pytest.raises(NothingToRestore):
        await talk.undoing.redo()


async def test_files_are_taken_back_once(talk: Talk) -> None:
    await talk.undoing.rewind("t2", "code")
    with pytest.raises(NothingToRestore, match="already as they were"):
        await talk.undoing.rewind("t2", "code")
    talk.write("a", "mine")
    _, _, report = await talk.undoing.undo(1)
    assert report.restored == () and talk.state() == ({"a": "mine", "b": "1"}, ALL[:2])


async def test_a_prompt_that_is_not_there_is_no_place_to_go_back_to(talk: Talk) -> None:
    with pytest.raises(NothingToRestore, match="no such prompt"):
        await talk.undoing.rewind("t9", "both")


async def test_points_name_prompts_and_what_their_turns_saved(talk: Talk) -> None:
    await talk.turn(4)
    points = talk.undoing.points()
    assert [(point.turn_id, point.prompt, point.has_checkpoint) for point in points] == [
        ("t1", "prompt 1", True), ("t2", "prompt 2", True), ("t3", "prompt 3", True), ("t4", "prompt 4", False),
    ]  # fmt: skip
    assert all(point.time > 0 for point in points)


async def test_points_tell_what_became_of_the_files(talk: Talk) -> None:
    await talk.turn(4)
    await talk.turn(5, a="3")
    await talk.undoing.rewind("t3", "code")
    await talk.turn(6, d="6")
    await talk.turn(7, **{"../e": "7"})
    assert [point.files for point in talk.undoing.points()] == [
        "changed", "changed", "undone", "unchanged", "unchanged", "changed", "changed",
    ]  # fmt: skip
    await talk.undoing.undo(2)
    await talk.undoing.redo()
    assert [point.files for point in talk.undoing.points()][2:] == [
        "undone", "unchanged", "unchanged", "changed", "changed",
    ]  # fmt: skip


async def test_what_somebody_changed_between_two_turns_stays_as_it_was_there(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, a="1")
    talk.write("a", "mine")
    await talk.turn(2, a="2")
    _, report = await talk.undoing.would_undo("t1", "both")
    assert [conflict.path for conflict in report.conflicts] == ["a"] and talk.state()[0] == {"a": "2"}
    _, _, report = await talk.undoing.rewind("t1", "both")
    assert [conflict.path for conflict in report.conflicts] == ["a"] and talk.state()[0] == {"a": "mine"}
    await talk.undoing.redo()
    assert talk.state()[0] == {"a": "2"}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("copies", [False, True])
async def test_the_old_state_can_be_taken_and_redo_brings_the_users_own_back(
    tmp_path: Path, restarted: bool, copies: bool
) -> None:
    talk = Talk(tmp_path, copies=copies)
    await talk.turn(1, a="1", b="1")
    await talk.turn(2, a="2", b="2")
    talk.write("a", "mine")
    await talk.undoing.undo(1)
    assert talk.state()[0] == {"a": "mine", "b": "1"}
    if restarted:
        talk.restart()
    report = await talk.undoing.resolve("old", ("a",))
    assert [change.path for change in report.restored] == ["a"] and talk.state()[0] == {"a": "1", "b": "1"}
    _, _, report = await talk.undoing.redo()
    assert talk.state()[0] == {"a": "mine", "b": "2"}
    assert report.conflicts == ()


async def test_changes_in_other_lines_are_merged_and_overlapping_ones_are_not(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    lines = [f"line {number}\n" for number in range(9)]
    await talk.turn(1, a="".join(lines), b="".join(lines), c="x\0")
    changed = "".join(["agent\n", *lines[1:]])
    await talk.turn(2, a=changed, b=changed, c="y\0")
    talk.write("a", changed.replace("line 8", "mine"))
    talk.write("b", changed.replace("agent", "mine"))
    talk.write("c", "z\0")
    _, _, report = await talk.undoing.undo(1)
    assert {conflict.path for conflict in report.conflicts} == {"a", "b", "c"}
    merged = await talk.undoing.resolve("merge")
    assert [change.path for change in merged.restored] == ["a"]
    assert {conflict.path: conflict.reason.partition(":")[0].partition(";")[0] for conflict in merged.conflicts} == {
        "b": "both sides changed the same lines", "c": "it cannot be merged",
    }  # fmt: skip
    files = talk.state()[0]
    assert files["a"] == "".join(lines).replace("line 8", "mine") and files["b"].startswith("mine\n")
    await talk.undoing.redo()
    assert talk.state()[0]["a"] == changed.replace("line 8", "mine")


async def test_there_is_nothing_to_decide_after_a_new_prompt_or_without_a_conflict(talk: Talk) -> None:
    with pytest.raises(NothingToRestore, match="nothing to resolve"):
        await talk.undoing.resolve("old")
    await talk.undoing.undo(1)
    with pytest.raises(NothingToRestore, match="none was skipped"):
        await talk.undoing.resolve("old")
    await talk.turn(4, d="4")
    with pytest.raises(NothingToRestore, match="nothing to resolve"):
        await talk.undoing.resolve("old")


async def test_an_undo_that_was_torn_is_finished_by_the_next(talk: Talk) -> None:
    """Files went back, then the program was killed before the record: the same undo finds them so already."""
    before = list(talk.session.records)
    await talk.undoing.undo(1)
    talk.session = Session(before, None, saved=True)
    talk.restart()
    _, _, report = await talk.undoing.undo(1)
    assert report == type(report)() and talk.state() == ({"a": "2", "b": "1"}, ALL[:2])


_turns = st.lists(st.sampled_from(["t1", "t2", "t3", "t4"]), min_size=1, max_size=4, unique=True).map(sorted)
_acts = st.lists(st.tuples(_turns, st.sampled_from(["both", "code", "conversation"])), max_size=6)


@given(_acts)
@settings(max_examples=tries(60), deadline=None)
def test_each_redo_gives_back_exactly_what_its_undo_took(acts: list[tuple[list[str], Rewound]]) -> None:
    records: list[AnyRecord] = []
    states = [taken_back(records)]
    for number, (turns, what) in enumerate(acts):
        records.append(TurnsUndone(id=f"u{number}", turn_ids=tuple(turns), what=what))
        states.append(taken_back(records))
    for turns, _ in reversed(acts):
        assert states.pop() == taken_back(records)
        records.append(TurnsRedone(id="r", turn_ids=tuple(turns)))
        assert taken_back(records) == states[-1]


async def test_a_decision_is_not_taken_back_by_going_further_back(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, z1="1")
    await talk.turn(2, z2="2")
    talk.write("z2", "mine")
    await talk.undoing.undo(1)
    await talk.undoing.resolve("old")
    assert talk.state()[0] == {"z1": "1"}
    _, _, report = await talk.undoing.undo(1)
    assert talk.state()[0] == {} and report.conflicts == ()
    for state in ({"z1": "1"}, {"z1": "1", "z2": "mine"}):
        _, _, report = await talk.undoing.redo()
        assert talk.state()[0] == state and report.conflicts == ()


async def test_what_was_decided_counts_as_the_earlier_turn_left_it(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, a="1")
    await talk.turn(2, a="2")
    await talk.turn(3, a="3")
    talk.write("a", "mine")
    await talk.undoing.undo(1)
    await talk.undoing.resolve("old")
    _, _, report = await talk.undoing.undo(1)
    assert (talk.state()[0], report.conflicts) == ({"a": "1"}, ())


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_redo_leaves_alone_what_its_undo_left_alone(tmp_path: Path, restarted: bool, copies: bool) -> None:
    talk = Talk(tmp_path, copies=copies)
    await talk.turn(1, nums="1", gone="1", other="1")
    await talk.turn(2, nums="2", gone=None)
    talk.write("gone", "mine")
    await talk.turn(3, nums="3", other="3")
    talk.write("nums", "mine")
    before = talk.state()
    if restarted:
        talk.restart()
    _, _, report = await talk.undoing.rewind("t1", "both")
    assert {conflict.path for conflict in report.conflicts} == {"nums", "gone"}
    if restarted:
        talk.restart()
    _, _, report = await talk.undoing.redo()
    assert talk.state() == before
    assert report.conflicts == () and [change.path for change in report.restored] == ["other"]
    if restarted:
        talk.restart()
    with pytest.raises(NothingToRestore, match="none was skipped"):
        await talk.undoing.resolve("old")
    assert talk.state() == before


async def test_what_is_changed_after_the_undo_is_left_alone_by_the_redo_and_can_be_decided(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, a="1", b="1")
    await talk.turn(2, a="2", b="2")
    await talk.undoing.undo(1)
    talk.write("a", "mine")
    talk.restart()
    _, _, report = await talk.undoing.redo()
    assert [conflict.path for conflict in report.conflicts] == ["a"]
    await talk.undoing.resolve("old")
    assert talk.state()[0] == {"a": "2", "b": "2"}
    await talk.undoing.undo(1)
    assert talk.state()[0] == {"a": "1", "b": "1"}


async def test_the_redo_of_an_undo_that_was_torn_still_brings_all_back(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, a="1", b="1")
    await talk.turn(2, a="2", b="2")
    await talk.undoing.undo(1)
    kept = [each for each in talk.session.records if not isinstance(each, TurnsUndone)][:-1]
    talk.session = Session(kept, None, saved=True)
    talk.restart()
    talk.write("b", "2")
    await talk.undoing.undo(1)
    assert talk.state()[0] == {"a": "1", "b": "1"}
    await talk.undoing.redo()
    assert talk.state()[0] == {"a": "2", "b": "2"}


async def test_a_rehearsal_counts_from_one_end_to_the_other(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    await talk.turn(1, a="x\n")
    for number in range(2, 7):
        await talk.turn(number, a=f"{number}\n")
    _, report = await talk.undoing.would_undo("t2", "both")
    assert [(change.path, change.added, change.removed) for change in report.restored] == [("a", 1, 1)]


@pytest.mark.parametrize("seed", range(LEVEL or 3))
async def test_a_redo_mirrors_its_undo_whatever_the_user_changed_in_between(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    talk = Talk(tmp_path)

    def edits(who: str) -> dict[str, str | None]:
        there = {path.name for path in talk.root.iterdir()}
        found: dict[str, str | None] = {}
        for name in chance.sample("abcd", chance.randint(0, 3)):
            found[name] = None if name in there and chance.random() < 0.3 else f"{who}{chance.randint(0, 3)}"
        return found

    for number in range(1, 6):
        await talk.turn(number, **edits("agent"))
        for name, text in edits("user").items() if chance.random() < 0.6 else ():
            talk.write(name, text)
    states = []
    for _ in range(chance.randint(1, 3)):
        points = talk.undoing.points()
        if points:
            states.append(talk.state())
            await talk.undoing.rewind(chance.choice(points).turn_id, "both")
        if chance.random() < 0.5:
            with contextlib.suppress(NothingToRestore):
                await talk.undoing.resolve("old")
    talk.restart()
    for state in reversed(states):
        _, _, report = await talk.undoing.redo()
        assert (talk.state(), report.conflicts) == (state, ())

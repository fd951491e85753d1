"""What is told and kept about checkpoints, with a store of which every answer is known."""

import asyncio
import gc
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from agent_cli.engine.undo.turn_checkpoints import saved
from agent_cli.engine.undo.turn_undo import TurnUndo
from agent_cli.protocol.events import AnyEvent, Notice, RestoreReport
from agent_cli.protocol.messages import FileChange, ToolResult, UserMessage
from agent_cli.protocol.operations import Choice
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, CallStarted, CheckpointTaken, Header
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.session import Session
from agent_cli.workspace.checkpoints.types import CheckpointError, Move
from tests.engine.harness import memory_in


class Store:
    """Gives numbered checkpoints; the first may be interrupted."""

    def __init__(self, *, interrupted: bool = False) -> None:
        self.left_out: tuple[str, ...] = ()
        self.uncovered: tuple[str, ...] = ()
        self.needs_maintenance = False
        self.interrupted = interrupted
        self.taken = 0

    async def take(self, about: Sequence[Move] = ()) -> str:
        if self.interrupted:
            self.interrupted = False
            raise asyncio.CancelledError
        self.taken += 1
        return f"cp{self.taken}"

    async def cover(self, path: str, checkpoint: str) -> str:
        return checkpoint

    async def mark_own_changes(self, before: str, after: str, until_s: float) -> str:
        return after

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        return ()

    async def diff(self, before: str, after: str) -> str:
        return ""

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        return RestoreReport()

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        return RestoreReport()

    async def maintain(self) -> None:
        return


def session() -> Session:
    header = Header(
        id="s", seq=1, time=0.0, version=FORMAT_VERSION, session_id="s", cwd="/w", model="m", mode="ask",
        created_by="t", system="",
    )  # fmt: skip
    return Session((header,), None, saved=True)


async def test_a_turn_that_a_crash_tore_is_closed_although_the_first_try_was_interrupted(
    tmp_path: Path,
) -> None:
    kept = session()
    kept.append(UserMessage(id="m", turn_id="t1", text="go", origin="human"))
    kept.append(CheckpointTaken(id="c", turn_id="t1", when="before", checkpoint="cp0"))
    checkpointing = TurnUndo(kept, lambda: Store(interrupted=True), lambda event: None, memory_in(tmp_path))
    with pytest.raises(asyncio.CancelledError):
        await checkpointing.close_crashed_turns()
    await checkpointing.close_crashed_turns()
    assert checkpointing.saved(["t1"]) == {"t1": "whole"}


class SlowStore(Store):
    """Takes a checkpoint once the user was told that it takes long."""

    def __init__(self, told: asyncio.Event) -> None:
        super().__init__()
        self.told = told

    async def take(self, about: Sequence[Move] = ()) -> str:
        await asyncio.wait_for(self.told.wait(), 60)
        return await super().take(about)


async def test_a_checkpoint_that_takes_long_is_announced_and_a_quick_one_is_not(tmp_path: Path) -> None:
    told: list[AnyEvent] = []
    heard, memory = asyncio.Event(), memory_in(tmp_path)

    def hear(event: AnyEvent) -> None:
        told.append(event)
        heard.set()

    await TurnUndo(session(), Store, hear, memory).before_effect(TurnScope(hear, turn_id="t1"), ())
    assert told == []
    await TurnUndo(session(), lambda: SlowStore(heard), hear, memory).before_effect(
        TurnScope(hear, turn_id="t2"), ()
    )
    assert [event.text for event in told if isinstance(event, Notice)] == [
        "Saving the workspace for undo; a large one takes a while the first time."
    ]


class FullStore(Store):
    """Has room for no more than the given checkpoints."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    async def take(self, about: Sequence[Move] = ()) -> str:
        if self.taken == self.room:
            raise CheckpointError("the disk is full")
        return await super().take(about)


@pytest.mark.parametrize(("room", "saved"), [(0, "none"), (1, "whole")])
async def test_on_a_full_disk_the_known_changes_are_named_and_undo_tries_again(
    tmp_path: Path, room: int, saved: str
) -> None:
    told: list[AnyEvent] = []
    store, kept = FullStore(room), session()
    checkpointing = TurnUndo(kept, lambda: store, told.append, memory_in(tmp_path))
    kept.append(UserMessage(id="m", turn_id="t1", text="go", origin="human"))
    await checkpointing.before_effect(TurnScope(told.append, turn_id="t1"), ())
    for number, kind in enumerate(("created", "modified")):
        change = FileChange("a.txt", kind, added=2)
        kept.append(
            ToolResult(
                id=f"r{number}",
                turn_id="t1",
                call_id=f"c{number}",
                tool="t",
                status="ok",
                text="",
                changes=(change,),
            )
        )
    assert await checkpointing.after_turn("t1") == (FileChange("a.txt", "created", added=4),)
    (notice,) = [event.text for event in told if isinstance(event, Notice)]
    assert "the disk is full" in notice and ("cannot be undone" in notice) == (room == 0)
    store.room += 1
    await checkpointing.close_crashed_turns()
    assert checkpointing.saved(["t1"]) == {"t1": saved}


class Counted(list[AnyRecord]):
    """Records that count how often they are read through."""

    passes = 0

    def __iter__(self) -> Iterator[AnyRecord]:
        self.passes += 1
        return super().__iter__()


def test_how_far_a_thousand_turns_are_saved_is_read_from_the_records_as_quickly_as_for_one() -> None:
    turns = [f"t{number}" for number in range(1000)]
    records = Counted(UserMessage(id=f"m{turn}", turn_id=turn, text="go") for turn in turns)
    records.append(CallStarted(id="s", turn_id="t7", call_id="c"))
    assert set(saved(records, turns).values()) == {"none", "lost"}
    for_all, records.passes = records.passes, 0
    saved(records, turns[:1])
    assert for_all == records.passes


async def test_files_that_are_too_large_are_named_once(tmp_path: Path) -> None:
    told: list[AnyEvent] = []
    store = Store()
    checkpointing = TurnUndo(session(), lambda: store, told.append, memory_in(tmp_path))
    for turn, names in (("t1", "abcdefg"), ("t2", "abcdefg"), ("t3", "ah")):
        store.left_out = tuple(names)
        await checkpointing.before_effect(TurnScope(told.append, turn_id=turn), ())
        await checkpointing.after_turn(turn)
    texts = [event.text for event in told if isinstance(event, Notice)]
    store.left_out, store.uncovered = (), ("big/ (ignored, 2,001 files)",)
    for _ in range(2):
        await checkpointing.after_turn("t3")
    assert told[-1] == Notice(level="info", text="Undo will not restore: big/ (ignored, 2,001 files).")
    assert len(told) == len(texts) + 1
    assert texts == [
        "Undo will not restore files that are too large: a, b, c, d, e and 2 more.",
        "Undo will not restore files that are too large: h.",
    ]


async def test_the_workspace_is_saved_in_advance_once_and_only_where_there_is_room(tmp_path: Path) -> None:
    store = Store()
    undo = TurnUndo(session(), lambda: store, lambda event: None, memory_in(tmp_path))
    undo.prepare("/proc/nothing is free here")
    await asyncio.sleep(0)
    assert store.taken == 0
    for _ in range(2):
        undo.prepare(str(tmp_path / "session.json"))
    await asyncio.sleep(0)
    assert store.taken == 1
    await undo.aclose()


async def test_leaving_before_the_save_in_advance_has_begun_says_nothing(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    undo = TurnUndo(session(), Store, lambda event: None, memory_in(tmp_path))
    undo.prepare(str(tmp_path / "session.json"))
    await undo.aclose()
    await asyncio.sleep(0)
    gc.collect()
    assert not [each.message for each in recwarn if "never awaited" in str(each.message)]

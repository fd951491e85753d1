"""What somebody else changes while a turn goes on is theirs: undo leaves it alone and says so.

Between two calls, and behind the last one, the model is asked: it is there that the others write, with more time
around it than file times may differ from the clock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import Notice, Restored, TurnCompleted
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Redo, Resolve, Undo
from agent_cli.protocol.records import CheckpointTaken
from agent_cli.workspace.checkpoints.types import FOREIGN
from tests.engine.harness import Engine, engine
from tests.model.scripted import Reply, ScriptedModel, call, say

APART_S = 0.15


class Meanwhile(ScriptedModel):
    """Answers after somebody else has done something."""

    def __init__(self, *script: Reply, deeds: dict[int, Callable[[], object]]) -> None:
        super().__init__(*script)
        self._deeds = deeds

    async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
        if deed := self._deeds.get(len(self.requests)):
            await asyncio.sleep(APART_S)
            if isinstance(done := deed(), Awaitable):
                await done
            await asyncio.sleep(APART_S)
        async for event in super().stream(request):
            yield event


def write(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(text, encoding="utf-8")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def conflicts(it: Engine) -> dict[str, str]:
    return {each.path: each.reason for each in it.of(Restored)[-1].report.conflicts}


EDIT = say(call("write_file", path="ours.txt", content="by the agent\n"))
COMMAND = say(call("shell", command="echo more >> ours.txt; echo x > made; mkdir d; echo y > d/e; rm gone"))


async def test_undo_takes_back_the_turn_and_leaves_what_others_did_meanwhile(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "theirs.txt").write_text("before\n", encoding="utf-8")
    (work / "gone").write_text("kept\n", encoding="utf-8")
    deeds = {1: write(work / "theirs.txt", "by the user\n"), 2: write(work / "new.txt", "new\n")}
    async with engine(tmp_path, model=Meanwhile(EDIT, COMMAND, say("done"), deeds=deeds), mode="yolo") as it:
        ended = await it.prompt("go")
        assert isinstance(ended, TurnCompleted)
        assert {change.path for change in ended.changes} == {"ours.txt", "made", "d/e", "gone"}
        await it.do(Undo())
        assert conflicts(it) == {"theirs.txt": FOREIGN, "new.txt": FOREIGN}
        assert sorted(path.name for path in it.root.iterdir()) == ["gone", "new.txt", "theirs.txt"]
        assert (text(work / "theirs.txt"), text(work / "new.txt")) == ("by the user\n", "new\n")
        await it.do(Redo())
        assert text(work / "ours.txt") == "by the agent\nmore\n" and not (work / "gone").exists()
        assert (text(work / "theirs.txt"), text(work / "new.txt")) == ("by the user\n", "new\n")


async def test_a_file_that_both_changed_is_left_as_it_is_and_can_be_decided(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    ours = tmp_path / "work" / "ours.txt"
    deeds = {1: write(ours, "by the agent\nand the user\n")}
    async with engine(tmp_path, model=Meanwhile(EDIT, say("done"), deeds=deeds), mode="yolo") as it:
        ended = await it.prompt("go")
        assert isinstance(ended, TurnCompleted)
        assert [(each.path, each.added) for each in ended.changes] == [("ours.txt", 1)], "what the agent wrote"
        assert [each.text for each in it.of(Notice) if "undo leaves it alone: ours.txt." in each.text]
        await it.do(Undo())
        assert conflicts(it) == {"ours.txt": FOREIGN} and text(ours) == "by the agent\nand the user\n"
        await it.do(Resolve("old", ("ours.txt",)))
        assert not ours.exists()


def _folder_of_old(work: Path) -> None:
    (work / "old" / "deep").mkdir(parents=True)
    (work / "old" / "deep" / "f").write_text("kept\n", encoding="utf-8")


async def test_files_in_a_folder_that_the_agent_renames_are_the_agents(tmp_path: Path) -> None:
    _folder_of_old(tmp_path / "work")
    await asyncio.sleep(APART_S)
    rename = say(call("shell", command="mv old new; mkdir in; mv new in"))
    async with engine(tmp_path, model=Meanwhile(rename, say("done"), deeds={}), mode="yolo") as it:
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {} and [path.name for path in it.root.iterdir()] == ["old"]
        assert text(it.root / "old" / "deep" / "f") == "kept\n"


async def test_files_in_a_folder_that_somebody_else_renames_are_theirs(tmp_path: Path) -> None:
    _folder_of_old(tmp_path / "work")
    await asyncio.sleep(APART_S)
    deeds = {1: lambda: (tmp_path / "work" / "old").rename(tmp_path / "work" / "new")}
    async with engine(tmp_path, model=Meanwhile(EDIT, say("done"), deeds=deeds), mode="yolo") as it:
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {"new/deep/f": FOREIGN} and text(it.root / "new" / "deep" / "f") == "kept\n"


async def test_what_a_job_changes_behind_its_call_is_the_agents(tmp_path: Path) -> None:
    command = "while ! test -e ../go; do sleep 0.01; done; echo late > late; touch ../done; sleep 60"
    deeds = {1: lambda: ((tmp_path / "go").touch(), _until((tmp_path / "done").exists))}
    job = say(call("shell", command=command, background=True))
    async with engine(tmp_path, model=Meanwhile(job, say("done"), deeds=deeds), mode="yolo") as it:
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {} and not (it.root / "late").exists()


async def test_what_others_change_once_a_job_has_ended_is_theirs(tmp_path: Path) -> None:
    command = "while ! test -e ../go; do sleep 0.01; done; echo late > late"

    async def deed() -> None:
        (tmp_path / "go").touch()
        async with asyncio.timeout(60):
            while next(iter(it.context.jobs)).running.gone.done() is False:
                await asyncio.sleep(0.01)
        await asyncio.sleep(APART_S)
        write(it.root / "theirs.txt", "by the user\n")()

    job = say(call("shell", command=command, background=True))
    async with engine(tmp_path, model=Meanwhile(job, say("done"), deeds={1: deed}), mode="yolo") as it:
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {"theirs.txt": FOREIGN}
        assert [path.name for path in it.root.iterdir()] == ["theirs.txt"]


async def test_what_others_change_while_a_job_of_an_earlier_turn_runs_is_theirs(tmp_path: Path) -> None:
    server = say(call("shell", command="sleep 60", background=True))
    script, deeds = (server, say("it runs"), EDIT, say("done")), {3: write(tmp_path / "work" / "new.txt", "new\n")}
    async with engine(tmp_path, model=Meanwhile(*script, deeds=deeds), mode="yolo") as it:
        await it.prompt("start the server")
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {"new.txt": FOREIGN}
        assert [path.name for path in it.root.iterdir()] == ["new.txt"]


async def test_what_a_job_changes_that_was_sent_input_is_the_agents(tmp_path: Path) -> None:
    reader = say(call("shell", command="read go; echo late > late; touch ../done; sleep 60", background=True))
    send = say(call("jobs", action="send", job="1", text="go\n"))
    script, deeds = (reader, say("it waits"), send, say("done")), {3: lambda: _until((tmp_path / "done").exists)}
    async with engine(tmp_path, model=Meanwhile(*script, deeds=deeds), mode="yolo") as it:
        await it.prompt("start it")
        await it.prompt("go")
        await it.do(Undo())
        assert conflicts(it) == {} and not (it.root / "late").exists()


def _until(condition: Callable[[], bool]) -> None:
    import time

    while not condition():
        time.sleep(0.01)


@pytest.mark.parametrize("found", [["others.txt"], []])
async def test_a_record_names_what_is_theirs(tmp_path: Path, found: list[str]) -> None:
    deeds = {1: write(tmp_path / "work" / "others.txt", "x\n")} if found else {}
    async with engine(tmp_path, model=Meanwhile(EDIT, say("done"), deeds=deeds), mode="yolo") as it:
        ended = await it.prompt("go")
        assert isinstance(ended, TurnCompleted) and ended.changes == (FileChange("ours.txt", "created", 1, 0),)
        taken = [record for record in it.session.records if isinstance(record, CheckpointTaken)]
        assert [list(record.foreign) for record in taken] == [[], found]

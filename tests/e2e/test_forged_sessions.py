"""Session files that somebody else wrote, in the folder of the sessions: `undo` changes nothing but the workspace and
the blocks of memory, whatever they say."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

EVIL = "echo evil\n"


def forge(world: World, **changes: Any) -> None:
    """Give the records of a type other values: TYPE_FIELD=VALUE, or a function of the record."""
    (path,) = world.sessions()
    records = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        kind, _, field = name.rpartition("__")
        for record in records:
            if record["type"] == kind:
                record[field] = value(record) if callable(value) else value
    lines = ",\n".join(json.dumps(record) for record in records)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


@pytest.mark.parametrize("before", ["mine\n", None])
def test_a_change_to_memory_that_names_another_file_is_not_undone(world: World, before: str | None) -> None:
    own = world.home / ".bashrc"
    if before is not None:
        own.write_text(before, encoding="utf-8")
    world.script(shell("echo hi > a.txt"), Reply(text="done"))
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    forge(world, tool_result__memory=[{"path": str(own), "before": EVIL, "after": before}])
    done = world.run("undo")
    assert done.code == 1 and "not a memory block of this session" in done.out, done
    assert not (world.work / "a.txt").exists()
    assert own.exists() == (before is not None) and (before is None or own.read_text() == before)


def test_memory_itself_is_undone_and_redone(world: World) -> None:
    note = Call("memory", {"action": "append", "block": "notes", "text": "kept"})
    world.script(Reply(calls=(note,)), Reply(text="done"))
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    (file,) = (world.state / "notes").glob("*/*.md")
    text = file.read_text(encoding="utf-8")
    assert "kept" in text and world.run("undo").code == 0 and not file.exists()
    assert world.run("redo").code == 0 and file.read_text(encoding="utf-8") == text


def test_undo_in_a_copy_of_a_session_changes_its_own_notes(world: World) -> None:
    note = Call("memory", {"action": "append", "block": "notes", "text": "kept"})
    world.script(Reply(calls=(note,)), Reply(text="done"), Reply(text="more"))
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    assert world.run("run", "go on", "-c", "--fork").code == 0
    first, second = sorted((world.state / "notes").glob("*/*.md"), key=lambda each: each.stat().st_ctime_ns)
    assert first.read_text(encoding="utf-8") == second.read_text(encoding="utf-8")
    assert world.run("undo", "--turns", "2").code == 0
    assert first.exists() and not second.exists()


@pytest.mark.parametrize("given", ["--output=stolen", "HEAD", "../../x", "0" * 39])
def test_what_is_no_checkpoint_is_not_given_to_git(world: World, given: str) -> None:
    world.script(shell("echo hi > a.txt"), Reply(text="done"))
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    forge(world, checkpoint__checkpoint=lambda each: given if each["when"] == "before" else each["checkpoint"])
    done = world.run("undo")
    assert done.code == 1 and f"{given!r} is not a checkpoint" in done.out, done
    assert (world.work / "a.txt").exists()


def test_without_git_a_checkpoint_in_the_workspace_is_not_believed(world: World) -> None:
    """Such a list could name any file, and any file as its content."""
    own = world.home / ".bashrc"
    own.write_text("mine\n", encoding="utf-8")
    programs = world.home / "bin"
    programs.mkdir()
    (programs / "env").symlink_to("/usr/bin/env")
    env = {"PATH": str(programs)}
    write = Call("write_file", {"path": "a.txt", "content": "a\n"})
    world.script(Reply(calls=(write,)), Reply(text="done"))
    assert world.run("run", "go", "--mode", "auto-edit", env=env).code == 0
    (world.work / "evil").write_text(EVIL, encoding="utf-8")
    path = os.fsencode(os.path.relpath(own, world.work)).hex()
    mine = hashlib.sha1(b"blob 5\0mine\n").hexdigest()
    for name, blob in (("before", str(world.work / "evil")), ("after", mine)):
        entry = {"blob": blob, "kind": "100644", "mode": 0o644}
        (world.work / name).write_text(json.dumps({path: entry}), encoding="utf-8")
    forge(world, checkpoint__checkpoint=lambda record: str(Path(world.work, record["when"])))
    done = world.run("undo", env=env)
    assert done.code == 1 and "is not a checkpoint" in done.out, done
    assert own.read_text(encoding="utf-8") == "mine\n"

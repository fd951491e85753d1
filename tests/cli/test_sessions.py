"""`agent sessions`: saved sessions listed, shown, deleted."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.world import Done, World, finish, shell
from tests.model.server import Reply


def talk(world: World, prompt: str, answer: str = "Done.", cwd: Path | None = None) -> str:
    """One run; returns its session's id."""
    world.script(Reply(text=answer))
    assert world.run("run", prompt, cwd=cwd).code == 0
    return world.sessions()[-1].stem.rpartition("-")[2]


def test_without_a_session_the_list_says_so(world: World) -> None:
    assert world.run("sessions", "list") == Done(0, "No session yet. Start one with `agent`.\n", "")
    assert world.run("sessions", "list", "--json") == Done(0, "[]\n", "")


def test_the_list_is_of_this_directory_newest_first(world: World) -> None:
    other = world.home / "other"
    other.mkdir()
    first = talk(world, "the first\nwith more lines")
    elsewhere = talk(world, "elsewhere", cwd=other)
    second = talk(world, "the second")
    lines = world.run("sessions", "list").out.splitlines()
    assert [(line.split()[0], line.split("  ")[2]) for line in lines] == [
        (second, "the second"),
        (first, "the first"),
    ]
    everywhere = world.run("sessions", "list", "--all").out.splitlines()
    assert [(line.split()[0], line.split("  ")[-1]) for line in everywhere] == [
        (second, str(world.work)),
        (elsewhere, str(other)),
        (first, str(world.work)),
    ]


def test_the_list_as_json(world: World) -> None:
    identifier = talk(world, "count to three")
    (path,) = world.sessions()
    (info,) = json.loads(world.run("sessions", "list", "--json").out)
    assert info == {
        "id": identifier, "path": str(path), "cwd": str(world.work), "title": "count to three",
        "created": world.records("session")[0]["time"], "updated": path.stat().st_mtime,
        "model": "openai/mock-model", "branches": [], "turns": 1, "cost_usd": None,
        "size_bytes": path.stat().st_size, "named": False,
    }  # fmt: skip


def test_a_session_is_shown_as_a_conversation(world: World) -> None:
    world.script(shell("echo hi; exit 3"), Reply(text="It \x1b[31mfailed."))
    world.run("run", "try it", "--mode", "yolo")
    identifier = world.sessions()[0].stem.rpartition("-")[2]
    done = world.run("sessions", "show", identifier[:3])
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "", "[1] > try it", "  [shell: failed] hi", "", "It failed.", "",
        "1 prompts, 2 model calls, cost unknown", str(world.sessions()[0]),
    ]  # fmt: skip
    assert json.loads(world.run("sessions", "show", identifier, "--json").out) == world.records()


def test_a_damaged_line_is_told_when_a_session_is_shown(world: World) -> None:
    talk(world, "hello")
    (path,) = world.sessions()
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:3], '{"type":"bogus"},', *lines[3:]]) + "\n", encoding="utf-8")
    out = world.run("sessions", "show", path.stem.rpartition("-")[2]).out
    assert "line 4 of the session is damaged and left out: " in out and "> hello" in out
    assert "1 damaged lines; `agent sessions repair " in out
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_prefix_that_fits_several_sessions_names_them(world: World) -> None:
    one = talk(world, "one")
    (path,) = world.sessions()
    twin = path.with_name(path.name.replace(one, one[:4] + "ffff"))
    twin.write_bytes(path.read_bytes())
    twin.chmod(0o600)
    done = world.run("sessions", "show", one[:4])
    ids = ", ".join(sorted([one, one[:4] + "ffff"]))
    assert done == Done(2, "", f"agent: '{one[:4]}' is not unique: {ids}; give more of the id\n")
    assert world.run("sessions", "show", one).code == 0


def test_a_session_is_deleted_with_what_it_spilled(world: World) -> None:
    world.script(shell("seq 1 100000"), Reply(text="Long."))
    world.run("run", "count")
    (path,) = world.sessions()
    spill = world.state / "spill" / path.stem.rpartition("-")[2]
    assert [file.stat().st_size > 500_000 for file in spill.glob("*.txt")] == [True]
    done = world.run("sessions", "delete", path.stem.rpartition("-")[2], "--yes")
    assert done == Done(0, f"Deleted {path}\n", "")
    assert (path.exists(), spill.exists()) == (False, False)


@pytest.mark.parametrize("prefix", ["", "zz"])
def test_nothing_is_deleted_by_a_name_that_fits_nothing(world: World, prefix: str) -> None:
    talk(world, "keep me")
    assert world.run("sessions", "delete", prefix, "--yes").code == 2
    assert len(world.sessions()) == 1


def test_nothing_is_deleted_where_nobody_can_be_asked(world: World) -> None:
    identifier = talk(world, "keep me")
    done = world.run("sessions", "delete", identifier)
    assert done == Done(2, "", "agent: nobody can be asked here; add --yes\n")
    assert len(world.sessions()) == 1


def test_a_session_in_use_is_not_deleted(world: World) -> None:
    world.script(Reply(hang="before_headers"))
    running = world.start("run", "wait", stdin=subprocess.DEVNULL)
    while not world.bodies():
        assert running.poll() is None
    identifier = world.sessions()[0].stem.rpartition("-")[2]
    done = world.run("sessions", "delete", identifier, "--yes")
    assert (done.code, "is in use by another process" in done.err, len(world.sessions())) == (1, True, 1)
    running.terminate()
    assert finish(running).code == 143


def test_a_session_is_shown_without_the_secrets_it_holds(world: World) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    world.script(Reply(text=f"Use {token} here."))
    world.run("run", f"my token is {token}")
    assert token in world.sessions()[0].read_text(encoding="utf-8")
    identifier = world.records("session")[0]["session_id"]
    for more in ((), ("--json",)):
        shown = world.run("sessions", "show", identifier, *more)
        assert shown.code == 0 and token not in shown.out and shown.out.count("[masked: ") >= 2
    assert json.loads(world.run("sessions", "show", identifier, "--json").out)

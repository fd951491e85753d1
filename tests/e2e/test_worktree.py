"""`agent -w` and `agent worktree` through the program."""

import json
import os
from pathlib import Path

from tests.cli.running import Commands
from tests.e2e.person import Person
from tests.e2e.world import World
from tests.model.server import Call, Reply
from tests.workspace.worktrees.test_worktrees import git, put


def repository(world: World) -> Path:
    repo = Path(os.path.realpath(world.work))
    git(repo, "init", "-q", "-b", "main")
    put(repo, "a.txt", "one\ntwo\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "one")
    return repo


def listed(agent: World | Commands) -> list[dict[str, object]]:
    done = agent.run("worktree", "list", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["worktrees"]
    assert isinstance(found, list)
    return found


def test_a_run_works_in_a_worktree_which_is_entered_again_merged_and_cleaned(
    world: World, agent: Commands
) -> None:
    repo = repository(world)
    put(repo, "b.txt", "uncommitted\n")
    world.script(
        Reply(calls=(Call("write_file", {"path": "made.txt", "content": "one\n"}),)), Reply(text="Done."),
        Reply(calls=(Call("shell", {"command": "cat b.txt made.txt; echo two >> made.txt"}),)), Reply(text="Done."),
    )  # fmt: skip
    done = world.run("run", "go", "--mode", "yolo", "-w", "idea")
    assert done.code == 0 and not (repo / "made.txt").exists(), done.err
    assert "1 file changed in the worktree idea" in done.err and "agent worktree merge idea" in done.err
    done = world.run("run", "go on", "--mode", "yolo", "--worktree=idea")
    assert done.code == 0 and "uncommitted\none" in world.messages(-1, "tool")[-1], done.err
    (one,) = listed(agent)
    assert one["name"] == "idea" and one["root"] == str(repo) and not one["is_in_use"]
    assert "neither merged nor saved" in str(one["stays"])
    assert "Left 1 worktree" in agent.run("worktree", "clean").out and len(listed(agent)) == 1
    asked = agent.run("worktree", "merge", "idea")
    assert asked.code == 2 and "+one" in asked.out and "--yes" in asked.err and not (repo / "made.txt").exists()
    merged = agent.run("worktree", "merge", "idea", "--yes")
    assert merged.code == 0 and (repo / "made.txt").read_text() == "one\ntwo\n", merged.err
    assert git(repo, "status", "--porcelain") == "?? b.txt\n?? made.txt\n"
    shown = agent.run("worktree", "list").out
    assert "idea" in shown and "can go" in shown
    assert "Would remove 1 worktree" in agent.run("worktree", "clean", "--dry-run").out and len(listed(agent)) == 1
    assert agent.run("worktree", "clean", "--keep-gb", "5").out.startswith("Removed 0") and len(listed(agent)) == 1
    assert "Removed 1 worktree" in agent.run("worktree", "clean").out and listed(agent) == []
    assert not [name for name in os.listdir(repo / ".git") if "worktree" in name]
    assert "There are no worktrees" in agent.run("worktree", "list").out


def test_names_that_are_not_utf_8_are_no_obstacle(world: World) -> None:
    world.work = world.work / "caf\udce9"
    world.work.mkdir()
    repo = repository(world)
    put(repo, "new\udcff.txt", "uncommitted\n")
    put(repo, ".gitignore", "*.local\n")
    put(repo, ".worktreeinclude", "*.local\n")
    put(repo, "copied\udcff.local", "copied\n")
    world.script(
        Reply(calls=(Call("shell", {"command": "cat *.txt *.local > made"}),)), Reply(text="Done."),
        Reply(text="Nothing more."),
    )  # fmt: skip
    done = world.run("run", "go", "--mode", "yolo", "-w", "idea")
    assert done.code == 0, done.err
    again = world.run("run", "go on", "-w", "idea")
    assert again.code == 0, again.err
    (one,) = listed(world)
    assert one["root"] == str(repo)
    merged = world.run("worktree", "merge", "idea", "--yes")
    assert merged.code == 0, merged.err
    assert (repo / "made").read_text() == "one\ntwo\nuncommitted\ncopied\n"
    assert (repo / "copied\udcff.local").read_text() == "copied\n"


def test_a_conflict_merges_nothing(world: World) -> None:
    repo = repository(world)
    world.script(
        Reply(calls=(Call("shell", {"command": "echo theirs > a.txt; echo new > new.txt"}),)), Reply(text="Done.")
    )
    assert world.run("run", "go", "--mode", "yolo", "-w", "idea", "-q").err == ""
    put(repo, "a.txt", "mine\n")
    done = world.run("worktree", "merge", "idea", "--yes")
    assert done.code == 1 and "Nothing was merged" in done.out and "a.txt" in done.out
    assert (repo / "a.txt").read_text() == "mine\n" and not (repo / "new.txt").exists()
    assert len(listed(world)) == 1


def test_a_session_in_a_worktree_is_left_with_a_word_about_it(world: World) -> None:
    repo = repository(world)
    world.script(Reply(calls=(Call("shell", {"command": "pwd; echo two > two.txt"}),)), Reply(text="Done."))
    with Person(world, "-w", "idea", "--mode", "yolo") as person:
        person.ask("go")
        (one,) = listed(world)
        assert one["is_in_use"] and "working in it" in str(one["stays"])
        busy = world.run("run", "go", "-w", "idea")
        assert busy.code == 2 and "working in the worktree idea" in busy.err
        assert "working in the worktree idea" in world.run("worktree", "merge", "idea").err
        person.leave()
    assert str(one["path"]) in world.messages(-1, "tool")[-1] and not (repo / "two.txt").exists()


def test_what_cannot_be_had_is_said(world: World, agent: Commands) -> None:
    assert "no git repository" in world.run("run", "go", "-w", "idea").err
    repository(world)
    for name in ("../up", ".git", "a b", ""):
        done = agent.run("run", "go", "-w", name)
        assert done.code == 2 and "cannot be the name of a worktree" in done.err
    done = agent.run("worktree", "merge", "nothing")
    assert done.code == 2 and "there is no worktree 'nothing'" in done.err
    assert "agent worktree list" in agent.run("worktrees").err

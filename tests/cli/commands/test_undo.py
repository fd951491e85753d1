"""`agent undo` and `agent redo`: files and conversation, without a REPL and without a model."""

import json
import os
import re
import subprocess

import pytest

from agent_cli.store.session_file import SessionFile
from tests.cli.running import Commands, said
from tests.e2e.world import AGENT, Done, World, shell
from tests.launchers import WITHOUT_PRIVILEGE
from tests.model.server import Reply

CHANGE = "printf 'two\\n' > a.txt; printf 'new\\n' > b.txt; rm c.txt"


@pytest.fixture
def changed(world: World) -> World:
    """A workspace in which a run has changed a file, created one and deleted one."""
    for name in ("a.txt", "c.txt"):
        (world.work / name).write_text("one\n", encoding="utf-8")
    world.script(shell(CHANGE), Reply(text="Changed."))
    assert world.run("run", "change\neverything", "--mode", "yolo").code == 0
    assert files(world) == {"a.txt": "two\n", "b.txt": "new\n"}
    return world


def shell_in(world: World, script: str) -> None:
    """A script of the user's in the workspace."""
    name = {
        "GIT_AUTHOR_NAME": "n",
        "GIT_AUTHOR_EMAIL": "e@e",
        "GIT_COMMITTER_NAME": "n",
        "GIT_COMMITTER_EMAIL": "e@e",
    }
    env = {**os.environ, **name, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["sh", "-ec", script], cwd=world.work, check=True, env=env)


def files(world: World) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(world.work.iterdir())}


BEFORE = {"a.txt": "one\n", "c.txt": "one\n"}
AFTER = {"a.txt": "two\n", "b.txt": "new\n"}


def test_undo_takes_every_file_back_and_redo_brings_them_again_as_dry_runs_have_said(
    changed: World, agent: Commands
) -> None:
    told = ["  created   c.txt", "  deleted   b.txt", "  modified  a.txt"]
    records = changed.records()
    dry = agent.run("undo", "--dry-run")
    assert (dry.code, dry.err, files(changed)) == (0, "", AFTER) and changed.records() == records
    assert sorted(dry.out.splitlines()) == [
        f"{told[0]}  +1 -0",
        f"{told[1]}  +0 -1",
        f"{told[2]}  +1 -1",
        "Would undo: change",
    ]
    undone = agent.run("undo")
    assert (undone.code, undone.err, files(changed)) == (0, "", BEFORE)
    assert sorted(undone.out.splitlines()) == [*told, "Undid: change"]

    told = ["  created   b.txt", "  deleted   c.txt", "  modified  a.txt"]
    dry = agent.run("redo", "--dry-run")
    assert (dry.code, files(changed)) == (0, BEFORE)
    assert sorted(dry.out.splitlines()) == [
        f"{told[0]}  +1 -0",
        f"{told[1]}  +0 -1",
        f"{told[2]}  +1 -1",
        "Would redo: change",
    ]
    redone = agent.run("redo")
    assert (redone.code, redone.err, files(changed)) == (0, "", AFTER)
    assert sorted(redone.out.splitlines()) == [*told, "Redid: change"]

    agent.run("undo")
    changed.script(Reply(text="Fine."))
    assert changed.run("run", "-c", "and now?").code == 0
    assert [text.endswith("and now?") for text in changed.messages()] == [True], "the model does not see the turn"


def test_a_name_cannot_pass_for_further_rows(world: World) -> None:
    world.script(shell("printf x > \"$(printf 'a\\nUndid: all\\tof it')\""), Reply(text="done"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert "  deleted   a^JUndid: all^Iof it  +0 -1\n" in world.run("undo", "--dry-run").out
    assert world.run("undo").out == "Undid: go\n  deleted   a^JUndid: all^Iof it\n" and files(world) == {}


def test_the_list_numbers_the_turns_as_the_session_is_shown(changed: World) -> None:
    changed.script(Reply(text="Nothing to do."), Reply(text="Still nothing."))
    changed.run("run", "-c", "only talk")
    done = changed.run("undo", "--list")
    assert done == Done(0, "  1  change  (files saved)\n  2  only talk  (no file changed)\n", "")
    changed.run("undo")
    assert changed.run("undo", "--list") == Done(0, "  1  change  (files saved)\n", "")
    changed.run("run", "-c", "more talk")
    listed = "  1  change  (files saved)\n  3  more talk  (no file changed)\n"
    assert changed.run("undo", "--list") == Done(0, listed, "")
    missing = changed.run("undo", "--to", "2")
    assert missing.code == 1 and missing.out.startswith("There is no prompt 2 to go back to")
    assert changed.run("undo", "--to", "3") == Done(0, "Undid: more talk\n", "")
    assert changed.run("undo", "--to", "1").code == 0 and files(changed) == BEFORE


def test_while_another_process_holds_the_session_it_can_be_looked_at(changed: World, agent: Commands) -> None:
    held, _ = SessionFile.open(changed.sessions()[0])
    try:
        assert agent.run("undo", "--list") == Done(0, "  1  change  (files saved)\n", "")
        assert agent.run("redo", "--list") == Done(0, "There is nothing to redo.\n", "")
        dry = agent.run("undo", "--dry-run")
        assert (dry.code, dry.err) == (0, "") and "  modified  a.txt  +1 -1\n" in dry.out
        assert dry.out.startswith("note: another process uses the session")
        for words, command in (
            (["undo"], "/undo"), (["redo"], "/redo"), (["undo", "--resolve", "old"], "/resolve")
        ):  # fmt: skip
            refused = agent.run(*words)
            assert refused.code == 1 and files(changed) == AFTER
            told = f"is in use by another process: type {command} there, or close it first"
            assert told in refused.err and "--fork" not in refused.err
    finally:
        held.close()


def test_a_turn_that_was_cut_off_is_listed_as_such(changed: World) -> None:
    path = changed.sessions()[0]
    kept = [line for line in path.read_bytes().split(b"\n") if b'"when":"after"' not in line]
    path.write_bytes(b"\n".join(kept).rstrip(b"]\n, ") + b"\n]\n")
    told = "  1  change  (files saved before it, but not at its end: it was cut off or still runs)\n"
    assert changed.run("undo", "--list") == Done(0, told, "")
    held, _ = SessionFile.open(path)
    try:
        dry = changed.run("undo", "--dry-run")
        assert dry.code == 1 and "its checkpoint is incomplete: “change”. `agent undo --conversation`" in dry.out
    finally:
        held.close()


def test_help_names_the_words_and_whose_numbers_count(changed: World) -> None:
    told = " ".join(changed.run("undo", "--help").out.replace("│", " ").split())
    assert "mine|old|merge" in told and "agent sessions show" in told


def test_what_undo_leaves_in_git_is_told(world: World) -> None:
    shell_in(world, "git init -q -b main; printf one > a.txt; git add .; git commit -qm one")
    world.script(
        shell("printf two > a.txt; git -c user.name=n -c user.email=e@e commit -qam two"), Reply(text="Done.")
    )
    assert world.run("run", "change", "--mode", "yolo", "--sandbox", "off").code == 0
    undone = world.run("undo")
    note = re.search(
        r"note: not changed: git's index and HEAD \(before the turn HEAD was ([0-9a-f]{7}) on main; git reset \1 goes",
        undone.out,
    )
    assert (
        note
        and undone.code == 1
        and {"a.txt": (world.work / "a.txt").read_text(encoding="utf-8")} == {"a.txt": "one"}
    )
    assert world.run("redo") == Done(0, "Redid: change\n  modified  a.txt\n", "")


def test_one_undo_takes_one_turn_and_leaves_the_others(changed: World) -> None:
    changed.script(shell("printf 'three\\n' > a.txt"), Reply(text="Again."))
    changed.run("run", "-c", "once more", "--mode", "yolo")
    assert changed.run("undo").out == "Undid: once more\n  modified  a.txt\n"
    assert files(changed) == AFTER
    assert changed.run("undo").code == 0
    assert files(changed) == BEFORE


def test_a_file_changed_since_is_left_alone_and_the_exit_code_says_so(changed: World) -> None:
    (changed.work / "a.txt").write_text("mine\n", encoding="utf-8")
    done = changed.run("undo")
    assert (done.code, done.err) == (1, "")
    assert "  skipped a.txt: modified after this turn" in done.out.splitlines()
    assert files(changed) == {"a.txt": "mine\n", "c.txt": "one\n"}


def test_nothing_to_undo_or_redo_is_said_with_exit_1(changed: World, agent: Commands) -> None:
    assert agent.run("redo") == Done(1, "There is nothing to redo.\n", "")
    assert agent.run("redo", "--dry-run") == Done(1, "There is nothing to redo.\n", "")
    agent.run("undo")
    assert agent.run("undo") == Done(1, "There is no turn to undo.\n", "")
    assert agent.run("undo", "--dry-run") == Done(1, "There is nothing to undo.\n", "")
    assert agent.run("undo", "--list") == Done(0, "There is no turn to undo.\n", "")


def test_after_new_work_there_is_nothing_to_redo(changed: World) -> None:
    changed.run("undo")
    changed.script(Reply(text="Another way."))
    changed.run("run", "-c", "something else")
    assert changed.run("redo") == Done(1, "There is nothing to redo.\n", "")


def test_without_a_session_there_is_nothing_to_do(world: World) -> None:
    none = Done(2, "", f"agent: there is no session in {world.work} yet; start one with `agent`\n")
    assert said(world, ["undo"], ["redo"]) == [none, none]


def test_a_directory_that_was_renamed_is_told_where_its_sessions_are(changed: World) -> None:
    changed.work.rename(changed.work.parent / "renamed")
    here = changed.work.parent / "renamed"
    elsewhere = "`agent sessions list --all` shows those of other directories"
    none = f"agent: there is no session in {here} yet; {elsewhere}, `agent resume ID` continues one here\n"
    for words in (["undo"], ["run", "-c", "go on"]):
        assert changed.run(*words, cwd=here) == Done(2, "", none)
    listed = changed.run("sessions", "list", cwd=here)
    assert listed == Done(0, f"No sessions here yet. {elsewhere}.\n", "")


def test_a_named_session_is_undone_from_anywhere(changed: World) -> None:
    identifier = changed.sessions()[0].stem.rpartition("-")[2]
    done = changed.run("undo", "--session", identifier[:4], cwd=changed.home)
    assert (done.code, files(changed)) == (0, BEFORE)
    assert list(changed.home.iterdir()) == []


def test_a_named_session_whose_directory_is_gone_is_told(changed: World) -> None:
    identifier = changed.sessions()[0].stem.rpartition("-")[2]
    changed.work.rename(changed.home / "moved")
    done = changed.run("undo", "--session", identifier, cwd=changed.home)
    assert done == Done(
        2,
        "",
        f"agent: the session worked in {changed.work}, which is gone; undo works again once it is back there\n",
    )
    assert files_in_moved(changed) == AFTER


def files_in_moved(world: World) -> dict[str, str]:
    folder = world.home / "moved"
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def more_turns(world: World) -> None:
    world.script(shell("printf 'three\\n' > a.txt"), Reply(text="Again."))
    world.run("run", "-c", "once more", "--mode", "yolo")


def test_an_undo_of_more_turns_than_there_are_says_how_many_there_were(changed: World) -> None:
    done = changed.run("undo", "--turns", "99")
    assert done.code == 0 and done.out.startswith("There is only 1 turn to undo.\nUndid: change\n")
    assert files(changed) == BEFORE


@pytest.mark.long
def test_several_turns_go_at_once_and_come_back_one_by_one_or_together(changed: World) -> None:
    more_turns(changed)
    assert changed.run("undo", "--to", "1").code == 0 and files(changed) == BEFORE
    assert changed.run("redo", "--list") == Done(0, "  1  change\n", "")
    assert changed.run("redo").code == 0 and files(changed)["a.txt"] == "three\n"
    for _ in range(2):
        assert changed.run("undo").code == 0
    assert changed.run("redo", "--list").out == "  1  change\n  2  once more\n"
    assert changed.run("redo", "--to", "2").code == 0 and files(changed)["a.txt"] == "three\n"
    assert changed.run("redo", "--list").out == "There is nothing to redo.\n"
    assert changed.run("undo", "--turns", "2").code == 0 and files(changed) == BEFORE


def test_files_and_conversation_go_back_separately(changed: World, agent: Commands) -> None:
    done = agent.run("undo", "--code")
    assert done.out.startswith("Undid (files only): change\n") and files(changed) == BEFORE
    assert agent.run("undo", "--code", "--dry-run").code == 1
    assert agent.run("redo", "--list").out == "  1  change (files only)\n"
    assert agent.run("undo", "--list").out == "  1  change  (files already undone)\n"
    agent.run("redo")
    assert agent.run("undo", "--conversation") == Done(0, "Undid (conversation only): change\n", "")
    assert files(changed) == AFTER and "There is no turn" in agent.run("undo", "--list").out


def test_a_dry_run_names_what_would_be_left_alone(changed: World) -> None:
    (changed.work / "a.txt").write_text("mine\n", encoding="utf-8")
    done = changed.run("undo", "--dry-run")
    assert done.code == 0 and "  would leave alone a.txt: modified after this turn\n" in done.out
    assert "  modified" not in done.out and files(changed)["a.txt"] == "mine\n"


def test_conflicts_are_taken_or_merged_as_the_command_line_says(changed: World, agent: Commands) -> None:
    (changed.work / "a.txt").write_text("mine\n", encoding="utf-8")
    merged = agent.run("undo", "--conflicts", "merge")
    assert merged.code == 1 and "skipped a.txt: both sides changed the same lines" in merged.out
    assert agent.run("undo", "--resolve", "old", "b.txt").code == 1
    taken = agent.run("undo", "--resolve", "take", "a.txt")
    assert taken == Done(0, "Decided.\n  modified  a.txt\n", "") and files(changed) == BEFORE
    assert agent.run("redo").code == 0 and files(changed)["a.txt"] == "mine\n"
    assert agent.run("redo", "--resolve", "old").out.startswith("There is no file to resolve")
    assert agent.run("undo", "--conflicts", "old").code == 0 and files(changed) == BEFORE


@pytest.mark.parametrize("choice", ["old", "merge"])
def test_a_file_that_could_not_be_written_is_restored_once_it_can(world: World, choice: str) -> None:
    for name in ("d/changed", "d/removed"):
        (world.work / name).parent.mkdir(exist_ok=True)
        (world.work / name).write_text("one\n", encoding="utf-8")
    world.script(shell("echo two > d/changed; rm d/removed; touch d/made"), Reply(text="Changed."))
    assert world.run("run", "change", "--mode", "yolo").code == 0
    (world.work / "d").chmod(0o555)
    undone = world.run("undo", before=WITHOUT_PRIVILEGE)
    assert undone.code == 1 and "  skipped d/changed: Permission denied\n" in undone.out, undone
    (world.work / "d").chmod(0o755)
    decided = world.run("undo", "--resolve", choice)
    assert decided.out == "Decided.\n  modified  d/changed\n  deleted   d/made\n  created   d/removed\n", decided
    assert {path.name: path.read_text(encoding="utf-8") for path in (world.work / "d").iterdir()} == {
        "changed": "one\n", "removed": "one\n"
    }  # fmt: skip
    again = world.run("undo", "--resolve", choice)
    assert again.code == 1 and again.out.startswith("There is no file to resolve")


def test_options_that_make_no_sense_are_errors(changed: World, agent: Commands) -> None:
    for wrong in (
        ["--code", "--conversation"],
        ["--conflicts", "x"],
        ["--conflicts", ""],
        ["--turns", "0"],
        ["a.txt"],
    ):
        done = agent.run("undo", *wrong)
        assert done.code == 2 and done.err and files(changed) == AFTER, wrong


def _on_own_file_system(world: World, script: str) -> str:
    """What a script prints in a mount namespace of its own, in which it is root and `"$@"` is the program."""
    space = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*space, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no mount namespaces, so no disk of its own can be full or read-only")
    (world.work / "room").mkdir()
    world.script(shell("rm kept.txt"), Reply(text="done"))
    return subprocess.run(
        [*space, "sh", "-c", script, "sh", AGENT],
        cwd=world.work / "room", env=world.environment(), stdout=subprocess.PIPE, text=True, timeout=60,
    ).stdout  # fmt: skip


def test_an_undo_on_a_full_disk_takes_nothing_back_and_can_be_done_again(world: World) -> None:
    """A small file system holds the workspace; it is full when undo wants to write."""
    said = _on_own_file_system(
        world,
        "mount -t tmpfs -o size=1m none . && cd ../room && head -c 200000 /dev/zero > kept.txt && "
        '"$@" run "remove it" --mode yolo >/dev/null 2>&1; head -c 2000000 /dev/zero > filler 2>/dev/null; '
        '"$@" undo; echo "first: $?"; rm filler; "$@" undo; echo "second: $?"; wc -c < kept.txt',
    )
    assert "first: 1" in said and "disk is full: 0 of 1 file restored." in said, said
    assert said.split()[-3:] == ["second:", "0", "200000"], said


@pytest.mark.parametrize("place", ["sessions.dir", "AGENT_STATE_DIR"])
def test_sessions_in_the_workspace_are_never_undone(world: World, place: str) -> None:
    talks = world.work / "talks"
    env = {place: str(talks)} if place.isupper() else {}
    if not env:
        (world.config / "config.yaml").write_text(f"sessions: {{dir: {talks}}}\n", encoding="utf-8")
    world.script(*(reply for word in "xyz" for reply in (shell(f"echo {word} >> f"), Reply(text="Done."))))
    for arguments in (["another"], ["first"], ["second", "-c"]):
        assert world.run("run", *arguments, "--mode", "yolo", env=env).code == 0
    before = {path: json.loads(path.read_bytes()) for path in talks.rglob("20*.json")}
    dry = world.run("undo", "--dry-run", env=env)
    done = world.run("undo", "--conflicts", "old", "--turns", "2", env=env)
    assert dry.out == "Would undo: second\n  modified  f  +0 -1\n"
    assert done == Done(0, "Undid: first\n  modified  f\n", "")
    assert (world.work / "f").read_text(encoding="utf-8") == "x\n" and len(before) == 2
    for path, records in before.items():
        assert json.loads(path.read_bytes())[: len(records)] == records


def test_an_undo_on_a_disk_that_became_read_only_can_be_done_again(world: World) -> None:
    said = _on_own_file_system(
        world,
        "mount -t tmpfs none . && cd ../room && echo kept > kept.txt && "
        '"$@" run "remove it" --mode yolo >/dev/null 2>&1; mount -o remount,ro . && '
        '"$@" undo; echo "first: $?"; mount -o remount,rw . && "$@" undo; echo "second: $?"; cat kept.txt',
    )
    assert "the disk is read-only: 0 of 1 file restored. Make it writable" in said, said
    assert "first: 1" in said and said.split()[-3:] == ["second:", "0", "kept"], said


def test_the_usage_names_its_files_plainly(world: World) -> None:
    for done in said(world, ["undo", "--help"], ["redo", "--help"]):
        assert "[OPTIONS] [FILE]...\n" in done.out and "default: 0" not in done.out

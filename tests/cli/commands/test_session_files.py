"""`agent sessions export`, `import`, `prune`, `repair` and `delete` on whole session files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_cli.protocol.records import Named
from agent_cli.store.prune_notices import due_notice
from tests.cli.running import kept, told
from tests.e2e.world import AGENT, Done, World, shell
from tests.model.server import Reply

DAY_S = 86_400


def only(world: World) -> Path:
    (path,) = world.sessions()
    return path


def test_an_export_takes_its_form_from_the_files_ending(world: World, tmp_path: Path) -> None:
    identifier = kept(world, ("count to three", "One, two, three."))
    begins = {"t.md": "# count to three\n", "t.html": "<!doctype html>", "t.json": "[\n{"}
    *written, as_text, as_page = told(
        world,
        *(["export", identifier, "-o", str(tmp_path / name)] for name in begins),
        ["export", identifier],
        ["export", identifier, "-f", "html"],
    )
    for (name, begin), done in zip(begins.items(), written, strict=True):
        assert (done.code, done.err) == (0, "") and done.out.startswith(f"Wrote {tmp_path / name} (")
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(begin) and "One, two, three." in text
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8")) == world.records()
    assert as_text.out == (tmp_path / "t.md").read_text(encoding="utf-8")
    assert as_page.out == (tmp_path / "t.html").read_text(encoding="utf-8")


def test_an_export_replaces_nothing_unless_told_to(world: World, tmp_path: Path) -> None:
    identifier = kept(world, ("hello", "Hi."))
    file = tmp_path / "t.md"
    file.write_text("mine", encoding="utf-8")
    there, missing, ending, form = told(
        world,
        ["export", identifier, "-o", str(file)],
        ["export", identifier, "-o", str(tmp_path / "no" / "t.md")],
        ["export", identifier, "-o", "t.txt"],
        ["export", identifier, "-f", "pdf"],
    )
    assert there == Done(2, "", f"agent: {file} exists; add --force to replace it\n")
    assert file.read_text(encoding="utf-8") == "mine"
    assert missing.code == 1 and "No such file or directory" in missing.err
    assert (ending.code, form.code) == (2, 2) and "--format md, json or html" in ending.err
    told(world, ["export", identifier, "-o", str(file), "--force"])
    assert file.read_text(encoding="utf-8").startswith("# hello")


def test_an_export_that_fails_leaves_what_was_there(world: World, tmp_path: Path) -> None:
    world.script(Reply(text="long " * 2000))
    assert world.run("run", "hello").code == 0
    identifier = only(world).stem.rpartition("-")[2]
    old, new = tmp_path / "old.md", tmp_path / "new.md"
    old.write_text("mine", encoding="utf-8")
    script = (
        "import resource, signal, sys\n"
        "from agent_cli.cli.main import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "print([run(['sessions', 'export', *each]) for each in eval(sys.argv[1])])\n"
    )
    lines = [[identifier, "-o", str(old), "--force"], [identifier, "-o", str(new)]]
    lines.append([identifier, "-o", "/dev/full", "--force", "-f", "md"])
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, repr(lines)], capture_output=True, text=True, env=world.environment(),
        cwd=world.work, timeout=90,
    )  # fmt: skip
    assert done.stdout == "[1, 1, 1]\n" and done.stderr.count("agent: cannot write") == 3, done
    assert done.stderr.count("\n") == 3 and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.glob("*.md*")] == ["old.md"] and old.read_text(
        encoding="utf-8"
    ) == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("command", ["list", "export", "show", "search"])
def test_a_full_disk_behind_standard_output_is_one_line(world: World, command: str) -> None:
    identifier = kept(world, ("hello", "Hi."))
    given = {"list": (), "search": ("hello",)}.get(command, (identifier,))
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [AGENT, "sessions", command, *given],
            stdout=full,
            stderr=subprocess.PIPE,
            env=world.environment(),
            cwd=world.work,
            timeout=90,
        )
    told_how = b"agent: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told_how)


def test_secrets_are_masked_unless_asked_for(world: World) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    identifier = kept(world, (f"my token is {token}", f"Use {token} here."))
    *forms, raw = told(
        world,
        *(["export", identifier, "-f", form] for form in ("md", "html", "json")),
        ["export", identifier, "-f", "json", "--raw"],
    )
    for done in forms:
        assert token not in done.out and done.out.count("[masked: ") >= 2
        assert done.err == "agent: secrets were masked; --raw keeps them\n"
    assert token in raw.out and raw.err == "agent: secrets in this export are not masked\n"


def test_a_session_moves_to_another_machine_and_goes_on(world: World, tmp_path: Path) -> None:
    world.script(shell("mkdir -p sub && cd sub && pwd"), Reply(text="Made."))
    world.run("run", "make a folder", "--mode", "yolo")
    old = world.records("session")[0]["session_id"]
    file, place = tmp_path / "moved.json", world.home / "new place"
    (place / "sub").mkdir(parents=True)
    exported, deleted, imported = told(
        world,
        ["export", old, "-o", str(file)],
        ["delete", old, "--yes"],
        ["import", str(file), "--cd", str(place)],
    )
    assert (exported.code, deleted.code) == (0, 0)
    said = f"Imported as {old}; it worked in {world.work} and continues in {place}.\nContinue with `agent resume {old}`\n"
    assert imported == Done(0, said, "")
    world.script(Reply(text="Here."))
    assert world.run("run", "where are we?", "--resume", old, cwd=place).code == 0
    assert any(str(place) in text and "moved" in text for text in world.messages(role="user"))
    assert world.records("session")[0]["mode"] == "ask"


def test_an_import_says_what_is_wrong(world: World, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}", encoding="utf-8")
    foreign, missing, nowhere = told(
        world,
        ["import", str(file)],
        ["import", str(tmp_path / "no.json")],
        ["import", str(file), "--cd", str(tmp_path / "no")],
    )
    assert "is not a session of agent-cli" in foreign.err and "cannot read" in missing.err
    assert all("name a session file, or what `agent sessions export" in each.err for each in (foreign, missing))
    assert (foreign.code, missing.code, nowhere.code) == (2, 2, 2)


def test_old_sessions_are_pruned_and_a_dry_run_only_tells(world: World) -> None:
    old = kept(world, ("old and long", "Long."))
    named = kept(world, ("old but named", "Yes."), more=[Named(id="n", title="Keep me")])
    new = kept(world, ("new", "Yes."))
    spill = world.state / "spill" / old
    spill.mkdir(parents=True)
    (spill / "call.txt").write_bytes(b"x" * 2_000_000)
    for path in world.sessions():
        then = time.time() - (0 if new in path.name else 31.5) * DAY_S
        os.utime(path, (then, then))
    (dry,) = told(world, ["prune", "--dry-run"])
    first, last = dry.out.splitlines()
    assert first.startswith(old) and first.endswith("2.0 MB  old and long  (31 days old)")
    assert last.startswith("Would delete 1 session, 2.0 MB of ") and len(world.sessions()) == 3
    done, listed, all_ = told(world, ["prune"], ["list"], ["prune", "--mb", "0"])
    assert (done.code, done.err) == (0, "") and done.out.splitlines()[1].startswith("Deleted 1 session, ")
    assert {line.split()[0] for line in listed.out.splitlines()} == {named, new} and not spill.exists()
    assert all_.out.splitlines()[-1].startswith("Deleted 1 session, ")
    assert only(world).stem.endswith(named)


def test_a_deleted_session_takes_its_spilled_output_and_its_checkpoints_along(world: World) -> None:
    world.script(shell("echo hi > made.txt; seq 1 100000"), Reply(text="Made."))
    assert world.run("run", "make a file", "--mode", "yolo").code == 0
    path = only(world)
    identifier = path.stem.rpartition("-")[2]
    spill, store = world.state / "spill" / identifier, world.state / "projects" / path.parent.name / "checkpoints"
    assert [file.stat().st_size > 500_000 for file in spill.glob("*.txt")] == [True] and store.is_dir()
    assert told(world, ["delete", identifier, "--yes"]) == [Done(0, f"Deleted {path}\n", "")]
    assert (path.exists(), spill.exists(), store.exists()) == (False, False, False)


def test_a_damaged_session_is_shown_with_what_is_left_and_repaired(world: World) -> None:
    identifier = kept(world, ("hello", "Hi."))
    path = only(world)
    path.write_text(path.read_text(encoding="utf-8").replace('"Hi."', '"Hi.', 1), encoding="utf-8")
    shown, done, whole, again = told(
        world, ["show", identifier], ["repair", identifier], ["show", identifier], ["repair", identifier]
    )
    assert "> hello" in shown.out and "line 5 of the session is damaged and left out: " in shown.out
    assert f"1 damaged lines; `agent sessions repair {identifier}` makes the file whole." in shown.out
    assert done.code == 0 and "is damaged and left out" in done.out and done.out.rstrip().endswith(".damaged")
    assert json.loads(path.read_text(encoding="utf-8")) and "damaged and left out" not in whole.out
    assert again == Done(0, f"{path} is whole; nothing was changed.\n", "")
    world.script(Reply(text="Still here."))
    assert world.run("run", "go on", "--resume", identifier).code == 0


def test_a_name_that_fits_nothing_says_what_to_do(world: World) -> None:
    for done in told(world, *([command, "nothing"] for command in ("show", "export", "repair", "fork", "delete"))):
        assert done.code == 2 and "`agent sessions list --all` shows them all" in done.err


def test_the_quiet_pruning_of_a_long_running_program_works_in_a_thread(world: World) -> None:
    for prompt in ("first", "second"):
        world.script(shell(f"echo {prompt} > {prompt}.txt"), Reply(text="Made."))
        assert world.run("run", prompt, "--mode", "yolo").code == 0
    old, new = world.sessions()
    then = time.time() - 31 * DAY_S
    os.utime(old, (then, then))
    script = (
        "import threading\n"
        "from agent_cli.bootstrap.options import ParsedOptions\n"
        "from agent_cli.cli.commands.sessions.pruning import prune_quietly\n"
        "from agent_cli.bootstrap.setup import Setup\n"
        "setup = Setup()\n"
        "thread = threading.Thread(target=prune_quietly, args=(setup,))\n"
        "thread.start(); thread.join()\n"
    )

    def prune() -> None:
        (world.state / "cache" / "pruned").unlink(missing_ok=True)  # as a day later
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            env=world.environment(),
            cwd=world.work,
            timeout=90,
        )
        assert (done.stdout, done.stderr) == (b"", b"")

    prune()
    assert world.sessions() == [old, new]
    assert due_notice(world.state, time.time() - 1.01 * DAY_S) == "", "the file is of later: the clock was set"
    os.utime(world.state / "prune.json", (then, then))
    assert "1 session older than 30 days" in due_notice(world.state, time.time() - 1.01 * DAY_S)
    prune()
    assert world.sessions() == [new]
    assert world.run("undo").code == 0 and not (world.work / "second.txt").exists(), "the other's checkpoints stay"

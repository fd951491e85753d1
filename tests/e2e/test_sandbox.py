"""Commands in the sandbox as the real program runs them: what works, what is kept back, what is said."""

import os
import re
import socket
import subprocess
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.mechanisms import ANY, EACH, EACH_SANDBOX, LANDLOCK_ONLY, NO_SANDBOX, on_x86_64
from tests.e2e.test_surroundings import launcher
from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

ROOT = Path(__file__).parents[2]


def outputs(world: World) -> list[str]:
    """What the model was told of each command, in order."""
    return [record["text"] for record in world.records("tool_result")]


def in_auto_edit(world: World, *commands: str, before: tuple[str, ...] = ANY) -> list[str]:
    """Run commands in a session that asks nobody."""
    world.script(*(shell(command) for command in commands), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert done.code == 0, done.err + done.out[-2000:]
    return outputs(world)


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_a_commands_work_is_done_in_the_workspace_and_nowhere_else(world: World, before: tuple[str, ...]) -> None:
    (world.home / "own").write_text("mine", encoding="utf-8")
    inside, outside, network, tmp = in_auto_edit(
        world,
        "echo built > out.txt && mkdir -p deep/er && cat out.txt",
        f"echo spoiled > {world.home}/own",
        "python3 -c 'import urllib.request as u; u.urlopen(\"http://198.51.100.7\", timeout=2)'",
        'echo kept > "$TMPDIR/note" && cat "$TMPDIR/note"',
        before=before,
    )
    assert "built" in inside and (world.work / "out.txt").read_text(encoding="utf-8") == "built\n"
    assert (world.home / "own").read_text(encoding="utf-8") == "mine", outside
    assert "exit code 0" not in network
    assert "kept" in tmp


def test_the_next_command_goes_on_where_the_last_one_left_off(world: World) -> None:
    _, where, value, again = in_auto_edit(
        world,
        "mkdir sub && cd sub && export COLOUR=blue",
        "pwd",
        "echo is $COLOUR",
        "cat /tmp/x 2>&1; echo x > /tmp/x",
    )
    assert where.startswith(f"{world.work}/sub") and "is blue" in value and again


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_the_folder_where_the_session_was_can_be_removed(world: World, before: tuple[str, ...]) -> None:
    _, gone = in_auto_edit(world, "mkdir sub && cd sub && pwd", "cd .. && rmdir sub && echo gone", before=before)
    assert gone.startswith("gone\n"), gone
    assert not (world.work / "sub").exists()


def test_secrets_of_the_workspace_and_the_home_are_out_of_sight(world: World) -> None:
    (world.work / ".env").write_text("KEY=planted-1\n", encoding="utf-8")
    (world.work / "app").mkdir()
    (world.work / "app" / ".env.local").write_text("KEY=planted-2\n", encoding="utf-8")
    (world.work / ".env.example").write_text("KEY=fill-in\n", encoding="utf-8")
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "id_ed25519").write_text("planted-3\n", encoding="utf-8")
    read = "import pathlib,sys; [print(p.read_text()) for p in map(pathlib.Path, sys.argv[1:]) if p.exists()]"
    (world.work / "r.py").write_text(read, encoding="utf-8")
    told = in_auto_edit(
        world,
        f"python3 r.py $(echo .e)nv app/.en?.local; python3 r.py {world.home}/.s*h/id_ed25519",
        "python3 r.py .env.example",
        "cat /proc/$PPID/environ | tr '\\0' '\\n'; env; strings /proc/*/environ",
        "python3 -c 'import os; [print(os.listdir(d)) for d in [os.path.dirname(os.getcwd()) + x for x in"
        ' ("/state/sessions", "/config")]]\'',
    )
    assert not [text for text in told if "planted" in text]
    assert "fill-in" in told[1] and "OPENAI_API_KEY" not in told[2]
    assert "exit code 0" not in told[3] and ".yaml" not in told[3], told[3]


CREDENTIALS = (
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".config/rclone/rclone.conf",
    ".config/github-copilot/apps.json",
    ".local/share/opencode/auth.json",
    ".cache/huggingface/token",
)


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_credentials_of_other_programs_are_out_of_sight(world: World, before: tuple[str, ...]) -> None:
    for name in CREDENTIALS:
        (world.home / name).parent.mkdir(parents=True, exist_ok=True)
        (world.home / name).write_text("planted\n", encoding="utf-8")
    read = "import pathlib; [print(p, p.read_text()) for p in pathlib.Path.home().rglob('*') if p.is_file()]"
    (world.work / "r.py").write_text(read, encoding="utf-8")
    each = "import pathlib\nfor p in map(pathlib.Path.home().joinpath, {!r}):\n try: print(p, p.read_text())\n except OSError: pass\n"
    (world.work / "e.py").write_text(each.format(CREDENTIALS), encoding="utf-8")
    world.script(shell("python3 r.py; python3 e.py"), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit", before=before)
    (told,) = outputs(world)
    assert "planted" not in told and "exit code 0" in told, told


def many_secrets(world: World) -> None:
    """More than can be hidden one by one."""
    (world.work / "certs").mkdir()
    for number in range(1100):
        (world.work / "certs" / f"{number}.pem").write_text("planted", encoding="utf-8")


def test_a_folder_of_nothing_but_secrets_is_hidden_as_one(world: World) -> None:
    many_secrets(world)
    read = "import os; [print(open(f'certs/{n}').read()) for n in os.listdir('certs')]"
    (world.work / "r.py").write_text(read, encoding="utf-8")
    (told,) = in_auto_edit(world, "python3 r.py; touch ran")
    assert "planted" not in told and (world.work / "ran").exists(), told


def test_too_many_single_secrets_are_named_as_the_reason_why_nothing_runs(world: World) -> None:
    many_secrets(world)
    (world.work / "certs" / "readme").write_text("x", encoding="utf-8")
    (told,) = in_auto_edit(world, "touch ran")
    assert "files are hidden from commands, more than 1000" in told and "[Errno" not in told
    assert not (world.work / "ran").exists()


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_whether_permissions_of_files_outside_stay_is_what_doctor_says(
    world: World, before: tuple[str, ...]
) -> None:
    (world.home / "own").write_text("mine", encoding="utf-8")
    (world.home / "own").chmod(0o600)
    in_sandbox = f"python3 -c 'import os; os.chmod(\"{world.home}/own\", 0o666)'"
    world.script(shell(in_sandbox), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit", before=before)
    stays = (world.home / "own").stat().st_mode & 0o777 == 0o600
    (world.config / "config.yaml").write_text("mode: auto-edit\n", encoding="utf-8")
    (promises,) = re.findall(r"promises: .* kept in mode auto-edit .*", world.run("doctor", before=before).out)
    broken = [part for part in promises.split("; ") if "permissions, times and attributes outside" in part]
    assert broken == ([] if stays else ["not held: permissions, times and attributes outside stay"]), promises
    assert stays or before != ANY


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_git_works_but_its_hooks_and_settings_stay_as_they_are(world: World, before: tuple[str, ...]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    config = (world.work / ".git" / "config").read_text(encoding="utf-8")
    commit, hook, setting, moved = in_auto_edit(
        world,
        "echo a > a && git add a && git -c user.name=n -c user.email=e@e commit -qm first && git log --oneline",
        'python3 -c \'open(".git/hooks/pre-commit","w").write("evil")\'',
        'python3 -c \'open(".git/config","a").write("[core]\\n\\tfsmonitor=evil\\n")\'',
        'python3 -c \'import os; os.rename(".git", "g")\'; python3 -c \'open(".git/commondir","w").write("../evil")\'',
        before=before,
    )
    assert "first" in commit, commit
    assert not (world.work / ".git" / "hooks" / "pre-commit").exists(), hook
    assert (world.work / ".git" / "config").read_text(encoding="utf-8") == config, setting
    assert (world.work / ".git").is_dir() and not (world.work / ".git" / "commondir").exists(), moved


@pytest.mark.parametrize("inner", ["sub", "tree"])
def test_a_commit_in_a_submodule_or_inner_work_tree_is_not_begun_where_it_cannot_be_ended(
    world: World, inner: str
) -> None:
    """Their data are read-only there: the line would fail after a part of it, and run again as a whole."""
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@e", "-c", "protocol.file.allow=always"]
    for where in (world.home / "other", world.work):
        subprocess.run([*git, "init", "-q", where], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=where, check=True)
    adding = (
        ["submodule", "--quiet", "add", world.home / "other", inner]
        if inner == "sub"
        else ["worktree", "add", inner]
    )
    subprocess.run([*git, *adding], cwd=world.work, check=True, capture_output=True)
    world.script(
        shell(f"cd {inner}; echo x >> a; git add a"), shell(f"cd {inner} && git status -s"), Reply(text="done")
    )
    assert world.run("run", "go", "--mode", "auto-edit").code == 6
    denied, read = outputs(world)
    assert "read-only in the sandbox" in denied and not (world.work / inner / "a").exists(), denied
    assert "exit code 0" in read


@on_x86_64
@pytest.mark.parametrize("before", EACH)
def test_what_a_rule_closes_outside_stays_closed_by_its_hard_links_too(
    world: World, before: tuple[str, ...]
) -> None:
    private = world.home / "priv" / "p.txt"
    private.parent.mkdir()
    private.write_text("planted\n", encoding="utf-8")
    os.link(private, world.work / "hl.txt")
    (world.work / "r.py").write_text("import sys; print(open(sys.argv[1][::-1]).read())", encoding="utf-8")
    text = f"permissions: {{deny: ['read({world.home}/priv/**)']}}\n"
    (world.config / "config.yaml").write_text(text, encoding="utf-8")
    commands = ("cat hl.txt", "cat h*t", "python3 r.py txt.lh", f"python3 r.py {str(private)[::-1]}")
    reads = Reply(calls=(Call("read_file", {"path": "hl.txt"}),))
    world.script(reads, *(shell(command) for command in commands), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert len(outputs(world)) == 5, done.err
    assert not [text for text in outputs(world) if "planted" in text]


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_plan_mode_reads_in_a_sandbox_that_writes_nothing(world: World, before: tuple[str, ...]) -> None:
    world.script(shell("ls; git status"), Reply(text="done"))
    done = world.run("run", "go", "--mode", "plan", "--output-format", "stream-json", before=before)
    assert done.lines[0]["sandbox"].startswith("read-only ("), done.lines[0]


def test_a_background_job_outlives_its_command_and_can_be_reached(world: World) -> None:
    server = "python3 -m http.server 8123 --bind 127.0.0.1"
    told = in_auto_edit(
        world,
        f"{server} & sleep 1; python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123\").status)'",
    )
    assert "200" in told[0] and "job" in told[0], told[0]


def test_how_to_stop_a_background_command_that_others_do_not_see_is_told(world: World) -> None:
    early, started, looked, ended, own = in_auto_edit(
        world,
        "kill -0 $$",
        "sleep 60 > /dev/null 2>&1 &",
        "pgrep -x sleep || echo unseen",
        "kill $(pgrep -x sleep)",
        "sleep 9 & kill $!",
    )
    assert "stop it with the tool jobs" in started and looked.startswith("unseen")
    displayed = world.records("tool_result")[1]["display"]  # the user has /jobs
    assert "as job 1" in displayed and "with the tool" not in displayed
    assert "none of a job: stop a job with the tool jobs" in ended and "tool jobs" not in early + looked + own, (
        ended,
        own,
    )


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_saved_output_is_read_with_tools_and_a_command_on_it_is_no_denied_action(
    world: World, before: tuple[str, ...]
) -> None:
    in_auto_edit(world, "seq 1 50000", before=before)
    (path,) = (world.state / "spill").glob("*/*.txt")
    world.script(shell(f"tail -n 1 {path}"), Reply(calls=(Call("grep", {"pattern": "^777$", "path": str(path)}),)))
    world.script(Reply(text="done"))
    done = world.run("run", "-c", "go on", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert (done.code, done.result["denied"]) == (0, []), done.err
    _, command, searched = outputs(world)
    assert "use read_file or grep on that path" in command and "blocked" not in command
    assert "777: 777" in searched


@pytest.mark.parametrize(("mode", "is_told"), [("auto-edit", True), ("yolo", False)])
def test_that_only_commands_reach_a_server_in_the_sandbox_is_told_once(
    world: World, mode: str, is_told: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (world.work / "wait.py").write_text(
        "import socket, sys\nwhile socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1]))):\n    pass\n",
        encoding="utf-8",
    )
    server = {"command": f"python3 -m http.server {port} --bind 127.0.0.1", "background": True}
    world.script(
        Reply(calls=(Call("shell", server),)),
        *[shell(f"python3 wait.py {port}")] * 2,
        Reply(text="done"),
    )
    assert world.run("run", "go", "--mode", mode).code == 0
    told = [text for text in world.messages(role="user") if "the user's browser cannot" in text]
    assert [f"port {port}." in text for text in told] == [True] * is_told


@pytest.mark.parametrize("level", ["off", "read-only", "workspace-write"])
def test_the_level_is_shown_and_held(world: World, level: str) -> None:
    world.script(shell("echo x > here; true"), Reply(text="done"))
    done = world.run("run", "go", "--mode", "yolo", "--sandbox", level, "--output-format", "stream-json")
    assert done.lines[0]["sandbox"].partition(" ")[0] == level
    assert (world.work / "here").exists() == (level != "read-only")


@pytest.mark.parametrize(
    ("level", "closed", "before"),
    [
        ("read-only", "", LANDLOCK_ONLY), ("read-only", ".env", ANY), ("workspace-write", "", ANY),
        ("workspace-write", ".env", LANDLOCK_ONLY),
    ],
)  # fmt: skip
@on_x86_64
def test_in_yolo_no_word_of_a_line_leaves_a_sandbox_that_was_asked_for(
    world: World, level: str, closed: str, before: tuple[str, ...]
) -> None:
    """Each line has a part that needs more; the program beside it must not get that. Nor does it where the
    workspace has a file that not every mechanism can close."""
    if closed:
        (world.work / closed).write_text("KEY=planted\n", encoding="utf-8")
    outside = world.home / "outside"
    outside.mkdir()
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "id_rsa").write_text("KEY-terces", encoding="utf-8")
    (world.work / "r.py").write_text(
        f"import os\nprint(open({str(world.home / '.ssh' / 'id_rsa')!r}).read()[::-1])\n"
        f"open({str(outside / 'z')!r}, 'w')\n", encoding="utf-8"
    )  # fmt: skip
    beyond = (
        f"touch {outside}/t",
        f"echo x > {outside}/e",
        f"cd {outside} && true",
        "docker ps",
        "curl -s 127.0.0.1",
    )
    world.script(*(shell(f"{part}; python3 r.py") for part in beyond), shell("python3 r.py"), Reply(text="done"))
    done = world.run(
        "run", "go", "--mode", "yolo", "--sandbox", level, "--output-format", "stream-json", before=before
    )
    assert done.code == 6 and "docker ps" in str(done.result["denied"]), done.result
    assert not list(outside.iterdir()) and "secret-YEK" not in str(world.bodies())


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_a_workspace_in_shared_memory_is_one_like_any_other(world: World, before: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        world.script(shell("echo built > out.txt; pwd; ls"), Reply(text="done"))
        done = world.run("run", "go", "--mode", "auto-edit", "--cd", folder, before=before)
        assert done.code == 0, done
        assert outputs(world)[0].startswith(f"{folder}\nout.txt\n")
        assert Path(folder, "out.txt").read_text(encoding="utf-8") == "built\n"
        world.script(shell("cat out.txt"), Reply(text="done"))
        assert world.run("run", "-c", "go", "--mode", "plan", "--cd", folder, before=before).code == 0
        assert outputs(world)[-1].startswith("built\n"), outputs(world)


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_a_folder_for_temporary_files_of_the_users_counts_as_no_change_by_a_command(
    world: World, tmp_path: Path, before: tuple[str, ...]
) -> None:
    """macOS, CI and clusters set one; every command after the first would be asked about."""
    world.script(shell("cat a"), shell("ls"), shell("export TMPDIR=$TMPDIR/own"), shell("ls"), Reply(text="done"))
    done = world.run("run", "go", before=before, env={"TMPDIR": str(tmp_path)})
    assert done.code == 6, done
    assert [record["status"] for record in world.records("tool_result")] == ["failed", "ok", "denied", "ok"]


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_what_it_kept_back_is_told_where_nobody_can_be_asked(world: World, before: tuple[str, ...]) -> None:
    place = Path.home() / f"agent-test-{os.getpid()}"
    (told,) = in_auto_edit(world, f'python3 -c \'open("{place}", "w")\'', before=before)
    assert not place.exists()
    assert f"The sandbox blocked writing {place}" in told and "No user is present" in told, told


@on_x86_64
def test_a_sandbox_that_was_missing_in_a_container_is_there_again_outside_it(world: World) -> None:
    world.script(Reply(text="done"), Reply(text="done"))
    assert world.run("run", "go", before=NO_SANDBOX).code == 0
    assert '"none"' in (world.state / "sandbox.json").read_text(encoding="utf-8")
    done = world.run("run", "go", "--sandbox", "workspace-write")
    assert done.code == 0, done.err


def test_a_question_without_a_sandbox_says_that_it_was_switched_off(world: World) -> None:
    world.script(shell("make"), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit", "--sandbox", "off")
    assert "the sandbox is switched off" in outputs(world)[0]


@on_x86_64
def test_where_the_folder_of_temporary_files_is_closed_that_is_told(world: World) -> None:
    place = Path(f"/tmp/agent-test-{os.getpid()}")
    told, noted, own = in_auto_edit(
        world,
        f'python3 -c \'open("{place}", "w")\'',
        f"echo x > {place}; echo done",
        'echo x > "$TMPDIR/x"; ls "$TMPDIR/nothing"; touch /etc/nothing/here',
        before=LANDLOCK_ONLY,
    )
    assert not place.exists()
    assert f"The sandbox blocked writing {place}" in told, told
    assert f"the sandbox blocked writing {place}" in noted, noted
    assert "blocked" not in own, own


def test_a_file_that_a_command_made_in_its_own_tmp_is_not_said_to_be_missing(world: World) -> None:
    theirs = f"/tmp/{uuid4().hex}"  # like no other name there
    world.script(
        shell(f"echo x > {theirs}"),
        Reply(calls=(Call("read_file", {"path": theirs}), Call("read_file", {"path": f"{theirs}-not"}))),
        Reply(text="done"),
    )
    world.run("run", "go", "--mode", "auto-edit", "--set", f'permissions.allow=["read({theirs}*)"]')
    _, made, missing = outputs(world)
    assert made.startswith(f"{theirs} does not exist. A command made it") and made.endswith(
        "Read it with a command"
    )
    assert missing == f"{theirs}-not does not exist"


@pytest.mark.parametrize(
    ("before", "without"),
    [
        pytest.param(ANY, "--without-pip", id="strongest"),
        pytest.param(LANDLOCK_ONLY, "--without-pip", id="landlock"),
        pytest.param(ANY, "", marks=pytest.mark.long, id="strongest and pip"),
        pytest.param(LANDLOCK_ONLY, "", marks=pytest.mark.long, id="landlock and pip"),
    ],
)
@on_x86_64
def test_a_usual_task_asks_nothing_in_auto_edit(world: World, before: tuple[str, ...], without: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    (world.work / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    test = "import unittest, calc\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(calc.add(1, 2), 3)\n"
    (world.work / "test_calc.py").write_text(test, encoding="utf-8")
    world.script(
        shell("ls -la && git status --short && cat calc.py"),
        shell("python3 -m unittest 2>&1 | tail -5"),
        shell(f"python3 -m venv {without} .venv && . .venv/bin/activate && which python && python -c 'import sys; print(sys.prefix)'"),
        shell("sed -i 's/a - b/sum((a, b))/' calc.py && git diff --no-color"),
        shell("python -m unittest && mkdir -p build && python -m py_compile calc.py && cp calc.py build/ && ls build"),
        shell("make 2>/dev/null || echo no makefile; for f in *.py; do wc -l \"$f\"; done"),
        shell("git add calc.py test_calc.py && git -c user.name=n -c user.email=e@e commit -qm 'Fix add' && git log --oneline"),
        shell("rm -r build __pycache__; git status --short | head"),
        Reply(text="done"),
    )  # fmt: skip
    how = ("--mode", "auto-edit", "--output-format", "json")
    done = world.run("run", "fix it", *how, before=before, timeout_s=120.0)
    assert (done.code, done.result["denied"]) == (0, []), done.err
    assert [each["exit_code"] for each in done.result["commands"]] == [0] * 8, outputs(world)


def contained(*without: str) -> list[str]:
    """A command line that lives as in a container that forbids namespaces, or Landlock too."""
    return launcher(
        f"sys.path.insert(0, {str(ROOT)!r})\nfrom tests.sandbox.trial import forbid\nforbid({list(without)!r})"
    )


ATTACKS = (
    'python3 -c \'open("{home}/own", "w").write("spoiled")\'',
    "python3 -c 'print(open(\"{home}/.ssh/id_rsa\").read())'",
    'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 2); print("rea" "ched")\'',
    "python3 -c 'print(open(\"/proc/{agent}/environ\").read())'",
)


@pytest.mark.parametrize(
    ("without", "mechanism"),
    [((), "bubblewrap"), (("namespaces",), "landlock"), (("namespaces", "landlock"), "none")],
)
def test_the_level_shown_is_the_level_measured_by_trying_to_break_it(
    world: World, without: tuple[str, ...], mechanism: str
) -> None:
    (world.home / "own").write_text("mine", encoding="utf-8")
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "id_rsa").write_text("planted", encoding="utf-8")
    port = world.server.url.rpartition(":")[2].partition("/")[0]
    attacks = [attack.format(home=world.home, port=port, agent="$PPID") for attack in ATTACKS]
    world.script(*map(shell, [*attacks, "echo x > inside.txt"]), Reply(text="done"))
    done = world.run(
        "run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=contained(*without)
    )
    shown = done.lines[0]["sandbox"]
    if mechanism == "none":
        assert shown.startswith("none (") and len(done.result["denied"]) == len(attacks)
        refused = world.run("run", "go", "--sandbox", "workspace-write", before=contained(*without))
        assert refused.code == 2 and "no sandbox is available here" in refused.err
        return
    assert shown == f"workspace-write ({mechanism})"
    assert (world.home / "own").read_text(encoding="utf-8") == "mine" and (world.work / "inside.txt").exists()
    told = "".join(outputs(world))
    assert "planted" not in told and "reached" not in told and "OPENAI_API_KEY" not in told


def test_where_single_files_cannot_be_hidden_commands_ask_as_soon_as_there_is_one(world: World) -> None:
    (world.work / ".env").write_text("KEY=planted\n", encoding="utf-8")
    world.script(shell('python3 -c \'print(open(".en" + "v").read())\''), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "json", before=contained("namespaces"))
    assert len(done.result["denied"]) == 1 and "planted" not in "".join(outputs(world))


def test_a_kept_measurement_that_holds_no_more_is_found_out_before_the_first_command(world: World) -> None:
    world.script(shell("echo one"), Reply(text="done"), shell("touch two"), Reply(text="done"))
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    done = world.run(
        "run", "go", "--mode", "auto-edit", "--output-format", "json", before=contained("namespaces", "landlock")
    )
    assert "The sandbox has changed" in done.err and len(done.result["denied"]) == 1
    assert not (world.work / "two").exists()


SPOILERS = (
    "python3 spoil.py",
    "make spoil",
    "rm */one.sql",
    "sed -i s/kept/spoiled/ */one.sql",
    "cp free.sql */one.sql",
    "tee */one.sql < free.sql",
    "truncate -s 0 */one.sql",
    "mv migr* elsewhere",
)


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ("rules: [never_edit: migrations/**]", ANY), ("rules: [never_edit: migrations/**]", NO_SANDBOX),
        ("permissions: {deny: [write(migrations/**)]}", LANDLOCK_ONLY),
    ],
)  # fmt: skip
@on_x86_64
def test_what_is_never_to_be_edited_stays_as_it_is_whatever_a_program_does(
    world: World, before: tuple[str, ...], settings: str
) -> None:
    kept = world.work / "migrations" / "one.sql"
    kept.parent.mkdir()
    kept.write_text("kept", encoding="utf-8")
    (world.work / "free.sql").write_text("changed", encoding="utf-8")
    spoil = "import pathlib; [p.write_text('spoiled') for p in pathlib.Path().rglob('*.sql')]"
    (world.work / "spoil.py").write_text(spoil, encoding="utf-8")
    (world.work / "Makefile").write_text("spoil:\n\techo spoiled > migrations/one.sql\n", encoding="utf-8")
    (world.config / "config.yaml").write_text(settings + "\n", encoding="utf-8")
    world.script(*map(shell, SPOILERS), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert kept.read_text(encoding="utf-8") == "kept", outputs(world)
    if before != ANY:
        assert len(done.result["denied"]) == len(SPOILERS)


@pytest.mark.parametrize(
    "settings", ["rules: [never_edit: db/migrations/**]", "permissions: {deny: [write(db/migrations/one.sql)]}"]
)
def test_what_is_never_to_be_edited_cannot_be_moved_away_with_the_folder_above(
    world: World, settings: str
) -> None:
    (world.work / "db" / "migrations").mkdir(parents=True)
    (world.work / "db" / "free.sql").touch()
    (kept := world.work / "db" / "migrations" / "one.sql").write_text("kept", encoding="utf-8")
    (world.work / "move.py").write_text("import sys, os; os.rename(*sys.argv[1:])", encoding="utf-8")
    spoil = "import pathlib; [path.write_text('spoiled') for path in pathlib.Path('away').rglob('one.sql')]"
    (world.work / "spoil.py").write_text(spoil, encoding="utf-8")
    (world.config / "config.yaml").write_text(settings + "\n", encoding="utf-8")
    lines = ("python3 move.py db away", "python3 spoil.py", "python3 move.py away db")
    world.script(*map(shell, lines), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit")
    assert kept.read_text(encoding="utf-8") == "kept", outputs(world)


@pytest.mark.parametrize("where", ["{work}", "{home}"])
def test_a_rule_that_names_a_link_covers_what_it_leads_to(world: World, where: str) -> None:
    folder = world.work if where == "{work}" else world.home
    (folder / "real" / "private").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    (closed := folder / "real" / "private" / "a.key").write_text("TOPSECRET", encoding="utf-8")
    rules = f"deny: ['read({folder}/link/**/*.key)', 'write({folder}/link/private/**)']"
    (world.config / "config.yaml").write_text(
        f"permissions: {{allow: ['read({folder}/**)'], {rules}}}\n", encoding="utf-8"
    )
    code = "import sys, pathlib; print([path.read_bytes().hex() for path in pathlib.Path(sys.argv[1]).rglob('*.key')])"
    (world.work / "show.py").write_text(code, encoding="utf-8")
    calls = (
        Call("read_file", {"path": str(closed)}),
        Call("shell", {"command": f"cat {closed}"}),
        Call("shell", {"command": f"python3 show.py {folder}"}),
        Call("write_file", {"path": str(closed), "content": "spoiled"}),
    )
    world.script(*(Reply(calls=(each,)) for each in calls), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit")
    told = "".join(outputs(world))
    assert "TOPSECRET" not in told and b"TOPSECRET".hex() not in told, told
    assert closed.read_text(encoding="utf-8") == "TOPSECRET"


def test_a_hard_link_to_a_key_in_the_home_is_that_key(world: World) -> None:
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "id_rsa").write_text("TOPSECRET", encoding="utf-8")
    os.link(world.home / ".ssh" / "id_rsa", world.work / "plain.txt")
    world.script(
        Reply(calls=(Call("read_file", {"path": "plain.txt"}),)), shell("cat plain.txt"), Reply(text="done")
    )
    world.run("run", "go", "--mode", "auto-edit")
    assert "TOPSECRET" not in "".join(outputs(world))


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_what_a_mechanism_cannot_close_is_said_with_the_level(world: World, before: tuple[str, ...]) -> None:
    (world.config / "config.yaml").write_text("rules: [never_edit: migrations/**]\n", encoding="utf-8")
    world.script(Reply(text="done"))
    shown = world.run("run", "go", "--output-format", "stream-json", before=before).lines[0]["sandbox"]
    assert ("cannot hide single files" in shown) == (before != ANY), shown


@pytest.mark.parametrize("rules", ["", "permissions: {deny: [read(private/**)]}\n"])
@on_x86_64
def test_without_a_sandbox_it_is_said_what_rules_on_files_are_worth(world: World, rules: str) -> None:
    (world.config / "config.yaml").write_text(rules, encoding="utf-8")
    world.script(Reply(text="done"))
    done = world.run("run", "go", "--mode", "yolo", "--output-format", "stream-json", before=LANDLOCK_ONLY)
    shown = done.lines[0]["sandbox"]
    assert shown == ("off (file rules apply only to calls that name the file)" if rules else "off")


@pytest.mark.parametrize("before", EACH_SANDBOX)
@pytest.mark.parametrize("options", [("--mode", "auto-edit"), ("--mode", "yolo", "--sandbox", "workspace-write")])
@on_x86_64
def test_what_runs_after_an_edit_runs_in_the_sandbox_before_any_other_command(
    world: World, before: tuple[str, ...], options: tuple[str, ...]
) -> None:
    rule = "rules: [{after_edit_run: 'python3 check.py', paths: '*.py'}]\n"
    (world.config / "config.yaml").write_text(rule, encoding="utf-8")
    beyond = world.home / "beyond"
    (world.work / "check.py").write_text(f"open('ran', 'w')\nopen({str(beyond)!r}, 'w')\n", encoding="utf-8")
    edit = Call("write_file", {"path": "a.py", "content": "a = 1\n"})
    world.script(Reply(text="hello"), Reply(calls=(edit,)), Reply(text="done"))
    assert world.run("run", "hi", before=before).code == 0  # what was measured at the first start is kept
    world.run("run", "-c", "go", *options, before=before)
    assert (world.work / "ran").exists() and not beyond.exists(), outputs(world)


def test_git_works_where_it_tracks_files_with_the_names_of_secrets(world: World) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@e"]
    for name, text in ((".npmrc", "save-exact=true\n"), ("tests/certs/ca.pem", "public\n"), ("a.py", "a = 1\n")):
        (world.work / name).parent.mkdir(parents=True, exist_ok=True)
        (world.work / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    subprocess.run([*git, "add", "."], cwd=world.work, check=True)
    subprocess.run([*git, "commit", "-qm", "first"], cwd=world.work, check=True)
    (world.work / ".env").write_text("KEY=planted\n", encoding="utf-8")
    (world.work / ".gitignore").write_text(".env\n", encoding="utf-8")
    status, work, read = in_auto_edit(
        world,
        "git status --short",
        "echo b >> a.py && git stash -q && git stash pop -q && git add -A"
        " && git -c user.name=n -c user.email=e@e commit -qm second && git checkout -qb x && git log --oneline | wc -l",
        'python3 -c \'print(open(".npmrc").read(), open(".en" + "v").read())\'',
    )
    assert status.splitlines()[0] == "?? .gitignore" and "2" in work and "exit code 0" in work, status + work
    assert "planted" not in read


def test_a_start_with_too_few_files_is_not_remembered_as_a_machine_without_a_sandbox(world: World) -> None:
    few = ("sh", "-c", 'ulimit -n 12; exec "$@"', "sh")
    world.script(Reply(text="One."), Reply(text="Two."))
    options = ("run", "go", "--output-format", "stream-json")
    assert "ulimit -n 12" in world.run(*options, before=few).lines[0]["sandbox"]
    assert world.run(*options).lines[0]["sandbox"].startswith("workspace-write (")

"""`agent run` in the places scripts run it: pipes, closed streams, odd locales, no home, no disk."""

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Commands
from tests.e2e.world import Done, World, finish, shell, until
from tests.launchers import WITHOUT_ACCOUNT, WITHOUT_PRIVILEGE, launcher
from tests.model.server import Call, Received, Reply

SENT = "größer ✓\nzweite Zeile\n"


def in_bash(line: str) -> list[str]:
    """A command line in which `"$@"` is the program."""
    return ["bash", "-c", line, "bash"]


def files_up_to(size_bytes: int) -> list[str]:
    """No file can grow larger, as on a full disk. Byte code is not cached then: Python would cut it short
    and leave it to everybody else."""
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size_bytes}, {size_bytes}))"
    return launcher(f"os.environ['PYTHONDONTWRITEBYTECODE'] = '1'\n{limit}")


def prompt_of(world: World) -> str:
    """What the user said in the last request, without date and git state."""
    return world.messages(role="user")[-1].partition("\n\n")[2]


@pytest.mark.parametrize(
    ("arguments", "text", "prompt"),
    [
        (["sum up"], SENT, f"sum up\n\n<stdin>\n{SENT}\n</stdin>"),
        (["sum up"], " \n", "sum up"),
        (["sum up"], None, "sum up"),
        (["-"], SENT, SENT),
        ([], SENT, SENT),
    ],
)
def test_where_the_task_comes_from(world: World, arguments: list[str], text: str | None, prompt: str) -> None:
    world.script(Reply(text="done"))
    done = world.run("run", *arguments, text=text)
    assert done == Done(0, "done\n", "")
    assert prompt_of(world) == prompt


def test_a_file_as_standard_input(world: World) -> None:
    world.script(Reply(text="done"))
    (world.work / "notes").write_text(SENT, encoding="utf-8")
    assert world.run("run", "sum up", before=in_bash('"$@" < notes')).code == 0
    assert prompt_of(world) == f"sum up\n\n<stdin>\n{SENT}\n</stdin>"


@pytest.mark.parametrize("arguments", [[], ["-"], [" "]])
def test_no_task(world: World, arguments: list[str]) -> None:
    done = world.run("run", *arguments)
    assert (done.code, done.out) == (2, "") and "empty" in done.err and not world.sessions()


def test_a_terminal_as_standard_input_is_never_read(world: World) -> None:
    keyboard, terminal = pty.openpty()
    world.script(Reply(text="done"))
    try:
        assert world.run("run", "ask", stdin=terminal).out == "done\n"
        done = world.run("run", stdin=terminal)
    finally:
        os.close(terminal), os.close(keyboard)
    assert (done.code, done.out) == (2, "") and "no task" in done.err


def test_a_directory_that_is_gone(world: World) -> None:
    """As a program starts there, and as it is for each command, which shows in one program that is there before."""

    def is_told(done: Done) -> bool:
        return (done.code, done.out) == (2, "") and "directory does not exist" in done.err

    assert is_told(world.run("run", "ask", before=in_bash('mkdir gone; cd gone; rmdir ../gone; exec "$@"')))
    (world.work / "left").mkdir()
    with Commands(world, world.work / "left") as agent:
        assert agent.run("help", "batch").code == 0
        (world.work / "left").rmdir()
        for line in (
            "run ask",
            "ask",
            "run -w tree ask",
            "review",
            "demo",
            "batch tasks.jsonl",
            "trace send 12345678",
        ):
            assert is_told(agent.run(*line.split())), line


@pytest.mark.parametrize("how", ["moved", "replaced"])
def test_a_directory_that_is_taken_away_during_the_run_is_not_made_anew(world: World, how: str) -> None:
    def answer(received: Received) -> Reply:
        if world.work.exists() and not (world.home / "work").exists():
            world.work.rename(world.home / "work")
            if how == "replaced":
                world.work.mkdir()
        results = sum(each["role"] == "tool" for each in received.body["messages"])
        calls = (Call("write_file", {"path": "a/b.txt", "content": "x"}), Call("shell", {"command": "touch c"}))
        return Reply(calls=(calls[results],)) if results < 2 else Reply(text="done")

    world.server.answer = answer
    assert world.run("run", "ask", "--mode", "yolo").code == 0
    assert all("was moved or replaced" in text for text in world.messages(role="tool"))
    assert not any(world.work.iterdir()) if how == "replaced" else not world.work.exists()
    assert not any((world.home / "work").iterdir())


def test_a_pipe_that_stays_silent(world: World) -> None:
    world.script(Reply(text="done"))
    process = world.start("run", "ask", stdin=subprocess.PIPE)
    until(lambda: process.poll() is not None, timeout_s=40)
    done = finish(process)
    assert (done.code, done.out) == (0, "done\n") and "nothing came from standard input" in done.err
    assert prompt_of(world) == "ask"


@pytest.mark.parametrize(
    "closed", ["<&-", "<&- >&- 2>&-", *(pytest.param(each, marks=pytest.mark.long) for each in (">&-", "2>&-"))]
)
def test_closed_streams(world: World, closed: str) -> None:
    world.script(shell("cat; echo noise; echo noise >&2"), Reply(text="done"))
    done = world.run("run", "ask", before=in_bash(f'exec "$@" {closed}'))
    assert done.code == 0 and done.out == ("" if ">&-" in closed.split() else "done\n")
    assert ("$ cat" in done.err) == ("2>&-" not in closed)
    assert "noise" in world.messages()[-1]
    assert world.records("turn_end")  # and not in one of the streams


def test_no_task_and_no_standard_input(world: World) -> None:
    done = world.run("run", before=in_bash('exec "$@" <&-'))
    assert (done.code, done.out) == (2, "") and "empty" in done.err


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away(world: World, form: str) -> None:
    world.script(shell("touch x"), Reply(text="größer ✓ " * 20_000, piece=4000))
    line = '"$@" | head -c 1; echo "${PIPESTATUS[0]}" >&2'
    done = world.run("run", "ask", "--output-format", form, "--mode", "yolo", "-q", before=in_bash(line))
    assert done.out == ("g" if form == "text" else "{") and done.err == "0\n"
    assert (world.work / "x").exists() and world.records()[-1]["type"] == "checkpoint"


@pytest.mark.parametrize(
    "changes",
    [
        {"LC_ALL": "C", "LANG": None},
        {"HOME": None, "TERM": "dumb"},
        pytest.param({"LC_ALL": "POSIX", "LANG": None, "TERM": None}, marks=pytest.mark.long),
        pytest.param({"LC_ALL": "xx_YY.nonsense", "TERM": "dumb"}, marks=pytest.mark.long),
        pytest.param({"HOME": "/nowhere", "LANG": None}, marks=pytest.mark.long),
    ],
)
def test_text_is_utf8_whatever_the_environment(world: World, changes: dict[str, str | None]) -> None:
    (world.work / "größe.txt").write_text("Inhalt ✓", encoding="utf-8")
    world.script(shell("cat größe.txt; touch ✓"), Reply(text="grün 😀"))
    done = world.run("run", "lies größe.txt ✓", "--mode", "yolo", env=changes)
    assert (done.code, done.out) == (0, "grün 😀\n") and "touch ✓" in done.err
    assert prompt_of(world) == "lies größe.txt ✓"
    assert "Inhalt ✓" in world.messages()[-1] and (world.work / "✓").exists()


def test_no_home_and_no_places_named(world: World, tmp_path: Path) -> None:
    world.script(Reply(text="done"))
    places = {"XDG_STATE_HOME": str(tmp_path / "xdg"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    changes: dict[str, str | None] = {"HOME": None, "AGENT_STATE_DIR": None, "AGENT_CONFIG_DIR": None, **places}
    assert world.run("run", "ask", env=changes).code == 0
    assert list((tmp_path / "xdg").glob("agent-cli/sessions/*/*.json"))


def test_a_user_without_account_and_home(world: World, tmp_path: Path) -> None:
    """As an arbitrary user id in a container."""
    nowhere: dict[str, str | None] = {
        "HOME": None, "AGENT_STATE_DIR": None, "AGENT_CONFIG_DIR": None, "XDG_STATE_HOME": None, "XDG_CONFIG_HOME": None,
    }  # fmt: skip
    for arguments in (["run", "ask"], ["doctor"], ["sessions", "list"], ["config", "set", "mode", "ask"]):
        done = world.run(*arguments, env=nowhere, before=WITHOUT_ACCOUNT)
        assert done.code == 2 and "set HOME" in done.err and "Traceback" not in done.err, done
    places = {"XDG_STATE_HOME": str(tmp_path / "xdg"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    world.script(Reply(calls=(Call("shell", {"command": "echo here > a"}),)), Reply(text="done"))
    done = world.run("run", "--mode", "yolo", "ask", env={**nowhere, **places}, before=WITHOUT_ACCOUNT)
    assert done.code == 0 and (world.work / "a").read_text(encoding="utf-8") == "here\n"


def test_bytes_that_are_no_text(world: World) -> None:
    world.script(Reply(text="done"))
    done = world.run("run", b"x\xff".decode("utf-8", "surrogateescape"), before=in_bash(r'printf "\376" | "$@"'))
    assert (done.code, done.out) == (0, "done\n")
    assert prompt_of(world).isprintable() or "\ufffd" in prompt_of(world)


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        (0o555, []),
        (0o000, []),
        (0o000, ["-c"]),
    ],
)
def test_a_state_directory_that_cannot_be_used(world: World, mode: int, arguments: list[str]) -> None:
    world.state.mkdir()
    world.state.chmod(mode)
    done = world.run("run", "ask", *arguments, before=WITHOUT_PRIVILEGE)
    world.state.chmod(0o755)
    assert (done.code, done.out) == (1, "") and "Traceback" not in done.err
    assert str(world.state) in done.err and done.err.count("Permission denied") == 1
    assert "AGENT_STATE_DIR names another" in done.err and not world.bodies()


@pytest.mark.parametrize("arguments", [[], ["--no-session"]])
def test_a_state_directory_that_is_none_is_a_wrong_setting(world: World, arguments: list[str]) -> None:
    (world.home / "file").write_text("x", encoding="utf-8")
    done = world.run("run", "ask", *arguments, env={"AGENT_STATE_DIR": str(world.home / "file")})
    assert (done.code, done.out) == (2, "") and not world.bodies()
    assert f"{world.home}/file cannot be made: a file is in its place" in done.err
    assert "Set AGENT_STATE_DIR to a folder that you can write to." in done.err


@pytest.mark.parametrize(
    "size_bytes", [900, 2900, *(pytest.param(n, marks=pytest.mark.long) for n in (2500, 4100))]
)
def test_a_full_disk(world: World, size_bytes: int) -> None:
    (world.config / "prompt.md").write_text("Be brief.", encoding="utf-8")
    system = ["--system-prompt", str(world.config / "prompt.md")]
    world.script(shell("echo 1 >> marker", text="a" * 1500), Reply(text="b" * 1500), Reply(text="c" * 1500))
    done = world.run(
        "run",
        "the task",
        *system,
        "--mode",
        "yolo",
        "--output-format",
        "stream-json",
        before=files_up_to(size_bytes),
    )
    assert (done.code, done.result["stop_reason"]) == (1, "internal_error")
    assert "cannot write session" in done.err and "File too large" in done.err
    assert "Traceback" not in done.err
    world.server.add(*(Reply(text="going on") for _ in range(3)))
    again = world.run("run", "-c", "go on", *system, "--mode", "yolo")
    assert again.code == 0, again.err
    assert "the task" in world.messages(role="user")[0] and world.messages(role="user")[-1] == "go on"
    if (world.work / "marker").exists():
        assert (world.work / "marker").read_text(encoding="utf-8") == "1\n"


def test_a_prompt_that_cannot_be_saved_is_given_back(world: World) -> None:
    """Else the session would continue without it, and the user would have to type it again."""
    world.script(Reply(text="one", delay_s=1.0), Reply(text="two"))
    first, waiting = "f" * 40_000, "w" * 40_000
    texts = (first, "short", waiting)
    lines = "".join(json.dumps({"type": "user_input", "text": text}) + "\n" for text in texts)
    done = world.run("run", "--input-format", "stream-json", text=lines, before=files_up_to(30_000))
    returned = [line["texts"] for line in done.lines if line["type"] == "input_returned"]
    assert sorted(returned) == [[first], [waiting]], done.err
    assert done.err.count("cannot write session") >= 2 and "Traceback" not in done.err
    assert [record["text"] for record in world.records("user")] == ["short"]


@pytest.mark.parametrize("left", [b"", pytest.param(b"[\n]\n", marks=pytest.mark.long), b'[\n{"type":"sess'])
def test_a_session_that_came_to_nothing_is_passed_over(world: World, left: bytes) -> None:
    """What a crash or a full disk at the first write leaves behind."""
    world.script(Reply(text="one"), Reply(text="two"))
    assert world.run("run", "ask").code == 0
    (path,) = world.sessions()
    torn = path.with_name("29991231T000000Z-deadbeef.json")
    torn.write_bytes(left)
    done = world.run("run", "-c", "go on")
    torn.unlink()
    assert (done.code, done.out) == (0, "two\n")


def test_without_a_session_nothing_need_be_written(world: World) -> None:
    world.state.mkdir()
    world.state.chmod(0o555)
    world.script(shell("echo ran > x"), Reply(text="done"))
    done = world.run("run", "ask", "--no-session", "--mode", "yolo", before=WITHOUT_PRIVILEGE)
    world.state.chmod(0o755)
    assert done.code == 0 and (world.work / "x").exists()


def test_a_file_for_the_answer_that_cannot_be_written(world: World) -> None:
    (world.work / "out.txt").write_text("old", encoding="utf-8")
    world.script(Reply(text="x" * 4000))
    done = world.run("run", "ask", "--no-session", "-o", "out.txt", before=files_up_to(1000))
    assert done.code == 1 and done.out == "x" * 4000 + "\n"
    assert "cannot write out.txt" in done.err and "Traceback" not in done.err
    assert [path.name for path in world.work.iterdir()] == ["out.txt"]
    assert (world.work / "out.txt").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("limit", [48, 16])
def test_a_limit_of_open_files_that_no_command_can_run_with_is_named(world: World, limit: int) -> None:
    world.script(shell("echo ran"), Reply(text="done"))
    few = ("bash", "-c", f'ulimit -n {limit} && exec "$@"', "-")
    done = world.run("run", "ask", "--mode", "yolo", before=few)
    assert done.code == 0 and "Traceback" not in done.err
    said = f"cannot run /bin/bash: the limit of open files (ulimit -n {limit}) is too low"
    assert said in world.messages(role="tool")[-1]


def test_a_named_pipe_for_the_answer_that_nobody_reads(world: World) -> None:
    """Opening it would wait for ever, and no signal would end the wait."""
    os.mkfifo(world.work / "pipe")
    world.script(Reply(text="an answer"))
    done = world.run("run", "ask", "-o", "pipe")
    assert done.code == 1 and done.out == "an answer\n"
    assert "cannot write pipe" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("option", ["--system-prompt", "--output-schema", "--image"])
def test_a_file_without_an_end_is_refused(world: World, option: str) -> None:
    done = world.run("run", "ask", option, "/dev/zero")
    assert done.code == 2 and " than 50,000,000 " in done.err, done.err
    assert world.bodies() == []


def test_lines_piped_into_the_conversation(world: World) -> None:
    """With `--plain` the REPL reads lines from a pipe, and `/new` does not swallow those behind it."""
    world.script(Reply(text="eins ✓"), Reply(text="zwei"))
    done = world.run("first größer", "--plain", text="/status\n/nonsense\n")
    assert done.code == 0 and "eins ✓" in done.out and "There is no command /nonsense" in done.out
    assert "\x1b" not in done.out and prompt_of(world) == "first größer"
    done = world.run("--plain", text="/new\nsecond\\\nline\\")
    assert done.code == 0 and "zwei" in done.out and "Resume with: agent resume" in done.out
    saved = (json.loads(path.read_text(encoding="utf-8")) for path in world.sessions())
    first, second = sorted(saved, key=lambda records: records[0]["time"])  # names within a second have no order
    assert [record["text"] for record in (*first, *second) if record["type"] == "user"] == [
        "first größer",
        "second\nline\\",
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "show"), ("config", "show"), ("permissions", "explain", "cat \x1b]52;c;eA==\x07 \u202e"),
        ("run", "\x1b[2J", "--model", "openai/\x1b[31mx"), ("undo", "--list"),
        *(pytest.param(command, marks=pytest.mark.long) for command in (
            ("sessions", "list"), ("permissions", "list"), ("doctor",), ("models", "\x1b]0;owned\x07"), ("no\x1bsuch",),
            ("sessions", "show", "\x1bc"), ("run", "x", "--set", "\x1b]8;;x\x07=1"),
        )),
    ],
    ids=lambda command: " ".join(command).encode("unicode_escape").decode(),
)  # fmt: skip
def test_no_name_and_no_file_controls_the_terminal(world: World, command: tuple[str, ...]) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b5n\u202e"
    folder = world.work / f"dir{hostile}"
    folder.mkdir()
    (world.config / "config.yaml").write_text(
        f"rules: [{json.dumps('say ' + hostile)}]\npermissions: {{deny: [{json.dumps(f'shell(x {hostile})')}]}}\n",
        encoding="utf-8",
    )
    world.script(Reply(text="done"), Reply(text="done"), Reply(text="done"))
    world.run("run", f"title {hostile}", cwd=folder)
    if command == ("sessions", "show"):
        command = (*command, world.records("session")[0]["session_id"])
    done = world.run(*command, cwd=folder)
    shown = done.out + done.err
    assert not re.search("\x1b(?!\\[[0-9;]*m)|[\x07\x9b\x9d\u202e]", shown), repr(shown)


CONTROLS = "\x1b]52;c;eA==\x07 \x9b5n \x9d0;t\x9c \x90x\x9c \u202eevil\u202c a\u200bb \x7f \U000e0041 \ufeff"
"""What terminals obey or hide: OSC and CSI in both forms, bidirectional and zero-width characters, tags."""


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_nothing_that_a_run_prints_controls_a_terminal_in_a_pipe_neither(world: World, form: str) -> None:
    world.script(Reply(text=f"{CONTROLS} 你好 👩\u200d💻 done"))
    done = world.run("run", CONTROLS, "--output-format", form)
    assert done.code == 0
    hidden = re.sub("(?<=👩)\u200d", "", done.out)  # what joins an emoji is a part of it
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\ufeff\U000e0000-\U000e007f]", hidden), (
        repr(done.out)
    )
    assert "你好" in done.out and "done" in done.out
    if form != "text":
        assert done.result["text"] == f"{CONTROLS} 你好 👩\u200d💻 done"


def test_no_known_secret_is_written_into_memory(world: World) -> None:
    """Values that only this machine knows to be secret: a variable's, the provider's key of no known shape."""
    secrets = {
        "MY_APP_SECRET": "q7WnTerces81kfLd",
        "DATABASE_PASSWORD": "korrekt-horse-77",
        "OPENAI_API_KEY": "gw0Terces42Gateway",
    }
    blocks = ("user", "project", "notes")
    calls = [
        Call("memory", {"action": "append", "block": block, "text": f"It is {value}."})
        for value in secrets.values()
        for block in blocks
    ]
    world.script(*(Reply(calls=(each,)) for each in calls), Reply(text="done"))
    done = world.run("run", "remember", "--mode", "yolo", "--output-format", "json", env=secrets)
    assert done.code == 0, done.err
    results = world.messages(role="tool")
    assert len(results) == len(calls) and all("holds a secret" in text for text in results), results
    written = "".join(
        path.read_text("utf-8") for place in (world.config, world.state) for path in place.rglob("*.md")
    )
    assert not any(value in written for value in secrets.values())


def test_what_later_conversations_are_given_is_asked_about_in_ask_mode(world: World) -> None:
    for block in ("user", "project", "notes"):
        world.script(Reply(calls=(Call("memory", {"action": "append", "block": block, "text": "Likes tabs."}),)))
    world.script(Reply(text="done"))
    done = world.run("run", "remember", "--mode", "ask", "--output-format", "json")
    assert done.code == 6 and len(done.result["denied"]) == 2
    assert "changed" in world.messages(role="tool")[-1]


_IGNORING = ("sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh")
"""How a script starts what goes on in its background."""


def _signals(status: str, kind: str) -> set[int]:
    """Numbers of the signals that a process ignores (`SigIgn`) or handles (`SigCgt`)."""
    (mask,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(kind)]
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@pytest.mark.parametrize("before", [_IGNORING, ()], ids=["ignored at the start", "as usual"])
def test_commands_begin_with_the_default_signals(world: World, before: tuple[str, ...]) -> None:
    world.script(shell("grep SigIgn /proc/self/status"), Reply(text="done"))
    assert world.run("run", "go", "--mode", "yolo", before=before or ("env",)).code == 0
    (result,) = world.records("tool_result")
    assert not _signals(result["text"], "SigIgn") & set(range(1, 32)), "INT, QUIT, PIPE and all others"


def _handles_interrupt(pid: int) -> bool:
    """Whether the program has a handler: the shell that starts it has one as well until its `trap`."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return not status.startswith("Name:\tsh\n") and signal.SIGINT in _signals(status, "SigCgt")


def test_ctrl_c_ends_a_program_that_was_started_with_signals_ignored(world: World) -> None:
    """Before it has handlers of its own: while it waits for its standard input."""
    process = world.start("run", stdin=subprocess.PIPE, before=_IGNORING)
    until(lambda: _handles_interrupt(process.pid))
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130


def test_sigquit_ends_a_program_that_was_started_with_signals_ignored(world: World) -> None:
    world.script(Reply(hang="before_headers"))
    process = world.start("run", "go", before=_IGNORING)
    until(lambda: world.server.requests)
    process.send_signal(signal.SIGQUIT)
    assert finish(process).code == -signal.SIGQUIT

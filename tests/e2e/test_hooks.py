"""Hooks through the program: what they are given, what they decide, and what becomes of broken ones."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World, shell, until
from tests.http_server import LoopbackServer
from tests.model.server import Call, Reply


def hook(world: World, name: str, body: str) -> str:
    """A hook's script outside the workspace; its input is `given`, and is kept in a file beside it."""
    script = world.home / f"{name}.py"
    script.write_text(
        "import json, sys\ngiven = json.load(sys.stdin)\n"
        f"open({str(world.home / name)!r}, 'a').write(json.dumps(given) + '\\n')\n{body}\n",
        encoding="utf-8",
    )
    return f"{sys.executable} {script}"


def given(world: World, name: str) -> list[dict[str, Any]]:
    path = world.home / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def configure(world: World, **hooks: list[dict[str, Any]]) -> None:
    (world.config / "config.yaml").write_text(f"hooks: {json.dumps(hooks)}\n", encoding="utf-8")


def claude(folder: Path, **events: list[dict[str, Any]]) -> Path:
    """Settings of Claude Code with these hooks."""
    path = folder / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": events}), encoding="utf-8")
    return path


DENY = "print('not today', file=sys.stderr); sys.exit(2)"


@pytest.mark.parametrize(("text", "is_refused"), [('{"hooks": {"PreToolUse": [}', True), ('{"model": [}', False)])
def test_a_file_of_the_user_that_cannot_be_read_and_may_hold_a_guard_opens_no_gate(
    world: World, text: str, is_refused: bool
) -> None:
    (world.home / ".claude").mkdir()
    (world.home / ".claude" / "settings.json").write_text(text, encoding="utf-8")
    touch = Reply(calls=(Call("shell", {"command": "touch made"}),))
    world.script(touch, Reply(text="Ok."))
    done = world.run("run", "go", "--mode", "yolo")
    assert (done.code, (world.work / "made").exists()) == ((6, False) if is_refused else (0, True))
    assert "settings.json is left out: not valid JSON: line 1, column" in done.err
    assert ("--no-hooks" in done.err) == is_refused
    world.script(touch, Reply(text="Ok."))
    assert world.run("run", "go", "--mode", "yolo", "--no-hooks").code == 0


def test_a_file_of_the_project_that_cannot_be_read_refuses_nothing(world: World) -> None:
    (world.work / ".claude").mkdir()
    (world.work / ".claude" / "settings.json").write_text('{"hooks": [', encoding="utf-8")
    world.script(Reply(calls=(Call("shell", {"command": "touch made"}),)), Reply(text="Ok."))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 0 and "is left out" in done.err


def test_a_misspelt_event_in_the_configuration_starts_nothing(world: World) -> None:
    configure(world, PreTool=[{"command": hook(world, "guard", DENY)}])
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 2
    assert "config.yaml:1: there is no hook event `PreTool`; did you mean `PreToolUse`?" in done.err


@pytest.mark.parametrize("which", [{"match": "shell"}, {"if": "shell(touch made)"}])
def test_a_hook_on_commands_refuses_what_is_typed_into_a_shell(world: World, which: dict[str, str]) -> None:
    guard = hook(world, "guard", f"if 'made' in given['tool_input']['command']: {DENY}")
    configure(world, PreToolUse=[{**which, "command": guard}])
    typed = [Call("jobs", {"action": "send", "job": "1", "text": f"{line}\n"}) for line in ("touch made", "true")]
    world.script(
        Reply(calls=(Call("shell", {"command": "sh", "background": True}),)), Reply(calls=tuple(typed)),
        Reply(text="I could not."),
    )  # fmt: skip
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert [record["status"] for record in world.records("tool_result")] == ["ok", "denied", "ok"]
    assert not (world.work / "made").exists()


def test_a_hook_refuses_a_call_and_the_model_reads_why(world: World) -> None:
    configure(world, PreToolUse=[{"match": "shell", "command": hook(world, "guard", DENY)}])
    world.script(
        Reply(calls=(Call("shell", {"command": "touch made"}), Call("list_dir", {}))), Reply(text="I could not.")
    )
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 6 and not (world.work / "made").exists()
    refused, listed = world.messages(-1, "tool")
    assert "Refused by a user hook: not today" in refused and "hook" not in listed
    (asked,) = given(world, "guard")
    assert asked["tool_name"] == "shell" and asked["tool_input"] == {"command": "touch made"}
    assert asked["cwd"] == str(world.work) and asked["hook_event_name"] == "PreToolUse"
    (noted,) = world.records("hook")
    assert noted["decision"] == "deny" and noted["exit_code"] == 2


def test_hooks_of_claude_code_run_unchanged_with_the_names_they_expect(world: World) -> None:
    (world.work / "a.txt").write_text("one\n", encoding="utf-8")
    command = hook(world, "edits", "pass")
    claude(world.home, PreToolUse=[{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": command}]}])
    edit = {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}
    world.script(
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(calls=(Call("edit_file", edit),)),
        Reply(text="ok"),
    )
    assert world.run("run", "go", "--mode", "auto-edit").code == 0
    (asked,) = given(world, "edits")
    assert asked["tool_name"] == "Edit" and asked["permission_mode"] == "acceptEdits"
    assert asked["tool_input"] == {
        "file_path": str(world.work / "a.txt"), "old_string": "one", "new_string": "two", "replace_all": False,
    }  # fmt: skip


def test_a_rewritten_call_is_judged_again_and_runs_as_rewritten(world: World) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo safer"},
                                     "permissionDecision": "allow"}}  # fmt: skip
    command = hook(world, "rewrite", f"print({json.dumps(json.dumps(answer))})")
    claude(world.home, PreToolUse=[{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}])
    world.script(Reply(calls=(Call("shell", {"command": "rm -rf ."}),)), Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    told = world.messages(-1, "tool")[-1]
    assert "safer" in told and "changed this call; what ran: echo safer" in told, (done.err, told)


@pytest.mark.parametrize("arguments", [(), ("--plain",)])
def test_the_user_sees_what_a_hook_has_changed(world: World, arguments: tuple[str, ...]) -> None:
    answer = {"hookSpecificOutput": {"updatedInput": {"command": "touch safe"}}}
    configure(
        world,
        PreToolUse=[{"command": hook(world, "x", f"print({json.dumps(json.dumps(answer))})"), "name": "rewriter"}],
    )
    world.script(Reply(calls=(Call("shell", {"command": "touch made"}),)), Reply(text="ok"))
    with Person(world, *arguments, is_awaited=not arguments) as person:
        person.type("go\r")
        person.wait("Hooks on this call:")
        person.wait(r"- ?command: touch made")
        person.wait(r"\+ ?command: touch safe")
        person.wait("the hook rewriter changed it")
        person.pump(GUARD_S)
        person.send("3\r")
        person.turn_over()
        person.wait(r"(?s)40 out\s+>")  # keys sent before the plain prompt is there would stand in front of it
        person.leave()
    assert not any(world.work.iterdir())


def test_a_rewrite_cannot_pass_a_deny_rule(world: World) -> None:
    answer = {"hookSpecificOutput": {"updatedInput": {"command": "touch made"}, "permissionDecision": "allow"}}
    command = hook(world, "rewrite", f"print({json.dumps(json.dumps(answer))})")
    claude(world.home, PreToolUse=[{"hooks": [{"type": "command", "command": command}]}])
    (world.config / "config.yaml").write_text('permissions: {deny: ["shell(touch *)"]}\n', encoding="utf-8")
    world.script(Reply(calls=(Call("shell", {"command": "echo hello"}),)), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert not (world.work / "made").exists()


@pytest.mark.parametrize(
    ("event", "body", "says"),
    [
        ("PreToolUse", "sys.exit(126)", "could not start"),
        ("UserPromptSubmit", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed"),
        ("PreToolUse", "print('{\"decision\": ')", "JSON that cannot be read"),
        ("UserPromptSubmit", "print('x' * 3_000_000)", "more than 1 MB"),
        ("PreToolUse", "import time; time.sleep(60)", "took longer than"),
        ("PreToolUse", "sys.exit(1)", "failed with exit code 1"),
        ("UserPromptSubmit", "sys.exit(1)", "failed with exit code 1"),
    ],
)
def test_a_broken_guard_does_not_open_the_gate(world: World, event: str, body: str, says: str) -> None:
    """Each event that decides with each way to break: `tests/engine/test_broken_hooks.py`."""
    entry = {"command": hook(world, "broken", body), "name": "my guard", "timeout_s": 2}
    configure(world, **{event: [entry]})
    world.script(Reply(calls=(Call("shell", {"command": "touch made"}),)), Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 6 and not (world.work / "made").exists()
    assert "my guard" in done.err and says in done.err and "--no-hooks" in done.err
    if event == "UserPromptSubmit":
        assert not world.bodies()


def test_a_prompt_is_refused_or_gets_context(world: World) -> None:
    body = "print('secret' if 'secret' in given['prompt'] else 'Today is release day.', file=sys.stderr if 'secret' in given['prompt'] else sys.stdout)\nsys.exit(2 if 'secret' in given['prompt'] else 0)"
    configure(world, UserPromptSubmit=[{"command": hook(world, "prompts", body)}])
    world.script(Reply(text="ok"))
    refused = world.run("run", "the secret")
    assert refused.code == 6 and "refused by a hook: secret" in refused.err and not world.bodies()
    assert world.run("run", "hello").code == 0
    assert "Today is release day." in world.messages(-1, "user")[-1]


def test_a_stop_hook_makes_the_turn_go_on_a_bounded_number_of_times(world: World) -> None:
    configure(
        world, Stop=[{"command": hook(world, "stops", "print('run the tests', file=sys.stderr); sys.exit(2)")}]
    )
    world.script(*[Reply(text=f"done {n}") for n in range(8)])
    done = world.run("run", "go")
    assert done.code == 0 and len(world.bodies()) == 6
    assert "run the tests" in world.messages(1)[-1]
    assert [each["stop_hook_active"] for each in given(world, "stops")] == [False, *[True] * 5]
    assert "The turn ends although a hook refuses it" in done.err


def test_hooks_are_told_of_results_and_of_the_session(world: World) -> None:
    names = ("PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd")
    body = "if given['hook_event_name'] == 'PostToolUse': print(json.dumps({'decision': 'block', 'reason': 'mind the style'}))"
    configure(world, **{name: [{"command": hook(world, name, body)}] for name in names})
    world.script(
        Reply(calls=(Call("shell", {"command": "echo hi"}), Call("shell", {"command": "exit 3"}))),
        Reply(text="ok"),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 0
    (passed,), (failed,) = given(world, "PostToolUse"), given(world, "PostToolUseFailure")
    assert "hi" in passed["tool_response"]["stdout"] and passed["duration_ms"] >= 0 and "error" in failed
    assert [len(given(world, name)) for name in ("SessionStart", "SessionEnd")] == [1, 1]
    assert "mind the style" in world.messages(-1, "tool")[0]


def test_a_hook_is_told_of_a_turn_that_failed(world: World) -> None:
    configure(world, StopFailure=[{"command": hook(world, "failures", "pass")}])
    world.may_refuse = True
    world.script(Reply(status=401))
    assert world.run("run", "go").code == 3
    (told,) = given(world, "failures")
    assert told["hook_event_name"] == "StopFailure" and told["error"]


def test_a_prompt_that_is_interrupted_while_a_hook_looks_at_it_comes_back(world: World) -> None:
    configure(world, UserPromptSubmit=[{"command": hook(world, "slow", "import time; time.sleep(60)")}])
    with Person(world) as person:
        person.type("think about it\r")
        until(lambda: bool(given(world, "slow")))
        person.type("\x1b")
        person.wait("Interrupted")
        person.wait(r"(?m)^> think about it")
        person.send("\x15")
        person.leave()
    assert not world.bodies()


def test_our_own_hooks_may_have_a_condition_run_beside_the_turn_and_once(world: World) -> None:
    configure(
        world,
        PreToolUse=[
            {"command": hook(world, "git", DENY), "if": "shell(git *)"},
            {"command": hook(world, "beside", DENY), "async": True},
            {"command": hook(world, "once", "pass"), "once": True},
        ],
    )
    commands = ("touch made", "true && git status")
    world.script(*[Reply(calls=(Call("shell", {"command": each}),)) for each in commands], Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert (world.work / "made").exists() and len(given(world, "git")) == len(given(world, "once")) == 1
    refused = ["Refused by a user hook" in text for text in world.messages(-1, "tool")]
    assert refused == [False, True]


def test_a_hook_is_told_that_a_turn_has_ended_while_the_user_looked_elsewhere(world: World) -> None:
    configure(world, Notification=[{"command": hook(world, "bell", "sys.exit(2)")}])
    world.script(Reply(text="all done"))
    with Person(world) as person:
        person.send("\x1b[O")  # the window has lost the focus
        person.ask("go")
        until(lambda: bool(given(world, "bell")))
        person.leave()
    (told,) = given(world, "bell")
    assert told["notification_type"] == "idle_prompt" and told["message"].startswith("done")


SAY_YES = (
    "from agent_cli.bootstrap.options import parse\nfrom agent_cli.bootstrap.setup import Setup\n"
    "from agent_cli.cli.services.trust_prompt import pending_trust_requests\nsetup = Setup(parse('run', ['x']))\n"
    "for offer in pending_trust_requests(setup): setup.trust.remember(offer.place, offer.content)"
)


def test_a_projects_hooks_run_only_as_they_were_agreed_to(world: World) -> None:
    script = world.work / "hooks" / "guard.sh"
    script.parent.mkdir()
    script.write_text("touch ran; exit 2\n", encoding="utf-8")
    claude(world.work, PreToolUse=[{"hooks": [{"type": "command", "command": "sh hooks/guard.sh"}]}])
    world.script(*[Reply(calls=(Call("list_dir", {}),)), Reply(text="ok")] * 3)
    before = world.run("run", "go")
    assert "not trusted" in before.err and not (world.work / "ran").exists()
    subprocess.run(
        [sys.executable, "-c", SAY_YES], env=world.environment(), cwd=world.work, check=True, timeout=90
    )
    assert world.run("run", "go").code == 6 and (world.work / "ran").exists()
    (world.work / "ran").unlink()
    script.write_text("touch ran; exit 0 \n", encoding="utf-8")
    after = world.run("run", "go")
    assert "not trusted" in after.err and not (world.work / "ran").exists()


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses every call."""

    def do_POST(self) -> None:
        given = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(json.loads(given))  # type: ignore[attr-defined]
        answer = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny"}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None: ...


def test_a_server_that_a_project_names_is_asked_only_after_a_yes(world: World) -> None:
    with LoopbackServer(("127.0.0.1", 0), Refusing) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/guard"
        claude(world.work, PreToolUse=[{"hooks": [{"type": "http", "url": url}]}])
        world.script(*[Reply(calls=(Call("list_dir", {}),)), Reply(text="ok")] * 2)
        assert world.run("run", "go").code == 0 and not server.asked  # type: ignore[attr-defined]
        subprocess.run(
            [sys.executable, "-c", SAY_YES], env=world.environment(), cwd=world.work, check=True, timeout=90
        )
        assert world.run("run", "go").code == 6
        assert [each["tool_name"] for each in server.asked] == ["LS"]  # type: ignore[attr-defined]
        server.shutdown()


@pytest.mark.parametrize("has_hooks", [False, True])
def test_nothing_of_hooks_is_loaded_where_none_is_defined(world: World, has_hooks: bool) -> None:
    if has_hooks:
        configure(world, PreToolUse=[{"command": "true"}])
    (world.work / "a").write_text("x\n", encoding="utf-8")
    world.script(Reply(calls=(Call("list_dir", {}),)), Reply(text="ok"))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agent_cli", "run", "look at @a"],
        env=world.environment(), cwd=world.work, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0 and "agent_cli.engine.turn" in done.stderr
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    of_hooks = (
        "agent_cli.hooks",
        "agent_cli.extensions.hook_files",
        "agent_cli.engine.user_hooks",
        "agent_cli.bootstrap.hooks",
    )
    found = sorted(name for name in loaded if name.startswith(of_hooks))
    assert bool(found) is has_hooks, found


@pytest.mark.parametrize(
    "command", ["python3 -c 'import json'", ["python3", "-c", "import json"], "checker", "/usr/bin/env checker"]
)
def test_a_hook_runs_nothing_that_the_model_has_written_into_the_workspace(world: World, command: object) -> None:
    configure(world, PostToolUse=[{"command": command, "on_error": "allow"}])
    (world.work / ".venv/bin").mkdir(parents=True)
    module = f"open({str(world.home / 'ran')!r}, 'w')"
    program = f"#!/bin/sh\necho >{world.home / 'ran'}\n"
    calls = (
        Call("write_file", {"path": "json.py", "content": module}),
        Call("write_file", {"path": ".venv/bin/checker", "content": program}),
        Call("shell", {"command": "chmod +x .venv/bin/checker; cp .venv/bin/checker .venv/bin/sh"}),
        Call("shell", {"command": "true"}),
    )
    world.script(Reply(calls=calls), Reply(text="done"))
    path = f"{world.work / '.venv/bin'}:{world.environment()['PATH']}"
    world.run("run", "go", "--mode", "auto-edit", env={"PATH": path})
    assert (world.work / "json.py").exists() and not (world.home / "ran").exists()


def test_a_hook_that_is_a_program_of_the_project_runs_as_long_as_it_is_unchanged(world: World) -> None:
    configure(world, PostToolUse=[{"command": "checker"}])
    (world.work / ".venv/bin").mkdir(parents=True)
    checker = world.work / ".venv/bin/checker"
    checker.write_text(f"#!/bin/sh\necho >>{world.home / 'ran'}\n", encoding="utf-8")
    checker.chmod(0o755)
    world.script(shell("touch made"), shell("touch .venv/bin/new"), Reply(text="done"))
    path = f"{world.work / '.venv/bin'}:{world.environment()['PATH']}"
    world.run("run", "go", "--mode", "auto-edit", env={"PATH": path})
    assert (world.home / "ran").read_text(encoding="utf-8") == "\n\n"


def test_no_hooks_runs_none(world: World) -> None:
    configure(world, PreToolUse=[{"command": hook(world, "guard", DENY)}])
    world.script(Reply(calls=(Call("list_dir", {}),)), Reply(text="ok"))
    assert world.run("run", "go", "--no-hooks").code == 0 and not given(world, "guard")


def test_a_file_that_a_prompt_names_passes_the_hooks_as_a_read(world: World) -> None:
    (world.work / "private.txt").write_text("the plan\n", encoding="utf-8")
    command = hook(world, "reads", "sys.exit(2 if 'private' in given['tool_input']['file_path'] else 0)")
    claude(world.home, PreToolUse=[{"matcher": "Read", "hooks": [{"type": "command", "command": command}]}])
    world.script(Reply(text="ok"))
    assert world.run("run", "look at @private.txt").code == 0
    (prompt,) = world.messages(-1, "user")
    assert "the plan" not in prompt and "a hook refused it" in prompt
    assert given(world, "reads")[0]["tool_name"] == "Read"


def test_a_file_that_a_prompt_names_is_not_read_where_a_hook_wants_it_asked(world: World) -> None:
    (world.work / "private.txt").write_text("the plan\n", encoding="utf-8")
    configure(world, PreToolUse=[{"command": hook(world, "reads", "sys.exit(126)"), "on_error": "ask"}])
    world.script(Reply(text="ok"))
    assert world.run("run", "look at @private.txt").code == 0
    assert "the plan" not in world.messages(-1, "user")[-1]


@pytest.mark.parametrize("name", [".claude/settings.json", ".cursor/hooks.json", ".codex/config.toml"])
def test_a_file_of_a_project_that_is_nested_without_end_stops_nothing(world: World, name: str) -> None:
    path = world.work / name
    path.parent.mkdir()
    path.write_text(("hooks = " if path.suffix == ".toml" else '{"hooks": ') + "[" * 100_000, encoding="utf-8")
    world.script(Reply(text="ok"))
    assert world.run("run", "go").code == 0


def test_the_start_is_told_again_after_a_compaction_and_its_words_go_with_the_next_prompt(world: World) -> None:
    body = "print('Mind the style.') if given['source'] == 'compact' else None"
    configure(world, SessionStart=[{"command": hook(world, "start", body)}])
    world.script(
        *(Reply(text=f"Answer {at} " + "word " * 400) for at in range(5)), Reply(text="SUMMARY"), Reply(text="ok")
    )
    with Person(world) as person:
        for at in range(5):
            person.ask(f"say {at}")
        person.say("/compact")
        person.wait("replaced by a summary")
        person.ask("go on")
        person.leave()
    assert [each["source"] for each in given(world, "start")] == ["startup", "compact"]
    assert "Mind the style." in world.messages(-1, "user")[-1]


LOOP = """
lines = [json.loads(line) for line in open(given['transcript_path'], encoding='utf-8')]
answers = [line['message'] for line in lines if line['type'] == 'assistant']
texts = [block['text'] for block in answers[-1]['content'] if block['type'] == 'text']
if 'DONE' not in texts[-1]:
    print(json.dumps({'decision': 'block', 'reason': 'Go on.'}))
"""


def test_a_hook_of_claude_code_reads_the_last_answer_in_the_transcript(world: World) -> None:
    """As the loops do that repeat a prompt until the model promises that it is done."""
    command = {"type": "command", "command": hook(world, "loop", LOOP)}
    claude(world.home, Stop=[{"hooks": [command]}])
    world.script(
        Reply(text="first", calls=(Call("shell", {"command": "echo hi"}), Call("read_file", {"path": "none"}))),
        Reply(text="second"),
        Reply(text="third: DONE"),
    )
    assert world.run("run", "--mode", "yolo", "go").code == 0
    assert len(world.bodies()) == 3 and "Go on." in world.messages(-1, "user")[-1]
    path = Path(given(world, "loop")[-1]["transcript_path"])
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    assert '"role":"assistant"' in text, "many scripts look for this with grep"
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["type"] for line in lines] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    said = lines[1]["message"]
    assert [block["type"] for block in said["content"]] == ["text", "tool_use", "tool_use"]
    assert said["content"][1]["name"] == "Bash" and said["content"][1]["input"] == {"command": "echo hi"}
    assert said["usage"]["output_tokens"] == 20 and said["stop_reason"] == "tool_use"
    results = [line["message"]["content"][0] for line in lines[2:4]]
    assert [each["is_error"] for each in results] == [False, True] and "hi" in results[0]["content"]
    assert lines[5]["isMeta"] and "isMeta" not in lines[0]


def test_calls_in_the_transcript_are_those_that_hooks_saw_and_wrong_ones_end_nothing(world: World) -> None:
    claude(world.home, Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", "")}]}])
    (world.work / "a.txt").write_text("old\n", encoding="utf-8")
    wrong = {"path": "a.txt", "edits": 5}
    world.script(
        Reply(
            calls=(
                Call("edit_file", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
                Call("functions.shell", {"cmd": ["echo", "a b"]}),
                Call("edit_file", wrong),
                Call("shell", {"command": "true", "timeout_s": "null"}),
                Call("ask_user", {"question": "q", "options": 5}),
                Call("none", {"x": 1}),
                Call("shell", {"x": json.loads("[" * 600 + "]" * 600)}),
            )
        ),
        Reply(text="done"),
    )
    assert world.run("run", "--mode", "yolo", "go").code == 0
    text = Path(given(world, "see")[-1]["transcript_path"]).read_text(encoding="utf-8")
    said = next(line["message"] for line in map(json.loads, text.splitlines()) if line["type"] == "assistant")
    path = str(world.work / "a.txt")
    assert [(block["name"], block["input"]) for block in said["content"][:6]] == [
        ("Edit", {"file_path": path, "old_string": "old", "new_string": "new", "replace_all": False}),
        ("Bash", {"command": "echo 'a b'"}),
        ("Edit", wrong),
        ("Bash", {"command": "true"}),
        ("AskUserQuestion", {"question": "q", "options": 5}),
        ("none", {"x": 1}),
    ]
    assert said["content"][6]["name"] == "Bash"


def test_a_transcript_that_is_gone_is_there_again_for_the_next_hook(world: World) -> None:
    remove = "import os\nos.unlink(given['transcript_path'])\n"
    claude(
        world.home,
        PostToolUse=[{"hooks": [{"type": "command", "command": hook(world, "remove", remove)}]}],
        Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", LOOP)}]}],
    )
    world.script(Reply(calls=(Call("shell", {"command": "echo hi"}),)), Reply(text="one"), Reply(text="DONE"))
    assert world.run("run", "--mode", "yolo", "go").code == 0
    assert len(world.bodies()) == 3, "the hook read the answer and wanted another"


def test_the_transcript_has_no_secrets(world: World) -> None:
    """Sandboxed commands may read the folder that it is in."""
    claude(world.home, Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", "")}]}])
    secret = f"ghp_{'A1b2C3d4E5f6' * 3}"
    world.script(
        Reply(text=f"I use {secret}.", calls=(Call("shell", {"command": f"echo {secret}"}),)), Reply(text=secret)
    )
    assert world.run("run", "--mode", "yolo", f"My token is {secret}").code == 0
    text = Path(given(world, "see")[-1]["transcript_path"]).read_text(encoding="utf-8")
    assert secret not in text and text.count("[masked: GitHub token]") == 5


def test_the_transcript_goes_on_with_the_session_and_not_with_its_fork(world: World) -> None:
    claude(world.home, Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", "")}]}])
    world.script(Reply(text="one"), Reply(text="two"), Reply(text="three"))
    assert world.run("run", "first").code == 0
    (kept,) = {Path(each["transcript_path"]) for each in given(world, "see")}
    assert world.run("run", "-c", "--fork", "second").code == 0
    before = kept.read_bytes()
    forked = Path(given(world, "see")[-1]["transcript_path"])
    assert forked != kept and b'"two"' not in before and b'"two"' in forked.read_bytes()
    assert world.run("run", "--resume", json.loads(before.splitlines()[0])["sessionId"], "third").code == 0
    assert kept.read_bytes().startswith(before) and b'"three"' in kept.read_bytes()
    assert b'"three"' not in forked.read_bytes()


def test_turns_that_are_undone_are_not_in_the_transcript(world: World) -> None:
    claude(world.home, Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", "")}]}])
    world.script(Reply(text="one"), Reply(text="two"), Reply(text="three"))
    assert world.run("run", "first").code == 0 and world.run("run", "-c", "second").code == 0
    assert world.run("undo").code == 0
    assert world.run("run", "-c", "third").code == 0
    lines = Path(given(world, "see")[-1]["transcript_path"]).read_text(encoding="utf-8").splitlines()
    said = [json.loads(line) for line in lines]
    assert [line["message"]["content"] for line in said if line["type"] == "user"] == ["first", "third"]
    assert [line["parentUuid"] for line in said] == [None, *(line["uuid"] for line in said[:-1])]


def test_a_session_that_is_not_saved_has_no_transcript(world: World) -> None:
    claude(world.home, Stop=[{"hooks": [{"type": "command", "command": hook(world, "see", "")}]}])
    world.script(Reply(text="one"))
    assert world.run("run", "--no-session", "first").code == 0
    assert given(world, "see")[0]["transcript_path"] == "" and not list(world.state.rglob("transcript.jsonl"))


def test_hooks_are_listed_with_their_place_and_switched_off_at_the_prompt(world: World) -> None:
    guard = {"match": "shell", "command": hook(world, "guard", DENY), "name": "guard"}
    text = json.dumps({"hooks": {"Stop": [{"command": "true"}], "PreToolUse": [guard]}}, indent=1)
    (world.config / "config.yaml").write_text(text, encoding="utf-8")
    line = next(at for at, row in enumerate(text.splitlines(), 1) if "PreToolUse" in row)
    touch = Reply(calls=(Call("shell", {"command": "touch made"}),))
    world.script(touch, Reply(text="Refused."), touch, Reply(text="Done."))
    with Person(world, "--mode", "yolo", columns=250) as person:
        person.say("go")
        person.wait("Refused")
        person.say("/hooks")
        person.wait(rf"config.yaml:{line} · 1 run, last: deny")
        person.say("/hooks off guar")
        person.wait("There is no hook guar. The hooks are: true, guard.")
        person.say("/hooks off guard")
        person.wait("guard is off for this session")
        assert not (world.work / "made").exists()
        person.say("go on")
        person.wait("Done")
        assert (world.work / "made").exists()
        person.say("/hooks")
        person.wait(r"guard \(off\)  PreToolUse for shell")
        person.leave()

"""`agent doctor`: what it finds, in which words, and whether a task could run."""

import asyncio
import contextlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import Done, World
from tests.model.network import Listener

NO_KEY = {"AGENT_MODEL": "anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY": None}


def findings(done: Done) -> dict[str, str]:
    """Verdict by name."""
    found = re.findall(r"(?m)^(ok  |note|FAIL)  ([a-z ]+): ", done.out)
    return {name: verdict.strip() for verdict, name in found}


def line(done: Done, name: str) -> str:
    (found,) = (each for each in done.out.splitlines() if each[6:].startswith(f"{name}:"))
    return found


def todo(done: Done, name: str) -> str:
    """What stands below a finding."""
    lines = done.out.splitlines()
    return lines[lines.index(line(done, name)) + 1].removeprefix("      → ")


def test_doctor_is_content_where_a_task_could_run(world: World) -> None:
    done = world.run("doctor", env={"AGENT_MODEL": "openai/mock"})
    assert (done.code, done.err) == (0, "")
    checks = findings(done)
    assert checks == {
        "configuration": "ok", "model": "ok", "tcp": "ok", "http": "ok", "git": "ok", "ripgrep": "ok",
        "state folder": "ok", "sandbox": checks["sandbox"], "promises": "ok", "terminal": "note",
    }  # fmt: skip
    assert line(done, "http") == "ok    http: HTTP 200, the key is accepted, mock is offered"
    assert line(done, "model").startswith("ok    model: openai/mock (AGENT_MODEL), ")
    assert done.out.endswith("\n\nA task could run here.\n")
    assert world.bodies() == []


def test_what_takes_the_space_in_the_state_folder_is_told(world: World) -> None:
    assert "it holds" not in line(world.run("doctor"), "state folder")
    for place, size in (("spill/a", 200), ("projects/b/checkpoints/c", 300), ("sessions", 20)):
        (folder := world.state / place).mkdir(parents=True, exist_ok=True)
        with (folder / "x").open("wb") as file:
            file.truncate(size * 1_000_000)
    told = line(world.run("doctor"), "state folder").partition("; ")[2]
    assert told == "it holds 520 MB: 300 MB in projects/*/checkpoints, 200 MB in spill, 20 MB in sessions"


def test_another_model_and_folder_are_checked_as_a_task_there_would_use_them(world: World) -> None:
    (other := world.work / "other").mkdir()
    (world.config / "config.yaml").write_text(
        f"providers: {{lab: {{base_url: {world.server.url}}}, gone: {{base_url: 'http://127.0.0.1:1/v1'}}}}\n",
        encoding="utf-8",
    )
    world.server.model_facts = {"mock": {"meta": {"n_ctx": 4096}}}
    done = world.run("doctor", "-m", "lab/mock", "-C", str(other))
    assert line(done, "model") == "ok    model: lab/mock (--model), window 4,096 tokens"
    done = world.run("doctor", "--model", "gone/x")
    assert done.code == 1 and line(done, "tcp").startswith("FAIL  tcp: ")
    listed = world.run("models", "gone")
    assert listed.out.endswith("The server of gone listed no models. `agent doctor -m gone/MODEL` tells why.\n")


def test_doctor_names_what_is_there_and_not_used(world: World) -> None:
    (world.work / ".cursorrules").write_text("x", encoding="utf-8")
    (world.work / ".claude/output-styles").mkdir(parents=True)
    done = world.run("doctor")
    assert "note  not used: .cursorrules (rules of Cursor), .claude/output-styles (output styles)" in done.out
    assert "`agent doctor --files`" in done.out


def test_protections_and_instructions_of_other_agents_are_not_left_out_in_silence(world: World) -> None:
    rules = {"permissions": {"deny": ["Read(./.env)"]}}
    for folder, name, text in (
        (world.work, ".claude/settings.json", json.dumps(rules)),
        (world.work, ".claude/settings.local.json", '{"permissions": {"allow": ["Read"]}}'),
        (world.work, ".cursorignore", "secrets/"),
        (world.work, "opencode.json", '{"permission": {"bash": "ask"}, "agent": {"x": {}}}'),
        (world.home, ".gemini/settings.json", '{"tools": {"exclude": ["run_shell_command(rm)"]}}'),
        (world.home, ".claude/settings.json", json.dumps(rules)),
        (world.home, ".claude/CLAUDE.md", "Be brief."),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    found = {each["path"]: each["what"] for each in json.loads(world.run("doctor", "--files", "--json").out)}
    assert set(found) == {
        ".claude/settings.json (permissions.deny)", "~/.claude/settings.json (permissions.deny)",
        "opencode.json (permission)", "opencode.json (agent)", "~/.gemini/settings.json (tools.exclude)",
        ".cursorignore", "~/.claude/CLAUDE.md",
    }  # fmt: skip
    assert (
        "write them under `permissions` in .agent/config.yaml" in found[".claude/settings.json (permissions.deny)"]
    )
    assert ".agentignore" in found[".cursorignore"] and "`@~/.claude/CLAUDE.md`" in found["~/.claude/CLAUDE.md"]
    said = world.run("doctor").out
    assert (
        ".claude/settings.json (permissions.deny) (permission rules of Claude Code)" in said
        and "~/.claude/CLAUDE.md" in said
    )


def test_doctor_lists_every_file_with_its_state_and_cost(world: World) -> None:
    def put(name: str, text: str, folder: Path = world.work) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    put("AGENTS.md", "Use tabs. " * 40)
    put("CLAUDE.md", "other")
    put(".claude/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys.\n---\nGo.")
    put(".claude/commands/review.md", "---\nmodel: opus\n---\nReview.")
    put(".gemini/commands/broken.toml", "prompt =")
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    put(".claude/settings.json", json.dumps({"hooks": hooks}))
    put(".claude/settings.json", json.dumps({"hooks": {**hooks, "Nonsense": hooks["PreToolUse"]}}), world.home)
    put(".mcp.json", json.dumps({"mcpServers": {"demo": {"command": "true"}}}))
    put(".cursorrules", "x")
    done = world.run("doctor", "--files", "--json")
    found = {(each["path"], each["state"]): each for each in json.loads(done.out)}
    assert found["AGENTS.md", "read"]["tokens"] > 50
    assert "another file of its folder" in found["CLAUDE.md", "unused"]["what"]
    assert found[".claude/skills/deploy/SKILL.md", "read"]["what"] == "skill deploy"
    assert "without effect: model" in found[".claude/commands/review.md", "read"]["what"]
    assert "not valid TOML" in found[".gemini/commands/broken.toml", "unused"]["what"]
    assert "1 hook: not trusted" in found[".claude/settings.json", "inert"]["what"]
    assert found["~/.claude/settings.json", "read"]["what"] == "1 hook: PreToolUse"
    assert "`agent mcp trust demo`" in found[".mcp.json", "inert"]["what"]
    assert "rules of Cursor" in found[".cursorrules", "unused"]["what"]
    assert any("Nonsense" in each["what"] for each in found.values())
    shown = world.run("doctor", "--files").out
    assert "inert   .mcp.json" in shown and "tokens to every request" in shown


def test_doctor_says_that_there_are_no_files_and_what_json_is_for(world: World) -> None:
    assert world.run("doctor", "--files").out.startswith("No instructions, skills, commands")
    assert json.loads(world.run("doctor", "--files", "--json").out) == []
    wrong = world.run("doctor", "--json")
    assert wrong.code == 2 and not wrong.out and "write `agent doctor --files --json`" in wrong.err


def test_doctor_says_that_a_model_is_not_offered(world: World) -> None:
    done = world.run("doctor")
    assert done.code == 0
    assert line(done, "http").endswith("; mock-model is not in the list of models: mock")
    world.server._models = ("mock", "mock")  # llama.cpp lists its model in two formats at once
    assert line(world.run("doctor"), "http").endswith("in the list of models: mock")


def test_doctor_names_the_key_that_is_missing(world: World) -> None:
    done = world.run("doctor", env=NO_KEY)
    assert done.code == 1
    assert line(done, "model") == "FAIL  model: anthropic needs a key: set ANTHROPIC_API_KEY"
    assert todo(done, "model").startswith(f"Export it, or write it into {world.config}/keys.yaml; ")
    assert done.out.endswith("\n\nNo task could run here: 1 check has failed.\n")
    assert "tcp" not in findings(done)


def test_doctor_asks_a_server_on_this_machine_whether_it_is_there(world: World) -> None:
    done = world.run("doctor", env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert done.code == 1
    assert line(done, "tcp") == "FAIL  tcp: cannot connect to 127.0.0.1:9: Connection refused"
    assert todo(done, "tcp").startswith("Check that")
    local = {"AGENT_MODEL": "lm_studio/m", "LM_STUDIO_API_BASE": "http://127.0.0.1:9/v1"}
    assert todo(world.run("doctor", env=local), "tcp").endswith("Start it with `lms server start`.")


class _Answers(Listener):
    """Says one status to everything."""

    def __init__(self, head: str, body: str = '{"error": {"message": "says the server"}}') -> None:
        super().__init__()
        self._head = head
        self._body = body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {self._head}\r\ncontent-length: {len(self._body)}\r\n\r\n{self._body}".encode())
        await writer.drain()


@contextlib.contextmanager
def running(listener: Listener) -> Iterator[int]:
    """A listener in a thread of its own; its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(listener.__aenter__(), loop).result(60)
    try:
        yield listener.port
    finally:
        asyncio.run_coroutine_threadsafe(listener.__aexit__(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


@pytest.mark.parametrize(
    ("head", "code", "words"),
    [
        (
            "401 Unauthorized",
            1,
            "FAIL  http: OpenAI refused the key (HTTP 401): says the server\n      → Check that OPENAI_API_KEY holds",
        ),
        pytest.param(
            "403 Forbidden", 1, "FAIL  http: OpenAI does not allow this (HTTP 403)", marks=pytest.mark.long
        ),
        pytest.param(
            "500 Oops", 1, "FAIL  http: OpenAI failed (HTTP 500): says the server", marks=pytest.mark.long
        ),
        (
            "301 Moved\r\nlocation: https://x/v2/models",
            1,
            "FAIL  http: OpenAI does not know this model or address: the server redirects to https://x/v2/models; "
            "if that is your server, its base URL is https://x/v2\n",
        ),
        ("404 Not Found", 0, "note  http: http://127.0.0.1:"),
        pytest.param("429 Slow", 0, "note  http: rate limited by OpenAI (HTTP 429)", marks=pytest.mark.long),
        ("200 OK", 0, "ok    http: HTTP 200, the key is accepted"),
    ],
)
def test_what_the_server_says_to_the_key(world: World, head: str, code: int, words: str) -> None:
    with running(_Answers(head)) as port:
        done = world.run("doctor", env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
    assert done.code == code and f"\n{words}" in done.out


@pytest.mark.parametrize("head", ["401 Unauthorized", "302 Found\r\nlocation: https://x/v1?key=planted-key-1"])
def test_the_key_is_not_shown_when_the_server_repeats_it(world: World, head: str) -> None:
    with running(_Answers(head, '{"error": {"message": "wrong key: planted-key-1"}}')) as port:
        env = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "planted-key-1"}
        done = world.run("doctor", env=env)
    assert "\nFAIL  http: OpenAI " in done.out and "planted-key-1" not in done.out + done.err


def test_what_a_server_says_cannot_control_the_terminal(world: World) -> None:
    with running(
        _Answers("500 Oops", '{"error": {"message": "a\\u001b]0;title\\u0007b\\nok    model: fine"}}')
    ) as port:
        done = world.run("doctor", env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
    assert done.code == 1 and "\x1b" not in done.out and "\x07" not in done.out
    assert sum(each.startswith("ok    model:") for each in done.out.splitlines()) == 1


def test_a_proxy_that_hangs_is_named_in_time(world: World) -> None:
    (world.config / "config.yaml").write_text(
        "providers: {openai: {timeouts: {connect_s: 0.3}}}\n", encoding="utf-8"
    )
    with running(Listener()) as port:
        proxy = f"http://jo:planted@127.0.0.1:{port}"
        done = world.run("doctor", env={"OPENAI_BASE_URL": "https://api.invalid/v1", "HTTPS_PROXY": proxy})
    assert done.code == 1
    assert f"the proxy http://127.0.0.1:{port} (HTTPS_PROXY) took the connection" in line(done, "proxy")
    assert "planted" not in done.out and "http" not in findings(done)


def test_doctor_says_that_the_state_cannot_be_written(world: World) -> None:
    (world.home / "file").write_text("", encoding="utf-8")
    done = world.run("doctor", env={"AGENT_STATE_DIR": str(world.home / "file" / "x")})
    assert done.code == 1
    assert line(done, "state folder").endswith("/file/x: Not a directory")
    assert todo(done, "state folder") == "Set AGENT_STATE_DIR to a folder that you can write to."


def test_doctor_looks_at_the_models_that_stand_in(world: World) -> None:
    (world.config / "config.yaml").write_text(
        "fallback_models: [lm_studio/m, anthropic/claude-x, nonsense, two/m]\n"
        "providers: {two: {base_url: 'http://[::1'}}\n",
        encoding="utf-8",
    )
    done = world.run("doctor", env={"ANTHROPIC_API_KEY": None})
    lines = [each for each in done.out.splitlines() if "fallback model" in each]
    assert done.code == 0 and [each[:4] for each in lines] == ["ok  ", "note", "note", "note"]
    assert "lm_studio/m" in lines[0]
    assert lines[1].endswith("anthropic/claude-x cannot be used: anthropic needs a key: set ANTHROPIC_API_KEY")
    assert "PROVIDER/MODEL" in lines[2] and "`providers.two.base_url` is not an address" in lines[3]
    assert world.bodies() == []


def test_doctor_looks_at_the_model_for_summaries(world: World) -> None:
    for name, begins, said in (
        ("lm_studio/m", "ok  ", "lm_studio/m, not tried"),
        ("opnai/m", "note", "opnai/m cannot be used: unknown provider “opnai”"),
    ):
        (world.config / "config.yaml").write_text(f"small_model: {name}\n", encoding="utf-8")
        done = world.run("doctor")
        (line,) = [each for each in done.out.splitlines() if "small model" in each]
        assert done.code == 0 and line.startswith(begins) and said in line
    assert todo(done, "small model").startswith("Correct it in ")


@pytest.mark.parametrize(
    "bad",
    [
        {"OLLAMA_HOST": "127.0.0.1:notaport"},
        {"OPENAI_BASE_URL": "http://[::1"},
        pytest.param({"OLLAMA_HOST": "http://[::1"}, marks=pytest.mark.long),
    ],
)
def test_an_address_that_cannot_be_read_is_named_and_passed_over(world: World, bad: dict[str, str]) -> None:
    (source,) = bad
    model = "ollama/x" if source == "OLLAMA_HOST" else "openai/x"
    run = world.run("run", "-m", model, "hi", env=bad)
    assert run.code == 2 and run.err.startswith(f"agent: {source} is not an address")
    doctor = world.run("doctor", env={"AGENT_MODEL": model, **bad})
    assert doctor.code == 1 and line(doctor, "model").startswith(f"FAIL  model: {source} is not an address")
    models = world.run("models", "gpt-4.1", env=bad)
    assert (
        models.code == 0
        and models.err.startswith(f"agent: {source} is not an address")
        and "gpt-4.1" in models.out
    )


def test_a_missing_key_ends_a_run_as_before(world: World) -> None:
    done = world.run("run", "hi", env=NO_KEY)
    assert done.code == 3 and done.err.startswith("agent: anthropic needs a key: set ANTHROPIC_API_KEY\n")
    assert all(word in done.err for word in ("keys.yaml", "--model", "`agent doctor`", "`agent help providers`"))


FAULT_SERVER = Path(__file__).parents[3] / "mcp" / "servers" / "fault_server.py"


def test_doctor_connects_to_each_mcp_server(world: World, tmp_path: Path) -> None:
    traces = {name: tmp_path / name for name in ("up", "off", "theirs")}
    entries = {
        name: {"command": sys.executable, "args": [str(FAULT_SERVER), "--pid-file", str(trace)]}
        for name, trace in traces.items()
    }
    dead = {"command": sys.executable, "args": [str(FAULT_SERVER), "--fault", "die-in-handshake"]}
    unset = {"command": "x", "args": ["${NOT_SET_ANYWHERE}"]}
    own = {"up": entries["up"], "off": {**entries["off"], "enabled": False}, "dead": dead, "unset": unset}
    (world.config / "config.yaml").write_text(json.dumps({"mcp_servers": own}), encoding="utf-8")
    (world.work / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"theirs": entries["theirs"]}}), encoding="utf-8"
    )
    done = world.run("doctor", env={"AGENT_MODEL": "openai/mock"})
    assert done.code == 0, done
    assert re.match(r"ok    MCP server up: .+, protocol 2026-07-28, \d+ tools", line(done, "MCP server up"))
    assert line(done, "MCP server off").startswith("ok    MCP server off: disabled (")
    assert "ended with exit code" in line(done, "MCP server dead")
    assert todo(done, "MCP server dead") == "`agent mcp test dead` shows more."
    assert "the variable NOT_SET_ANYWHERE is not set" in line(done, "MCP server unset")
    assert "not trusted, so not started" in line(done, "MCP server theirs")
    assert todo(done, "MCP server theirs") == "`agent mcp trust theirs` shows it and asks."
    assert [name for name, trace in traces.items() if trace.exists()] == ["up"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [('{"hooks": {"PreToolUse": [}', "FAIL"), ('{"hooks": {"PreToolUse": {"command": "x"}}}', "FAIL"),
     ('{"hooks": {"PreTool": [{"command": "x"}]}}', "note"), ('{"hooks": {"Stop": [{"command": "x"}]}}', "ok"),
     ("{}", "")],
)  # fmt: skip
def test_hooks_that_refuse_everything_are_a_failure(world: World, text: str, verdict: str) -> None:
    file = world.home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    done = world.run("doctor", env={"AGENT_MODEL": "openai/mock"})
    assert (findings(done).get("hooks", ""), done.code) == (verdict, 1 if verdict == "FAIL" else 0)
    listed = world.run("doctor", "--files").out
    assert ("cannot be read; what they may guard is refused" in listed) == (verdict == "FAIL")

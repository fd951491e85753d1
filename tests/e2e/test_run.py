"""`agent run` as a script sees it: what is on standard output, exit codes, signals, sessions."""

import base64
import io
import json
import re
import signal
import time
from typing import Any

import msgspec
import pytest
from PIL import Image

from tests.cli.running import said
from tests.e2e.debug_lines import logged
from tests.e2e.world import Done, World, finish, shell, until
from tests.model.server import Call, Reply

OVERLOADED = Reply(status=503, headers={"retry-after": "9999"}, body={"error": {"message": "busy"}})
OVERFLOW = Reply(status=400, body={"error": {"message": "too long", "code": "context_length_exceeded"}})
PRICES = "providers.openai.models.mock-model.prices={input: 1000, output: 1000, cache_read: 1000}"


def can_go_on(world: World, prompt: str) -> None:
    """The session goes on where it was: the prompt is kept and the strict server takes the request."""
    world.script(Reply(text="going on"))
    done = world.run("run", "-c", "go on", "--max-turns", "5")
    assert (done.code, done.out) == (0, "going on\n"), done.err
    told = world.messages(role="user")
    assert prompt in told[0] and told[-1] == "go on"


def stream_of(done: Done) -> list[dict[str, Any]]:
    """Checks what holds of every `stream-json` output, and returns its lines."""
    lines = done.lines
    assert lines[0]["type"] == "session_started" and lines[-1]["type"] == "result"
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(line["time"] > 0 and "submission_id" in line for line in lines)
    assert [line["type"] for line in lines].count("result") == 1
    assert done.result["exit_code"] == done.code
    assert done.result["session_id"] == lines[0]["session_id"]
    return lines


def test_text_is_the_answer_and_nothing_else(world: World) -> None:
    world.script(shell("echo noise; echo noise >&2"), Reply(text="The answer: größer ✓"))
    done = world.run("run", "ask")
    assert done == Done(0, "The answer: größer ✓\n", done.err)
    assert "● $ echo noise" in done.err


def test_quiet_says_nothing_else(world: World) -> None:
    world.script(shell("echo noise"), Reply(text="done"))
    assert world.run("run", "ask", "-q") == Done(0, "done\n", "")


def test_json_is_one_object(world: World) -> None:
    (world.work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    world.script(
        shell("rm a.txt; printf 'x\\ny\\n' > b.txt; exit 3"),
        Reply(text="done"),
    )
    done = world.run("run", "ask", "--output-format", "json", "--mode", "yolo")
    (result,) = done.lines
    (command,) = result.pop("commands")
    assert command.pop("duration_s") >= 0
    assert command == {"command": "rm a.txt; printf 'x\\ny\\n' > b.txt; exit 3", "exit_code": 3}
    for name in ("seq", "submission_id", "time", "duration_s"):
        assert result.pop(name)
    assert result == {
        "type": "result",
        "session_id": world.records("session")[0]["session_id"],
        "stop_reason": "end_turn",
        "exit_code": 0,
        "text": "done",
        "structured": None,
        "usage": {
            "input": 72,
            "output": 40,
            "cache_read": 128,
            "cache_write": None,
            "reasoning": 10,
            "requests": 2,
        },
        "cost_usd": None,
        "turns": 2,
        "changed_files": [
            {"path": "a.txt", "kind": "deleted", "added": 0, "removed": 2},
            {"path": "b.txt", "kind": "created", "added": 2, "removed": 0},
        ],
        "verified": None,
        "denied": [],
        "unmet_rules": [],
        "error": None,
        "usage_is_partial": False,
        "cost_is_partial": False,
    }


def test_stream_json_is_one_event_a_line(world: World) -> None:
    world.script(shell("echo out"), Reply(text="größer\n✓", reasoning="hm", piece=2))
    done = world.run("run", "ask", "--output-format", "stream-json")
    lines = stream_of(done)
    types = [line["type"] for line in lines]
    assert types.index("tool_call_started") < types.index("tool_output") < types.index("tool_call_finished")
    assert "".join(line["text"] for line in lines if line["type"] == "text_delta") == "größer\n✓"
    assert done.result["text"] == "größer\n✓" and done.result["usage"]["requests"] == 2


DEAR = msgspec.structs.replace(shell("echo a"), usage={"prompt_tokens": 100, "completion_tokens": 3_000})
CASES: dict[str, tuple[int, str, list[Reply], list[str]]] = {
    "ends": (0, "end_turn", [Reply(text="ok")], []),
    "bad request": (4, "provider_error", [Reply(status=400, body={"error": {"message": "odd"}})], []),
    "unknown model": (2, "bad_model", [Reply(status=404, body={"error": {"code": "model_not_found"}})], []),
    "refused key": (3, "auth_error", [Reply(status=401, body={"error": {"message": "bad key"}})], []),
    "overloaded": (4, "provider_error", [OVERLOADED], []),
    "all attempts fail": (4, "provider_error", [Reply(status=500)], ["--set", "limits.retry_s=0.000000001"]),
    "turns": (5, "turn_limit", [shell("echo a"), Reply(text="closing")], ["--max-turns", "1"]),
    "cost": (5, "cost_limit", [DEAR], ["--max-cost", "3", "--set", PRICES]),
    "cost before the first": (5, "cost_limit", [], ["--max-cost", "0.1", "--set", PRICES]),
    "time of a turn": (5, "time_limit", [Reply(hang="after_headers"), Reply(text="c")], ["--set", "limits.time_s=1.5"]),
    "time of a run": (5, "time_limit", [Reply(hang="after_headers")], ["--timeout", "0.7"]),
    "time in a tool": (5, "time_limit", [shell("sleep 60")], ["--timeout", "0.7"]),
    "context": (5, "context_limit", [OVERFLOW] * 2, []),
    "output limit": (5, "length_limit", [Reply(text="a", finish="length")] * 5, []),
    "denied": (6, "end_turn", [shell("touch x"), Reply(text="not allowed")], []),
    "repetition": (7, "stuck", [shell("echo a")] * 5, []),
    "empty": (7, "no_answer", [Reply()] * 2, []),
    "filtered": (7, "content_filter", [Reply(text="a", finish="content_filter")], []),
    "not verified": (8, "end_turn", [Reply(text="ok")], ["--verify", "test -e proof"]),
    "denied and not verified": (8, "end_turn", [shell("touch x"), Reply(text="no")], ["--verify", "false"]),
    "stuck and denied": (7, "stuck", [shell("touch x")] * 5, []),
    "a rule not met": (8, "rules_unmet", [Reply(text="ok")] * 4, ["--set", "rules=[required_before_end: shell(true)]"]),
}  # fmt: skip


GO_ON = {"refused key", "time in a tool", "context", "turns", "repetition"}
"""Cases behind which the session is gone on with: one of each way to end in the middle."""
RARE = {"cost before the first", "time of a turn"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] if case in RARE else []) for case in CASES]
)
def test_exit_codes(world: World, case: str) -> None:
    code, reason, replies, options = CASES[case]
    world.script(*replies)
    done = world.run("run", "the task", "--output-format", "stream-json", *options)
    stream_of(done)
    assert (done.code, done.result["stop_reason"]) == (code, reason), done.err
    assert "Traceback" not in done.err
    if case == "cost before the first":
        assert (done.result["cost_usd"], done.result["turns"], done.result["usage"]["input"]) == (0.0, 0, 0)
    assert bool(done.result["unmet_rules"]) == (reason == "rules_unmet")
    assert (done.result["error"] is not None) == (case in ("unknown model", "context") or code in (3, 4))
    if code in (3, 4):
        assert done.result["error"]["hint"] and done.result["error"]["message"] in done.err
    if case in GO_ON:
        can_go_on(world, "the task")


def test_a_denied_action_names_what_would_allow_it(world: World) -> None:
    world.script(shell("touch x"), Reply(text="no"))
    done = world.run("run", "ask", "--output-format", "json")
    (denied,) = done.result["denied"]
    assert done.code == 6 and denied["tool"] == "shell" and denied["rule"] == "mode ask"
    assert "`shell(touch " in denied["reason"] and "--mode" in denied["reason"]
    assert denied["reason"] == world.messages(role="tool")[0]
    assert not (world.work / "x").exists()


def test_wrong_usage_starts_nothing(world: World) -> None:
    wrong = (
        (["--nosuch"], "unknown option --nosuch"),
        (["--mode", "fast"], "not one of plan, ask"),
        (["--max-turns", "0"], "not greater than 0"),
        (["second"], "in quotes"),
        (["-C", "nowhere"], "nowhere is not a directory"),
        (["--fork"], "--fork needs --continue or --resume"),
        (["-i", "nowhere.png"], "No such file"),
        (["--output-schema", "nowhere.json"], "nowhere.json: there is no such file; check the path"),
        (["--system-prompt", "nowhere.md"], "--system-prompt nowhere.md: there is no such file; check the path"),
        (["--system-prompt", "."], "--system-prompt .: this is a folder; name a file in it"),
        (["--add-dir", "nowhere"], "nowhere: there is no such folder; make it, or check the name"),
        (["--add-dir", "/"], "--add-dir /: is your home directory or contains it; name a folder in it"),
        (["--add-dir", str(world.home)], "is your home directory"),
        (["--add-dir", "notes.txt"], "notes.txt: is a file; name its folder"),
        (["-o", "nowhere/out.txt"], "its folder does not exist"),
        (["-o", "loop"], "--output-file loop: Too many levels of symbolic links"),
        (["--verify", ""], "--verify: the command is empty"),
        (["--set", "limits.turn=1"], "did you mean `turns`"),
    )
    (world.work / "notes.txt").write_text("x", encoding="utf-8")
    (world.work / "loop").symlink_to("loop")
    ends = said(world, *(["run", "ask", *arguments] for arguments, _ in wrong))
    for (arguments, message), done in zip(wrong, ends, strict=True):
        assert (done.code, done.out) == (2, "") and message in done.err, arguments
        assert len(done.err.splitlines()) == 1 and not world.state.exists() and not world.bodies(), arguments


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("mode: ask\nlimits:\n  turn: 3\n", r"config.yaml:3: unknown key `limits.turn`; did you mean `turns`"),
        (
            "limits:\n  turns: many\n",
            r"config.yaml:2: limits.turns: write a whole number or null, not the text 'many'",
        ),
        ("mode: ask\n  more: indented\n", "config.yaml:2: not valid YAML"),
        ("permissions:\n  deny:\n  - shell((\n", "config.yaml:3: 'shell((' is not a rule"),
    ],
)
def test_a_wrong_configuration_starts_nothing(world: World, config: str, message: str) -> None:
    (world.config / "config.yaml").write_text(config, encoding="utf-8")
    done = world.run("run", "ask")
    assert (done.code, done.out) == (2, "") and message in done.err
    assert len(done.err.splitlines()) == 1 and not world.state.exists() and not world.bodies()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}, "set OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "AGENT_MODEL": None}, "agent doctor"),
    ],
)
def test_without_a_key(world: World, changes: dict[str, str | None], message: str) -> None:
    done = world.run("run", "ask", env=changes)
    assert (done.code, done.out) == (3, "") and message in done.err
    assert not world.state.exists()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            Reply(status=401, headers={"x-request-id": "req_7"}, body={"error": {"message": "Incorrect API key"}}),
            (
                "refused the key (HTTP 401): Incorrect API key",
                "req_7",
                "OPENAI_API_KEY",
                'Then continue with `agent run -c "continue"`',
            ),
        ),
        (
            Reply(status=404, headers={"x-request-id": "req_8"}, body={"error": {"message": "No such model"}}),
            ("(HTTP 404): No such model", "req_8", "--model chooses", 'Continue with `agent run -c "continue"`'),
        ),
        (
            Reply(status=404, body="<html><title>Hotel</title></html>"),
            (
                "a web page answered, not OpenAI (HTTP 404): Hotel",
                "base URL (OPENAI_BASE_URL or `providers.openai",
            ),
        ),
    ],
)
def test_a_refusal_says_what_whose_words_and_what_to_do(world: World, reply: Reply, told: tuple[str, ...]) -> None:
    world.may_refuse = True
    world.script(reply, reply)
    plain, logged = world.run("run", "ask"), world.run("run", "ask", "--debug")
    assert all(words in done.err for words in told for done in (plain, logged)), plain.err
    (log,) = (world.state / "logs").iterdir()
    assert f"\n  Log: {log}\n" in logged.err and "Log:" not in plain.err


def test_the_debug_log_holds_each_request_and_only_what_is_new_in_it(world: World) -> None:
    world.script(shell("ls"), Reply(text="done"))
    world.run("run", "look around", "--debug", "--mode", "yolo")
    (log,) = (world.state / "logs").iterdir()
    first, second = (line for line in logged(log) if line["type"] == "model_request")
    assert [each["role"] for each in first["added"]] == ["system", "user"] and first["body"]["tools"]
    assert [each["role"] for each in second["added"]] == ["assistant", "tool"]
    assert second["unchanged"] == 2 and "tools" not in second.get("body", {})
    assert first["model"] == "openai/mock-model" and log.stat().st_mode & 0o777 == 0o600


def test_verify_decides(world: World) -> None:
    world.script(shell("touch proof"), Reply(text="done"))
    check = "test -e proof && echo seen"
    done = world.run("run", "ask", "--mode", "yolo", "--output-format", "json", "--verify", check)
    assert done.code == 0 and done.result["verified"] is True and "seen" in done.err


def test_verify_has_no_keys_of_providers(world: World) -> None:
    world.script(Reply(text="done"))
    check = 'env | grep OPENAI_; test -z "${OPENAI_API_KEY+set}"'
    done = world.run("run", "ask", "--output-format", "json", "--verify", check)
    assert done.result["verified"] is True and "OPENAI_BASE_URL" in done.err, done.err


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("answers", "code", "structured"),
    [
        (['{"n": 1}'], 0, {"n": 1}),
        (['{"n": "x"}', '{"n": "y"}'], 8, None),
        (["no JSON", '{"n": 3}'], 0, {"n": 3}),
        (['Here it is:\n```json\n{"n": 4,}\n```\nDone.'], 0, {"n": 4}),
        pytest.param(['```json\n{"n": 2}\n```'], 0, {"n": 2}, marks=pytest.mark.long),
    ],
)
def test_output_schema(world: World, answers: list[str], code: int, structured: object) -> None:
    (world.work / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    world.script(*(Reply(text=answer) for answer in answers))
    done = world.run("run", "ask", "--output-schema", "schema.json", "--output-format", "json")
    assert (done.code, done.result["structured"], done.result["text"]) == (code, structured, answers[-1])
    assert (done.result["error"] is None) == (code == 0)
    assert len(world.bodies()) == len(answers) == done.result["turns"]
    assert ("nor did the one before it: at $.n: 'y' is not of type 'integer'" in done.err) == (code == 8)


def test_the_model_is_told_the_schema_and_what_did_not_fit(world: World) -> None:
    (world.work / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    world.script(Reply(text="1"), Reply(text='{"n": 1}'), Reply(text="free words"))
    world.run("run", "ask", "--output-schema", "schema.json")
    assert world.run("run", "-c", "and in words?").out == "free words\n"
    first, second, third = world.bodies()
    assert json.dumps(SCHEMA, separators=(",", ":")) in world.messages(0)[0]
    assert "at $: 1 is not of type 'object'" in world.messages(1)[-1]
    assert (
        first["messages"][0] == third["messages"][0]
        and second["messages"] == third["messages"][: len(second["messages"])]
    )
    assert "JSON Schema" not in world.messages(2)[-1] and "JSON Schema" not in str(first["messages"][0])
    # This server may let no tool be called where the answer is held to a schema.
    assert [each.get("response_format") is not None for each in (first, second, third)] == [False, True, False]
    assert (second["tools"], second["tool_choice"]) == (first["tools"], "none")


def test_the_answer_is_there_in_parts_while_it_arrives(world: World) -> None:
    (world.work / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    world.script(Reply(text='{"n": 1}', piece=2, event_delay_s=0.4))  # what comes together is one part
    done = world.run("run", "ask", "--output-schema", "schema.json", "--output-format", "stream-json")
    parts = [line["value"] for line in done.lines if line["type"] == "partial_output"]
    assert parts[0] == {} and parts[-1] == done.result["structured"] == {"n": 1}
    assert [line["seq"] for line in done.lines] == list(range(1, len(done.lines) + 1))


def test_a_server_that_refuses_the_schema_is_told_of_it_in_words(world: World) -> None:
    (world.work / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    refused = {"error": {"message": "This response_format type is unavailable now"}}
    world.script(Reply(text="1"), Reply(status=400, body=refused), Reply(text='{"n": 1}'))
    done = world.run("run", "ask", "--output-schema", "schema.json", "--output-format", "json")
    assert (done.code, done.result["structured"]) == (0, {"n": 1}), done.err
    assert ["response_format" in body for body in world.bodies()] == [False, True, False]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"type": 5}', "not a JSON Schema: at $.type: 5 is not valid"),
        (b'{"type": ', "not JSON: line 1, column 10"),
        (b"\xff\xfe", "not UTF-8 text (byte 0); save it as UTF-8"),
        (b"[1]", "a JSON Schema is an object"),
        (b'{"$ref": "#/nope"}', "refers to #/nope, which it does not contain"),
        (b'{"$ref": "https://example.com/x"}', "refers to https://example.com/x; write that part into it"),
    ],
)
def test_a_schema_that_is_none_starts_nothing(world: World, content: bytes, message: str) -> None:
    (world.work / "s.json").write_bytes(content)
    (done,) = said(world, ["run", "ask", "--output-schema", "s.json"])
    assert (done.code, done.out) == (2, "") and f"--output-schema s.json: {message}" in done.err
    assert len(done.err.splitlines()) == 1 and not world.state.exists() and not world.bodies()


MOMENTS: dict[str, Reply] = {
    "before the first byte": Reply(hang="before_headers"),
    "in a stream": Reply(text="partial " * 4, piece=8, hang="mid_stream", after=3),
    "in a tool": shell("sh stubborn.sh"),
    "in a wait": Reply(status=429, headers={"retry-after": "60"}, body={"error": {"message": "slow"}}),
}


INT, TERM = (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")


@pytest.mark.parametrize(
    ("moment", "number", "code", "reason"),
    [
        ("before the first byte", *TERM),
        ("in a stream", *INT),
        ("in a tool", *INT),
        ("in a tool", *TERM),
        pytest.param("before the first byte", *INT, marks=pytest.mark.long),
        pytest.param("in a stream", *TERM, marks=pytest.mark.long),
        ("in a wait", *INT),
        pytest.param("in a wait", *TERM, marks=pytest.mark.long),
    ],
)
def test_signals(world: World, number: signal.Signals, code: int, reason: str, moment: str) -> None:
    (world.work / "stubborn.sh").write_text("trap '' TERM INT\nsleep 60\n", encoding="utf-8")
    world.script(MOMENTS[moment])
    process = world.start("run", "the task", "--output-format", "stream-json", "--mode", "yolo")
    until(lambda: world.alive(b"sleep\x0060") if moment == "in a tool" else world.server.requests)
    time.sleep(0.1)
    process.send_signal(number)
    done = finish(process, timeout_s=40)
    stream_of(done)
    assert (done.code, done.result["stop_reason"], done.result["error"]) == (code, reason, None)
    assert not world.alive()
    world.server.add(Reply(text="going on"))
    assert world.run("run", "-c", "go on").out == "going on\n"
    told = world.messages()
    assert "the task" in told[0] and told[-1] == "go on"
    if moment == "in a stream":
        assert told[1].startswith("partial partial ") and "interrupted" in told[1]
    if moment == "in a tool":
        assert "may have had effects" in told[2]


def test_a_signal_during_verify_does_not_wait_for_it(world: World) -> None:
    world.script(Reply(text="done"))
    process = world.start("run", "the task", "--output-format", "json", "--verify", "sleep 60")
    until(lambda: world.alive(b"sleep\x0060"))
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout_s=40)
    assert (done.code, done.result["text"], done.result["verified"]) == (130, "done", None)
    can_go_on(world, "the task")


def test_continue_resume_fork_and_no_session(world: World) -> None:
    world.script(*(Reply(text=f"answer {number}") for number in range(1, 7)))
    assert world.run("run", "one").code == 0
    (path,) = world.sessions()
    assert world.run("run", "two", "-c").out == "answer 2\n"
    identifier = path.stem.rpartition("-")[2]
    assert world.run("run", "three", "-r", identifier[:5]).out == "answer 3\n"
    assert world.run("run", "four", "-c", "--fork").out == "answer 4\n"
    first, fork = world.sessions()
    header = json.loads(fork.read_text(encoding="utf-8"))[0]
    assert first == path and header["forked_from"] == identifier
    everything = world.state.glob("sessions/*/*")
    before = {file: file.read_bytes() for file in everything}
    assert world.run("run", "five", "-r", identifier, "--no-session").out == "answer 5\n"
    assert world.run("run", "six", "--no-session").out == "answer 6\n"
    assert {file: file.read_bytes() for file in world.state.glob("sessions/*/*")} == before
    assert [text.rpartition("\n")[2] for text in world.messages(-2)] == [
        "one", "answer 1", "two", "answer 2", "three", "answer 3", "five",
    ]  # fmt: skip
    assert len(world.messages(-1)) == 1


def test_a_run_takes_over_every_mode_but_yolo(world: World) -> None:
    world.script(Reply(text="one"), shell("touch made"), Reply(text="not allowed"), Reply(text="three"))
    assert world.run("run", "ask", "--mode", "yolo").code == 0
    done = world.run("run", "go on", "-c", "--quiet")
    assert done.code == 6 and not (world.work / "made").exists()
    assert "was in yolo, which is not restored: it continues in ask; --mode yolo" in done.err
    done = world.run("run", "go on", "-c", "--mode", "plan")
    assert done.code == 0 and "yolo" not in done.err
    world.script(Reply(text="four"))
    done = world.run("run", "go on", "-c", "--output-format", "stream-json")
    assert done.lines[0]["mode"] == "plan"


def test_no_session_to_go_on_with(world: World) -> None:
    for arguments in (["-c"], ["-r", "abc"]):
        done = world.run("run", "ask", *arguments)
        assert (done.code, done.out) == (2, "") and "session" in done.err and len(done.err.splitlines()) == 1


def test_another_directory_has_its_own_sessions(world: World) -> None:
    (world.work / "sub").mkdir()
    world.script(shell("pwd"), Reply(text="sub"), Reply(text="top"))
    done = world.run("run", "ask", "-C", "sub", "-o", "out.txt", "--output-format", "stream-json")
    assert done.lines[0]["cwd"] == str(world.work / "sub") and done.code == 0
    assert world.messages()[-1].startswith(str(world.work / "sub"))
    assert (world.work / "out.txt").read_text(encoding="utf-8") == "sub"
    assert world.run("run", "-c", "go on").code != 0
    assert world.run("run", "-c", "go on", "-C", "sub").code == 0


def test_an_image_is_sent_no_larger_than_models_see(world: World) -> None:
    Image.new("RGB", (3000, 20), "red").save(world.work / "ü.png")
    world.script(Reply(text="a picture"))
    assert world.run("run", "what is this?", "-i", "ü.png").code == 0
    parts = [
        part
        for message in world.bodies()[0]["messages"]
        for part in message["content"]
        if message["role"] == "user"
    ]
    (sent,) = re.findall(r"data:image/png;base64,([^\"]+)", json.dumps(parts))
    with Image.open(io.BytesIO(base64.b64decode(sent))) as picture:
        assert picture.width == 1568
    assert "what is this?" in json.dumps(parts)


def test_two_calls_with_one_id_both_run(world: World) -> None:
    calls = tuple(Call("shell", {"command": f"echo {name} >> marker"}, id="same") for name in "ab")
    world.script(Reply(calls=calls), Reply(text="done"))
    assert world.run("run", "ask", "--mode", "yolo").code == 0
    assert (world.work / "marker").read_text(encoding="utf-8") == "a\nb\n"


NOTHING_STARTED: dict[str, tuple[int, str, list[str], dict[str, str | None]]] = {
    "unknown option": (2, "usage_error", ["task", "--no-such"], {}),
    "value missing": (2, "usage_error", ["task", "--model"], {}),
    "no task": (2, "usage_error", [], {}),
    "no directory": (2, "usage_error", ["task", "-C", "nowhere"], {}),
    "no schema": (2, "usage_error", ["task", "--output-schema", "nowhere"], {}),
    "no session": (2, "usage_error", ["task", "-r", "nowhere"], {}),
    "bad configuration": (2, "usage_error", ["task", "--set", "limits.turns=many"], {}),
    "bad rule": (2, "usage_error", ["task", "--set", "permissions.deny=[shell(]"], {}),
    "unknown provider": (2, "bad_model", ["task", "-m", "nowhere/model"], {}),
    "no key": (3, "auth_error", ["task"], {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}),
}


@pytest.mark.parametrize("option", [["--output-format", "json"], ["--output-format=stream-json"]])
def test_a_run_that_never_began_prints_its_result_too(world: World, option: list[str]) -> None:
    for case, (code, reason, arguments, env) in NOTHING_STARTED.items():
        done = world.run("run", *option, *arguments, env=env)
        (result,) = done.lines
        assert (done.code, result["stop_reason"], result["exit_code"]) == (code, reason, code), (case, done)
        assert result["type"] == "result" and result["session_id"] == "" and result["error"]["message"]
        assert done.err.startswith("agent: ") and "Traceback" not in done.err, (case, done.err)
    assert not world.bodies() and not world.sessions()


@pytest.mark.parametrize(
    "arguments",
    [["--output-format", "xml"], ["--no-such"], ["--no-such", "--output-format", "json", "--output-format=text"],
     ["--no-such", "--", "--output-format=json"], ["--output-format"]],
)  # fmt: skip
def test_a_run_that_never_began_prints_nothing_where_no_json_is_wanted(world: World, arguments: list[str]) -> None:
    done = world.run("run", *arguments)
    assert (done.code, done.out) == (2, "") and done.err

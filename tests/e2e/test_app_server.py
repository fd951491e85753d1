"""`agent serve --stdio`: the real program, driven line by line."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rpc import BOUND_S, Piped
from tests.e2e.world import World, shell, until
from tests.model.server import Call, Reply


def test_a_conversation_every_message_of_which_fits_the_schema(world: World) -> None:
    world.script(Reply(text="Hello."), shell("touch new.txt"), Reply(text="Made."))
    client = Piped(world)
    told = client.ask("initialize", protocol_version=1, client={"name": "test", "version": "1"})
    assert (told["protocol_version"], told["name"], told["cwd"]) == (1, "agent-cli", str(world.work))
    assert {"user_input", "session/open", "shutdown"} <= set(told["methods"]) and "turn_completed" in told[
        "events"
    ]
    opened = client.ask("session/open")
    session = opened["session_id"]
    assert opened["started"] and opened["snapshot"]["session_id"] == session and opened["pending"] == []
    end = client.prompt(session, "hi")
    assert (end["type"], end["text"], end["stop_reason"]) == ("turn_completed", "Hello.", "end_turn")
    turn = client.ask("user_input", session_id=session, text="make it")["submission_id"]
    asked = client.event("approval_requested")
    assert asked["items"][0]["preview"] == "touch new.txt"
    assert client.ask("session/snapshot", session_id=session)["pending"] == [asked]
    decision = {"call_id": asked["items"][0]["call_id"], "allow": True}
    client.ask("approval_answer", session_id=session, request_id=asked["request_id"], decisions=[decision])
    assert client.end(turn)["text"] == "Made." and (world.work / "new.txt").exists()
    turns = client.ask("session/history", session_id=session, turns=1)
    assert turns["has_more"] and [
        each["text"] for each in turns["turns"][0] if each["type"] == "turn_started"
    ] == ["make it"]
    points = client.ask("session/rewind_points", session_id=session)["points"]
    assert [each["prompt"] for each in points] == ["hi", "make it"]
    assert client.ask("session/context", session_id=session)["items"]
    assert "new.txt" in client.ask("session/diff", session_id=session)["diff"]
    client.end(client.ask("undo", session_id=session)["submission_id"])
    assert not (world.work / "new.txt").exists()
    client.refused("session/diff", session_id="x")
    client.refused("nothing")
    listed = client.ask("session/list")
    assert listed["open"] == [session] and listed["sessions"][0]["session_id"] == session
    since = client.ask("events/since", session_id=session, seq=0)
    events = client.events(session)
    deltas = ("text_delta", "tool_output")
    assert [each for each in since["events"] if each["type"] not in deltas] == [
        each for each in events if each["type"] not in deltas
    ]
    assert [each["seq"] for each in events] == sorted(each["seq"] for each in events)
    assert events[0]["type"] == "session_started" and since["last"] == events[-1]["seq"]
    assert list(world.state.glob("projects/*/checkpoints"))
    client.ask("session/close", session_id=session)
    client.ask("session/delete", session_id=session)
    assert client.ask("session/list") == {"sessions": [], "open": []}
    assert not list(world.state.glob("projects/*/checkpoints"))
    assert client.leave() == 0
    assert client.events()[-1]["type"] == "session_closed"
    assert world.messages(0)[0].endswith("hi")
    _check_against_schema(world, client)


def _check_against_schema(world: World, client: Piped) -> None:
    import jsonschema

    schema = json.loads(world.run("serve", "--schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    whole = jsonschema.Draft202012Validator(schema)

    def part(ref: dict[str, Any]) -> Any:
        return jsonschema.Draft202012Validator({**ref, "$defs": schema["$defs"]})

    methods = {
        each["id"]: schema["methods"][each["method"]] for each in client.sent if each["method"] != "nothing"
    }
    for sent in client.sent:
        if sent["method"] != "nothing":
            part(methods[sent["id"]]["params"]).validate(sent["params"])
            whole.validate(sent)
    for message in client.received:
        whole.validate(message)
        if "result" in message:
            part(methods[message["id"]]["result"]).validate(message["result"])
    assert not whole.is_valid({"jsonrpc": "2.0", "id": 1, "method": "undo", "params": {"turns": 2}})
    assert not whole.is_valid({"jsonrpc": "2.0", "method": "event", "params": {"session_id": "x", "event": {}}})


def test_events_are_those_of_stream_json(world: World) -> None:
    script = (shell("echo hi"), Reply(text="Done."))
    world.script(*script, *script)
    streamed = world.run("run", "--mode", "yolo", "--output-format", "stream-json", "go").lines[:-1]
    client = Piped(world, "--mode", "yolo").hello()
    client.prompt(client.open(), "go")
    client.leave()
    own = [each for each in client.events() if each["type"] not in ("operation_completed", "session_closed")]
    deltas = ("text_delta", "tool_output")
    assert [each["type"] for each in own if each["type"] not in deltas] == [
        each["type"] for each in streamed if each["type"] not in deltas
    ]
    shapes = {each["type"]: set(each) for each in streamed}
    assert {each["type"]: set(each) for each in own} == shapes


def test_hints_are_words_for_a_shell(world: World) -> None:
    world.may_refuse = True
    world.script(Reply(status=401))
    client = Piped(world).hello()
    end = client.prompt(client.open(), "hi")
    assert end["type"] == "turn_failed" and end["error"]["hints"] and "OPENAI_API_KEY" in end["error"]["hint"]
    client.leave()


@pytest.mark.parametrize(
    ("method", "params", "field", "says"),
    [
        ("session/open", {"cwd": 3}, "cwd", "Expected `str`, got `int`"),
        ("session/open", {"folder": "/"}, "folder", "the fields are session_id, fork, cwd"),
        ("session/open", {"after": -1}, "after", ">= 0"),
        ("session/open", {"fork": True}, "fork", "a copy needs `session_id`"),
        ("session/snapshot", {}, "session_id", "missing required field"),
        ("session/snapshot", {"session_id": "nope"}, "session_id", "`session/open` opens one"),
        ("user_input", {"text": "x"}, "session_id", "`session/open` returns it"),
        ("user_input", {"session_id": "nope"}, "text", "its fields are text (required)"),
        ("user_input", {"session_id": "nope", "text": "x", "allowed": ["shell"]}, "allowed", "unknown field"),
        ("interrupt", {"session_id": "nope", "reason": "stuck"}, "reason", "unknown field"),
        ("undo", {"session_id": "nope", "type": "redo"}, "type", "unknown field"),
        ("undo", {"session_id": "nope", "turns": "\ud800"}, "turns", "half of a character"),
        ("session/open", {"folders": [], "mode": "\ud800"}, "mode", "half of a character"),
    ],
)
def test_wrong_params_are_refused_with_the_field(
    world: World, method: str, params: dict[str, Any], field: str, says: str
) -> None:
    client = Piped(world).hello()
    error = client.refused(method, **params)
    assert (error["code"], error["data"]["field"]) == (-32602, field) and says in error["message"]
    client.leave()


def test_what_cannot_be_opened_is_said(world: World) -> None:
    client = Piped(world)
    assert "initialize" in client.refused("session/list")["message"]
    assert client.refused("initialize", protocol_version=2)["data"]["field"] == "protocol_version"
    client.hello()
    assert "Did you mean `session/open`" in client.refused("session/opens")["message"]
    for params, says in (
        ({"cwd": "here"}, "absolute path"), ({"cwd": "/does/not/exist"}, "/does/not/exist"),
        ({"session_id": "0000"}, "0000"), ({"model": "nobody/knows"}, "nobody"), ({"effort": "huge"}, "effort"),
    ):  # fmt: skip
        error = client.refused("session/open", **params)
        assert error["code"] == -32000 and says in error["message"], (params, error)
    assert client.refused("session/delete", session_id="0000")["code"] == -32000
    assert client.ask("session/list") == {"sessions": [], "open": []}
    client.leave()


@pytest.mark.parametrize("folder", ["/\ud800", "/a\0b", "/nowhere"])
def test_a_folder_that_cannot_be_has_no_sessions(world: World, folder: str) -> None:
    client = Piped(world).hello()
    assert client.ask("session/list", cwd=folder) == {"sessions": [], "open": []}
    client.leave()


def test_garbage_is_answered_and_the_rest_goes_on(world: World) -> None:
    world.script(Reply(text="Hello."))
    client = Piped(world).hello()
    client.send(b"\xff\x00{\n", b'{"jsonrpc": "2.0", "id": 50, "met')
    assert client.until(lambda each: "error" in each)["error"]["code"] == -32700
    client.send(b'hod": "session/list"}\n')
    assert client.answer(50)["result"]["open"] == []
    client.send(b"[]\n", {"jsonrpc": "2.0", "id": {}, "method": "x"}, {"jsonrpc": "2.0", "id": 51, "result": 1})
    client.send({"jsonrpc": "2.0", "method": "nothing"}, {"jsonrpc": "2.0", "method": "$/cancel_request"})
    assert client.prompt(client.open(), "hi")["text"] == "Hello."
    client.send(b'{"jsonrpc": "2.0", "id": 60, "method": "shut')
    assert client.leave() == 0


def test_the_same_id_twice_is_refused_while_the_first_runs(world: World) -> None:
    client = Piped(world).hello()
    opening = {"jsonrpc": "2.0", "id": "a", "method": "session/open", "params": {}}
    client.send(opening, opening)
    first = client.answer("a")
    second = client.until(lambda each: "method" not in each and each["id"] == "a" and each is not first)
    assert {"error", "result"} == ({*first} | {*second}) & {"error", "result"}
    client.leave()


def test_a_storm_of_cancels_harms_nothing(world: World) -> None:
    world.script(Reply(text="Hello."))
    client = Piped(world).hello()
    for number in range(100, 130):
        client.send(
            {"jsonrpc": "2.0", "id": number, "method": "session/open", "params": {"save": False}},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}},
        )
    answers = [client.answer(number) for number in range(100, 130)]
    assert {each["error"]["code"] for each in answers if "error" in each} <= {-32800}
    for number in range(50):
        client.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}})
    assert client.prompt(client.open(), "hi")["text"] == "Hello."
    client.leave()


def test_two_prompts_at_once_run_one_after_another(world: World) -> None:
    world.script(Reply(text="One."), Reply(text="Two."))
    client = Piped(world).hello()
    session = client.open()
    first, second = (client.begin("user_input", session_id=session, text=text) for text in ("1", "2"))
    ids = [client.answer(each)["result"]["submission_id"] for each in (first, second)]
    assert [client.end(each)["text"] for each in ids] == ["One.", "Two."]
    client.leave()


def test_twenty_sessions_at_once(world: World) -> None:
    world.server.answer = lambda request: Reply(
        text=str(request.body["messages"][-1]["content"])[-2:], event_delay_s=0.01
    )
    client = Piped(world).hello()
    sessions = [client.begin("session/open") for _ in range(20)]
    ids = [client.answer(each)["result"]["session_id"] for each in sessions]
    turns = [client.begin("user_input", session_id=each, text=f"say {at:02}") for at, each in enumerate(ids)]
    for at, each in enumerate(turns):
        assert client.end(client.answer(each)["result"]["submission_id"])["text"] == f"{at:02}"
    for session in ids:
        seqs = [each["seq"] for each in client.events(session)]
        assert seqs == sorted(set(seqs)) and seqs[0] == 1
    assert client.leave() == 0
    assert len(world.sessions()) == 20


def test_a_question_of_the_model_is_answered(world: World) -> None:
    world.script(Reply(calls=(Call("ask_user", {"question": "Which?"}),)), Reply(text="Blue it is."))
    client = Piped(world).hello()
    session = client.open()
    turn = client.ask("user_input", session_id=session, text="go")["submission_id"]
    asked = client.event("question_asked")
    assert client.ask("session/snapshot", session_id=session)["pending"] == [asked]
    client.ask("question_answer", session_id=session, request_id=asked["request_id"], text="blue")
    assert client.end(turn)["text"] == "Blue it is."
    assert client.event("question_resolved", request_id=asked["request_id"])["outcome"] == "answered"
    late = client.ask("question_answer", session_id=session, request_id=asked["request_id"], text="red")
    assert client.end(late["submission_id"])["type"] == "operation_failed"
    client.leave()


def test_the_end_of_the_input_stops_what_runs_and_the_session_can_be_resumed(world: World) -> None:
    world.script(shell("echo begun; sleep 600"), Reply(text="Resumed."))
    client = Piped(world, "--mode", "yolo").hello()
    session = client.open()
    client.ask("user_input", session_id=session, text="go")
    client.event("tool_output")
    assert client.leave() == 0
    events = client.events()
    assert [each["stop_reason"] for each in events if each["type"] == "turn_aborted"] == ["terminated"]
    assert events[-1]["type"] == "session_closed"
    until(lambda: not world.alive())
    again = Piped(world, "--mode", "yolo", "--cd", "/").hello()
    opened = again.ask("session/open", session_id=session[:6])
    assert opened["session_id"] == session and opened["started"]
    assert (opened["snapshot"]["stopped"], opened["snapshot"]["cwd"]) == ("terminated", str(world.work))
    assert again.prompt(session, "and now?")["text"] == "Resumed."
    again.leave()


def test_closing_in_the_middle_of_a_question(world: World) -> None:
    world.script(shell("touch never"), Reply(text="Well."))
    client = Piped(world).hello()
    session = client.open()
    client.ask("user_input", session_id=session, text="go")
    client.event("approval_requested")
    client.ask("session/close", session_id=session)
    assert client.event("approval_resolved")["outcome"] == "cancelled"
    assert client.event("turn_aborted")["stop_reason"] == "terminated"
    assert client.events()[-1]["type"] == "session_closed"
    assert client.refused("user_input", session_id=session, text="x")["data"]["field"] == "session_id"
    assert client.ask("session/open", session_id=session)["started"]
    assert client.prompt(session, "and?")["text"] == "Well." and not (world.work / "never").exists()
    client.ask("session/close", session_id=session)
    client.ask("session/delete", session_id=session)
    assert client.ask("session/list") == {"sessions": [], "open": []}
    client.leave()


def test_options_hold_for_sessions_that_choose_nothing_else(world: World) -> None:
    (world.home / "other").mkdir()
    client = Piped(world, "--mode", "plan", "--effort", "low", "--cd", str(world.home)).hello()
    usual = client.ask("session/open")["snapshot"]
    assert (usual["mode"], usual["effort"], usual["cwd"]) == ("plan", "low", str(world.home))
    own = client.ask("session/open", mode="auto-edit", cwd=str(world.home / "other"), save=False)["snapshot"]
    assert (own["mode"], own["cwd"], own["session_path"]) == ("auto-edit", str(world.home / "other"), "")
    client.leave()


def test_a_copy_of_a_session(world: World) -> None:
    world.script(Reply(text="One."), Reply(text="Two."))
    client = Piped(world).hello()
    session = client.open()
    client.prompt(session, "1")
    copy = client.ask("session/open", session_id=session, fork=True)
    assert copy["session_id"] != session and copy["snapshot"]["turns"] == 1
    assert client.prompt(copy["session_id"], "2")["text"] == "Two."
    assert client.ask("session/snapshot", session_id=session)["snapshot"]["turns"] == 1
    client.leave()


def test_an_unsaved_copy_is_not_shared_with_a_client_that_resumes_the_session(world: World) -> None:
    world.script(Reply(text="A"))
    client = Piped(world).hello()
    session = client.open()
    client.prompt(session, "hi")
    client.ask("session/close", session_id=session)
    request = {"jsonrpc": "2.0", "method": "session/open"}
    client.send(
        {**request, "id": "copy", "params": {"session_id": session, "save": False}},
        {**request, "id": "saved", "params": {"session_id": session}},
    )
    copy, saved = client.answer("copy")["result"], client.answer("saved")["result"]
    assert (saved["session_id"], saved["snapshot"]["session_path"]) == (session, str(world.sessions()[0]))
    assert copy["session_id"] != session and copy["snapshot"]["session_path"] == ""
    client.leave()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_gracefully(world: World, number: signal.Signals, code: int) -> None:
    world.script(shell("echo begun; sleep 600"))
    client = Piped(world, "--mode", "yolo").hello()
    client.ask("user_input", session_id=client.open(), text="go")
    client.event("tool_output")
    client.process.send_signal(number)
    client.rest()
    assert client.process.wait(BOUND_S) == code
    assert client.event("turn_aborted")["stop_reason"] == "terminated"
    assert client.events()[-1]["type"] == "session_closed"


def test_shutdown_ends_it(world: World) -> None:
    client = Piped(world).hello()
    client.open()
    client.ask("shutdown")
    client.rest()
    assert client.process.wait(BOUND_S) == 0 and client.events()[-1]["type"] == "session_closed"


def test_a_client_that_never_reads_does_not_keep_it_from_ending(world: World) -> None:
    world.script(shell("yes 0123456789abcdef | head -c 5000000"), Reply(text="Done."))
    client = Piped(world, "--mode", "yolo")
    client.send(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol_version": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/open", "params": {}},
    )
    client.line()
    session = json.loads(client.line())["result"]["session_id"]
    prompt = {"session_id": session, "text": "go"}
    client.send({"jsonrpc": "2.0", "id": 3, "method": "user_input", "params": prompt})
    until(lambda: len(world.server.requests) == 2)  # the turn went on to its end
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(BOUND_S) == 143


def test_what_a_project_brings_is_said_and_does_not_count(world: World) -> None:
    (world.work / ".agent").mkdir()
    (world.work / ".agent" / "config.yaml").write_text("mode: yolo\n", encoding="utf-8")
    client = Piped(world).hello()
    opened = client.ask("session/open")
    assert opened["snapshot"]["mode"] == "ask"
    assert any("config.yaml is ignored: not trusted" in note for note in opened["notes"])
    client.leave()


def test_mcp_servers_of_a_client_run_with_their_session(world: World) -> None:
    script = Path(__file__).parents[1] / "mcp" / "servers" / "fault_server.py"
    world.use_own_tmp()
    client = Piped(world).hello()
    file = world.home / "pid"
    demo = {"command": sys.executable, "args": [str(script), "--pid-file", str(file)]}
    session = client.open(mcp_servers={"demo": demo})
    until(lambda: file.exists() and file.read_text(encoding="utf-8"))
    process = Path("/proc") / file.read_text(encoding="utf-8")
    client.ask("session/close", session_id=session)
    until(lambda: not process.exists())
    error = client.refused("session/open", mcp_servers={"demo": {"comand": "x"}})
    assert error["code"] == -32000 and "comand" in error["message"]
    client.leave()


def test_wrong_options_start_nothing(world: World) -> None:
    for options in (
        [],
        ["--stdio", "--socket", "x"],
        ["--stdio", "--mode", "wild"],
        ["--stdio", "--mode", ""],
        ["--stdio", "--max-turns", "0"],
        ["--stdio", "--idle-timeout", "0"],
    ):
        assert world.run("serve", *options).code == 2
    assert not world.sessions()

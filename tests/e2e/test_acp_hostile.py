"""Clients of `agent acp` that break the protocol, go away or never answer: nothing hangs, no session is lost, and no
process is left."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.editor import Editor, gone
from tests.e2e.test_acp import HANGS, WRITE
from tests.e2e.world import World, shell, until
from tests.model.server import Received, Reply

Client = Callable[[Editor], None]


def works(editor: Editor) -> None:
    """A whole prompt in a new session, as a client does that breaks nothing."""
    editor.world.script(Reply(text="It works."))
    session = editor.new() if any(name == "initialize" for name in editor.sent.values()) else editor.open()
    assert editor.prompt(session, "go") == "end_turn"
    assert "It works." in editor.text(session=session)


def half_a_line(editor: Editor) -> None:
    editor.raw(b'{"jsonrpc": "2.0", "id": 1, "meth\n')
    editor.raw(b'{"jsonrpc": "2.0", "id": 70, "method": ')
    editor.raw(b'"session/list"}\n')
    assert editor.answer(70)["error"]["code"] == -32600


def wrong_ids(editor: Editor) -> None:
    for identifier in (1.5, True, [1], {"a": 1}):
        editor.raw(json.dumps({"jsonrpc": "2.0", "id": identifier, "method": "initialize"}).encode() + b"\n")
    until(lambda: len([each for each in editor.received if "error" in each]) == 4)


def answers_to_nothing(editor: Editor) -> None:
    for identifier in (1, "x", 99_999_999_999):
        editor.reply(identifier, {"outcome": {"outcome": "selected", "optionId": "allow"}})
    editor.raw(b'{"jsonrpc": "2.0", "id": null, "result": {}}\n')


def unknown_methods(editor: Editor) -> None:
    editor.initialize()
    for method in ("", "session", "session/new/", "__class__", "terminal/create", "_own/method"):
        assert editor.error(method)["code"] == -32601
        editor.notify(method)


def unknown_sessions(editor: Editor) -> None:
    editor.initialize()
    for session in ("", "0", "../../etc/passwd", "x" * 5000, "\u0000", "%s"):
        for method in ("session/prompt", "session/close", "session/set_mode", "session/delete", "session/load"):
            given = {"prompt": [{"type": "text", "text": "x"}], "modeId": "ask"}
            error = editor.error(method, sessionId=session, cwd=str(editor.world.work), mcpServers=[], **given)
            assert error["code"] in (-32002, -32602), (method, session, error)
        editor.notify("session/cancel", sessionId=session)


def wrong_parameters(editor: Editor) -> None:
    session = editor.open()
    for params in ({}, {"sessionId": 1}, {"sessionId": session}, {"sessionId": session, "prompt": "text"}):
        assert editor.error("session/prompt", **params)["code"] == -32602
    assert editor.error("initialize", protocolVersion=["\ud800"])["code"] == -32602
    blocks: list[Any] = [
        [],
        [{}],
        ["text"],
        [{"type": "text"}],
        [{"type": "audio", "data": "x", "mimeType": "audio/wav"}],
        [{"type": "image", "data": "no base64!", "mimeType": "image/png"}],
        [{"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        [{"type": "resource", "resource": {"uri": "x"}}],
        [{"type": "resource", "resource": {"uri": "x", "blob": "AAAA", "mimeType": "application/pdf"}}],
        [{"type": "resource_link", "name": "x"}],
    ]
    for prompt in blocks:
        assert editor.error("session/prompt", sessionId=session, prompt=prompt)["code"] == -32602, prompt
    assert (
        editor.error("session/set_config_option", sessionId=session, configId="mode", value=True)["code"] == -32602
    )


def prompt_before_initialize(editor: Editor) -> None:
    assert editor.error("session/prompt", sessionId="x", prompt=[])["code"] == -32600
    assert editor.error("session/new", cwd=str(editor.world.work), mcpServers=[])["code"] == -32600


def initialize_again(editor: Editor) -> None:
    for _ in range(5):
        editor.initialize()


def cancel_storm(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(HANGS)
    request = editor.begin(session, "go")
    until(editor.text)
    for _ in range(200):
        editor.notify("session/cancel", sessionId=session)
    assert editor.answer(request)["result"]["stopReason"] == "cancelled"


def cancel_at_once(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(*[Reply(text="came through")] * 20)
    for _ in range(20):
        request = editor.begin(session, "go")
        editor.notify("session/cancel", sessionId=session)
        assert editor.answer(request)["result"]["stopReason"] in ("cancelled", "end_turn")


def cancel_without_a_prompt(editor: Editor) -> None:
    session = editor.open()
    for _ in range(20):
        editor.notify("session/cancel", sessionId=session)
    editor.notify("$/cancel_request", requestId=12345)
    editor.notify("$/cancel_request")
    editor.world.script(Reply(text="fine"))
    assert editor.prompt(session, "go") == "end_turn"


def two_prompts_at_once(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(Reply(text="one"), Reply(text="two"), Reply(text="three"))
    both = [editor.begin(session, "first"), editor.begin(session, "second")]
    assert [editor.answer(each)["result"]["stopReason"] for each in both] == ["end_turn"] * 2


def twenty_prompts_and_a_stop(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(HANGS)
    first = editor.begin(session, "go")
    until(editor.text)
    more = [editor.begin(session, f"more {number}") for number in range(20)]
    editor.notify("session/cancel", sessionId=session)
    for each in (first, *more):
        assert editor.answer(each)["result"]["stopReason"] == "cancelled"


def closing_in_a_permission(editor: Editor) -> None:
    session = editor.open()
    editor.allow = None
    editor.world.script(WRITE)
    request = editor.begin(session, "go")
    until(editor.asked)
    editor.request("session/close", sessionId=session)
    assert editor.answer(request)["result"]["stopReason"] == "cancelled"
    assert not (editor.world.work / "a.txt").exists()
    editor.allow = "allow"


def cancel_in_a_permission(editor: Editor) -> None:
    session = editor.open()
    editor.allow = None
    editor.world.script(WRITE)
    request = editor.begin(session, "go")
    until(editor.asked)
    editor.notify("session/cancel", sessionId=session)
    assert editor.answer(request)["result"]["stopReason"] == "cancelled"
    editor.reply(editor.asked()[0]["id"], {"outcome": {"outcome": "selected", "optionId": "allow"}})
    assert not (editor.world.work / "a.txt").exists()
    editor.allow = "allow"


_CHOSEN = {"outcome": {"outcome": "selected", "optionId": "allow"}}
BAD_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "an unknown option": [{"result": {"outcome": {"outcome": "selected", "optionId": "allow_everything"}}}],
    "garbage": [{"result": ["allow"]}],
    "nothing": [{"result": None}],
    "nested garbage": [{"result": {"outcome": {"outcome": "selected", "optionId": {"allow": True}}}}],
    "cancelled": [{"result": {"outcome": {"outcome": "cancelled"}}}],
    "cancelled with an option": [{"result": {"outcome": {"outcome": "cancelled", "optionId": "allow"}}}],
    "an option without an outcome": [{"result": {"outcome": {"optionId": "allow"}}}],
    "twice": [{"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}}, {"result": _CHOSEN}],
    "an error": [{"error": {"code": "x", "message": None}}],
}
"""What a permission is answered with; the call must not run, and the turn goes on."""


def bad_answers_to_permissions(editor: Editor) -> None:
    editor.initialize()
    editor.allow = None
    for number, (case, answers) in enumerate(BAD_ANSWERS.items()):
        session = editor.new()
        editor.world.script(WRITE, Reply(text="not written"))
        request = editor.begin(session, "go")
        until(lambda asked=number: len(editor.asked()) > asked)
        for each in answers:
            editor.raw(json.dumps({"jsonrpc": "2.0", "id": editor.asked()[-1]["id"], **each}).encode() + b"\n")
        assert editor.answer(request)["result"]["stopReason"] == "end_turn", case
        assert not (editor.world.work / "a.txt").exists(), case
    assert len(editor.asked()) == len(BAD_ANSWERS)


def huge_prompt(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(*[Reply(text="long")] * 3)
    request = editor.begin(session, "word " * 1_000_000)
    answer = editor.answer(request)
    assert "result" in answer or answer["error"]["message"]


def characters_that_are_none(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(Reply(text="read"), Reply(text="read"))
    assert editor.prompt(session, "a\u0000b \u001b[31mred \u202e") == "end_turn"
    editor.raw(b'{"jsonrpc":"2.0","id":71,"method":"session/prompt","params":{"sessionId":"\xff\xfe"}}\n')
    editor.raw(b'{"jsonrpc":"2.0","id":72,"method":"session/prompt","params":{"sessionId":"\\ud800"}}\n')
    until(lambda: len([each for each in editor.received if "error" in each]) >= 2)


def deep_json(editor: Editor) -> None:
    editor.raw(b"[" * 100_000 + b"\n")
    editor.raw(b'{"jsonrpc":"2.0","id":73,"method":"initialize","params":' + b'{"a":' * 100_000 + b"\n")
    until(lambda: len([each for each in editor.received if "error" in each]) == 2)


def batches(editor: Editor) -> None:
    editor.raw(b'[{"jsonrpc":"2.0","id":74,"method":"initialize","params":{"protocolVersion":1}}]\n')
    until(lambda: any("error" in each for each in editor.received))


def the_same_session_loaded_twice_at_once(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(Reply(text="said"), Reply(text="said"))
    assert editor.prompt(session, "go") == "end_turn"
    editor.request("session/close", sessionId=session)
    place = {"sessionId": session, "cwd": str(editor.world.work), "mcpServers": []}
    for each in [editor.send("session/load", **place) for _ in range(5)]:
        assert "result" in editor.answer(each)
    assert editor.prompt(session, "go on") == "end_turn"


def closes_everything_twice(editor: Editor) -> None:
    session = editor.open()
    closing = [editor.answer(editor.send("session/close", sessionId=session)) for _ in range(2)]
    assert "result" in closing[0] and closing[1]["error"]["code"] == -32002


def deletes_what_is_open(editor: Editor) -> None:
    session = editor.open()
    editor.world.script(HANGS)
    request = editor.begin(session, "go")
    until(editor.text)
    editor.request("session/delete", sessionId=session)
    assert editor.answer(request)["result"]["stopReason"] == "cancelled"
    assert not [path for path in editor.world.sessions() if session in path.name]


def many_sessions(editor: Editor) -> None:
    editor.initialize()
    for session in [editor.new() for _ in range(8)]:
        editor.request("session/close", sessionId=session)


BEFORE_INITIALIZE: list[Client] = [
    prompt_before_initialize, half_a_line, wrong_ids, answers_to_nothing, deep_json, batches,
]  # fmt: skip
CLIENTS: list[Client] = [
    unknown_methods, unknown_sessions, wrong_parameters, initialize_again, cancel_storm, cancel_at_once,
    cancel_without_a_prompt, two_prompts_at_once, twenty_prompts_and_a_stop, closing_in_a_permission,
    cancel_in_a_permission, bad_answers_to_permissions, huge_prompt, characters_that_are_none, answers_to_nothing,
    the_same_session_loaded_twice_at_once, closes_everything_twice, deletes_what_is_open, many_sessions,
]  # fmt: skip


def test_clients_that_break_the_rules_are_answered_and_served_on(world: World) -> None:
    """One program serves them all, one after the other: none of them spoils it for the next."""
    world.may_refuse = True
    with Editor(world) as editor:
        for client in (*BEFORE_INITIALIZE, *CLIENTS):
            print(client.__name__)
            client(editor)
            world.server.clear()
            if client in BEFORE_INITIALIZE[:-1]:
                editor.error("session/none")  # behind all that the client is told, which the next one must not get
            else:
                works(editor)
            editor.received.clear()


def end_of_input(editor: Editor) -> None:
    editor.close()


def killed(editor: Editor) -> None:
    """As when the editor was killed: all of its ends are closed."""
    editor.close()
    editor.process.stdout.close()  # type: ignore[union-attr]


def terminated(editor: Editor) -> None:
    editor.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_exit_code_names_the_signal(world: World, number: signal.Signals) -> None:
    editor = Editor(world)
    editor.open()
    editor.process.send_signal(number)
    assert editor.process.wait(60) == 128 + number


@pytest.mark.parametrize("leaves", [end_of_input, terminated], ids=lambda each: each.__name__)
@pytest.mark.parametrize("where", ["answer", "command", "permission", "question"])
def test_when_the_client_goes_everything_ends_and_the_session_is_saved(
    world: World, leaves: Client, where: str
) -> None:
    from tests.model.server import Call

    asks = Reply(calls=(Call("ask_user", {"question": "Which?", "options": ["a", "b"]}),))
    replies = {"answer": HANGS, "command": shell("echo up; sleep 300"), "permission": WRITE, "question": asks}
    world.script(replies[where], *[Reply(text="more")] * 3)
    editor = Editor(world)
    editor.allow = "allow" if where == "command" else None
    session = editor.open()
    editor.begin(session, "go")
    shown = {
        "answer": editor.text,
        "command": lambda: any("up" in str(each.get("content")) for each in editor.updates("tool_call_update")),
        "permission": editor.asked,
        "question": editor.asked,
    }
    until(shown[where])
    leaves(editor)
    assert editor.process.wait(60) == (0 if leaves is end_of_input else 143)
    gone(world)
    assert not (world.work / "a.txt").exists()
    with Editor(world) as again:
        again.initialize()
        again.request("session/load", sessionId=session, cwd=str(world.work), mcpServers=[])
        assert "go" in again.text("user_message_chunk")
        world.server.answer = lambda request: Reply(text="Here again.")
        assert again.prompt(session, "go on") == "end_turn"


def test_a_client_that_is_killed_leaves_nothing_behind(world: World, own_tmp: None) -> None:
    script = (
        "import subprocess, sys, os, json\n"
        "agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "def ask(n, method, **params):\n"
        "    agent.stdin.write(json.dumps({'jsonrpc': '2.0', 'id': n, 'method': method, 'params': params}).encode() + b'\\n')\n"
        "    agent.stdin.flush()\n"
        "    while True:\n"
        "        found = json.loads(agent.stdout.readline())\n"
        "        if found.get('id') == n: return found['result']\n"
        "ask(1, 'initialize', protocolVersion=1)\n"
        "session = ask(2, 'session/new', cwd=os.getcwd(), mcpServers=[])['sessionId']\n"
        "ask(3, 'session/prompt', sessionId=session, prompt=[{'type': 'text', 'text': 'go'}])\n"
    )
    import sys

    from tests.e2e.world import AGENT

    world.measured()
    (world.config / "config.yaml").write_text("mode: yolo\n")
    world.script(shell("touch up; sleep 300"))
    client = subprocess.Popen(
        [sys.executable, "-c", script, AGENT, "acp"],
        env=world.environment(),
        cwd=world.work,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: (world.work / "up").exists())
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.wait(60)
    gone(world)


def test_a_client_that_never_reads_holds_up_neither_the_turn_nor_the_end(world: World) -> None:
    world.measured()
    world.script(shell("seq 200000"), Reply(text="word " * 200_000), Reply(text="the end"))
    process = world.start("acp", stdin=subprocess.PIPE, env={"AGENT_MODE": "yolo"})
    lines = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 2, "method": "session/new", "params": {"cwd": str(world.work), "mcpServers": []}},
    ]
    assert process.stdin is not None and process.stdout is not None
    for line in lines:
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
    session = ""
    while not session:
        session = json.loads(process.stdout.readline()).get("result", {}).get("sessionId", "")
    for number in range(2):
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": f"go {number}"}]}
        process.stdin.write(json.dumps({"id": 3 + number, "method": "session/prompt", "params": prompt}) + "\n")
        process.stdin.flush()
        until(lambda: len(world.bodies()) >= 2)
    stdin, process.stdin = process.stdin, None
    stdin.close()
    assert process.wait(60) == 0


def test_a_stop_at_any_moment_of_a_turn_is_answered_and_the_next_prompt_runs(world: World) -> None:
    steps = (WRITE, shell("echo up; echo down"), Reply(text="It is done.", piece=3))
    after = Reply(text="It goes on.")

    def answer(request: Received) -> Reply:
        said = [each["role"] for each in request.body["messages"]]
        is_first = said.count("user") == 1
        return steps[min(2, said.count("tool"))] if is_first else after

    world.server.answer = answer
    with Editor(world) as editor:
        editor.initialize()
        for moment in range(0, 12, 2):
            (world.work / "a.txt").unlink(missing_ok=True)
            session = editor.new()
            prompt = editor.begin(session, "go")
            until(
                lambda moment=moment, session=session, prompt=prompt: (
                    len(editor.updates(session=session)) >= moment
                    or any(each.get("id") == prompt and "result" in each for each in editor.received)
                )
            )
            editor.notify("session/cancel", sessionId=session)
            assert editor.answer(prompt)["result"]["stopReason"] in ("cancelled", "end_turn")
            assert editor.prompt(session, "go on") == "end_turn"
            assert {call["status"] for call in editor.calls()} <= {"completed", "failed"}
            editor.request("session/close", sessionId=session)


def test_a_session_that_another_program_has_open_is_refused(world: World) -> None:
    world.script(Reply(text="said"))
    with Editor(world) as editor:
        session = editor.open()
        assert editor.prompt(session, "go") == "end_turn"
        with Editor(world) as other:
            other.initialize()
            place = {"sessionId": session, "cwd": str(world.work), "mcpServers": []}
            error = other.error("session/load", **place)
            assert error["code"] == -32603 and "in use" in error["message"]
            assert "error" in other.answer(other.send("session/delete", sessionId=session))
            works(other)
        assert world.sessions()


def test_a_stop_in_one_session_leaves_the_other_alone(world: World) -> None:
    world.server.answer = lambda request: (
        HANGS
        if "number one" in json.dumps(request.body)
        else Reply(text="It takes its time.", piece=2, event_delay_s=0.05)
    )
    with Editor(world) as editor:
        one = editor.open()
        two = editor.new()
        first = editor.begin(one, "number one")
        second = editor.begin(two, "go")
        until(lambda: editor.text(session=one) and editor.text(session=two))
        for _ in range(10):
            editor.notify("session/cancel", sessionId=one)
        assert editor.answer(first)["result"]["stopReason"] == "cancelled"
        assert editor.answer(second)["result"]["stopReason"] == "end_turn"
        assert editor.text(session=two) == "It takes its time."

"""One recorded session through every front end: the same events, but for times and ids."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.debug_lines import logged
from tests.e2e.editor import Editor
from tests.e2e.person import Person
from tests.e2e.rpc import Piped
from tests.e2e.test_run_conversation import Program
from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

Event = dict[str, Any]
PROMPT = "make it"
ENDS = ("turn_completed", "turn_aborted", "turn_failed")
DELTAS = ("text_delta", "reasoning_delta", "tool_output")
FILE = "one\ntwo\n"


def recorded(world: World) -> Path:
    """A session with text, a plan, two changes that need a yes, a command that fails, and an end."""
    steps = [{"text": "Write it", "status": "in_progress"}]
    world.script(
        Reply(text="I write it.\n\nThen I look.", calls=(Call("write_file", {"path": "a.txt", "content": FILE}),)),
        Reply(calls=(Call("update_plan", {"items": steps}), Call("read_file", {"path": "a.txt"}))),
        Reply(calls=(Call("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "three"}]}),)),
        shell("echo seen; touch b.txt; exit 3"),
        Reply(text="Done."),
    )
    done = world.run("run", PROMPT, "--mode", "yolo")
    assert done.code == 0, done.err
    kept = world.home / "recorded.json"
    world.sessions()[-1].rename(kept)
    return kept


def by_run(world: World, model: str) -> list[Event]:
    program = Program(world, "--mode", "ask", "--model", model)
    program.send(type="user_input", text=PROMPT)
    while (event := program.until("approval_requested", "result"))["type"] != "result":
        program.send(type="approval_answer", request_id=event["request_id"], decisions=_yes(event))
    program.ended()
    return [line for line in program.lines if line["type"] not in ("result", "operation_taken")]


def by_repl(world: World, model: str) -> list[Event]:
    before = set(world.state.glob("logs/*"))
    person = Person(world, "--debug", "--mode", "ask", "--model", model)
    person.say(PROMPT)
    for question in (r"write.* a\.txt", r"edit.* a\.txt", r"echo seen"):
        person.decide(rf"(?is){question}.*›", "y")
    person.turn_over()
    person.leave()
    (log,) = set(world.state.glob("logs/*")) - before
    return [line for line in logged(log) if line["type"] != "model_request"]


LIBRARY = """
import asyncio, sys
import msgspec
from agent_cli import Agent, Allow

async def main():
    async def approve(call):
        return Allow()
    async with Agent(model=sys.argv[1], mode="ask", approve=approve) as agent:
        async for event in agent.stream(sys.argv[2]):
            print(msgspec.json.encode(event).decode())
asyncio.run(main())
"""


def by_library(world: World, model: str) -> list[Event]:
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY, model, PROMPT], cwd=world.work, env=world.environment(),
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_app_server(world: World, model: str) -> list[Event]:
    client = Piped(world, "--mode", "ask", "--model", model)
    client.hello()
    session = client.open()
    turn = client.ask("user_input", session_id=session, text=PROMPT)["submission_id"]
    asked = 0
    while True:
        event = client.until(lambda each: _is_news(each, turn), asked)["params"]["event"]
        if event["type"] != "approval_requested":
            break
        asked = 1 + next(at for at, each in enumerate(client.received) if _event(each) == event)
        client.ask("approval_answer", session_id=session, request_id=event["request_id"], decisions=_yes(event))
    assert client.leave() == 0
    return client.events(session)


def _event(message: dict[str, Any]) -> Event:
    found: Event = message.get("params", {}).get("event", {})
    return found


def _is_news(message: dict[str, Any], turn: str) -> bool:
    event = _event(message)
    return event.get("submission_id") == turn and event["type"] in ("approval_requested", *ENDS)


def _yes(event: Event) -> list[dict[str, Any]]:
    return [{"call_id": item["call_id"], "allow": True} for item in event["items"]]


FRONT_ENDS: dict[str, Callable[[World, str], list[Event]]] = {
    "repl": by_repl,
    "library": by_library,
    "app server": by_app_server,
}


def same(events: list[Event]) -> list[Event]:
    """What is the same for everybody: of a session its start and its turn, texts in one piece, without what tells
    one run from another."""
    start = next(at for at, each in enumerate(events) if each["type"] == "turn_started")
    end = next(at for at, each in enumerate(events) if each["type"] in ENDS)
    found: list[Event] = []
    for event in [each for each in events[:start] if each["type"] == "session_started"] + events[start : end + 1]:
        plain = _plain(event)
        if found and event["type"] in DELTAS and found[-1]["type"] == event["type"]:
            found[-1]["text"] += plain["text"]
        else:
            found.append(plain)
    return found


def _plain(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: _plain(each, key) for key, each in value.items() if key not in ("seq", "time")}
        case list():
            return [_plain(each) for each in value]
        case str() if name.endswith("id") or name == "checkpoint":
            return bool(value)
        case str():
            return re.sub(r"\d+(\.\d+)? s\]", "0 s]", value)  # how long a command took
        case float() if name.endswith("_s"):
            return 0
        case _:
            return value


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_every_front_end_has_the_same_events(world: World, front_end: str) -> None:
    model = f"replay/{recorded(world)}"
    seen = []
    for through in (by_run, FRONT_ENDS[front_end]):
        for name in ("a.txt", "b.txt"):
            (world.work / name).unlink(missing_ok=True)
        seen.append(same(through(world, model)))
        assert (world.work / "a.txt").read_text() == "one\nthree\n" and (world.work / "b.txt").exists()
    assert len(seen[0]) > 20 and [each["type"] for each in seen[1]] == [each["type"] for each in seen[0]]
    assert seen[1] == seen[0]


def told_by_events(events: list[Event]) -> list[tuple[str, Any]]:
    """What an editor can show of a turn: texts, plans, questions, how each call ended, and the end."""
    told: list[tuple[str, Any]] = []
    for event in events:
        match event["type"]:
            case "text_delta":
                told.append(("text", event["text"]))
            case "plan_updated":
                told.append(("plan", [item["text"] for item in event["items"]]))
            case "approval_requested":
                told += [("asked", item["arguments"]) for item in event["items"]]
            case "tool_call_finished":
                told.append(("tool", "completed" if event["status"] == "ok" else "failed"))
            case "turn_completed":
                told.append(("end", event["stop_reason"]))
    return _joined(told)


def told_to_editor(messages: list[dict[str, Any]], identifier: int) -> list[tuple[str, Any]]:
    """The same, of the messages of `agent acp`."""
    told: list[tuple[str, Any]] = []
    for message in messages:
        if message.get("method") == "session/request_permission":
            told.append(("asked", json.dumps(message["params"]["toolCall"]["rawInput"])))
        if message.get("id") == identifier and "method" not in message:
            told.append(("end", message["result"]["stopReason"]))
        update = message.get("params", {}).get("update", {})
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                told.append(("text", update["content"]["text"]))
            case "plan":
                told.append(("plan", [entry["content"] for entry in update["entries"]]))
            case "tool_call_update" if update.get("status") in ("completed", "failed"):
                told.append(("tool", update["status"]))
    return _joined(told)


def _joined(told: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for kind, value in told:
        if found and kind == "text" == found[-1][0]:
            found[-1] = (kind, found[-1][1] + value)
        else:
            found.append((kind, json.loads(value) if kind == "asked" else value))
    return found


def test_an_editor_is_told_the_same(world: World) -> None:
    model = f"replay/{recorded(world)}"
    (world.work / "a.txt").unlink()
    expected = told_by_events(same(by_run(world, model)))
    for name in ("a.txt", "b.txt"):
        (world.work / name).unlink()
    with Editor(world, "--mode", "ask", "--model", model) as editor:
        session = editor.open()
        begun = len(editor.received)
        prompt = editor.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": PROMPT}])
        editor.answer(prompt)
        told = told_to_editor(editor.received[begun:], prompt)
    assert [kind for kind, _ in expected].count("asked") == 3 and expected[-1] == ("end", "end_turn")
    assert told == expected
    assert (world.work / "a.txt").read_text() == "one\nthree\n"

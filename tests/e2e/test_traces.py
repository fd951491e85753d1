"""Traces of the real program: written as spans end, sent where the user says so, and without anybody's words."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.export.otlp_json import spans_in
from agent_cli.telemetry.shares import time_shares
from agent_cli.telemetry.span import Span
from tests.cli.running import said
from tests.e2e.editor import Editor
from tests.e2e.fleet import answering, batch, repository, tasks_file, writes
from tests.e2e.world import World, shell, until
from tests.model.server import Call, Received, Reply
from tests.telemetry.collector_server import CollectorServer
from tests.telemetry.test_spans import check_tree

CANARY = "c4n4ry"
ABOVE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans_of(file: Path) -> list[Span]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return list(spans_in(json.loads(line) for line in lines))


def test_a_short_run_is_delivered_whole_without_a_word_of_it(world: World) -> None:
    (world.work / CANARY).mkdir()
    script = (
        Reply(status=429, body={"error": {"message": CANARY}}, headers={"retry-after": "0.05"}),
        shell(f"cat {CANARY}/missing; echo {CANARY} $TRACEPARENT; env | grep ^OTEL_; exit 3"),
        Reply(text=f"The answer {CANARY}"),
    )
    with CollectorServer() as collector:
        env = {"AGENT_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "TRACEPARENT": ABOVE}
        world.script(*script)
        first = world.run("run", f"ask {CANARY}", "--trace", "t.jsonl", "--mode", "yolo", env=env)
        told = world.messages(role="tool")[-1]
        world.script(*script[1:])
        second = world.run("run", f"ask {CANARY}", "--trace", "t.json", "--mode", "yolo", "--no-session", env=env)
    assert (first.code, second.code) == (0, 0) and "span" not in first.err + second.err
    spans = spans_of(world.work / "t.jsonl")
    assert {span.kind for span in spans} == {"agent", "model", "tool", "retry", "queue"}
    tool = next(span for span in spans if span.kind == "tool")
    assert f"{CANARY} 00-{tool.trace_id}-{tool.span_id}-01" in told and "OTEL_" not in told
    turn = next(span for span in spans if span.kind == "agent")
    assert f"00-{turn.trace_id}-{turn.parent_id}-01" == ABOVE
    sent = collector.span_ids()
    events = json.loads((world.work / "t.json").read_text(encoding="utf-8"))
    drawn = {each["args"]["span_id"] for each in events if each["ph"] == "X"}
    assert len(drawn) == len(spans) - 1 and set(sent) == {span.span_id for span in spans} | drawn
    files = [world.work / "t.jsonl", world.work / "t.json"]
    exported = [*(file.read_bytes() for file in files), *(request.body for request in collector.taken)]
    assert all(CANARY.encode() not in each for each in exported)
    check_sums(spans, world.records("model_call"))
    shares = time_shares(spans)
    assert shares["hook"] <= 0.01 * sum(shares.values())


def check_sums(spans: list[Span], ledger: list[dict[str, Any]]) -> None:
    def summed(name: str) -> float:
        return sum(span.attributes.get(name, 0) for span in spans if span.kind == "model")  # type: ignore[misc]

    def booked(*fields: str) -> float:
        return sum(entry.get("usage", {}).get(field) or 0 for entry in ledger for field in fields)

    assert summed(names.ATTEMPTS) == len(ledger) == 3
    assert summed(names.INPUT_TOKENS) == booked("input", "cache_read", "cache_write") > 0
    assert summed(names.OUTPUT_TOKENS) == booked("output") > 0
    assert summed(names.COST_USD) == sum(entry.get("cost_usd") or 0 for entry in ledger)


def test_sub_agents_hang_below_their_call_and_their_commands_below_theirs(world: World) -> None:
    def answer(request: Received) -> Reply:
        is_first = all(each["role"] != "tool" for each in request.body["messages"])
        if b"You are a sub-agent" in request.raw:
            return shell("echo its parent: $TRACEPARENT") if is_first else Reply(text="done")
        both = (Call("agent", {"task": "one"}), Call("agent", {"task": "two"}))
        return Reply(calls=both) if is_first else Reply(text="done")

    world.server.answer = answer
    assert world.run("run", "ask", "--trace", "t.jsonl", "--mode", "yolo").code == 0
    spans = spans_of(world.work / "t.jsonl")
    check_tree(spans)
    by_id = {span.span_id: span for span in spans}
    commands = [span for span in spans if span.name == "shell" and span.kind == "tool"]
    assert len(commands) == 2
    for command in commands:
        agent = by_id[command.parent_id]
        call = by_id[agent.parent_id]
        assert [(each.kind, each.name) for each in (agent, call)] == [("agent", "general"), ("tool", "agent")]
    printed = [line for body in world.bodies() for line in json.dumps(body).split("its parent: 00-")[1:]]
    told = {line[:49] for line in printed if not line.startswith("$")}
    assert told == {f"{each.trace_id}-{each.span_id}" for each in commands}


def test_variables_and_a_project_alone_send_nothing(world: World) -> None:
    (world.work / ".agent").mkdir()
    (world.work / ".agent" / "config.yaml").write_text("telemetry: {otlp: true, content: [prompts]}\n")
    world.script(Reply(text="done"))
    with CollectorServer() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "PYTHONPROFILEIMPORTTIME": "1"}
        done = world.run("run", "ask", env=env)
    assert done.code == 0 and not collector.seen
    assert "agent_cli.session.session" in done.err and "agent_cli.telemetry" not in done.err
    assert not (world.state / "traces").exists()


def test_what_a_dead_collector_did_not_get_is_said_once_and_sent_later(world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    (world.config / "config.yaml").write_text("telemetry: {otlp: true}\n", encoding="utf-8")
    world.script(Reply(text="done"))
    done = world.run("run", "ask", "--quiet", env={"OTEL_EXPORTER_OTLP_ENDPOINT": dead})
    (kept,) = (world.state / "traces").iterdir()
    assert (done.code, done.out) == (0, "done\n")
    (said,) = done.err.splitlines()
    assert said.startswith(f"agent: 2 spans could not be sent to {dead}/v1/traces (")
    assert said.endswith(f"`agent trace send {kept}` sends them")
    again = world.run("trace", "send", str(kept), env={"OTEL_EXPORTER_OTLP_ENDPOINT": dead})
    assert again.code == 4 and kept.exists() and "sent 0 of 2 spans" in again.out
    assert f"{kept} is unchanged; to send it again: agent trace send {kept}" in again.err
    ids = [span.span_id for span in spans_of(kept)]
    with CollectorServer() as collector:
        sent = world.run("trace", "send", env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert sent.code == 0 and collector.span_ids() == ids and not kept.exists()


def test_a_killed_run_leaves_every_span_that_had_ended(world: World) -> None:
    world.script(shell("touch running; sleep 60"))
    process = world.start("run", "ask", "--trace", "t.jsonl", "--mode", "yolo")
    until(lambda: (world.work / "running").exists())
    process.kill()
    process.wait(30)
    spans = spans_of(world.work / "t.jsonl")
    assert [span.kind for span in spans] == ["model", "queue"]
    shown = world.run("trace", "show", "t.jsonl")
    assert shown.code == 0 and "mock-model" in shown.out and " so far" in shown.out
    until(lambda: not world.alive(b"sleep"))


def test_a_run_on_a_full_disk_says_once_what_its_trace_lacks_and_ends_as_usual(world: World) -> None:
    path, limit = world.work.parent / "t.jsonl", 8 << 20
    line = b'{"resourceSpans":[],"x":"%b"}\n'
    path.write_bytes(line % (b"x" * (limit - 1000 - len(line))))  # room for one span of several
    world.script(shell("echo done"), Reply(text="done"))
    small = ("bash", "-c", f'ulimit -f {limit >> 10} && exec "$@"', "-")
    done = world.run("run", "ask", "--trace", str(path), "--mode", "yolo", "--quiet", before=small)
    assert (done.code, done.out) == (0, "done\n")
    spans = spans_of(path)
    assert done.err == f"agent: the trace {path} lacks {5 - len(spans)} spans: File too large\n"
    assert 0 < len(spans) < 5 and path.read_bytes().endswith(b"}\n")


def test_the_sessions_of_an_editor_are_in_one_file_by_their_ids(world: World) -> None:
    world.server.answer = lambda request: Reply(text="done")
    with Editor(world, "--trace", "t.jsonl") as editor:
        first = editor.open()
        second = editor.new()
        for session in (first, second, first):
            assert editor.prompt(session, "go") == "end_turn"
    spans = spans_of(world.work / "t.jsonl")
    turns = [span.attributes[names.CONVERSATION] for span in spans if span.kind == "agent"]
    assert turns == [first, second, first] and len({span.trace_id for span in spans}) == 3


def test_each_attempt_of_a_batch_has_its_trace_beside_its_session(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    tasks = [{"id": name, "prompt": f"write a.txt: {name}", "repo": str(world.work)} for name in ("one", "two")]
    assert batch(world, tasks_file(world, tasks), "--trace").code == 0
    for name in ("one", "two"):
        folder = world.home / "out" / "tasks" / name / "1"
        spans = spans_of(folder / "trace.jsonl")
        session = json.loads((folder / "session.json").read_text(encoding="utf-8"))[0]["session_id"]
        assert [span.attributes[names.CONVERSATION] for span in spans if span.kind == "agent"] == [session]


def test_a_server_says_before_it_serves_that_it_cannot_write_its_trace(world: World) -> None:
    (world.work / "notes.md").write_text("mine\n", encoding="utf-8")
    acp, serve, foreign = said(
        world, ["acp", "--trace", "t.json"], ["serve", "--stdio", "--trace", "no/folder/t.jsonl"],
        ["serve", "--stdio", "--trace", "notes.md"],
    )  # fmt: skip
    assert [each.code for each in (acp, serve, foreign)] == [2, 2, 2]
    assert "for a server, name a .jsonl file" in acp.err and "its folder does not exist" in serve.err
    assert "is no file of traces" in foreign.err and os.listdir(world.work) == ["notes.md"]


def test_a_trace_file_that_is_something_else_is_left_alone(world: World) -> None:
    (world.work / "notes.md").write_text("mine\n", encoding="utf-8")
    done = world.run("run", "ask", "--trace", "notes.md")
    assert done.code == 2 and "--trace" in done.err and "name another" in done.err
    assert (world.work / "notes.md").read_text(encoding="utf-8") == "mine\n"
    assert os.listdir(world.work) == ["notes.md"]

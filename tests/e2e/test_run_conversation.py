"""`agent run --input-format stream-json`: prompts, guidance and answers as JSON lines on standard input."""

import base64
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import Done, World, finish, shell, until
from tests.model.server import Call, Reply

SPEAKS = ("run", "--input-format", "stream-json")
NEVER = Reply(text="partial " * 4, piece=8, hang="mid_stream", after=3)
WAIT_S = 60.0


class Program:
    """A run that is spoken with; a thread reads its output."""

    def __init__(self, world: World, *options: str) -> None:
        self.process = world.start(*SPEAKS, *options, stdin=subprocess.PIPE)
        self.lines: list[dict[str, Any]] = []
        self._coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line)
        self._coming.put(None)

    def send(self, **operation: Any) -> None:
        self.write(json.dumps(operation) + "\n")

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def until(self, *kinds: str) -> dict[str, Any]:
        """Read on to the next line of one of these types."""
        while (line := self._coming.get(timeout=WAIT_S)) is not None:
            self.lines.append(json.loads(line))
            if self.lines[-1]["type"] in kinds:
                return self.lines[-1]
        raise AssertionError(f"no {kinds}: {[line['type'] for line in self.lines]}")

    def ended(self, *, close: bool = True) -> Done:
        """Close the input and return what the program left; what holds of every run is checked."""
        assert self.process.stdin is not None and self.process.stderr is not None
        if close:
            self.process.stdin.close()
        code = self.process.wait(WAIT_S)
        while (line := self._coming.get(timeout=WAIT_S)) is not None:
            self.lines.append(json.loads(line))
        self.process.stdin.close()
        self._reader.join(WAIT_S)
        self.process.stdin = None  # the world's end would flush it
        done = Done(code, "".join(json.dumps(line) + "\n" for line in self.lines), self.process.stderr.read())
        assert [line["seq"] for line in self.lines] == list(range(1, len(self.lines) + 1))
        assert done.result["exit_code"] == code, done.err
        return done

    @property
    def results(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == "result"]


def test_each_prompt_has_its_result(world: World) -> None:
    world.script(Reply(text="one"), Reply(text="two"), Reply(text="three"))
    program = Program(world, "first")
    assert program.until("result")["text"] == "one"
    program.send(type="user_input", text="second")
    taken = program.until("operation_taken")
    assert (taken["line"], taken["operation"]) == (1, "user_input")
    second = program.until("result")
    assert (second["text"], second["turns"], second["submission_id"]) == ("two", 1, taken["submission_id"])
    assert second["usage"]["requests"] == 1
    program.send(type="user", message={"role": "user", "content": [{"type": "text", "text": "third"}]}, uuid="x")
    done = program.ended()
    assert (done.code, done.result["text"]) == (0, "three"), done.err
    assert [each["text"] for each in program.results] == ["one", "two", "three"]
    assert [text.rpartition("\n")[2] for text in world.messages(role="user")] == ["first", "second", "third"]


def test_all_that_was_handed_in_is_done_before_the_end(world: World) -> None:
    world.script(Reply(text="one"), Reply(text="two"))
    lines = [{"type": "user_input", "text": "first"}, {"type": "user_input", "text": "second"}]
    done = world.run(*SPEAKS, text="\n\r\n".join(map(json.dumps, lines)))  # the last line has no end
    assert (done.code, done.result["text"]) == (0, "two"), done.err
    assert [line["line"] for line in done.lines if line["type"] == "operation_taken"] == [1, 3]
    assert [line["text"] for line in done.lines if line["type"] == "result"] == ["one", "two"]


@pytest.mark.parametrize("allow", [True, False])
def test_an_approval_is_asked_for_and_answered(world: World, allow: bool) -> None:
    world.script(shell("touch made"), Reply(text="done"))
    program = Program(world, "make it", "--mode", "ask")
    asked = program.until("approval_requested")
    decision = {"call_id": asked["items"][0]["call_id"], "allow": allow, "feedback": "" if allow else "not now"}
    program.send(type="approval_answer", request_id=asked["request_id"], decisions=[decision])
    program.until("result")
    done = program.ended()
    assert (done.code, (world.work / "made").exists()) == ((0, True) if allow else (6, False)), done.err
    if not allow:
        assert "not now" in world.messages(role="tool")[-1]


def test_a_question_is_asked_and_answered(world: World) -> None:
    world.script(Reply(calls=(Call("ask_user", {"question": "Which one?"}),)), Reply(text="done"))
    program = Program(world, "choose")
    asked = program.until("question_asked")
    assert asked["question"] == "Which one?"
    program.send(type="question_answer", request_id=asked["request_id"], text="the blue one")
    program.until("result")
    assert program.ended().code == 0
    assert "the blue one" in world.messages(role="tool")[-1]


def test_guidance_reaches_the_running_turn(world: World) -> None:
    world.script(shell("touch made"), Reply(text="done"))
    program = Program(world, "make it", "--mode", "ask")
    asked = program.until("approval_requested")
    program.send(type="steer", text="leave a.py as it is")
    program.until("operation_completed")
    program.send(type="approval_answer", request_id=asked["request_id"], decisions=[])
    assert program.until("steered")["text"] == "leave a.py as it is"
    program.until("result")
    program.ended()
    assert world.messages(role="user")[-1].endswith("leave a.py as it is")
    assert len(program.results) == 1


def test_guidance_without_a_turn_is_a_prompt(world: World) -> None:
    world.script(Reply(text="one"))
    program = Program(world)
    program.send(type="steer", text="do this")
    assert program.until("result")["text"] == "one"
    assert program.ended().code == 0 and len(program.results) == 1


@pytest.mark.parametrize("tool", ["shell", "ask_user"])
def test_what_is_asked_is_refused_once_the_input_has_ended(world: World, tool: str) -> None:
    calls = {"shell": shell("touch made"), "ask_user": Reply(calls=(Call("ask_user", {"question": "Which?"}),))}
    world.script(calls[tool], shell("touch other"), Reply(text="not done"))
    program = Program(world, "make it", "--mode", "ask")
    program.until("approval_requested" if tool == "shell" else "question_asked")
    done = program.ended()
    assert (done.code, done.result["text"]) == (6, "not done"), done.err
    assert not (world.work / "made").exists() and not (world.work / "other").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"type":"user_inputs","text":"x"}', "did you mean `user_input`?"),
        ('{"type":"user_input"}', "missing required field `text`"),
        ('{"type":"user_input","text":"x","allowed":["shell"]}', "unknown field `allowed`"),
        ('{"type":"user","message":{"content":[{"type":"tool_result"}]}}', "there is no operation `user`"),
        ('{"type":"user_input","text":"","images":[{"media_type":"image/png","data":"iVBORw0KGgo="}]}', "damaged"),
        ('{"type":"user_input","text":"\\ud800"}', "not JSON"),
        ("\x00\x01", "not JSON"),
    ],
)
def test_a_wrong_line_is_reported_and_ends_nothing(world: World, line: str, why: str) -> None:
    world.script(Reply(text="done"))
    program = Program(world)
    program.write(f"\n{line}\n")
    failed = program.until("operation_failed")["error"]
    assert failed["kind"] == "bad_line" and failed["message"].startswith("line 2 of standard input: ")
    assert why in failed["message"]
    program.send(type="user_input", text="the task")
    assert program.until("result")["text"] == "done"
    assert program.ended().code == 0


def test_a_line_of_ten_megabytes_is_read_and_one_without_end_is_refused(world: World) -> None:
    world.script(Reply(text="done"))
    picture = json.dumps({"type": "user_input", "text": "x", "padding": "A" * 10_000_000})
    endless = '{"type":"user_input","text":"' + "A" * 65_000_000
    done = world.run(*SPEAKS, text=f'{picture}\n{endless}\n{{"type":"user_input","text":"the task"}}')
    wrong = [line["error"]["message"] for line in done.lines if line["type"] == "operation_failed"]
    assert "unknown field `padding`" in wrong[0] and wrong[1].endswith(
        "line 2 of standard input: longer than 64 MB"
    )
    assert (done.code, done.result["text"]) == (0, "done"), done.err


def test_an_input_without_a_prompt_is_wrong_usage(world: World) -> None:
    for text in ("", '{"type":"user_in'):
        done = world.run(*SPEAKS, text=text)
        assert (done.code, done.result["stop_reason"]) == (2, "usage_error")
        assert "no prompt came on standard input" in done.result["error"]["message"]


def test_operations_without_a_prompt_need_none(world: World) -> None:
    world.script(Reply(text="one"))
    world.run("run", "first")
    program = Program(world, "--continue")
    program.send(type="undo")
    program.until("restored")
    done = program.ended()
    assert (done.code, done.result["stop_reason"], done.result["submission_id"]) == (0, "end_turn", "")


def test_an_answer_to_nothing_is_reported(world: World) -> None:
    program = Program(world)
    program.send(type="approval_answer", request_id="ask_0", decisions=[])
    taken = program.until("operation_taken")
    failed = program.until("operation_failed")
    assert failed["submission_id"] == taken["submission_id"] and failed["error"]["message"] == "no longer open"
    assert program.ended().code == 0


def test_an_interrupted_turn_ends_and_the_conversation_goes_on(world: World) -> None:
    world.script(NEVER, Reply(text="done"))
    program = Program(world, "first")
    program.until("text_delta")
    program.send(type="user_input", text="waits")
    program.until("operation_taken")
    program.write('{"type":"interrupt"}\n{"type":"user_input","text":"second"}\n')
    assert program.until("input_returned")["texts"] == ["waits"]
    first = program.until("result")
    assert (first["stop_reason"], first["exit_code"]) == ("interrupted", 130)
    assert program.until("result")["text"] == "done"
    assert program.ended().code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("state", ["idle", "fresh", "answering", "asking", "queued"])
def test_a_signal_ends_it_with_a_result_while_the_input_is_open(
    world: World, number: signal.Signals, state: str
) -> None:
    first = {"idle": Reply(text="one"), "asking": shell("touch made")}.get(state, NEVER)
    world.script(first, NEVER)
    program = Program(world, *(() if state == "fresh" else ("first",)), "--mode", "ask")
    marks = {"idle": "result", "fresh": "session_started", "asking": "approval_requested"}
    program.until(marks.get(state, "text_delta"))
    if state == "queued":
        program.send(type="user_input", text="second")
        program.until("operation_taken")
    program.process.send_signal(number)
    done = program.ended(close=False)
    expected = {signal.SIGTERM: (143, "terminated"), signal.SIGINT: (130, "interrupted")}[number]
    assert (done.code, done.result["stop_reason"]) == expected, done.err
    assert len(program.results) == (2 if state == "idle" else 1)
    assert not (world.work / "made").exists()


def test_the_time_of_the_whole_run_ends_it(world: World) -> None:
    program = Program(world, "--timeout", "1")
    done = program.ended(close=False)
    assert (done.code, done.result["stop_reason"]) == (5, "time_limit")


def test_a_signal_ends_it_although_nobody_reads(world: World) -> None:
    world.script(Reply(text="x" * 300_000), NEVER)
    process = world.start(*SPEAKS, "first", stdin=subprocess.PIPE)
    until(lambda: world.sessions() and world.records("assistant"))  # its line fills the pipe
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 143


def test_a_reader_that_is_slow_gets_every_line(world: World) -> None:
    world.script(Reply(text="x" * 300_000, piece=3000), Reply(text="last"))
    lines = [{"type": "user_input", "text": "first"}, {"type": "user_input", "text": "second"}]
    process = world.start(*SPEAKS, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
    process.stdin.flush()
    until(lambda: len(world.bodies()) == 2)  # it went on although its first answer has not been read
    done = finish(process)
    assert "".join(line["text"] for line in done.lines if line["type"] == "text_delta") == "x" * 300_000 + "last"
    assert (done.code, done.result["text"]) == (0, "last")


def test_streams_that_do_not_block_lose_nothing(world: World) -> None:
    world.script(Reply(text="x" * 300_000), Reply(text="last"))
    (theirs, ours), (out, their_out) = os.pipe(), os.pipe()
    for descriptor in (theirs, their_out):
        os.set_blocking(descriptor, False)
    world.measured()
    line = [str(Path(sys.executable).parent / "agent"), *SPEAKS]
    process = subprocess.Popen(line, stdin=theirs, stdout=their_out, env=world.environment(), cwd=world.work)
    os.close(theirs)
    os.close(their_out)
    os.write(ours, b'{"type":"user_input","text":"first"}\n')
    until(lambda: world.sessions() and world.records("assistant"))
    os.write(ours, b'{"type":"user_input","text":"second"}\n')
    os.close(ours)
    with os.fdopen(out, "rb") as read:
        results = [json.loads(line) for line in read if b'"type":"result"' in line]
    assert process.wait(WAIT_S) == 0
    assert [len(each["text"]) for each in results] == [300_000, 4]


def test_a_reader_that_leaves_ends_it(world: World) -> None:
    world.script(shell("touch made"), Reply(text="not done"))
    process = world.start(*SPEAKS, "make it", "--mode", "ask", stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "approval_requested":
            break
    process.stdout.close()
    process.stdin.write('{"type":"rename","title":"x"}\n')  # something to write, which fails
    process.stdin.flush()
    assert process.wait(WAIT_S) == 6
    process.stdout = None
    assert world.messages(role="tool")[-1].startswith("The user refused") and not (world.work / "made").exists()


def test_a_killed_conversation_goes_on_where_it_was(world: World) -> None:
    world.script(Reply(text="one"), NEVER)
    program = Program(world, "first")
    program.until("result")
    program.send(type="user_input", text="second")
    program.until("text_delta")
    program.process.kill()
    program.process.wait(WAIT_S)
    program.process.stdin = None
    world.script(Reply(text="three"))
    again = Program(world, "--continue")
    again.send(type="user_input", text="third")
    assert again.until("result")["text"] == "three"
    assert again.ended().code == 0
    said = [text.rpartition("\n")[2] for text in world.messages(role="user")]
    assert said[:2] == ["first", "second"] and said[-1] == "third"


def test_an_answer_that_does_not_fit_is_asked_for_once_more(world: World, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')
    world.script(Reply(text="no"), Reply(text='{"n":1}'), Reply(text="no"), Reply(text="nor this"))
    program = Program(world, "first", "--output-schema", str(schema))
    first = program.until("result")
    assert (first["structured"], first["exit_code"], first["turns"]) == ({"n": 1}, 0, 2)
    program.send(type="user_input", text="second")
    taken = program.until("operation_taken")
    assert program.until("result")["submission_id"] == taken["submission_id"]
    done = program.ended()
    assert (done.code, done.result["structured"]) == (8, None)


def test_a_picture_of_a_prompt_is_sent(world: World) -> None:
    from PIL import Image

    path = world.work / "dot.png"
    Image.new("RGB", (2, 2), "red").save(path)
    world.script(Reply(text="red"))
    program = Program(world)
    data = base64.b64encode(path.read_bytes()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    content = [{"type": "text", "text": "which colour?"}, {"type": "image", "source": source}]
    program.send(type="user", message={"role": "user", "content": content})
    program.until("result")
    program.ended()
    parts = world.bodies()[-1]["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"] and data in parts[1]["image_url"]["url"]


def test_a_command_of_the_user_is_called_by_a_line(world: World) -> None:
    folder = world.home / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Say hello to $ARGUMENTS.")
    world.script(Reply(text="hello"))
    program = Program(world)
    program.send(type="user_input", text="/greet Ada")
    program.until("result")
    program.ended()
    assert world.messages(role="user")[-1].endswith("Say hello to Ada.")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--output-format", "json"), "--output-format stream-json only"),
        (("-",), "- cannot be the task"),
        (("--verify", "true"), "no single prompt is the task"),
        (("-i", "x.png"), "needs a task for --image"),
    ],
)
def test_options_that_do_not_fit_are_refused(world: World, options: tuple[str, ...], why: str) -> None:
    done = world.run(*SPEAKS, *options, text="")
    assert done.code == 2 and why in done.err
    assert done.result["exit_code"] == 2


def test_a_closed_standard_input_is_an_empty_one(world: World) -> None:
    line = [sys.executable, "-c", "import os,sys; os.close(0); os.execvp(sys.argv[1], sys.argv[1:])"]
    agent = str(Path(sys.executable).parent / "agent")
    world.script(Reply(text="one"))
    world.measured()
    process = subprocess.run(
        [*line, agent, *SPEAKS, "first"],
        env=world.environment(),
        cwd=world.work,
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert process.returncode == 0 and json.loads(process.stdout.splitlines()[-1])["text"] == "one"

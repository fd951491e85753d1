"""The REPL in a pseudo-terminal, with a scripted engine behind it."""

import json
import subprocess
from pathlib import Path

from tests.e2e import warm

from .terminal import FORBIDDEN, Scrollback, Terminal

PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.messages import PlanItem
from agent_cli.ui.commands.api import FirstInput
from agent_cli.ui.repl.first_paint import FirstPaint
from agent_cli.ui.repl.start import run_repl
from tests.ui.fake_client import FakeClient, FakeHost
from tests.ui.scenarios import SCENARIOS, long_session
from tests.ui.tool_events import approval_item, finished, started
import msgspec

async def say(client, s, words, delay=0.02):
    for word in words:
        client.emit(ev.TextDelta(text=word), s)
        await asyncio.sleep(delay)
    client.emit(ev.AnswerCompleted(message_id="m", text="".join(words), finish="stop", calls=0, usage=None,
                                   cost_usd=None, duration_s=1), s)

async def stream(client, s, text):
    await say(client, s, ["# Answer\\n\\n", *[f"word{n} " for n in range(30)],
                          "\\n\\n```python\\nx = 1\\n```\\n"])

async def hang(client, s, text):
    client.emit(started("shell", "sleep 100", "c"), s)
    for n in range(1000):
        client.emit(ev.ToolOutput(call_id="c", text=f"tick {n}\\n"), s)
        await asyncio.sleep(0.05)

async def tokens(client, s, text):
    words = ["The ", "parser ", "reads ", "`tokens` ", "one ", "by ", "one. "] * 8 + ["\\n\\n"]
    end = time.monotonic() + 30
    for n in range(6000):
        client.emit(ev.TextDelta(text=words[n % len(words)]), s)
        await asyncio.sleep(0.005)

async def play(client, s, text):
    for step in SCENARIOS[text]() if text in SCENARIOS else long_session():
        if isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, str):
            await client.answers.get()
        elif isinstance(step, ev.TurnFailed):
            return step
        else:
            client.emit(step, s)
            await asyncio.sleep(0.002 if text in SCENARIOS else 0)

async def silent(client, s, text):
    client.emit(started("shell", "sleep 100", "c"), s)
    await asyncio.sleep(100)

async def flood(client, s, text):
    await say(client, s, [f"line {n}\\n\\n" for n in range(400)], 0)

async def approve(client, s, text):
    item = approval_item("c1", "shell", "rm -rf build", "rm -rf build \\x1b[2J", "command", "deletes",
                           "mode ask", "shell(rm *)", json.dumps({"command": "rm -rf build"}), "command")
    items = tuple(msgspec.structs.replace(item, call_id=f"c{n}") for n in range(1, 4 if text == "many" else 2))
    client.emit(ev.ApprovalRequested(request_id="r1", items=items), s)
    await client.answers.get()

async def nag(client, s, text):
    for n in range(int(text) if text.isdecimal() else 0):
        item = approval_item("c1", "shell", "rm", "rm", "command", "deletes", "mode ask", "shell(rm)", "{}", "")
        client.emit(ev.ApprovalRequested(request_id=f"r{n}", items=(item,)), s)
        try:
            await asyncio.wait_for(client.answers.get(), 1.2)
        except TimeoutError:
            client.emit(ev.ApprovalResolved(request_id=f"r{n}", outcome="abandoned"))

async def series(client, s, text):
    for n in range(3):
        item = approval_item("c1", "shell", f"make {n}", f"make {n}", "command", "", "mode ask", "", "{}", "")
        client.emit(ev.ApprovalRequested(request_id=f"r{n}", items=(item,)), s)
        await client.answers.get()

LONG = "it would write outside of the workspace, where no checkpoint reaches, " * 4

async def edit(client, s, text):
    command = "cd /work && make the-whole-thing --with-a-flag"
    diff = "--- a/src/x.py\\n+++ b/src/x.py\\n@@ -1 +1 @@\\n-old\\n+new\\n"
    items = (
        approval_item("c1", "shell", command, command, "command", LONG, "mode ask", "shell(make *)", "{}", ""),
        approval_item("c2", "edit_file", "src/x.py", diff, "diff", "it changes src/x.py", "mode ask",
                        "edit(" + "src/deep/" * 12 + "**)", "{}", ""),
    )
    for item in items:
        client.emit(ev.ToolCallRequested(call_id=item.call_id, tool=item.tool, title=item.title, arguments="{}"), s)
    for request, some in (("r1", items[:1]), ("r2", items[1:])) if text == "each" else (("r1", items),):
        client.emit(ev.ApprovalRequested(request_id=request, items=some), s)
        await client.answers.get()
    client.emit(finished(call_id="c1", tool="shell", title=command, status="ok", text="x", exit_code=0,
                                    command=command), s)
    client.emit(finished(call_id="c2", tool="edit_file", title="src/x.py", status="ok", text="Changed",
                                    display=diff), s)

async def question(client, s, text):
    client.emit(started("ask_user", "Which way?", "q"), s)
    options = tuple(f"way {at}" for at in range(30)) if text == "many" else ("left", "right")
    client.emit(ev.QuestionAsked(request_id="q1", question="Which way?", options=options), s)
    await client.answers.get()
    client.emit(finished(call_id="q", tool="ask_user", title="Which way?", status="ok",
                                    text="The user answered: right", display="right"), s)

def agent_changed(client, number, state, **more):
    fields = {"agent_type": "explore", "task": f"find part {number}", "steps": 1, "call_id": "c"} | more
    name = f"explore-{number}"
    client.emit(ev.AgentChanged(agent_id=f"id{number}", agent_name=name, state=state, **fields))
    client.state = msgspec.structs.replace(client.state, agents=tuple(
        [each for each in client.state.agents if each.name != name]
        + [AgentLine(f"id{number}", name, "explore", state, fields["task"], fields.get("background", False), 1, None,
                     2.0, "", "")]))

def agent_event(client, number, event):
    client.emit(ev.AgentEvent(agent_id=f"id{number}", agent_name=f"explore-{number}", event=event))

async def agents(client, s, text):
    call = started("agent", "explore: find part 1", "c")
    client.emit(msgspec.structs.replace(call, label="Agent"), s)
    agent_changed(client, 1, "running", cost_usd=0.02, steps=3)
    agent_event(client, 1, ev.ToolCallRequested(call_id="x", tool="read_file", label="Read", title="src/p.py",
                                                arguments="{}"))
    agent_event(client, 1, ev.TextDelta(text="First.\\nThe lexer comes before it."))
    await client.answers.get()
    for number in range(2, 11):
        agent_changed(client, number, "running", background=True)
    await client.answers.get()
    for number in range(2, 11):
        agent_changed(client, number, "done", background=True, line="Nothing there.")
    agent_changed(client, 1, "done", cost_usd=0.02, steps=3, line="It is there.")
    client.emit(finished(call_id="c", tool="agent", title="explore: find part 1", label="Agent", status="ok",
                         text="<agent_result>", result_kind="agent",
                         display="explore-1 done, 3 steps\\nIt is there.\\nIn src/p.py."), s)

async def background(client, s, text):
    item = approval_item("c1", "shell", "npm test", "npm test", "command", "runs", "mode ask", "", "{}", "")
    agent_changed(client, 2, "waiting", background=True)
    client.emit(ev.ApprovalRequested(request_id="r1", items=(item,), agent_name="explore-2",
                                     agent_task="find the flaky test"))

class Host(FakeHost):
    commands_run = []

    async def run_command(self, command, emit, background=None):
        self.commands_run.append(command)
        return await super().run_command(command, emit, background)

    def paths(self, root):
        end = time.monotonic() + 120
        while Path(LOG).with_name("walk-held").exists() and time.monotonic() < end:
            time.sleep(0.01)
        return super().paths(root)

    async def usual_models(self):
        await asyncio.sleep(0.5)  # as a server takes its time
        return await super().usual_models()

async def main():
    client = FakeClient(globals()[SCRIPT], **STATE)
    client.last_words = ("job 1 was ended: make watch",)
    client.emit(ev.Notice(level="info", text="ready"))
    host = Host()
    painted = FirstPaint(Ui(**SETTINGS), host.branch())
    painted.show(client.snapshot())
    leaving = await run_repl(client, host, Ui(**SETTINGS), history_file=Path(HISTORY), painted=painted,
                             first_input=FirstInput(FIRST))
    painted.end()
    with open(LOG, "w", encoding="utf-8") as file:
        rows = [[at, type(op).__name__, msgspec.to_builtins(op)] for at, op in client.submitted]
        json.dump({"submitted": rows, "leaving": leaving.kind, "commands": host.commands_run}, file)

asyncio.run(main())
"""


class Session(Terminal):
    """The REPL with one script behind it."""

    def __init__(self, folder: Path, script: str = "stream", *, first: str = "", settings: object = None,
                 state: object = None, drafted: bool = False, columns: int = 80, rows: int = 24,
                 emulation: type[Scrollback] = Scrollback, typed_ahead: str = "", **env: str) -> None:  # fmt: skip
        self.log_file, self.history = folder / "log.json", folder / "state" / "history"
        names = {"SCRIPT": script, "LOG": str(self.log_file), "HISTORY": str(self.history), "FIRST": first}
        values = names | {"SETTINGS": settings or {}, "STATE": state or {}}
        head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        super().__init__(
            head + PROGRAM, columns=columns, rows=rows, emulation=emulation, typed_ahead=typed_ahead, **env
        )
        self.wait("ready")
        self.wait(r"(?m)^>$" if not first and not drafted and not typed_ahead else ">")

    def started(self, script: str, terminal: int, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """What is imported already needs no importing."""
        return warm.WarmProcess(
            ["-c", script], stdin=terminal, stdout=terminal, stderr=terminal, env=env, cwd=Path.cwd(),
            start_new_session=True,
        )  # fmt: skip

    def type(self, keys: str) -> None:
        """Keys one by one, which no program takes for a paste."""
        for key in keys:
            self.send(key)
            self.pump(0.02)

    def leave(self) -> None:
        """Ctrl-D at an empty prompt; nothing forbidden was ever written."""
        self.send("\x04")
        assert self.finish() == 0, self.text
        assert not FORBIDDEN.findall(self.log)

    def commands(self) -> list[str]:
        """The user's own commands that were run, after the end."""
        ran = json.loads(self.log_file.read_text(encoding="utf-8"))["commands"]
        assert isinstance(ran, list)
        return ran

    def operations(self, name: str) -> list[dict[str, object]]:
        """What was submitted of one kind, after the end."""
        rows = json.loads(self.log_file.read_text(encoding="utf-8"))["submitted"]
        return [row[2] for row in rows if row[1] == name]

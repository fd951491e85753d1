"""Turns as a front end gets them: events, pauses, and places where the person's answer is waited for.

Each is played through the REPL in a terminal of several sizes, and what is on the screen and in the scrollback
afterwards is compared with a text kept beside the tests.
"""

import json
from collections.abc import Iterator

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import AgentState
from agent_cli.protocol.messages import FileChange, PlanItem
from tests.ui.tool_events import approval_item, finished, started

ANSWER = "answer"
"""In a scenario: until the person has answered."""
Step = ev.AnyEvent | float | str

MARKDOWN = """\
# How it works

The parser reads **tokens** one by one and keeps a *stack*, see [the notes](https://example.org/notes).
Long lines are broken between words, and `inline code` keeps its colour, whatever the width of the window is.

1. Read a token
2. Push it
   * shifting costs nothing
   * reducing does
3. Reduce

> A grammar is what remains
> when everything else is gone.

- [x] lexer
- [ ] parser

```python
def reduce(stack):
    \"\"\"Take the longest rule.

    Rules that are longer win.\"\"\"
    return max(stack, key=len)  # ties go left
```

Done.
"""
TABLE = """\
| name | meaning | cost |
|:-----|---------|-----:|
| 梨 | a fruit with a rather long description that does not fit | 120 |
| naïve | combining ı̈ and e\u0301 | 3 |
| ✅ | a sign of two columns | 4 |

````markdown
```
a fence in a fence
```
````
"""
DIFF = """\
--- a/src/basket.py
+++ b/src/basket.py
@@ -17,7 +17,8 @@
     def total(self):
         "What all of it costs."
-        total = sum(cents for cents, quantity in self.items.values())
+        total = sum(cents * quantity for cents, quantity in self.items.values())
+        assert total >= 0
         return total

     def empty(self):
 \tself.items.clear()
"""


def _said(text: str, size: int = 9) -> Iterator[Step]:
    for at in range(0, len(text), size):
        yield ev.TextDelta(text=text[at : at + size])
    yield ev.AnswerCompleted(
        message_id="m", text=text, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1.0
    )


def _called(call_id: str, tool: str, title: str, **more: object) -> Iterator[Step]:
    yield ev.ToolCallRequested(call_id=call_id, tool=tool, title=title, arguments="{}")
    yield started(tool, title, call_id)
    yield finished(call_id=call_id, tool=tool, title=title, **({"status": "ok", "text": ""} | more))


def _item(call_id: str, tool: str, title: str, preview: str, kind: str, **more: object) -> ev.ApprovalItem:
    given = {
        "reason": "mode ask asks before changes", "rule": "mode ask", "grant": f"{tool}({title})",
        "arguments": json.dumps({"command": title}), "editable": "command" if kind == "command" else "",
    }  # fmt: skip
    return approval_item(call_id, tool, title, preview, kind, **(given | more))  # type: ignore[arg-type]


def markdown() -> Iterator[Step]:
    """An answer with a bit of everything."""
    yield from _said(MARKDOWN)


def tables() -> Iterator[Step]:
    """Wide signs in a table, a fence in a fence."""
    yield from _said(TABLE)


def reasoning() -> Iterator[Step]:
    """Thoughts before an answer."""
    for piece in ("The total ignores ", "quantities.\nSo the sum is", " wrong."):
        yield ev.ReasoningDelta(text=piece)
    yield from _said("The quantity is missing.")


def reading() -> Iterator[Step]:
    """Calls that only read, several at once, ending in another order."""
    calls = [("a", "read_file", "src/basket.py"), ("b", "grep", "total in src/"), ("c", "read_file", "missing.py")]
    for call_id, tool, title in calls:
        yield ev.ToolCallRequested(call_id=call_id, tool=tool, title=title, arguments="{}")
        yield started(tool, title, call_id)
    yield 0.15
    yield finished(
        call_id="b", tool="grep", title="total in src/", status="ok", text="x", display="4 matches in 2 files"
    )
    yield finished(
        call_id="c", tool="read_file", title="missing.py", status="failed", text="missing.py does not exist"
    )
    yield finished(call_id="a", tool="read_file", title="src/basket.py", status="ok", text="x", display="21 lines")
    yield from _said("I have read it.")


def command() -> Iterator[Step]:
    """A command with much output, live and folded."""
    yield started("shell", "make test", "a")
    for number in range(40):
        yield ev.ToolOutput(call_id="a", text=f"test {number:02d} … ok\n")
    yield 0.15
    output = "".join(f"test {number:02d} … ok\n" for number in range(40)) + "FAILED: 1 of 41\n"
    yield finished(
        call_id="a", tool="shell", title="make test", status="failed", text=output, duration_s=12.4,
        command="make test", exit_code=2,
    )  # fmt: skip
    yield from _said("One test fails.")


def edit() -> Iterator[Step]:
    """A change that is approved."""
    yield ev.ToolCallRequested(call_id="a", tool="edit_file", title="src/basket.py", arguments="{}")
    yield ev.ApprovalRequested(
        request_id="r1", items=(_item("a", "edit_file", "src/basket.py", DIFF, "diff", risk="it changes a file"),)
    )
    yield ANSWER
    yield from _called(
        "a", "edit_file", "src/basket.py", display=DIFF, changes=(FileChange("src/basket.py", "modified", 2, 1),)
    )


def refusal() -> Iterator[Step]:
    """A command that is refused in words."""
    yield ev.ToolCallRequested(call_id="a", tool="shell", title="rm -rf build", arguments="{}")
    yield ev.ApprovalRequested(
        request_id="r1", items=(_item("a", "shell", "rm -rf build", "rm -rf build", "command"),)
    )
    yield ANSWER
    yield from _called("a", "shell", "rm -rf build", status="denied", text="The user said: use make clean")
    yield from _said("Then `make clean`.")


def batch() -> Iterator[Step]:
    """Several calls in one question."""
    items = tuple(
        _item(f"c{n}", "shell", f"git push origin branch-{n}", f"git push origin branch-{n}", "command")
        for n in range(3)
    )
    yield ev.ApprovalRequested(request_id="r1", items=items)
    yield ANSWER
    for item in items:
        yield from _called(item.call_id, "shell", item.title, command=item.title, exit_code=0, duration_s=0.8)


def question() -> Iterator[Step]:
    """A question of the model's."""
    asked = "Which of the two should I keep?"
    yield started("ask_user", asked, "a")
    yield ev.QuestionAsked(request_id="q1", question=asked, options=("the old one", "the new one"))
    yield ANSWER
    yield finished(
        call_id="a", tool="ask_user", title=asked, status="ok", text="The user answered: the new one",
        display="the new one",
    )  # fmt: skip


def agents() -> Iterator[Step]:
    """Two sub-agents, one of them in the background; one asks."""

    def changed(number: int, state: AgentState, **more: object) -> ev.AgentChanged:
        fields = {"agent_type": "explore", "task": "find out why the suite is slow", "steps": 2} | more
        return ev.AgentChanged(agent_id=f"i{number}", agent_name=f"explore-{number}", state=state, **fields)  # type: ignore[arg-type]

    title = "explore: find out why the suite is slow"
    yield ev.ToolCallStarted(call_id="a", tool="agent", label="Agent", title=title, result_kind="agent")
    yield changed(1, "running")
    yield changed(2, "running", background=True)
    yield changed(1, "waiting")
    item = _item("x", "shell", "npm test", "npm test", "command")
    asker = {"agent_name": "explore-1", "agent_task": "find out why the suite is slow"}
    yield ev.ApprovalRequested(request_id="r1", items=(item,), **asker)
    yield ANSWER
    yield changed(1, "running")
    yield changed(2, "done", background=True, cost_usd=0.25, line="Nothing waits for the network.")
    yield changed(1, "done", line="The fixtures are made anew for each test.")
    yield finished(
        call_id="a", tool="agent", label="Agent", title=title, status="ok", text="", result_kind="agent",
        display="explore-1 done, 2 steps\nThe fixtures are made anew for each test.",
    )  # fmt: skip


def retries() -> Iterator[Step]:
    """A server that is busy, then an answer."""
    yield ev.TextDelta(text="The first half of a paragraph")
    yield 0.1
    error = ev.ErrorInfo(kind="overloaded", message="the provider is overloaded (529)", request_id="req_1")
    yield ev.RetryScheduled(attempt=2, delay_s=0.2, error=error, discarded_chars=29)
    yield 0.3
    yield ev.StepStarted(step=1, model="test/model")
    yield from _said("The whole paragraph.")


def failure() -> Iterator[Step]:
    """A turn that cannot go on."""
    yield from _called("a", "list_dir", "src", display="4 entries")
    hint = "Set OPENAI_API_KEY, or choose another model with /model."
    error = ev.ErrorInfo(kind="auth", message="the key was refused (401)", hint=hint, request_id="req_77")
    yield ev.TurnFailed(stop_reason="auth_error", error=error)


def housekeeping() -> Iterator[Step]:
    """A plan, a reduction, an undo with a conflict, a change of settings."""
    items = (
        PlanItem("read the parser", "done"),
        PlanItem("mend the total", "in_progress"),
        PlanItem("test it", "pending"),
    )
    yield from _called("p1", "update_plan", "1 of 3 done", label="Plan")
    yield ev.PlanUpdated(items=items)
    yield ev.Attached(name="src/basket.py", kind="file", tokens=210)
    yield ev.Compacted(
        before=91_000, after=12_300, how="summary", summary="We mend a basket.\nThe total is wrong."
    )
    report = ev.RestoreReport(
        restored=(FileChange("src/basket.py", "modified", 1, 2),),
        conflicts=(ev.Conflict("notes.md", "changed since the turn"),),
        notes=("node_modules is not covered",),
    )
    yield ev.Restored(kind="undo", turns=1, prompt="mend the total", report=report)
    yield ev.SettingsChanged(model="test/other", mode="auto-edit", effort="high")
    yield ev.Notice(level="warning", text="the sandbox is off, so commands ask")


SCENARIOS = {
    each.__name__: each
    for each in (
        markdown, tables, reasoning, reading, command, edit, refusal, batch, question, agents, retries,
        failure, housekeeping,
    )
}  # fmt: skip
KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "edit": ((r"Edit src/basket.py", "y\r"),),
    "refusal": ((r"Run ", "use make clean"), ("use make clean", "\r")),
    "batch": ((r"Allow call", "A\r"),),
    "agents": ((r"explore-1 wants to run", "y\r"),),
    "question": ((r"type your answer", "2\r"),),
}
"""What the person presses, and what they wait for before."""


def long_session() -> Iterator[Step]:
    """More than 2,500 lines, of every kind of step that needs no answer."""
    for turn in range(65):
        for scenario in (markdown, reading, command, tables):
            for step in scenario():
                if not isinstance(step, float):
                    yield step
        yield from _said(f"Turn {turn} is over.")

"""Makes the example sessions in `sessions/` with the program itself: a person's lines at the plain REPL, a
scripted server as the model, and a project in a home of its own, so that no machine's path is in them.

    python -m tests.cli.record_examples /home/me [NAME …]

The folder must not hold a project of the same name; what is made there is removed again.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from agent_cli.cli.commands.demo.run import PROJECT, PROMPT, RECORDING
from agent_cli.protocol.messages import AssistantMessage
from agent_cli.store.session_file import read_session
from tests.e2e.world import World, finish
from tests.model.server import Call, Reply

SESSIONS = Path(__file__).parents[2] / "sessions"
MODEL = "openai/gpt-demo"


class Example(NamedTuple):
    """One session: the project's files, what the person types, and what the model answers."""

    project: str
    files: dict[str, str]
    lines: tuple[str, ...]
    replies: tuple[Reply, ...]
    options: tuple[str, ...] = ()


def calls(text: str, *made: Call) -> Reply:
    """An answer that makes calls."""
    return Reply(text=text, calls=made, piece=12)


GREETER = Example(
    "greeter",
    {
        "greet.py": 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n',
        "README.md": "Greets people.\n",
    },
    (
        "Greet in German instead, and tidy up.",
        "y",
        "No, keep the README.",
        "Add a farewell in a file of its own.",
        "y",
        "/undo",
        "/redo",
        "/undo",
        "Add the farewell to greet.py instead.",
        "y",
    ),
    (
        calls("I'll look at the code first.", Call("read_file", {"path": "greet.py"})),
        calls(
            "One string to change.",
            Call("edit_file", {"path": "greet.py", "edits": [{"old": "Hello", "new": "Hallo"}]}),
        ),
        calls("The README says little, so I'll remove it.", Call("shell", {"command": "rm README.md"})),
        Reply(text="`greet` now says Hallo. The README stays, as you wish.", piece=12),
        calls(
            "",
            Call("write_file", {"path": "farewell.py", "content": 'def farewell(name: str) -> str:\n    return f"Tschüss, {name}!"\n'}),
        ),
        Reply(text="`farewell.py` has a `farewell` of the same shape.", piece=12),
        calls(
            "",
            Call("edit_file", {"path": "greet.py", "edits": [{"old": '    return f"Hallo, {name}!"\n', "new": '    return f"Hallo, {name}!"\n\n\ndef farewell(name: str) -> str:\n    return f"Tschüss, {name}!"\n'}]}),
        ),
        Reply(text="Both are in `greet.py` now.", piece=12),
    ),
)  # fmt: skip

_LOG = "".join(f"09:{minute:02}:{second:02} {level} worker {minute % 4}: job {minute * 60 + second} {what}\n"
    for minute in range(12) for second in range(0, 60, 5)
    for level, what in [("ERROR", "timed out after 30 s") if (minute, second) in {(3, 25), (7, 25), (11, 25)} else ("INFO", "done in 2 s")]
)  # fmt: skip

LOGS = Example(
    "queue",
    {"worker.log": _LOG, "worker.conf": "workers = 4\ntimeout_s = 30\n"},
    (
        "Which jobs failed in worker.log?",
        "Do they have something in common?",
        "/compact the jobs that failed",
        "What should I change?",
    ),
    (
        calls("I'll read the log.", Call("read_file", {"path": "worker.log"})),
        Reply(text="Three jobs timed out after 30 s: 205, 445 and 685.", piece=12),
        calls("", Call("grep", {"pattern": "ERROR", "path": "worker.log"})),
        Reply(text="All three ran on worker 3, each 25 s past a full minute.", piece=12),
        Reply(
            text="1. Request: which jobs failed in worker.log, and what they share.\n2. Done: read worker.log; jobs "
            "205, 445 and 685 timed out after 30 s, all on worker 3.\n3. Failed: nothing.\n4. State: nothing was "
            "changed.\n5. Next: say what to change.",
            piece=12,
        ),
        calls("The limit is in the configuration.", Call("read_file", {"path": "worker.conf"})),
        Reply(text="Raise `timeout_s` in worker.conf, or find out what keeps worker 3 busy.", piece=12),
    ),
)

_REFUSED = {"message": "messages.1: content must be valid text", "code": "invalid_value"}

SERVICE = Example(
    "service",
    {"ports.txt": "web 8080\nadmin 8081\n"},
    (
        "Paste of a dump that the provider does not take: \\x7fELF\\x02",
        "Which port has the admin page?",
    ),
    (
        Reply(status=400, body={"error": _REFUSED}),
        Reply(text="I could not see your message: the provider held it back. What should I do?", piece=12),
        Reply(status=529, headers={"retry-after-ms": "20"}, body={"error": {"message": "overloaded"}}),
        Reply(text="Let me", piece=3, drop="fin", after=3),
        calls("I'll look.", Call("read_file", {"path": "ports.txt"})),
        Reply(text="8081.", piece=12),
    ),
)

_PATCH = """*** Begin Patch
*** Update File: shop/price.py
@@ def total(items):
-    return sum(items)
+    return round(sum(items), 2)
*** Add File: shop/__init__.py
+\"\"\"A shop.\"\"\"
*** End Patch
"""

SHOP = Example(
    "shop",
    {
        "shop/price.py": "def total(items):\n\treturn sum(items)\n",
        "shop/serve.py": 'import time\n\nprint("ready", flush=True)\ntime.sleep(60)\n',
    },
    ("Round the totals, and see whether the server starts.",),
    (
        calls(
            "I'll get an overview first.",
            Call("repo_map", {}),
            Call("read_file", {"path": "shop/price.py"}),
            Call("update_plan", {"items": [{"text": "round totals", "status": "in_progress"}, {"text": "try the server"}]}),
        ),
        calls("", Call("apply_patch", {"patch": _PATCH})),
        calls("", Call("shell", {"command": "cd shop && export RATE=2"})),
        calls("", Call("shell", {"command": "python3 -u serve.py", "background": True})),
        calls("", Call("jobs", {"action": "stop", "job": "1"}), Call("shell", {"command": "false | echo $RATE"})),
        calls("", Call("finish", {"summary": "`total` rounds to cents now, and the server says it is ready."})),
    ),
    ("--mode", "yolo"),
)  # fmt: skip

LEXER = Example(
    "lexer",
    {
        "AGENTS.md": "# Lexer\n\nSee @docs/style.md\n",
        "docs/style.md": "One function a file.\n",
        "lexer.py": "def words(text):\n    return text.split()[1:]\n",
    },
    (
        "The first word is lost: mend @lexer.py, and remember how the tests are run.",
        "y",
        "Now write it as a generator.",
        "y",
        "/rewind 1",
        "/context pin 1",
        "Which words does it give now?",
        "/compact the lexer",
        "/rename the lost word",
        "And where did we say how the tests are run?",
    ),
    (
        calls(
            "It skips the first one.",
            Call("edit_file", {"path": "lexer.py", "edits": [{"old": "split()[1:]", "new": "split()"}]}),
            Call("memory", {"action": "append", "block": "project", "text": "Tests: python3 -m unittest"}),
        ),
        calls("`words` gives all of them now. The tests are run with `python3 -m unittest`."),
        calls("", Call("edit_file", {"path": "lexer.py", "edits": [{"old": "return text.split()", "new": "yield from text.split()"}]})),
        calls("It is a generator now."),
        calls("", Call("shell", {"command": "cat lexer.py"})),
        calls("All words of the text, in order."),
        calls("The user had the lost first word mended in lexer.py; a generator was tried and taken back."),
        calls("", Call("search_history", {"query": "tests run"})),
        calls("In the first answer: `python3 -m unittest`. It is in the project's memory too."),
    ),
)  # fmt: skip


def _basket() -> Example:
    """The project of the demo, mended by what its recording says."""
    answers = [each for each in read_session(RECORDING).records if isinstance(each, AssistantMessage)]
    replies = (
        Reply(text=each.text, calls=tuple(Call(c.name, json.loads(c.arguments)) for c in each.calls), piece=12)
        for each in answers
    )
    files = {path.name: path.read_text(encoding="utf-8") for path in PROJECT.iterdir() if path.is_file()}
    allowed = ("--set", "permissions.allow=[shell(python3 -m unittest *)]")
    return Example("basket", files, (PROMPT,), tuple(replies), ("--mode", "auto-edit", *allowed))


EXAMPLES = {
    "mended-basket.json": _basket(),
    "rewound-and-remembered.json": LEXER,
    "refused-and-undone.json": GREETER,
    "compacted-log.json": LOGS,
    "held-back-and-tried-again.json": SERVICE,
    "patched-and-started.json": SHOP,
}


def record(home: Path, name: str, example: Example) -> None:
    """Play one example in `home` and keep its session as `sessions/NAME`."""
    root = home / example.project
    root.mkdir(parents=True)
    try:
        for file, text in example.files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
            world.script(*example.replies)
            env = {"HOME": str(home), "AGENT_MODEL": MODEL}
            text = "".join(f"{line}\n" for line in example.lines)
            done = finish(world.start(*example.options, stdin=-1, env=env, cwd=root), text, timeout_s=60)
            print(done.out, done.err)
            assert done.code == 0 and len(world.bodies()) == len(example.replies)
            (path,) = world.sessions()
            text = path.read_text(encoding="utf-8").replace(folder, str(home / ".agent"))
            (SESSIONS / name).write_text(text, encoding="utf-8")
    finally:
        shutil.rmtree(root)


def main() -> None:
    """The command line."""
    for name, example in EXAMPLES.items():
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            record(Path(sys.argv[1]), name, example)


if __name__ == "__main__":
    main()

"""The condition of a hook, in our words and in those of Claude Code."""

from typing import Any

import pytest

from agent_cli.hooks.call_names import ToolCallFacts, named_calls
from agent_cli.hooks.condition import holds, problem
from agent_cli.hooks.definition import Dialect, Event, Hook
from agent_cli.protocol.actions import Action, CallExternal, Fetch, ReadPath, RunCommand, WritePath
from tests.rows import each_row


def command(line: str) -> tuple[str, dict[str, Any], Action]:
    return "shell", {"command": line}, RunCommand(line, "/work")


def edit(path: str) -> tuple[str, dict[str, Any], Action]:
    return "edit_file", {"path": path, "edits": []}, WritePath(f"/work/{path}", path)


READ = ("read_file", {"path": "src/a.py"}, ReadPath("/work/src/a.py", "src/a.py"))
PAGE = ("web_fetch", {"url": "https://docs.python.org/3"}, Fetch("https://docs.python.org/3", "docs.python.org"))
TICKET = ("mcp_call", {}, CallExternal("tickets", "close"))
PLAN: tuple[str, dict[str, Any], None] = ("update_plan", {"items": []}, None)


@each_row(
    ("dialect", "condition", "call", "runs"),
    [
        ("claude", "Bash(git *)", command("git push"), True),
        ("claude", "Bash(git:*)", command("git push"), True),
        ("claude", "Bash(git *)", command("make && git push"), True),
        ("claude", "Bash(git *)", command("echo git"), False),
        ("claude", "Bash(git *)", command("eval \"$(cat x)\""), True),
        ("claude", "Bash", command("ls"), True),
        ("claude", "Bash(git *)", READ, False),
        ("claude", "Edit(*.py)", edit("src/a.py"), True),
        ("claude", "Edit(*.ts)", edit("src/a.py"), False),
        ("claude", "Edit(src/**)", edit("src/a.py"), True),
        ("claude", "Edit(/src/**)", edit("src/a.py"), True),
        ("claude", "Edit(//work/src/**)", edit("src/a.py"), True),
        ("claude", "Edit(//src/**)", edit("src/a.py"), False),
        ("claude", "Read(src/**)", READ, True),
        ("claude", "Read", READ, True),
        ("claude", "WebFetch(domain:docs.python.org)", PAGE, True),
        ("claude", "WebFetch(domain:example.com)", PAGE, False),
        ("claude", "mcp__tickets__close", TICKET, True),
        ("claude", "mcp__tickets", TICKET, True),
        ("claude", "mcp__other__close", TICKET, False),
        ("claude", "TodoWrite", PLAN, True),
        ("claude", "Agent", PLAN, False),
        ("claude", "Bash(git", command("ls"), True),
        ("native", "shell(git *)", command("git push"), True),
        ("native", "shell(git *)", command("ls"), False),
        ("native", "write(src/**)", edit("src/a.py"), True),
        ("native", "update_plan", PLAN, True),
        ("native", "Bash(git *)", command("ls"), True),
        ("native", "", command("ls"), True),
    ],
)  # fmt: skip
def test_a_condition_says_which_calls_a_hook_is_for(
    dialect: Dialect, condition: str, call: tuple[str, dict[str, Any], Action | None], runs: bool
) -> None:
    tool, arguments, action = call
    facts = ToolCallFacts("c1", tool, arguments, "/work", actions=(action,) if action else ())
    hook = Hook("PreToolUse", "guard", dialect=dialect, condition=condition)
    (named,) = named_calls(facts, dialect)
    assert holds(hook, facts, named) is runs


@pytest.mark.parametrize(
    ("event", "condition", "says"),
    [
        ("PreToolUse", "Bash(git *)", ""),
        ("PreToolUse", "Bash(git", "cannot be read, so it is run for every call"),
        ("Stop", "Bash(git *)", "is never run at Stop"),
        ("Stop", "", ""),
    ],
)
def test_what_is_wrong_with_a_condition_is_said(event: Event, condition: str, says: str) -> None:
    said = problem(Hook(event, "guard", dialect="claude", condition=condition))
    assert (says in said) if says else not said

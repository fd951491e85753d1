"""What a hook's exit code and output mean, in each dialect."""

import json
from typing import Any

import pytest

from agent_cli.hooks.answer import read_answer
from agent_cli.hooks.definition import DECIDING, Dialect, Event, Hook, HookProcess, event_named
from tests.rows import each_row


def answer(printed: Any, *, event: str = "PreToolUse", code: int = 0, **more: Any):  # type: ignore[no-untyped-def]
    hook = Hook(event, "guard", **more)  # type: ignore[arg-type]
    return read_answer(
        hook, HookProcess(code, printed if isinstance(printed, str) else json.dumps(printed), "why")
    )


@each_row(
    ("printed", "decision"),
    [
        ({"hookSpecificOutput": {"permissionDecision": "deny"}}, "deny"),
        ({"hookSpecificOutput": {"permissionDecision": "ask"}}, "ask"),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}}, "allow"),
        ({"hookSpecificOutput": {"permissionDecision": "defer"}}, "ask"),
        ({"decision": "block", "reason": "no"}, "deny"),
        ({"decision": "approve"}, "allow"),
        ({"permission": "deny", "agentMessage": "no"}, "deny"),
        ({"hookSpecificOutput": {"decision": {"behavior": "allow"}}}, "allow"),
        ({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}, "deny"),
        ({"followup_message": "go on"}, "deny"),
        ({}, None),
        ("plain text", None),
    ],
)
def test_decisions_of_every_dialect_are_read(printed: Any, decision: str | None) -> None:
    assert answer(printed).decision == decision


def test_exit_code_2_refuses_whatever_is_printed() -> None:
    refused = answer({"decision": "approve"}, code=2)
    assert refused.decision == "deny" and refused.reason == "why"


@each_row("event", ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"])
@each_row("dialect", ["native", "claude", "codex", "gemini", "cursor"])
@each_row("code", [1, 3, 125, 126, 127, 137, 192, 193, 255])
def test_a_failure_refuses_where_the_event_decides(event: str, dialect: str, code: int) -> None:
    failed = answer("", event=event, code=code, dialect=dialect, name="guard", source="hooks.json")
    is_broken = code in (126, 127, 137, 192)  # no signal has the number of 255, which many programs end with
    decides = event in DECIDING and (is_broken or dialect == "native")
    assert failed.decision == ("deny" if decides else None)
    assert "guard" in failed.failure and "hooks.json" in failed.failure


@pytest.mark.parametrize(("on_error", "decision"), [("allow", None), ("ask", "ask"), ("block", "deny")])
def test_a_definition_says_what_holds_when_it_fails(on_error: str, decision: str | None) -> None:
    assert answer("", code=127, on_error=on_error).decision == decision
    assert answer("", event="PostToolUse", code=1, on_error=on_error, dialect="claude").decision == decision


@each_row(
    "printed",
    [
        {"decision": "reject"},
        {"decision": False},
        {"permission": "no"},
        {"hookSpecificOutput": {"permissionDecision": "denied"}},
        {"hookSpecificOutput": {"decision": {"behavior": "refuse"}}},
        {"hookSpecificOutput": "deny"},
        '{"a":' * 100_000,
        'checking\n{"decision": ',
    ],
)
def test_an_answer_that_means_nothing_refuses(printed: Any) -> None:
    refused = answer(printed, dialect="claude")
    assert refused.decision == "deny" and "cannot be read" in refused.failure
    assert answer(printed, event="PostToolUse").decision is None


@pytest.mark.parametrize("before", ["\ufeff", "loading\n", "[1/2] loading\n\n"])
def test_an_answer_is_read_behind_a_byte_order_mark_and_lines_of_a_log(before: str) -> None:
    assert answer(f'{before}{{"decision": "block"}}').decision == "deny"


def test_half_of_a_character_in_a_reason_loses_no_decision() -> None:
    refused = answer('{"decision": "block", "reason": "no \\ud83d"}')
    assert (refused.decision, refused.reason, refused.failure) == ("deny", "no \ufffd", "")
    assert answer('{"decision": "approve", "systemMessage": "\\ud83d"}').decision == "allow"


def test_a_decision_may_stand_at_the_top() -> None:
    assert answer({"permissionDecision": "deny"}).decision == "deny"


def test_plain_output_is_context_only_where_that_is_so() -> None:
    assert answer("hello", event="SessionStart").context == "hello"
    assert answer("hello", event="UserPromptSubmit").context == "hello"
    assert answer("hello", event="PostToolUse").context == ""


def test_long_text_is_cut_and_escapes_do_not_reach_the_terminal() -> None:
    assert len(answer({"reason": "x" * 50_000, "decision": "block"}).reason) < 11_000
    assert "\x1b" not in answer({"systemMessage": "a\x1b[2Jb"}).message


@each_row(
    ("written", "event"),
    [
        ("PreToolUse", "PreToolUse"), ("pre_tool_use", "PreToolUse"), ("preToolUse", "PreToolUse"),
        ("BeforeTool", "PreToolUse"), ("beforeShellExecution", "PreToolUse"), ("AfterAgent", "Stop"),
        ("PreCompress", "PreCompact"), ("Nonsense", None),
    ],
)  # fmt: skip
def test_names_of_events_of_every_dialect(written: str, event: str | None) -> None:
    assert event_named(written) == event


@each_row(
    ("dialect", "event", "matcher", "name", "fits"),
    [
        ("gemini", "PreToolUse", "write|shell", "run_shell_command", True),
        ("codex", "PreToolUse", "mcp__memory", "mcp__memory__store", True),
        ("codex", "PreToolUse", "^Bash$", "BashOutput", False),
        ("cursor", "PreToolUse", "Read", "Write", False),
        ("gemini", "SessionStart", "start", "startup", False),
        ("claude", "PreToolUse", "Write", "TodoWrite", False),
    ],
)
def test_a_matcher_is_a_pattern_where_its_agent_has_patterns_only(
    dialect: Dialect, event: Event, matcher: str, name: str, fits: bool
) -> None:
    assert Hook(event, "x", matcher, dialect=dialect).is_for((name,)) is fits


@each_row(
    ("output", "text"),
    [
        ("plain", "plain"),
        ({"stdout": "out", "stderr": "", "interrupted": False}, "out"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"type": "text", "file": {"filePath": "/a", "content": "1\n"}}, "1\n"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"rows": 3}, '{"rows":3}'),
    ],
)
def test_a_new_result_in_the_form_of_a_tool_is_its_text(output: Any, text: str) -> None:
    given = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}
    assert answer(given, event="PostToolUse", dialect="claude").new_output == text


def test_an_event_that_gemini_cli_only_tells_of_is_not_refused() -> None:
    refused = HookProcess(2, stderr="no")
    assert read_answer(Hook("PreCompact", "x", dialect="gemini"), refused).decision is None
    assert read_answer(Hook("PreCompact", "x", dialect="claude"), refused).decision == "deny"


@each_row(
    ("matcher", "names", "fits"),
    [
        ("", ("Bash",), True), ("*", ("Bash",), True), ("Bash", ("Bash", "shell"), True), ("Bash", ("Read",), False),
        ("Edit|Write", ("Write",), True), ("Edit, Write", ("Write",), True), ("Edit", ("NotebookEdit",), False),
        ("Edit.*", ("NotebookEdit",), True), ("mcp__.*", ("mcp__a__b",), True), ("(?<x", ("Bash",), True),
    ],
)  # fmt: skip
def test_matchers(matcher: str, names: tuple[str, ...], fits: bool) -> None:
    hook = Hook("PreToolUse", "x", matcher)
    assert hook.is_for(names) is fits and hook.has_bad_matcher is (matcher == "(?<x")

"""Rules about calls, as they bind a model that breaks them."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_cli.policy.rules.rule import RuleError
from agent_cli.protocol.events import ApprovalRequested, Notice, ToolCallFinished, TurnCompleted
from agent_cli.protocol.messages import ToolResult, UserMessage
from agent_cli.protocol.operations import Interrupt, UserInput
from tests.engine.harness import Engine, approve_all, engine, header  # noqa: F401
from tests.model.scripted import Entry, call, say
from tests.rows import each_row


def results(it: Engine) -> list[tuple[str, str]]:
    return [(event.status, event.text) for event in it.of(ToolCallFinished)]


async def outcome(tmp_path: Path, rules: list[Mapping[str, Any]], *script: Entry) -> list[tuple[str, str]]:
    """What became of each call of a model in yolo mode."""
    async with engine(tmp_path, *script, mode="yolo", tool_rules=rules) as it:
        (it.root / "a.py").write_text("a = 1\n", encoding="utf-8")
        await it.prompt("go")
        return results(it)


def edit(new: str) -> Any:
    return call("write_file", path="a.py", content=new)


READ = call("read_file", path="a.py")


@each_row(
    "command",
    [
        "git push",
        "git push origin main",
        "cd . && git push",
        "sh -c 'git push'",
        "env A=1 git push",
    ],
)
async def test_what_is_never_run_does_not_run_in_any_form(tmp_path: Path, command: str) -> None:
    ((status, text),) = await outcome(
        tmp_path, [{"never_run": "git push *"}], say(call("shell", command=command)), say("ok")
    )
    assert status == "denied" and "git push" in text and "test:1" in text


CARRIERS = {
    "c.sh": "#!/bin/sh\ntrue && git push\n",
    "c.py": "import subprocess\nsubprocess.run(['git', 'push', 'origin'])\n",
    "d.py": "import os\nos.system('git push')\n",
    "ok.py": "print('git')\n# never git push here\n",
    "Makefile": "all: ok\nok:\n\techo git\nc: ok d\nd:\n\t@git push\ne: ; git push\n",
}


LINES = (
    ("awk 'BEGIN{system(\"git push\")}'", False), ("perl -e 'system(q(x)); system(\"git push\")'", False),
    ("node -e 'require(\"child_process\").execSync(\"git push\")'", False), ("vim -c '!git push' -c q", False),
    ("tmux new -d 'git push'", False), ("sh c.sh", False), ("source ./c.sh", False), (". ./c.sh", False), ("./c.sh", False),
    ("python3 c.py", False), ("python3 d.py", False), ("python3 -c 'import os; os.system(\"git push\")'", False),
    ("make c", False), ("make -s e", False), ("make d", False), ("make nosuch", False),
    ("python3 ok.py", True), ("make", True), ("make ok", True), ("grep 'git push' c.sh", True), ("echo 'git push'", True),
    ("cat c.sh", True), ("python3 -c 'print(\"never git push\")'", True), ("awk 1 c.sh", True),
)  # fmt: skip
"""Command lines, and whether they run where `git push` never does."""


async def test_what_is_never_run_is_not_by_what_carries_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name, text in CARRIERS.items():
        (tmp_path / "work" / name).write_text(text, encoding="utf-8")
        (tmp_path / "work" / name).chmod(0o755)
    await _run_or_not(tmp_path, LINES)


async def _run_or_not(tmp_path: Path, lines: Sequence[tuple[str, bool]]) -> None:
    """Call all command lines in one answer, under a rule that `git push` is never run."""
    calls = [call("shell", command=line) for line, _ in lines]
    found = await outcome(tmp_path, [{"never_run": "git push *"}], say(*calls), say("ok"))
    ran = {line: status != "denied" for (line, _), (status, _) in zip(lines, found, strict=True)}
    assert ran == dict(lines)


PACKAGE = {
    "scripts": {
        "release": "npm run -s deep && echo done", "deep": "git push", "ok": "echo git", "prepack": "git push",
        "preview": "echo x", "test": "git push",
    }
}  # fmt: skip
PROJECT = {
    "p.sh": "git push\n",
    "package.json": json.dumps(PACKAGE),
    "justfile": "default: ok\nok:\n    echo git\nrelease version='1': ok (deep version)\ndeep v:\n    @git push\n",
    "other.mk": "x:\n\tgit push\n",
    "sub/Makefile": "x:\n\tgit push\n",
    "more.cfg": "[alias]\n\tinc = push origin\n",
}
SETTINGS = """[alias]
\tp = push
\tPq = "!git push"
\tagain = p --tags
\tloop = loop
\tst = status
\tpush-later = "!f() { git push \\"$@\\"; }; f"
[include]
\tpath = ../more.cfg
"""


LINES_OF_A_PROJECT = (
    ("git p", False), ("git pq", False), ("git again", False), ("git inc", False), ("git push-later", False),
    ("git -c alias.x=push x", False), ("git -c alias.x='!git push' x", False), ("git -C . p", False),
    ("git-push origin", False), ("/usr/lib/git-core/git-push", False), ("git --exec-path=/x push", False),
    ("sh < p.sh", False), ("bash -s < p.sh", False), ("bash -s x <p.sh", False),
    ("sed '1e git push' p.sh", False), ("sed -n 's/.*/git push/e' p.sh", False), ("sed '/x/e git push' p.sh", False),
    ("npm run release", False), ("npm run deep", False), ("yarn deep", False), ("pnpm -s run deep", False),
    ("npm test", False), ("npm t", False), ("bun run deep", False), ("npm pack", False), ("npm --prefix . run deep", False),
    ("npx -c 'git push'", False), ("npm exec -c 'git push'", False), ("uv run git push", False), ("npx git push", False),
    ("just release", False), ("just deep 1", False), ("just --justfile justfile release", False),
    ("make -f other.mk x", False), ("make -C sub x", False), ("make -Csub x", False), ("make --file=other.mk", False),
    ("sed 's/git push/e/' p.sh", True), ("git loop", True), ("git st", True), ("git nosuch", True), ("npm run ok", True), ("npm run preview", True),
    ("just", True), ("just ok", True), ("sh < ok.sh", True), ("sed 's/a/b/' p.sh", True), ("sed -n /e/p p.sh", True),
    ("uv run git status", True), ("git status", True),
)  # fmt: skip


async def test_what_is_never_run_is_not_by_what_the_project_calls_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".git" / "config").write_text(SETTINGS, encoding="utf-8")
    for name, text in PROJECT.items():
        (work / name).write_text(text, encoding="utf-8")
    await _run_or_not(tmp_path, LINES_OF_A_PROJECT)


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("echo push | xargs git", True), ("echo push | xargs -n1 git", True), ("echo x | xargs -I{} git {}", True),
        ("find . -exec git {} ';'", True), ("ls | xargs env git", True),
        ("echo x | xargs git add", False), ("ls | xargs cat", False), ("find . -name x -exec touch {} ';'", False),
    ],
)  # fmt: skip
async def test_words_that_nobody_sees_may_make_what_is_never_run(tmp_path: Path, line: str, asks: bool) -> None:
    async with engine(
        tmp_path, say(call("shell", command=line)), say("ok"),
        mode="yolo", tool_rules=[{"never_run": "git push *"}], interactive=False,
    ) as it:  # fmt: skip
        await it.prompt("go")
        ((status, text),) = results(it)
    assert (status == "denied") is asks, text
    assert not asks or "git push" in text


async def test_a_package_file_that_is_nested_too_deeply_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    deep = "[" * 50_000 + "]" * 50_000
    text = f'{{"x": {deep},\n"scripts": {{\n"deep": "git push"\n}}}}'
    (tmp_path / "work" / "package.json").write_text(text, encoding="utf-8")
    ((status, said),) = await outcome(
        tmp_path, [{"never_run": "git push *"}], say(call("shell", command="npm run deep")), say("ok")
    )
    assert status == "denied", said


async def test_what_is_never_edited_is_not_by_any_tool(tmp_path: Path) -> None:
    calls = say(
        READ, edit("x"), call("edit_file", path="a.py", edits=[{"old": "a", "new": "b"}]),
        call("shell", command="echo x > a.py"), call("shell", command="sed -i s/a/b/ a.py"),
    )  # fmt: skip
    found = await outcome(tmp_path, [{"never_edit": "**/*.py"}], calls, say("ok"))
    assert [status for status, _ in found] == ["ok", *["denied"] * 4]
    assert (tmp_path / "work" / "a.py").read_text(encoding="utf-8") == "a = 1\n"


async def test_a_call_that_needs_approval_asks_even_in_yolo(tmp_path: Path) -> None:
    async with engine(
        tmp_path, say(call("shell", command="make release")), say("ok"),
        mode="yolo", tool_rules=[{"needs_approval": "shell(make release)"}], interactive=False,
    ) as it:  # fmt: skip
        await it.prompt("go")
        assert results(it)[0][0] == "denied"


async def test_nothing_is_called_before_what_comes_first(tmp_path: Path) -> None:
    found = await outcome(
        tmp_path,
        [{"run_first": "shell(true)", "because": "set up"}, {"run_first": ["update_plan", "list_dir"]}],
        say(READ, call("shell", command="true"), call("list_dir", path=".")),
        say(READ),
        say("ok"),
    )
    assert [status for status, _ in found] == ["failed", "ok", "ok", "ok"]
    assert "shell(true) must be called, and succeed, before anything else (set up)" in found[0][1]


@each_row(
    ("rules", "forced"),
    [
        ([{"run_first": "list_dir"}], "list_dir"),
        ([{"run_first": "shell(true)"}], "shell"),
        ([{"run_first": ["list_dir", "glob"]}], ""),
        ([{"run_first": "list_dir"}, {"run_first": "glob"}], ""),
        ([{"run_first": "write(a.py)"}], ""),
        ([{"run_first": "no_such_tool"}], ""),
        ([{"then_only": "list_dir", "call": "glob"}], ""),
        ([], ""),
    ],
)
async def test_the_one_tool_that_comes_first_is_demanded_of_the_model_until_a_call_was_tried(
    tmp_path: Path, rules: list[Mapping[str, Any]], forced: str
) -> None:
    script = say(call("shell", command="false")), say("ok"), say("ok")
    async with engine(tmp_path, *script, mode="yolo", tool_rules=rules) as it:
        await it.prompt("go")
        await it.prompt("again")
        assert [request.must_call for request in it.model.requests] == [forced, "", forced]


async def test_a_commit_only_follows_tests_that_passed_after_the_last_edit(tmp_path: Path) -> None:
    rule = {"only_after": "shell(sh test.sh)", "call": "shell(git commit *)"}
    test, commit = call("shell", command="sh test.sh"), call("shell", command="git commit -m x || true")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "test.sh").write_text("grep -q good a.py\n", encoding="utf-8")
    found = await outcome(
        tmp_path, [rule], say(READ, commit), say(test, commit), say(edit("good\n"), test, commit),
        say(edit("good 2\n"), commit), say(call("shell", command="sh test.sh || true"), commit), say("ok"),
    )  # fmt: skip
    assert [status for status, _ in found] == [
        "ok", "failed", "failed", "failed", "ok", "ok", "ok", "ok", "failed", "ok", "failed",
    ]  # fmt: skip


async def test_input_for_a_shell_follows_the_rules_on_commands(tmp_path: Path) -> None:
    rule = {"only_after": "shell(sh test.sh)", "call": "shell(touch made *)"}
    typed = call("jobs", action="send", job="1", text="echo go\ntouch made && echo done\n")
    found = await outcome(
        tmp_path, [rule], say(call("shell", command="sh", background=True)), say(typed),
        say(call("jobs", action="send", job="1", text="echo touch made\n")), say("ok"),
    )  # fmt: skip
    assert [status for status, _ in found] == ["ok", "failed", "ok"] and not (tmp_path / "work" / "made").exists()


async def test_after_a_call_only_those_named_may_follow(tmp_path: Path) -> None:
    rule = {"then_only": "list_dir", "call": "read_file", "if_output": "a = 1"}
    found = await outcome(
        tmp_path, [rule], say(READ), say(call("glob", pattern="*")), say(call("list_dir", path=".")),
        say(call("glob", pattern="*")), say("ok"),
    )  # fmt: skip
    assert [status for status, _ in found] == ["ok", "failed", "ok", "ok"]
    assert "after read_file only list_dir may be called" in found[1][1]


async def test_a_call_is_made_no_more_often_than_allowed_also_at_once(tmp_path: Path) -> None:
    found = await outcome(
        tmp_path,
        [{"at_most": 2, "call": "read_file"}],
        say(READ, READ, READ),
        say(READ, call("list_dir")),
        say("ok"),
    )
    assert [status for status, _ in found] == ["ok", "ok", "failed", "failed", "ok"]


async def test_the_count_begins_anew_with_each_input(tmp_path: Path) -> None:
    async with engine(
        tmp_path,
        say(READ),
        say("ok"),
        say(READ),
        say("ok"),
        mode="yolo",
        tool_rules=[{"at_most": 1, "call": "read_file"}],
    ) as it:
        (it.root / "a.py").write_text("a\n", encoding="utf-8")
        await it.prompt("one")
        await it.prompt("two")
        assert [status for status, _ in results(it)] == ["ok", "ok"]


async def test_a_turn_that_edited_does_not_end_before_the_tests_ran(tmp_path: Path) -> None:
    rule = {"required_before_end": "shell(sh test.sh)", "paths": "**/*.py"}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "test.sh").write_text("grep -q good a.py\n", encoding="utf-8")
    async with engine(
        tmp_path, say(READ, edit("good\n")), say("done!"), say(call("shell", command="sh test.sh")), say("really done"),
        mode="yolo", tool_rules=[rule],
    ) as it:  # fmt: skip
        (it.root / "a.py").write_text("a\n", encoding="utf-8")
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text.endswith("really done")
        hints = [m.text for m in it.session.visible() if isinstance(m, UserMessage) and m.origin == "hint"]
        assert len(hints) == 1 and "shell(sh test.sh) must succeed" in hints[0]


async def test_a_model_that_never_does_what_is_required_is_let_go_and_the_user_told(tmp_path: Path) -> None:
    async with engine(
        tmp_path, *[say("done")] * 4, mode="yolo", tool_rules=[{"required_before_end": "shell(make check)"}]
    ) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "rules_unmet"
        (unmet,) = end.unmet_rules
        assert unmet.startswith("required_before_end shell(make check)")
        assert any(f"a rule is not met: {unmet}" in notice.text for notice in it.of(Notice))


async def test_a_call_that_ends_the_turn_does(tmp_path: Path) -> None:
    async with engine(
        tmp_path, say(call("shell", command="false")), say(call("shell", command="true")), say("never said"),
        mode="yolo", tool_rules=[{"ends_turn": ["shell(true)", "shell(false)"]}],
    ) as it:  # fmt: skip
        await it.prompt("go")
        assert len(it.model.requests) == 2


async def test_what_runs_after_an_edit_runs_and_is_told(tmp_path: Path) -> None:
    rules = [
        {"after_edit_run": "wc -c {file}", "paths": "**/*.py"},
        {"after_edit_run": "echo checked && false", "paths": "*.py"},
        {"after_edit_run": "echo never", "paths": "*.js"},
    ]
    found = await outcome(tmp_path, rules, say(READ, edit("good\n")), say("ok"))
    status, text = found[1]
    assert status == "ok" and "5 " in text and "checked" in text and "exit code 1" in text and "never" not in text


async def test_what_runs_after_an_edit_is_judged_as_every_command_is(tmp_path: Path) -> None:
    async with engine(
        tmp_path, say(READ, edit("good\n")), say("ok"), mode="auto-edit", interactive=False,
        tool_rules=[{"after_edit_run": "touch made", "paths": "*.py"}],
    ) as it:  # fmt: skip
        (it.root / "a.py").write_text("a\n", encoding="utf-8")
        await it.prompt("go")
        assert "nobody is there to approve" in results(it)[1][1] and not (it.root / "made").exists()


async def test_text_of_others_that_a_command_after_an_edit_prints_is_marked_as_theirs(tmp_path: Path) -> None:
    rule = {"after_edit_run": "gh() { echo do as I say; }; gh issue list", "paths": "*.py"}
    write = call("write_file", path="a.py", content="x\n")
    async with engine(tmp_path, say(write), say("ok"), mode="yolo", tool_rules=[rule]) as it:
        await it.prompt("go")
        (result,) = [record for record in it.session.records if isinstance(record, ToolResult)]
        assert "do as I say" in result.text and result.untrusted == "the output of gh"
        assert it.session.untrusted_sources() == ("the output of gh",)


async def test_a_refused_call_does_not_lift_what_the_last_call_demands(tmp_path: Path) -> None:
    rule = {"then_only": "list_dir", "call": "read_file"}
    glob, unreadable = call("glob", pattern="*"), call("glob", no_such="x")
    found = await outcome(tmp_path, [rule], say(READ), say(glob), say(glob), say(unreadable), say(glob), say("ok"))
    assert [status for status, _ in found] == ["ok", *["failed"] * 4]
    assert all("only list_dir may be called" in found[at][1] for at in (1, 2, 4))


def ran(command: str) -> Any:
    return call("shell", command=command)


async def test_an_edit_by_a_command_makes_the_test_stale(tmp_path: Path) -> None:
    rule = {"only_after": "shell(sh test.sh)", "call": "shell(git commit *)"}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "test.sh").write_text("echo x >> report\ngrep -q = a.py\n", encoding="utf-8")
    test, commit = ran("sh test.sh"), ran("git commit -m x || true")
    found = await outcome(
        tmp_path, [rule], say(test), say(commit), say(ran("sed -i s/1/2/ a.py")), say(commit),
        say(test), say(commit), say(ran("sh test.sh && sed -i s/2/3/ a.py")), say(commit), say("ok"),
    )  # fmt: skip
    assert [status for status, _ in found] == ["ok", "ok", "ok", "failed", "ok", "ok", "ok", "failed"]


async def test_what_runs_after_an_edit_runs_after_one_by_a_command(tmp_path: Path) -> None:
    rules = [{"after_edit_run": "echo >> {file}; wc -l {file}", "paths": "src/**"}]
    (tmp_path / "work" / "src").mkdir(parents=True)
    found = await outcome(
        tmp_path,
        rules,
        say(ran("echo 1 > src/b.py; false")),
        say(ran("cat src/b.py")),
        say(ran("touch c")),
        say("ok"),
    )
    assert "2 " in found[0][1] and "after_edit_run" in found[0][1]
    assert not any("after_edit_run" in text for _, text in found[1:])


async def test_a_turn_that_edited_by_a_command_does_not_end_before_the_tests_ran(tmp_path: Path) -> None:
    rule = {"required_before_end": "shell(sh test.sh)", "paths": "**/*.py"}
    async with engine(
        tmp_path, say(ran("touch other")), say("done"), say(ran("echo b = 2 > b.py")), *[say("done")] * 4,
        mode="yolo", tool_rules=[rule],
    ) as it:  # fmt: skip
        first, second = await it.prompt("go"), await it.prompt("go")
        assert isinstance(first, TurnCompleted) and first.stop_reason == "end_turn"
        assert isinstance(second, TurnCompleted) and second.stop_reason == "rules_unmet"


async def test_each_command_of_a_line_counts(tmp_path: Path) -> None:
    lines = "wc a; wc b; wc c", "wc a.py; true", "echo; sh -c 'wc b; wc c'", "wc a.py; echo", "wc a.py"
    rules = [{"at_most": 2, "call": "shell(wc *)"}]
    found = await outcome(tmp_path, rules, *[say(ran(each)) for each in lines], say("ok"))
    assert ["at_most" in text for _, text in found] == [True, False, True, False, True]


async def test_only_the_call_named_is_made_first_and_nothing_beside_it(tmp_path: Path) -> None:
    lines = "rm a.py && touch setup", "touch setup && rm a.py", "touch setup > a.py", "touch setup"
    found = await outcome(
        tmp_path, [{"run_first": "shell(touch setup)"}], *[say(ran(each)) for each in lines], say("ok")
    )
    assert [status for status, _ in found] == ["failed", "failed", "failed", "ok"]
    assert (tmp_path / "work" / "a.py").exists()


@each_row(
    "lines",
    [
        ["cd sub && sh t.sh"], ["cd sub", "sh t.sh"], ["export MAKEFLAGS=-n", "sh t.sh"], ["export MAKEFLAGS=-n && sh t.sh"],
        ["sh() { true; }", "sh t.sh"], ["MAKEFLAGS=-n sh t.sh"],
        ["if sh t.sh; then true; fi"], ["for i in 1; do sh t.sh; done"], ["false && sh t.sh || true"],
        ["exit 0 && sh t.sh"], ["command exit 0 && sh t.sh"], ["MAKEFLAGS=-n && sh t.sh"], ["printf -v MAKEFLAGS -- -n && sh t.sh"],
    ],
)  # fmt: skip
async def test_a_required_call_counts_only_in_the_root_and_with_nothing_altered(
    tmp_path: Path, lines: list[str]
) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    for folder in ("work", "work/sub"):
        (tmp_path / folder / "t.sh").write_text("true\n", encoding="utf-8")
    rule = {"only_after": "shell(sh t.sh)", "call": "write_file"}
    last = call("write_file", path="new", content="x")
    found = await outcome(tmp_path, [rule], *[say(ran(line)) for line in lines], say(last), say("ok"))
    assert found[-1][0] == "failed" and "sh t.sh" in found[-1][1]


@pytest.mark.parametrize("line", ["! sh t.sh", "(! sh t.sh)", "if ! sh t.sh; then true; fi"])
async def test_a_required_call_that_failed_as_wanted_does_not_count(tmp_path: Path, line: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "t.sh").write_text("false\n", encoding="utf-8")
    rule = {"only_after": "shell(sh t.sh)", "call": "write_file"}
    found = await outcome(
        tmp_path, [rule], say(ran(line)), say(call("write_file", path="new", content="x")), say("ok")
    )
    assert [status for status, _ in found] == ["ok", "failed"]


@pytest.mark.parametrize("line", ["make -s ok", "make ok -k", "make -C . ok", "make -j 2 -s ok", "make -- ok"])
async def test_options_do_not_hide_what_needs_approval(tmp_path: Path, line: str) -> None:
    async with engine(
        tmp_path, say(ran(line)), say("ok"), mode="yolo", interactive=False,
        tool_rules=[{"needs_approval": "shell(make ok)"}],
    ) as it:  # fmt: skip
        await it.prompt("go")
        assert results(it)[0][0] == "denied"


SET_UP = "shell(touch setup)"


async def crash(
    base: Path, *script: Entry, rules: list[Mapping[str, Any]], ready: Callable[[Engine], bool]
) -> None:
    """Play until the moment, and keep the session file as it was then, as a kill -9 would leave it."""
    async with engine(base, *script, tool_rules=rules) as it:
        it.answer = lambda request: None if "pending" in request.items[0].title else approve_all(request)
        submission = await it.submit(UserInput("go"))
        await it.until(lambda _: ready(it))
        data = it.path.read_bytes()
        await it.submit(Interrupt())
        await it.until_ended(submission)
    it.path.write_bytes(data)


def asked_for_pending(it: Engine) -> bool:
    return any("pending" in event.items[0].title for event in it.of(ApprovalRequested))


@pytest.mark.parametrize("text", ["", "and go on"])
async def test_a_call_that_waited_when_the_program_was_killed_is_asked_as_it_would_have_been(
    tmp_path: Path, text: str
) -> None:
    rules: list[Mapping[str, Any]] = [
        {"run_first": SET_UP},
        {"only_after": SET_UP, "call": "shell(touch pending)"},
        {"then_only": "shell(touch pending)", "call": SET_UP},
    ]
    script = say(call("shell", command="touch setup")), say(call("shell", command="touch pending"))
    await crash(tmp_path, *script, rules=rules, ready=asked_for_pending)
    async with engine(tmp_path, say("done"), tool_rules=rules) as it:
        it.answer = approve_all
        await it.prompt(text)
        assert asked_for_pending(it) and [status for status, _ in results(it)] == ["ok"]


@pytest.mark.parametrize(("text", "status"), [("", "failed"), ("something new", "ok")])
async def test_calls_made_before_a_crash_count_until_a_new_input(tmp_path: Path, text: str, status: str) -> None:
    rules: list[Mapping[str, Any]] = [{"at_most": 2, "call": "shell(touch *)"}]
    script = say(call("shell", command="touch one")), say(call("shell", command="touch pending"))
    await crash(tmp_path, *script, rules=rules, ready=asked_for_pending)
    more = say(call("shell", command="touch three"))
    async with engine(tmp_path, more, say("done"), tool_rules=rules) as it:
        it.answer = approve_all
        await it.prompt(text)
        assert [status for status, _ in results(it)] == ["ok", status]


async def test_what_is_required_before_the_end_was_done_before_the_crash(tmp_path: Path) -> None:
    rules: list[Mapping[str, Any]] = [{"required_before_end": SET_UP}]
    script = say(call("shell", command="touch setup")), say(call("shell", command="touch pending"))
    await crash(tmp_path, *script, rules=rules, ready=asked_for_pending)
    async with engine(tmp_path, say("done"), tool_rules=rules) as it:
        it.answer = approve_all
        await it.prompt("")
        assert len(it.model.requests) == 1 and not it.of(Notice)


@pytest.mark.parametrize("text", ["shell(", "no such(x)", "", "write([x])"])
async def test_a_call_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises((RuleError, ValueError)):
        async with engine(tmp_path, say("ok"), tool_rules=[{"ends_turn": text}]):
            pass

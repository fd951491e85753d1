"""In a repository that names programs git's readers are no longer known to be read-only."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import Allow, Ask, Deny, Mode, RunCommand, Verdict, WritePath
from tests.policy.support import ruled
from tests.rows import each_row

LINES = ("git status", "git diff HEAD", "ls && git log -p", "env git blame f", "cd sub && git show")


def judged(line: str, mode: Mode, *rules: str, sandboxed: bool = False) -> Verdict:
    policy = ruled(*rules, mode=mode, sandboxed=sandboxed, plain_git=lambda folder: False)
    return authorize(RunCommand(line, policy.root), policy)


@each_row("line", LINES)
def test_without_a_sandbox_they_ask(line: str) -> None:
    for mode in ("ask", "auto-edit"):
        verdict = judged(line, mode)  # type: ignore[arg-type]
        assert isinstance(verdict, Ask) and "settings of this repository" in verdict.reason, verdict
    assert isinstance(judged(line, "plan"), Deny)
    assert isinstance(judged(line, "yolo"), Allow)


@pytest.mark.parametrize("line", ["git --version", "ls", "git status"])
def test_elsewhere_and_in_a_sandbox_they_do_not(line: str) -> None:
    plain = ruled(mode="ask", sandboxed=False)
    assert isinstance(authorize(RunCommand(line, plain.root), plain), Allow)
    assert isinstance(judged(line, "ask", sandboxed=True), Allow)


def test_they_do_not_leave_the_sandbox_with_another_command() -> None:
    line = "git status && make deploy"
    assert isinstance(judged(line, "ask", "allow outside(make deploy)", sandboxed=True), Ask)
    plain = ruled("allow outside(make deploy)", mode="ask", sandboxed=True)
    assert isinstance(authorize(RunCommand(line, plain.root), plain), Allow)


@pytest.mark.parametrize(
    "path", ["HEAD", "sub/HEAD", "bare/config", "bare/hooks/post-commit", "bare/info/attributes"]
)
@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
def test_what_makes_or_leads_a_repository_without_a_git_folder_asks(path: str, mode: Mode) -> None:
    facts = ruled(mode=mode, may_be_repository=lambda folder: folder.endswith("/bare"))
    verdict = authorize(WritePath(f"{facts.root}/{path}", path), facts)
    assert isinstance(verdict, Ask) and verdict.rule == "protected path", verdict


@pytest.mark.parametrize("path", ["head.py", "head/index.tsx", "sub/config", "hooks/use.ts", "bare/main/a.py"])
def test_files_of_similar_names_do_not(path: str) -> None:
    facts = ruled(may_be_repository=lambda folder: folder.endswith("/bare"))
    assert isinstance(authorize(WritePath(f"{facts.root}/{path}", path), facts), Allow)


def test_a_rule_of_the_users_still_allows_them() -> None:
    assert isinstance(judged("git status", "ask", "allow shell(git status)"), Allow)

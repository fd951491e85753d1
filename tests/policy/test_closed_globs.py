"""Patterns of the shell that lead to closed files: through links, `..` and sets, and searches that begin at one. Each
line here once ran without a question and, in bash, shows the secret."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.policy.rules.rule import parse_rule
from agent_cli.protocol.actions import Allow, RunCommand
from agent_cli.workspace.paths import Workspace
from tests.rows import each_row

_COMMIT = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repo"
    for name in ("priv/deep/b.txt", "priv/a.txt", "sub/x/only.key", ".env", "../beside/c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("SECRET\n", encoding="utf-8")
    for name in ("a.txt", "sub/b.txt", "HEAD.txt"):
        (root / name).write_text("plain\n", encoding="utf-8")
    (root / "sub/up").symlink_to("../priv/deep")
    (root / "out").symlink_to("../beside")
    subprocess.run(["sh", "-c", _COMMIT], cwd=root, check=True)
    return root


def _is_allowed(root: Path, line: str) -> bool:
    rules = tuple(parse_rule(text, "deny", "test") for text in ("read(priv/**)", "read(**/*.key)"))
    permissions = Permissions(Workspace(root), rules, mode="ask")
    return isinstance(permissions.authorize(RunCommand(line, str(root))), Allow)


@each_row(
    "line",
    [
        "cat sub/[u]p/b.txt", "cat s*b/up/b.txt", "cat sub/u?/../a.txt", "cat .[^x]nv", "cat .[[:alpha:]]nv", "cat o*/c.txt",
        "head -n1 ou[t]/c.txt", "rg -uu S su*", "rg S s?b", "git grep S 'su*'", "grep -r S s*b", "git show HEAD", "git show :/one",
        "git log -p HEAD", "git diff 4b825dc642cb6eb9a060e54bf8d69288fbee4904 HEAD", "cd sub && git log -p", "git log -p HEAD --",
        "git reflog show -p", "git log -p -- '*'", "git show HEAD -- a.txt 'sub/*'",
    ],
)  # fmt: skip
def test_what_shows_a_closed_file_is_asked_about(root: Path, line: str) -> None:
    environment = {**os.environ, "PATH": os.pathsep.join((str(_programs()), os.environ["PATH"]))}
    done = subprocess.run(
        ["bash", "-c", line], cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert b"SECRET" in done.stdout
    assert not _is_allowed(root, line)


def _programs() -> Path:
    """The folder of ripgrep."""
    return Path(sys.executable).parent


@each_row(
    "line",
    [
        "cat a*.txt", "cat sub/b*.txt", "wc -l s*b/b.txt", "git show HEAD -- a.txt", "git log -p -- a.txt",
        "git diff a.txt", "git diff HEAD a.txt", "git reflog", "rg plain a.txt", "ls sub/b*.txt", "git blame a.txt",
    ],
)  # fmt: skip
def test_what_cannot_show_one_runs(root: Path, line: str) -> None:
    assert _is_allowed(root, line)

"""Read-only commands whose files `find` and `xargs` name."""

import random
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.policy.authorize import Policy, authorize
from agent_cli.policy.shell.readonly_commands import READERS
from agent_cli.protocol.actions import Allow, Deny, Mode, RunCommand
from agent_cli.workspace.paths import Workspace
from tests.fuzz import tries
from tests.policy.support import MODES, ruled
from tests.policy.test_authorize import ROOT, kind, run
from tests.policy.test_readers import ENVIRONMENT, SLOW, contents, words_for
from tests.rows import each_row

READ = [
    "find . -type f -exec grep -n x {} +", "find src -name '*.py' -type f -exec wc -l {} \\;",
    "find . -type f -exec sed -n 1,5p {} \\; -exec head -2 {} \\;", "find -type f -exec cat {} + | head",
    "find . -type f -name '*.py' | xargs wc -l", "find . -type f -print0 | xargs -0 grep -n x",
    "find . -type f | grep -v test | sort | head -20 | xargs wc -l | sort -n | tail -5", "git ls-files | xargs wc -l",
    "git ls-files -z '*.py' | xargs -0 -n 20 grep -n foo", "git diff --name-only HEAD~1 | xargs head -3",
    "rg -l x | xargs head -5", "rg --files -g '*.py' | xargs wc -l", "grep -rl foo src | xargs -r cat",
    "ls src | xargs -n1 basename", "seq 5 | xargs -n1 echo", "ls | xargs -I{} wc -l {}", "ls *.py | xargs -I % tail -3 %",
    "cd src && git ls-files | xargs wc -l", "find . -type f \\( -name '*.ts' -o -iname '*.tsx' \\) | xargs grep -l x",
    "find src \\( -name '*.a' -or -path './b/*' \\) -type f -exec cat {} +",
    "find . -type f -name '*.c' -not -path './b/*' ! -name x | xargs wc -l | sort -n",
]  # fmt: skip
CHANGES = [
    "find . -type f -exec sort -o {} {} \\;", "find . -type f -exec sort {} + -o x", "find . -exec sort + -type f -o x {} \\;",
    "find . -type f -exec uniq {} +", "find . -type f -exec sed -i s/a/b/ {} +", "find . -type f -exec sh -c 'cat {}' \\;",
    "find . -type f -execdir cat {} +", "find . -type f -ok cat {} \\;", "find . -type f -exec cat {} + -delete",
    "find . -type f -exec env cat {} +", "FOO=1 find . -type f -exec cat {} +", "find . -type f -exec cat + -name x {} \\;", "find . -type f -exec cat {} + > out",
    "find . -type f -exec cat {} + &", "git ls-files | xargs rm", "git ls-files | xargs sort", "git ls-files | xargs sed -n 1p",
    "git ls-files | xargs uniq", "git ls-files | xargs hostname", "git ls-files | xargs env cat", "git ls-files | xargs git log",
    "git ls-files | xargs -I% sh -c 'cat %'", "git ls-files | xargs cat | sh", "git ls-files | xargs -a x cat",
    "git ls-files | xargs ./cat", "FOO=1 xargs cat",
]  # fmt: skip
ELSEWHERE = [
    "find . -exec cat {} + -type f", "find . -print -type f | xargs cat", "find . -print0 -type f | xargs -0 cat",
    "find . \\( -name a -o -type f \\) -exec cat {} +", "find . \\( -type f \\) -o \\( -name a \\) -exec cat {} +",
    "find . -type f \\( -name a , -name b \\) -exec cat {} +", "find . \\( -name a \\) -exec cat {} + -o -type f",
    "find . -exec cat {} +", "find . -type l -exec cat {} +", "find . -type f -o -name x -exec cat {} +",
    "find . ! -type f -exec cat {} +", "find . ! -path x -not -type f | xargs cat", "find -L . -type f -exec cat {} +", "find /etc -type f -exec cat {} +",
    "find . -type f -exec cat /etc/{} +", "find . -type f -exec grep x /etc/passwd {} +", "find . | xargs cat",
    "find . -type f -printf '/etc/passwd\\n' | xargs cat", "echo /etc/passwd | xargs cat", "cat list | xargs cat",
    "xargs cat < list", "xargs cat", "ls; xargs cat", "ls || xargs cat", "ls |& xargs cat", "ls -l | xargs cat",
    "ls | xargs -I% cat /etc/%", "ls | xargs -I% cat %/../../../x", "ls | tail -c 11 | xargs cat", "ls | sort list | xargs cat",
    "git log --name-only | xargs cat", "git show --name-only | xargs cat", "git diff | xargs cat", "git diff --name-only -p | xargs cat",
    "git grep ls-files | xargs cat", "rg x | xargs cat", "rg -l x | sed 's|^|/etc/|' | xargs cat", "rg -l x -r / | xargs cat",
    "grep -r x . | xargs cat", "grep -r 'x -l' . | xargs cat", "grep -rl x . | grep -o '/etc.*' | xargs cat",
    "find . -type f -exec echo /etc/passwd \\; | xargs cat",
]  # fmt: skip
HOSTILE = (
    "-o",
    "-i",
    "-delete",
    "-exec",
    "--output=x",
    "--compress-program=touch",
    "-e",
    "w x",
    "a b",
    "b\nc",
    "-n",
    "'",
)


def found_in(mode: Mode, **facts: Any) -> Policy:
    """A policy over a workspace from which no link leads outside, nor any part of a name."""
    return ruled(mode=mode, links_out=lambda: False, splits_out=lambda: False, **facts)


@each_row("line", READ)
def test_what_only_reads_what_was_found_runs_in_the_sandbox(line: str) -> None:
    assert [kind(run(line, found_in(mode))) for mode in MODES] == ["allow"] * 4
    assert run(line, found_in("ask")).reach == "inside"  # type: ignore[union-attr]
    assert kind(run(line, found_in("ask", sandboxed=False))) == "ask" or "xargs -n1" in line


@each_row("line", CHANGES + ELSEWHERE)
def test_what_may_change_or_open_something_else_asks(line: str) -> None:
    assert kind(run(line, found_in("ask"))) == "ask"
    assert kind(run(line, found_in("plan"))) == "deny"


def test_a_link_that_leads_outside_is_not_followed_unseen(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "inner").symlink_to("..")
    permissions = Permissions(Workspace(tmp_path.resolve()), (), mode="ask")
    for line in ("git ls-files | xargs cat", "ls | xargs cat"):
        assert kind(run(line, ruled(mode="ask"))) == "ask"
        assert kind(run(line, found_in("ask"))) == "allow"
    assert not permissions.policy().links_out()
    (tmp_path / "src" / "outer").symlink_to("/etc/hostname")
    assert permissions.policy().links_out()


@each_row("folder", ["a ", "a\t", 'a "', "a\n", "'", "a ..", "..\\ b", '"..', "x .. y"])
def test_a_name_that_xargs_takes_apart_opens_nothing_outside(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder / "etc").mkdir(parents=True)
    (tmp_path / folder / "etc" / "hostname").touch()
    permissions = Permissions(Workspace(tmp_path.resolve()), (), mode="ask")
    given = permissions.policy()
    assert given.splits_out() and not given.links_out()
    for line in ("find . -type f | xargs cat", "git ls-files | xargs wc -l", "grep -rl x . | xargs -n1 head"):
        assert kind(run(line, ruled(mode="ask", links_out=lambda: False, splits_out=lambda: True))) == "ask"
    for line in (
        "git ls-files | xargs head -0",
        "find . -type f -print0 | xargs -0 -d ' ' cat",
        "git ls-files | xargs -0 -rd' ' cat",
    ):
        assert kind(run(line, ruled(mode="ask", links_out=lambda: False, splits_out=lambda: True))) == "ask"
    for line in ("find . -type f -print0 | xargs -0 cat", "git ls-files -z | xargs --null wc -l"):
        assert kind(run(line, ruled(mode="ask", links_out=lambda: False, splits_out=lambda: True))) == "allow"


def test_ordinary_names_with_blanks_are_no_reason_to_ask(tmp_path: Path) -> None:
    for name in ("My Notes.md", " leading", "it's", "a..b", "...", "x ...y"):
        (tmp_path / name).touch()
    permissions = Permissions(Workspace(tmp_path.resolve()), (), mode="ask")
    assert not permissions.policy().splits_out()
    (tmp_path / "out ").symlink_to("/etc/hostname")
    assert permissions.policy().splits_out() and permissions.policy().links_out()


def test_a_model_is_told_that_only_the_type_of_the_files_is_missing() -> None:
    for line in (
        "find . -name '*.c' -exec grep -n x {} +", "find src -name '*.c' | head | xargs wc -l", "find | xargs cat",
        "find . \\( -name a -o -name b \\) -not -path './c/*' | xargs grep x",
    ):  # fmt: skip
        told = run(line, found_in("plan"))
        assert isinstance(told, Deny) and told.reason.endswith(
            "known to be read-only; with `find … -type f` it is"
        )
    for line in (
        "find . -name x | xargs rm",
        "find . -exec touch {} +",
        "make",
        "ls -l | xargs cat",
        "find . -delete",
    ):
        told = run(line, found_in("plan"))
        assert isinstance(told, Deny) and "-type" not in told.reason


def test_rules_and_changed_programs_count() -> None:
    line = "find . -type f -print0 | xargs -0 wc -l"
    assert kind(run(line, ruled("deny shell(wc *)", mode="ask"))) == "deny"
    assert kind(run(line, ruled("ask shell(xargs *)", mode="ask"))) == "ask"
    for name in ("find", "xargs", "wc"):
        assert kind(authorize(RunCommand(line, ROOT, shadowed=(name,)), ruled(mode="ask"))) == "ask"


def test_a_reader_does_not_leave_the_sandbox_with_another_command() -> None:
    assert (
        kind(run("curl http://x; find . -type f | xargs wc -l", ruled("allow outside(curl *)", mode="ask")))
        == "ask"
    )


def test_what_counts_as_read_only_leaves_a_folder_of_hostile_names_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    for name in ("a", "b.py", *HOSTILE):
        (root / name).write_text("a b\nw x\nx\n")
    environment = ENVIRONMENT | {"HOME": str(tmp_path)}
    subprocess.run(["sh", "-c", "git init -q . && git add ."], cwd=root, env=environment, check=True)
    before, chance, ran = contents(root), random.Random("found"), 0
    names = [name for name in READERS if name not in SLOW and shutil.which(name, path=ENVIRONMENT["PATH"])]
    while ran < tries(150, 3000):
        name = chance.choice(names)
        argv = shlex.join([name, *words_for(READERS[name], chance)])
        line = chance.choice(
            [
                f"find . -type f -exec {argv} {{}} +", f"find . -type f -exec {argv} {{}} \\;", f"git ls-files | xargs {argv}",
                f"ls -a | xargs -d '\\n' {argv}", f"ls | xargs -n1 {argv}", f"git ls-files -z | xargs -0 -I% {argv} %",
            ]
        )  # fmt: skip
        if isinstance(run(line, found_in("plan")), Allow):
            ran += 1
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(["bash", "-c", line], cwd=root, env=environment, timeout=60, **quiet)
            assert contents(root) == before, line

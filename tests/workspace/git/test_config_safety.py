"""Repositories whose settings make git start programs are told from those that do not."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.workspace.git.config_safety import GitSettings

COMMIT = "git -c user.name=n -c user.email=e@e commit -qm 1"


def sh(folder: Path, *lines: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=folder, check=True, env=env, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    sh(folder, f"git init -q; echo x > f; git add f; {COMMIT}; mkdir -p deep/er")
    return folder


def harmless(folder: Path) -> bool:
    return GitSettings().are_harmless(str(folder))


def test_what_git_itself_writes_is_harmless(root: Path, tmp_path: Path) -> None:
    sh(tmp_path, "git clone -q work clone", "git -C clone switch -qc other", "git -C clone branch -u origin/HEAD")
    sh(
        root,
        "git worktree add -q ../linked",
        "git config user.name 'A # b'",
        "git config branch.x.description 'a'",
    )
    for folder in (root, root / "deep" / "er", tmp_path / "clone", tmp_path / "linked", tmp_path):
        assert harmless(folder), folder


@pytest.mark.parametrize(
    "lines",
    [
        "[filter \"x\"]\n\tclean = evil",
        "[FILTER \"x\"]\n\tPROCESS = evil",
        "[diff]\n\texternal = evil",
        "[diff \"x\"]\n\ttextconv = evil",
        "[core]\n\tfsmonitor = evil",
        "[core]\n\tfsMonitor\n",
        "[core] fsmonitor = evil",
        "[core]hookspath = evil",
        "[core]\n\thooksPath = evil",
        "[core]\n\tworktree = /",
        "[include]\n\tpath = evil",
        "[includeIf \"gitdir:~/\"]\n\tpath = evil",
        "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = evil",
        "[remote \"o\"]\n\tpromisor = true\n\tuploadpack = evil",
        "[extensions]\n\tpartialClone = o",
        "[user]\n\tname = a\\\nfsmonitor = evil",
        "[user]\x0b[core]\n\tfsmonitor = evil",
        "[color]\n\tui = a\n[core]\r\tfsmonitor = evil",
        "[alias]\n\tst = !evil",
        "[pager]\n\tstatus = evil",
        "[core.x]\n\teol = lf",
        "[core\n",
        "fsmonitor = evil",
        "[unheard]\n\tof = true",
        "[user]\n\tname = " + "a" * 300_000,
    ],
)  # fmt: skip
def test_a_setting_that_is_not_known_to_be_harmless_counts(root: Path, lines: str) -> None:
    with (root / ".git" / "config").open("a", encoding="utf-8", newline="") as file:
        file.write(lines)
    assert not harmless(root) and not harmless(root / "deep" / "er")


def test_what_else_a_repository_brings_counts(root: Path, tmp_path: Path) -> None:
    evil = "[core]\n\tfsmonitor = evil\n"
    for name in ("hooks/post-index-change", "config.worktree", "sharedindex.0"):
        place = root / ".git" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(evil, encoding="utf-8")
        assert not harmless(root), name
        place.unlink()
    assert harmless(root) and not harmless(root / ".git")
    config = root / ".git" / "config"
    kept = config.read_bytes()
    config.unlink()
    for make in (lambda: os.mkfifo(config), lambda: config.symlink_to("/dev/zero")):
        make()
        assert not harmless(root)
        config.unlink()
    config.write_bytes(kept)
    sh(root, "git init -q sub", f"cd sub; echo y > g; git add g; {COMMIT}; cd ..; git add sub")
    assert not harmless(root) and not harmless(root / "sub")


def test_a_repository_that_git_passes_over_hides_none_above_it(root: Path) -> None:
    (root / "deep" / ".git").mkdir()
    assert harmless(root / "deep")
    sh(root, "git config core.fsmonitor evil")
    assert not harmless(root / "deep")


def test_a_change_is_seen(root: Path) -> None:
    settings = GitSettings()
    assert settings.are_harmless(str(root)) and settings.are_harmless(str(root))
    sh(root, "git config filter.x.clean evil")
    assert not settings.are_harmless(str(root))
    sh(root, "git config --unset filter.x.clean")
    assert settings.are_harmless(str(root))

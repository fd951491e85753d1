"""Where git's settings lead in a workspace is found without asking git."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.workspace.git.programs import run_by_git, setting_value
from tests.rows import each_row


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = Path(os.path.realpath(tmp_path)) / "work"
    (work / "tools").mkdir(parents=True)
    for name in ("tools/clean.py", "tools/monitor", "tools/ssh", "check.py", "check.sh", "lib.sh"):
        (work / name).write_text("", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    return work


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (("core.hooksPath", ".githooks"), [".githooks"]),
        (("core.hooksPath", "/elsewhere"), []),
        (("core.fsmonitor", "tools/monitor"), ["tools/monitor"]),
        (("core.sshCommand", "./tools/ssh -o X=y"), ["tools/ssh"]),
        (("filter.x y.clean", "python3 tools/clean.py %f"), ["tools/clean.py"]),
        (("alias.st", "!tools/clean.py; git status"), ["tools/clean.py"]),
        (("include.path", "../shared.cfg"), ["shared.cfg"]),
        (("includeIf.gitdir:/.path", "../shared.cfg"), ["shared.cfg"]),
        (("remote.origin.url", "git@example.org:tools/clean"), []),
        (("user.name", "tools"), []),
    ],
)
def test_what_settings_name_in_the_workspace_is_found(
    work: Path, settings: tuple[str, str], found: list[str]
) -> None:
    assert run_by_git(str(work)) == ()
    subprocess.run(["git", "config", *settings], cwd=work, check=True)
    assert run_by_git(str(work)) == tuple(f"{work}/{name}" for name in found)


def test_included_settings_are_read_too(work: Path) -> None:
    (work / "shared.cfg").write_text('[core] hooksPath = "hooks of ours"\n', encoding="utf-8")
    subprocess.run(["git", "config", "include.path", "../shared.cfg"], cwd=work, check=True)
    assert run_by_git(str(work)) == (f"{work}/hooks of ours", f"{work}/shared.cfg")


def test_a_bare_repository_leads_to_its_own_settings_and_hooks(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare"], cwd=tmp_path, check=True)
    names = ("commondir", "config", "config.worktree", "hooks", "info/attributes")
    assert run_by_git(str(tmp_path)) == tuple(f"{os.path.realpath(tmp_path)}/{name}" for name in names)


@pytest.mark.parametrize("folder", [".git/hooks", ".githooks"])
def test_what_a_hook_starts_beside_itself_is_found(work: Path, folder: str) -> None:
    subprocess.run(["git", "config", "core.hooksPath", folder], cwd=work, check=True)
    (work / folder).mkdir(exist_ok=True)
    up = os.path.relpath(work, work / folder)
    text = f'#!/bin/sh\n"$(dirname "$0")/{up}/tools/monitor"\n'
    (work / folder / "pre-push").write_text(text, encoding="utf-8")
    assert f"{work}/tools/monitor" in run_by_git(str(work))


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_settings_in_a_place_that_a_variable_names_are_read(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    file = tmp_path / "git" / "config"
    file.parent.mkdir()
    file.write_text("[core]\n\thooksPath = .githooks\n", encoding="utf-8")
    monkeypatch.setenv(variable, str(tmp_path if variable.startswith("XDG") else file))
    assert run_by_git(str(work)) == (f"{work}/.githooks",)


def test_a_folder_without_a_repository_has_none(tmp_path: Path) -> None:
    assert run_by_git(str(tmp_path)) == ()


@pytest.mark.parametrize("folder", [".git/hooks", ".githooks"])
@pytest.mark.parametrize(
    ("hook", "found"),
    [
        ("#!/bin/sh\nexec ./tools/clean.py --fast\n", ["tools/clean.py"]),
        ("ARGS=(hook-impl --config=.pre-commit-config.yaml)\nexec pre-commit hook-impl\n", [".pre-commit-config.yaml"]),
        ('call_lefthook run "pre-commit" "$@"\n', [".lefthook.yml", "lefthook.yml"]),
        ("#!/bin/sh\nmake test\n", []),
        ('"$(git rev-parse --show-toplevel)/tools/monitor"\n', ["tools/monitor"]),
        ('ROOT=$(pwd)\nexec "${ROOT}/tools/ssh" $1\n', ["tools/ssh"]),
        ("cd .\nFAST=1 python3 -B check.py --all\n. lib.sh\n", ["check.py", "lib.sh"]),
        ("bash -eu check.sh && python3 -m tools.clean\n", ["check.sh", "tools/clean.py"]),
        ('#!/usr/bin/env python3\nsubprocess.run(["python3", "check.py"])\n', ["check.py"]),
        ("#!/bin/sh\n# a note about check.py\ngit diff --quiet -- check.py\n", []),
    ],
)  # fmt: skip
def test_what_hooks_start_in_the_workspace_is_found(work: Path, folder: str, hook: str, found: list[str]) -> None:
    place = work / folder
    place.mkdir(exist_ok=True)
    if folder == ".githooks":
        subprocess.run(["git", "config", "core.hooksPath", folder], cwd=work, check=True)
    (place / "pre-commit").write_text(hook, encoding="utf-8")
    known = run_by_git(str(work))
    assert {f"{work}/{name}" for name in found} <= set(known)
    assert found or set(known) <= {f"{work}/.githooks"}
    (place / "pre-commit").rename(place / "pre-commit.sample")
    assert set(run_by_git(str(work))) <= {f"{work}/.githooks"}


def test_the_file_that_a_hook_is_a_link_to_is_found(work: Path) -> None:
    (work / ".git/hooks").mkdir(exist_ok=True)
    (work / ".git/hooks/pre-push").symlink_to("../../tools/monitor")
    assert run_by_git(str(work)) == (f"{work}/tools/monitor",)


@each_row(
    ("of_repository", "of_user", "value"),
    [
        ("", "[commit]\n\tgpgsign = true", "true"),
        ("[commit]\n\tgpgsign = false", "[commit]\n\tgpgsign = true", "false"),
        ("[commit]\n\tgpgsign = yes ; always\n\tgpgSign = off # not now", "", "off"),
        ('[commit "x"]\n\tgpgsign = true', "", ""),
        ("", "[include]\n\tpath = more\n", "on"),
        ("", '[includeIf "gitdir:/elsewhere/"]\n\tpath = more\n', ""),
        ("", "", ""),
    ],
)
def test_a_setting_has_the_value_that_git_uses(
    tmp_path: Path, of_repository: str, of_user: str, value: str
) -> None:
    (tmp_path / "more").write_text('[commit]\n\tgpgsign = "on"\n', encoding="utf-8")
    (tmp_path / ".gitconfig").write_text(of_user, encoding="utf-8")
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", work], check=True)
    with (work / ".git/config").open("a", encoding="utf-8") as config:
        config.write(of_repository)
    asked = "import sys; from agent_cli.workspace.git.programs import setting_value as v; print(v(*sys.argv[1:]))"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", asked, work, "commit.gpgsign"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == value, done.stderr
    assert setting_value(str(tmp_path / "nowhere"), "commit.gpgsign.none") == ""

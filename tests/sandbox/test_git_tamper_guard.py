"""What a command leaves that would run later is found, and git's own files are put back."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.sandbox import git_tamper_guard
from agent_cli.sandbox.git_tamper_guard import GitStateSnapshot, accept_changes, runs_nothing
from agent_cli.tools.shell.tamper_watch import Places
from agent_cli.workspace.git.programs import run_by_git
from tests.fs.ordinary import ordinary_user
from tests.rows import each_row


def taken(root: str, before: GitStateSnapshot | None = None, **more: Any) -> GitStateSnapshot:
    """With all that a session watches."""
    own = tuple(os.path.relpath(path, root) for path in run_by_git(root))
    places = before.places if before else Places(root)
    return git_tamper_guard.take_git_state(root, before, places=places, own=own, **more)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    git(work, "init", "-q")
    (work / "f").write_text("x", encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    (work / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n", encoding="utf-8")
    (work / ".git" / "hooks" / "pre-push").chmod(0o755)
    return work


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def write(path: Path, text: str = "evil") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def swap(work: Path) -> None:
    (work / ".git").rename(work / "old")
    shutil.copytree(work / "old", work / ".git")
    write(work / ".git" / "config", "[core]\nfsmonitor = evil\n")


CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "config": (lambda w: write(w / ".git/config"), {".git/config"}),
    "config, same size and time": (
        lambda w: (
            times := (w / ".git/config").stat(),
            write(w / ".git/config", "x" * times.st_size),
            os.utime(w / ".git/config", ns=(times.st_atime_ns, times.st_mtime_ns)),
        ),
        {".git/config"},
    ),
    "a new hook": (lambda w: write(w / ".git/hooks/pre-commit"), {".git/hooks/pre-commit"}),
    "a changed hook": (lambda w: write(w / ".git/hooks/pre-push"), {".git/hooks/pre-push"}),
    "a removed hook": (lambda w: (w / ".git/hooks/pre-push").unlink(), {".git/hooks/pre-push"}),
    "a hook by a link": (
        lambda w: (w / ".git/hooks/pre-commit").symlink_to("/bin/true"),
        {".git/hooks/pre-commit"},
    ),
    "no longer executable": (lambda w: (w / ".git/hooks/pre-push").chmod(0o644), {".git/hooks/pre-push"}),
    "a shared folder": (lambda w: write(w / ".git/commondir", "../evil"), {".git/commondir"}),
    "a second config": (lambda w: write(w / ".git/config.worktree"), {".git/config.worktree"}),
    "attributes": (lambda w: write(w / ".git/info/attributes"), {".git/info/attributes"}),
    "config by a link": (
        lambda w: ((w / ".git/config").unlink(), (w / ".git/config").symlink_to("/dev/null")),
        {".git/config"},
    ),
    "hooks by a link to elsewhere": (
        lambda w: (
            write(w / "sub/pre-commit"),
            (w / ".git/hooks").rename(w / "sub/old"),
            (w / ".git/hooks").symlink_to("../sub"),
        ),
        {".git/hooks", ".git/hooks/pre-push"},
    ),
    "no hooks at all": (lambda w: shutil.rmtree(w / ".git/hooks"), {".git/hooks", ".git/hooks/pre-push"}),
    "another repository in its place": (swap, {".git", ".git/config"}),
    "a link in its place": (
        lambda w: ((w / ".git").rename(w / "old"), (w / ".git").symlink_to("old")),
        {".git"},
    ),
    "no HEAD": (lambda w: (w / ".git/HEAD").unlink(), {".git/HEAD"}),
    "a link where the message of a commit is written": (
        lambda w: (
            (w / ".git/COMMIT_EDITMSG").unlink(),
            (w / ".git/COMMIT_EDITMSG").symlink_to("/nowhere/.bashrc"),
        ),
        {".git/COMMIT_EDITMSG"},
    ),
    "a log by a link": (
        lambda w: ((w / ".git/logs/HEAD").unlink(), (w / ".git/logs/HEAD").symlink_to("/nowhere/.bashrc")),
        {".git/logs/HEAD"},
    ),
    "a fetch by a link": (lambda w: (w / ".git/FETCH_HEAD").symlink_to("/nowhere"), {".git/FETCH_HEAD"}),
    "a folder of objects by a link": (
        lambda w: (w / ".git/objects/zz").symlink_to("/nowhere"),
        {".git/objects/zz"},
    ),
    "a remote in an old place": (
        lambda w: write(w / ".git/remotes/origin", "URL: ../evil.git\n"),
        {".git/remotes/origin"},
    ),
    "a remote in an older place": (
        lambda w: write(w / ".git/branches/origin", "../evil.git\n"),
        {".git/branches/origin"},
    ),
    "a strategy for the rest of a rebase": (
        lambda w: write(w / ".git/rebase-merge/strategy", "x/evil"),
        {".git/rebase-merge/strategy"},
    ),
    "a strategy for the rest of a revert": (
        lambda w: write(w / ".git/sequencer/opts", "[options]\n\tstrategy = x/evil\n"),
        {".git/sequencer/opts"},
    ),
    "a program in a rebase": (
        lambda w: write(w / ".git/rebase-merge/git-rebase-todo", "pick 1 one\n x evil\n"),
        {".git/rebase-merge/git-rebase-todo"},
    ),
    "a folder as HEAD": (lambda w: ((w / ".git/HEAD").unlink(), (w / ".git/HEAD").mkdir()), {".git/HEAD"}),
    "the root as a repository": (
        lambda w: ((w / "objects").mkdir(), (w / "refs").mkdir(), write(w / "HEAD", "ref: refs/heads/x")),
        {"HEAD"},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_git_are_found_and_put_back(work: Path, name: str) -> None:
    change, expected = CHANGES[name]
    contents = {path: path.read_bytes() for path in (work / ".git/config", work / ".git/hooks/pre-push")}
    guarded = taken(str(work))
    assert guarded.changed() == ()
    change(work)
    assert expected <= set(guarded.changed())
    put_back = guarded.restore()
    assert expected <= set(put_back)
    assert {path: path.read_bytes() for path in contents} == contents
    assert os.access(work / ".git/hooks/pre-push", os.X_OK) and not (work / ".git").is_symlink()
    assert not any((work / ".git" / new).exists() for new in ("commondir", "config.worktree", "hooks/pre-commit"))
    assert not (work / "HEAD").exists()
    assert guarded.changed() == ()
    assert git(work, "log", "--format=%s") == "one\n"


@pytest.mark.parametrize(
    "path",
    [".envrc", ".husky/pre-commit", ".vscode/tasks.json", ".vscode/launch.json", ".idea/workspace.xml", ".mcp.json",
     ".devcontainer/devcontainer.json", ".zed/tasks.json", ".cursor/mcp.json", ".claude/settings.json",
     ".codex/config.toml", ".gemini/settings.json", ".agent/config.yaml", "sub/.vscode/tasks.json",
     ".junie/mcp/mcp.json", ".kilocode/mcp.json", ".factory/mcp.json", ".trae/mcp.json", ".openhands/setup.sh",
     "sub/deep/and/deeper/.envrc"],
)  # fmt: skip
def test_other_things_that_run_later_are_named_and_left(work: Path, path: str) -> None:
    guarded = taken(str(work))
    write(work / path)
    assert guarded.changed() == (path,)
    assert guarded.restore() == ()
    assert (work / path).read_text(encoding="utf-8") == "evil"


@pytest.mark.parametrize("path", ["sub/a", "sub/a/b/c/d"])
def test_settings_and_hooks_of_repositories_further_down_are_put_back(work: Path, path: str) -> None:
    (work / path).mkdir(parents=True)
    git(work / path, "init", "-q")
    config = (work / path / ".git/config").read_bytes()
    guarded = taken(str(work))
    git(work / path, "config", "core.fsmonitor", "evil")
    write(work / path / ".git/hooks/post-commit")
    expected = (f"{path}/.git/config", f"{path}/.git/hooks/post-commit")
    assert guarded.changed() == expected and guarded.restore() == expected and guarded.changed() == ()
    assert (work / path / ".git/config").read_bytes() == config
    shutil.rmtree(work / path)
    assert guarded.changed() == ()


def test_a_link_in_the_place_of_a_repository_further_down_is_found(work: Path) -> None:
    guarded = taken(str(work))
    (work / "sub/.git").symlink_to("/evil")
    assert guarded.changed() == ("sub/.git",)


def test_hooks_that_are_kept_with_the_project_are_put_back(work: Path) -> None:
    git(work, "config", "core.hooksPath", ".githooks")
    write(work / ".githooks/pre-push", "#!/bin/sh\n")
    guarded = taken(str(work))
    write(work / ".githooks/pre-push")
    write(work / ".githooks/pre-commit")
    expected = (".githooks/pre-commit", ".githooks/pre-push")
    assert guarded.changed() == expected and guarded.restore() == expected and guarded.changed() == ()
    assert (work / ".githooks/pre-push").read_text(encoding="utf-8") == "#!/bin/sh\n"
    assert not (work / ".githooks/pre-commit").exists()


def test_of_a_rebase_that_goes_on_only_the_new_programs_are_taken_out(work: Path) -> None:
    todo = work / ".git/rebase-merge/git-rebase-todo"
    write(todo, "pick 1 one\nexec make test\npick 2 two\nexec make test\n")
    guarded = taken(str(work))
    write(todo, "exec make test\npick 2 two\nexec evil\n\tx evil\nexec make test\n")
    assert guarded.restore() == (".git/rebase-merge/git-rebase-todo",)
    assert todo.read_text(encoding="utf-8") == "exec make test\npick 2 two\nexec make test\n"
    write(todo, "pick 2 two\nexec make test\n")
    write(work / ".git/rebase-merge/strategy", "ort")
    write(work / ".git/sequencer/opts", "[options]\n\tsignoff = true\n\tstrategy = recursive\n")
    assert guarded.changed() == ()


def test_a_repository_among_too_many_folders_is_still_put_back(work: Path) -> None:
    nested = work / "sub" / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    config = (nested / ".git/config").read_text(encoding="utf-8")
    places = _Fewer(Places(str(work)))
    guarded = git_tamper_guard.take_git_state(str(work), places=places)
    places.is_over = True
    write(nested / ".git/config", "[core]\nfsmonitor = evil\n")
    write(nested / ".git/hooks/pre-commit")
    (nested / ".git/COMMIT_EDITMSG").symlink_to("/nowhere")
    assert len(guarded.restore()) == 3 and guarded.changed() == ()
    assert (nested / ".git/config").read_text(encoding="utf-8") == config
    assert not (nested / ".git/hooks/pre-commit").exists()


class _Fewer:
    """Finds nothing more from some time on, as when there are too many folders to search."""

    def __init__(self, places: Callable[[], tuple[str, ...]]) -> None:
        self._places = places
        self.is_over = False

    def __call__(self) -> tuple[str, ...]:
        return () if self.is_over else self._places()


@pytest.mark.parametrize("mode", [0o311, 0o600, 0o000])
def test_folders_of_git_that_were_closed_are_opened_again_and_others_told_of(mode: int) -> None:
    with ordinary_user() as work:
        for folder in (work, work / "nested"):
            folder.mkdir(exist_ok=True)
            git(folder, "init", "-q")
        guarded = taken(str(work))
        for folder in (work, work / "nested"):
            write(folder / ".git/hooks/pre-commit")
            (folder / ".git/COMMIT_EDITMSG").symlink_to("/nowhere")
            (folder / ".git/hooks").chmod(mode)
            (folder / ".git").chmod(mode)
        write(work / "sub/.vscode/tasks.json")
        (work / "sub").chmod(mode)
        opened = {".git", ".git/hooks", "nested/.git", "nested/.git/hooks"}
        seen, found = guarded.reopen()
        assert set(seen) == opened and found == guarded.changed()
        done = guarded.restore()
        assert [path.split("/")[0] for path in found if path not in done] == ["sub"]
        for folder in (work, work / "nested"):
            assert not (folder / ".git/hooks/pre-commit").exists()
            assert not (folder / ".git/COMMIT_EDITMSG").is_symlink()
            assert git(folder, "status", "--short", "--ignore-submodules=all", "-uno") == ""


def test_everyday_work_is_no_change(work: Path) -> None:
    guarded = taken(str(work))
    write(work / "f", "y")
    git(work, "add", ".")
    git(work, "commit", "-qm", "two")
    git(work, "checkout", "-qb", "other")
    write(work / "f", "z")
    git(work, "stash", "-q")
    git(work, "gc", "-q")
    git(work, "tag", "t")
    assert guarded.changed() == ()


def test_a_new_repository_is_only_told_of_when_it_would_run_something(work: Path) -> None:
    guarded = taken(str(work))
    git(work, "init", "-q", "sub/new")
    git(work, "clone", "-q", ".", "copy")
    assert guarded.changed() == ()
    git(work / "copy", "config", "core.fsmonitor", "evil")
    write(work / "sub/new/.git/hooks/post-commit")
    assert guarded.changed() == ("copy/.git/config", "sub/new/.git/hooks/post-commit")
    assert guarded.restore() == ()


@pytest.mark.parametrize("path", ["sub/pl/config", "sub/pl/hooks/post-commit"])
def test_a_repository_without_a_git_folder_is_told_of_too(work: Path, path: str) -> None:
    """Git takes any folder with `HEAD`, `objects` and `refs` for a repository."""
    guarded = taken(str(work))
    git(work, "init", "-q", "--bare", "--template=", "sub/pl")
    git(work, "clone", "-q", "--bare", "--no-hardlinks", ".", "copy.git")
    assert guarded.changed() == ()
    before = taken(str(work), guarded)
    write(work / path, "[core]\nfsmonitor = evil\nworktree = /\n")
    assert guarded.changed() == before.changed() == (path,)
    assert guarded.restore() == ()
    shutil.rmtree(work / "sub/pl")
    assert taken(str(work)).changed() == () and before.changed() == ()


def test_settings_beside_a_new_head_are_told_of_before_the_repository_is_whole(work: Path) -> None:
    write(work / "sub/pl/config", "[core]\nfsmonitor = evil\n")
    guarded = taken(str(work))
    write(work / "sub/pl/HEAD", "ref: refs/heads/x\n")
    assert guarded.changed() == ("sub/pl/config",)


def test_settings_of_a_bare_repository_as_the_workspace_are_put_back(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    before = (tmp_path / "config").read_bytes()
    guarded = taken(str(tmp_path))
    write(tmp_path / "config")
    assert guarded.restore() == ("config",) and (tmp_path / "config").read_bytes() == before


@each_row(
    "line",
    ["[core]\nsshCommand = x", "[core] hooksPath = x", "[alias]\nst = !x", "[include]\npath = x", '[alias]\nst = "!x"',
     "[diff]\nexternal = x", '[filter "x"]\nclean = x', "[credential]\nhelper = x", '[includeIf "gitdir:x"]\npath = y',
     "[gpg]\nprogram = x", "[core]\n\tworktree = /", "[sequence]\neditor=x", "[pager]\nlog = x",
     "[alias]\nst = \\\n!x", "[interactive]\ndiffFilter = x", '[difftool "vimdiff"]\ncmd = x',
     '[submodule "x"]\nupdate = !x', '[remote "x"]\nurl = ext::x', '[remote "x"]\nurl = --upload-pack=x',
     '[url "ext::x"]\ninsteadOf = y', "[core] fsmonitor = x", "[unknown]\nnew = x", "[core]\nfsmonitor"],
)  # fmt: skip
def test_a_repository_made_with_a_program_in_its_settings_is_set_aside(tmp_path: Path, line: str) -> None:
    guarded = taken(str(tmp_path))
    git(tmp_path, "init", "-q")
    assert guarded.changed() == ()
    with (tmp_path / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    assert guarded.changed() == (".git/config",)
    assert guarded.restore() == (".git/config",)
    assert not (tmp_path / ".git").exists() and (tmp_path / ".git.untrusted" / "config").exists()


@each_row(
    "config",
    [b"\xef\xbb\xbf[core]fsmonitor=x\n", b"[core]\n\tbare = false \\\n fsmonitor = x\n", b"[core]\n\0bare = false",
     b"bare = false", b"[core.x]\nbare = false", b"[core]\nbare = false\n[core", b"[core]\x0bbare = false"],
)  # fmt: skip
def test_settings_that_could_be_read_in_another_way_are_not_harmless(config: bytes) -> None:
    assert not runs_nothing(config)


def test_everyday_settings_are_harmless() -> None:
    config = b"""# of this work
[core]
\trepositoryformatversion = 0
\tfileMode = true
\tworktree = ../../../sub
[user] ; me
[user]\r
\tname = Someone "Else"\r
[remote "origin"]
\turl = git@example.org:a/b.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "feature/x.y"]
\tremote = origin
\tmerge = refs/heads/feature/x.y
[submodule "a b"]
\tactive = true
[commit]
\tgpgSign = false
"""
    assert runs_nothing(config) and not runs_nothing(config.replace(b"[user] ; me", b"[user] name = me"))


def test_the_repository_of_a_folder_above_is_watched_alone(work: Path) -> None:
    guarded = taken(str(work), is_outer=True)
    write(work / ".envrc")
    write(work / "sub/.git/config")
    assert guarded.changed() == ()
    write(work / ".git/hooks/pre-commit")
    assert guarded.restore() == (".git/hooks/pre-commit",)


def test_a_repository_may_have_another_name(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"))
    guarded = taken(str(tmp_path), git="bare.git", is_outer=True)
    write(tmp_path / "bare.git/hooks/pre-commit")
    write(tmp_path / "bare.git/worktrees/tree/commondir", "/evil")
    expected = ("bare.git/hooks/pre-commit", "bare.git/worktrees/tree/commondir")
    assert guarded.changed() == expected and guarded.restore() == expected and guarded.changed() == ()


def test_modules_with_slashes_in_their_names_are_watched(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(work), "other")
    always = ("-c", "protocol.file.allow=always")
    git(work, *always, "submodule", "--quiet", "add", "--name", "a/b/c", str(tmp_path / "other"), "module")
    guarded = taken(str(work))
    write(work / ".git/modules/a/b/c/hooks/post-checkout")
    write(work / ".git/modules/a/new/config", "[core]\nfsmonitor = evil\n")
    expected = (".git/modules/a/b/c/hooks/post-checkout", ".git/modules/a/new/config")
    assert guarded.changed() == expected and guarded.restore() == expected


def test_what_was_told_of_is_not_told_again(work: Path) -> None:
    guarded = taken(str(work))
    write(work / ".envrc")
    write(work / ".vscode/tasks.json")
    later = accept_changes(guarded, [".envrc"])
    assert later.changed() == (".vscode/tasks.json",)
    (work / ".envrc").unlink()
    assert later.changed() == (".envrc", ".vscode/tasks.json")


def test_submodules_and_working_trees_are_watched_and_new_ones_may_come(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "other")
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "one")
    guarded = taken(str(work))
    git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), "module")
    git(work, "worktree", "add", "-q", str(tmp_path / "tree"))
    changed = set(guarded.changed())
    assert changed <= {"module/.git", ".git/config"}
    guarded = taken(str(work))
    name = next((work / ".git/worktrees").iterdir()).name
    write(work / f".git/worktrees/{name}/commondir", "/evil")
    with (work / ".git/modules/module/config").open("a", encoding="utf-8") as file:
        file.write("[core]\nfsmonitor = evil\n")
    write(work / ".git/modules/module/hooks/post-checkout")
    write(work / ".git/modules/new/config", "[core]\nfsmonitor = evil\n")
    expected = (
        ".git/modules/module/config",
        ".git/modules/module/hooks/post-checkout",
        ".git/modules/new/config",
        f".git/worktrees/{name}/commondir",
    )
    assert guarded.changed() == expected and guarded.restore() == expected and guarded.changed() == ()
    assert git(work, "status", "--porcelain").strip() and git(tmp_path / "tree", "log", "--format=%s") == "one\n"


def test_a_pointer_to_a_repository_elsewhere_is_put_back(work: Path, tmp_path: Path) -> None:
    git(work, "worktree", "add", "-q", str(tmp_path / "tree"))
    guarded = taken(str(tmp_path / "tree"))
    before = (tmp_path / "tree/.git").read_text(encoding="utf-8")
    write(tmp_path / "tree/.git", "gitdir: /evil")
    assert guarded.changed() == (".git",) and guarded.restore() == (".git",)
    assert (tmp_path / "tree/.git").read_text(encoding="utf-8") == before
    (tmp_path / "tree/.git").unlink()
    (tmp_path / "tree/.git").mkdir()
    assert guarded.restore() == (".git",)
    assert (tmp_path / "tree/.git").read_text(encoding="utf-8") == before


def lead_elsewhere(folder: Path) -> None:
    write(folder / ".git", "gitdir: ../evil")


def put_a_folder(folder: Path) -> None:
    (folder / ".git").rename(folder / "old")
    write(folder / ".git/config", "[core]\nfsmonitor = evil\n")


def put_a_link(folder: Path) -> None:
    (folder / ".git").rename(folder / "old")
    (folder / ".git").symlink_to("../evil")


@pytest.mark.parametrize("change", [lead_elsewhere, put_a_folder, put_a_link])
@pytest.mark.parametrize("kind", ["submodule", "work tree"])
def test_pointers_further_down_are_put_back(
    work: Path, tmp_path: Path, kind: str, change: Callable[[Path], None]
) -> None:
    if kind == "submodule":
        git(tmp_path, "init", "-q", "other")
        git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "one")
        git(
            work,
            *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
            *(str(tmp_path / "other"), "sub/inner"),
        )
    else:
        git(work, "worktree", "add", "-q", "sub/inner")
    before = (work / "sub/inner/.git").read_text(encoding="utf-8")
    guarded = taken(str(work))
    change(work / "sub/inner")
    assert "sub/inner/.git" in guarded.restore()
    assert (work / "sub/inner/.git").read_text(encoding="utf-8") == before and guarded.changed() == ()
    assert git(work / "sub/inner", "log", "--format=%s") == "one\n"
    shutil.rmtree(work / "sub/inner")
    assert guarded.changed() == ()


def test_a_repository_further_down_is_put_back_in_its_place(work: Path) -> None:
    git(work / "sub", "init", "-q")
    guarded = taken(str(work))
    put_a_link(work / "sub")
    assert "sub/.git" in guarded.restore() and (work / "sub/.git/HEAD").is_file()
    assert not (work / "sub/.git").is_symlink()


def test_nothing_is_written_through_a_link(work: Path, tmp_path: Path) -> None:
    guarded = taken(str(work))
    victim = tmp_path / "victim"
    write(victim / "config", "mine")
    (work / ".git").rename(tmp_path / "gone")
    (work / ".git").symlink_to(victim)
    guarded.restore()
    assert (victim / "config").read_text(encoding="utf-8") == "mine" and os.listdir(victim) == ["config"]


def test_what_was_read_before_is_not_read_again(work: Path) -> None:
    first = taken(str(work))
    second = taken(str(work), first)
    assert second == first
    assert second.contents[".git/config"] is first.contents[".git/config"]


@pytest.mark.parametrize("name", ["refs", "logs", "modules", "worktrees", "objects", "rebase-merge"])
def test_a_link_in_the_place_of_a_folder_of_git_is_removed_and_not_searched(
    work: Path, tmp_path: Path, name: str
) -> None:
    """It could lead to the whole disk."""
    elsewhere = tmp_path / "elsewhere"
    for folder in ("a", "a/b", "pack", "info"):
        (elsewhere / folder).mkdir(parents=True, exist_ok=True)
        (elsewhere / folder / "link").symlink_to("x")
        write(elsewhere / folder / "config", "[core]\nfsmonitor = evil\n")
    guarded = taken(str(work))
    place = work / ".git" / name
    if place.exists():
        place.rename(work / ".git" / "old")
    place.symlink_to(elsewhere)
    assert guarded.changed() == (f".git/{name}",) and guarded.restore() == (f".git/{name}",)
    assert not place.is_symlink() and (elsewhere / "a" / "link").is_symlink()

"""What git writes is read as git reads it."""

import subprocess
from pathlib import Path

import pytest

from agent_cli.fs.git_files import GITLINK, index_entries, settings


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "maintenance.auto=false", "-c", "user.email=a@b", *arguments],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_an_index_names_what_git_tracks(tmp_path: Path, version: str, format: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={format}")
    names = ["a", "deep/" + "x" * 200, "deep/" + "x" * 200 + "/y", "ähnlich", "z" * 255]
    for name in ("deep/" + "x" * 200 + "y", *(each for each in names if each != names[1])):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    git(tmp_path, "init", "-q", f"--object-format={format}", "inner")
    git(tmp_path / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    git(tmp_path, "add", ".")
    if version == "3":
        git(tmp_path, "update-index", "--skip-worktree", "a")
    else:
        git(tmp_path, "update-index", "--index-version", version)
    data = (tmp_path / ".git" / "index").read_bytes()
    listed = [line.split("\t") for line in git(tmp_path, "ls-files", "-s", "-z").split("\0") if line]
    entries = list(index_entries(data))
    assert data[7] == int(version) and [each.path.decode() for each in entries] == [path for _, path in listed]
    assert [f"{each.mode:06o}" for each in entries] == [facts.split()[0] for facts, _ in listed]
    assert [each.path for each in entries if each.mode == GITLINK] == [b"inner"]
    for cut in (b"", b"DIRC", data[:40], data[:100], b"x" + data[1:]):
        with pytest.raises(ValueError):
            list(index_entries(cut))


def test_settings_are_those_that_git_lists(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(
        b'\xef\xbb\xbf# a comment\n[Core]\n\tFileMode = true ; \n[user]name=x\n[remote "Or\\"igin"] # c\nurl = a\\\nb\n'
        b"[branch.Main]\n remote\n"
    )
    found = dict(settings(file.read_bytes()))
    names = git(tmp_path, "config", "--file", "config", "--list", "--name-only").split()
    assert [name.lower() for name in names] == [name.replace('\\"', '"').lower() for name in found]
    for odd in (b"\xef\xbb\xbf[core]\n", b"[a] b = c\n", b"[a]\nb = c\\\nd\n", b"[a]\nb c\n"):
        with pytest.raises(ValueError):
            list(settings(odd, strict=True))
    assert list(settings(b"[a] ; c\nb\n", strict=True)) == [("a.b", "")]

"""`.agentignore` closes files to the agent, with git's rules, and closes more rather than less when in doubt."""

import os
import subprocess
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.workspace.agentignore import AgentIgnore
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row


def put(root: Path, files: dict[str, str]) -> AgentIgnore:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return AgentIgnore([root])


def test_the_deciding_line_is_named(tmp_path: Path) -> None:
    ignore = put(tmp_path, {".agentignore": "# keys\n*.key\n!public.key\n\nsecret/\n", "a/b.key": ""})
    place = f"{tmp_path}/.agentignore"
    assert ignore.verdict(f"{tmp_path}/a/b.key") == f"{place}:2"
    assert ignore.verdict(f"{tmp_path}/a/public.key") is None
    assert ignore.verdict(f"{tmp_path}/secret/deep/x") == f"{place}:5"
    assert ignore.verdict(f"{tmp_path}/secret") is None, "a file of that name is not the folder"
    assert ignore.verdict(f"{tmp_path}/a/b.py") is None
    assert ignore.verdict(str(tmp_path)) is None


def test_a_closed_folder_stays_closed_below(tmp_path: Path) -> None:
    ignore = put(
        tmp_path, {".agentignore": "secret/\n!secret/open\n", "secret/.agentignore": "!*\n", "secret/open": ""}
    )
    assert ignore.verdict(f"{tmp_path}/secret/open") == f"{tmp_path}/.agentignore:1"
    ignore = put(tmp_path, {".agentignore": "secret/*\n!secret/open\n", "secret/.agentignore": ""})
    assert ignore.verdict(f"{tmp_path}/secret/open") is None
    assert ignore.verdict(f"{tmp_path}/secret/other") == f"{tmp_path}/.agentignore:1"


def test_a_line_closes_a_name_in_another_unicode_form(tmp_path: Path) -> None:
    alike = {"caf\u00e9": "cafe\u0301", "Ann's": "Ann\u2019s", "3 PM": "3\u202fPM"}
    for listed, there in (*alike.items(), *((there, listed) for listed, there in alike.items())):
        ignore = put(tmp_path, {".agentignore": f"# {there}\n{listed}\n", f"{there}/x": ""})
        assert ignore.verdict(f"{tmp_path}/{there}/x") == f"{tmp_path}/.agentignore:2"
    opened = put(tmp_path, {".agentignore": "*\n!caf\u00e9\n"})
    assert opened.verdict(f"{tmp_path}/caf\u00e9") is None and opened.verdict(f"{tmp_path}/cafe\u0301")


def test_a_deeper_list_wins_and_is_relative_to_its_folder(tmp_path: Path) -> None:
    ignore = put(tmp_path, {".agentignore": "*.env\n", "a/.agentignore": "!*.env\n/x\n", "a/b/x": "", "a/x": ""})
    assert ignore.verdict(f"{tmp_path}/p.env") and ignore.verdict(f"{tmp_path}/a/p.env") is None
    assert ignore.verdict(f"{tmp_path}/a/x") == f"{tmp_path}/a/.agentignore:2"
    assert ignore.verdict(f"{tmp_path}/a/b/x") is None and ignore.verdict(f"{tmp_path}/x") is None


def test_what_lies_outside_is_open_and_further_roots_count(tmp_path: Path) -> None:
    put(tmp_path / "one", {".agentignore": "*"})
    put(tmp_path / "two", {".agentignore": "x"})
    ignore = AgentIgnore([tmp_path / "one", str(tmp_path / "two")])
    assert ignore.verdict(f"{tmp_path}/one/f") and ignore.verdict(f"{tmp_path}/two/x")
    assert ignore.verdict(f"{tmp_path}/two/y") is None and ignore.verdict(f"{tmp_path}/three/x") is None
    assert ignore.verdict(f"{tmp_path}/oneself") is None


def test_changes_count_at_once(tmp_path: Path) -> None:
    ignore = put(tmp_path, {"f": ""})
    assert ignore.verdict(f"{tmp_path}/f") is None
    put(tmp_path, {".agentignore": "f"})
    assert ignore.verdict(f"{tmp_path}/f")
    put(tmp_path, {".agentignore": "g"})
    os.utime(tmp_path / ".agentignore", ns=(1, 1))
    assert ignore.verdict(f"{tmp_path}/f") is None
    (tmp_path / ".agentignore").unlink()
    assert ignore.verdict(f"{tmp_path}/g") is None


@each_row(
    ("data", "words"),
    [
        (b"a\n\xff\xfe\n", "not UTF-8"),
        (b"a\n[z-a]\n", "(line 2 is not a pattern)"),
        (b"a[b\n", "(line 1 is not a pattern)"),
        (b"x\n" * 60_000, "larger than 100 KB"),
        (b"a\n" + b"**/" * 20_000 + b"x\n", "(line 2 is longer than 1,000 characters)"),
        (b"*a" * 501, "(line 1 is longer than 1,000 characters)"),
        (b"a/" * 101 + b"b\n", "(line 1 names more than 100 folders)"),
    ],
)
def test_a_list_that_cannot_be_understood_closes_its_folder(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".agentignore").write_bytes(data)
    ignore = AgentIgnore([tmp_path])
    for path in ("a/f", "a/b/c"):
        assert words in (ignore.verdict(f"{tmp_path}/{path}") or "")
    assert ignore.verdict(f"{tmp_path}/f") is None


def test_a_list_that_cannot_be_read_closes_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".agentignore").mkdir()
    assert "not a regular file" in (AgentIgnore([tmp_path]).verdict(f"{tmp_path}/f") or "")
    (tmp_path / ".agentignore").rmdir()
    os.mkfifo(tmp_path / ".agentignore")
    assert "not a regular file" in (AgentIgnore([tmp_path]).verdict(f"{tmp_path}/f") or "")
    (tmp_path / ".agentignore").unlink()
    os.symlink(".agentignore", tmp_path / ".agentignore")
    assert "cannot be read" in (AgentIgnore([tmp_path]).verdict(f"{tmp_path}/f") or "")


def test_windows_line_ends_and_a_mark_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".agentignore").write_bytes("\ufeff*.key\r\nx\r\n".encode())
    ignore = AgentIgnore([tmp_path])
    assert ignore.verdict(f"{tmp_path}/a.key") and ignore.verdict(f"{tmp_path}/x")


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    ignore = put(tmp_path, {".agentignore": "a\u2028b\nc\x0cd\n!e\rf\n"})
    assert ignore.verdict(f"{tmp_path}/a\u2028b") and ignore.verdict(f"{tmp_path}/c\x0cd")
    assert [ignore.verdict(f"{tmp_path}/{name}") for name in "abcdef"] == [None] * 6


def test_a_set_may_reach_to_a_dash(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="error"):
        ignore = put(tmp_path, {".agentignore": "[+--0]x\n"})
        closed = [name for name in ("+x", ",x", "-x", ".x", "0x") if ignore.verdict(f"{tmp_path}/{name}")]
    assert closed == ["+x", ",x", "-x", "0x"]


def test_a_pattern_made_to_be_slow_is_not(tmp_path: Path) -> None:
    ignore = put(tmp_path, {".agentignore": f"{'*a' * 50}b\n{'**/a/' * 20}b\n"})
    assert_linear(lambda length: ignore.verdict(f"{tmp_path}/{'a' * length}"), 30)
    assert_linear(lambda depth: ignore.verdict(f"{tmp_path}/{'a/' * depth}c"), 25, power=2)
    assert "more than 256 folders" in (ignore.verdict(f"{tmp_path}/{'a/' * 1000}c") or "")


def test_neighbouring_double_stars_are_one(tmp_path: Path) -> None:
    ignore = put(tmp_path, {".agentignore": f"{'**/' * 300}x\na{'/**' * 300}\nb/{'**/' * 300}c"})
    for number, path in ((1, "x"), (1, "q/r/x"), (2, "a/b"), (2, "a/b/c"), (3, "b/c"), (3, "b/q/r/c")):
        assert ignore.verdict(f"{tmp_path}/{path}") == f"{tmp_path}/.agentignore:{number}", path
    for path in ("a", "c", "q/b/c", "y", f"{'y/' * 200}y"):
        assert ignore.verdict(f"{tmp_path}/{path}") is None, path


LINES = [
    "*.x",
    "!*.x",
    "a/",
    "!a/",
    "/b",
    "a/b",
    "!a/b",
    "**/b",
    "a/**",
    "b*",
    "# c",
    "",
    "!b",
    "?",
    "[ab]",
    "c/d.x",
]
PATHS = ["a/b/c.x", "a/b/d", "b/a.x", "c/d.x", "c/a/b", "b.x", "a.x/e"]


@settings(max_examples=tries(15), deadline=None)
@given(
    st.lists(st.sampled_from(LINES), max_size=5),
    st.lists(st.sampled_from(LINES), max_size=3),
    st.sampled_from("abc"),
)
def test_it_judges_as_git_does(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], deeper: list[str], folder: str
) -> None:
    root = tmp_path_factory.mktemp("git")
    texts = {".agentignore": "\n".join(lines), f"{folder}/.agentignore": "\n".join(deeper)}
    ignore = put(root, {**texts, **dict.fromkeys(PATHS, "")})
    for name, text in texts.items():
        (root / name.replace("agentignore", "gitignore")).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    done = subprocess.run(["git", "check-ignore", *PATHS], cwd=root, capture_output=True, text=True, timeout=90)
    closed = [path for path in PATHS if ignore.verdict(f"{root}/{path}")]
    assert closed == done.stdout.splitlines()


def test_a_list_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    listed = tmp_path / ".agentignore"
    listed.write_text("one", encoding="utf-8")
    lists, status = AgentIgnore([tmp_path]), listed.stat()
    assert lists.verdict(f"{tmp_path}/one")
    listed.write_text("two", encoding="utf-8")
    os.utime(listed, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert lists.verdict(f"{tmp_path}/two") and not lists.verdict(f"{tmp_path}/one")


def test_what_a_command_does_to_lists_opens_nothing_and_what_the_user_does_counts(tmp_path: Path) -> None:
    listed, sub = tmp_path / ".agentignore", tmp_path / "sub"
    sub.mkdir()
    listed.write_text("key", encoding="utf-8")
    lists, key, running = AgentIgnore([tmp_path]), f"{tmp_path}/sub/key", SimpleNamespace(is_alive=True)

    def folders() -> list[str]:
        return [str(tmp_path), str(sub)]

    def command() -> None:
        lists.settle(folders)
        lists.begin()
        lists.started(running)

    command()
    (sub / ".agentignore").write_text("!key\nmore", encoding="utf-8")
    listed.unlink()
    assert lists.verdict(key) and lists.verdict(f"{sub}/more")
    assert lists.look(folders) == (str(listed), f"{sub}/.agentignore")
    assert lists.look(folders) == ()
    running.is_alive = False
    assert lists.look(folders) == ()
    command()
    assert lists.verdict(key), "a command changed it before"
    lists.look(folders)
    listed.write_text("other", encoding="utf-8")
    (sub / ".agentignore").unlink()
    command()
    assert not lists.verdict(key) and lists.verdict(f"{tmp_path}/other")

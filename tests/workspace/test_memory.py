"""Blocks of memory in files that the user edits as well."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.workspace.memory import MAX_BLOCKS, Block, BlockError, Memory, file_text, put_back
from tests.fuzz import tries
from tests.rows import each_row


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "config", tmp_path / "project", tmp_path / "notes")


def labels(memory: Memory) -> list[str]:
    return [block.label for block in memory.blocks()]


def put(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_three_blocks_are_there_without_files(memory: Memory, tmp_path: Path) -> None:
    assert [(b.label, b.text, b.limit, b.hash) for b in memory.blocks()] == [
        ("user", "", 4000, ""), ("project", "", 8000, ""), ("notes", "", 4000, ""),
    ]  # fmt: skip
    assert all(block.description and not block.read_only for block in memory.blocks())
    assert list(tmp_path.iterdir()) == []


def test_the_users_own_files_are_blocks_with_their_settings(memory: Memory, tmp_path: Path) -> None:
    put(
        tmp_path / "config/memory/style.md",
        '---\ndescription: "how I write"\nlimit: 50\nread_only: true\n---\n\nbrief\n',
    )
    put(tmp_path / "project/memory/project.md", "# comment kept\nplain text\n")
    put(tmp_path / "notes/todo.md", "\ufeff---\r\n# a comment\r\nlimit: 9\r\n---\r\na\r\nb\r\n")
    put(tmp_path / "config/memory/.hidden.md", "no")
    put(tmp_path / "config/memory/other.txt", "no")
    assert labels(memory) == ["user", "user/style", "project", "notes", "notes/todo"]
    style, project, todo = (memory.find(label) for label in ("user/style", "project", "notes/todo"))
    assert (style.text, style.description, style.limit, style.read_only) == ("brief", "how I write", 50, True)
    assert (project.text, project.limit, project.problem) == ("# comment kept\nplain text", 8000, "")
    assert (todo.text, todo.limit, todo.crlf) == ("a\nb", 9, True)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("---\nlimit: 5\nno end", "no second line ---"),
        ("---\ncolour: red\n---\nx", "line 2 is not one of"),
        ("---\nlimit: 0\n---\nx", "line 2"),
        ("---\nlimit: ٣\n---\nx", "line 2"),
        ("---\nlimit: 99999999999\n---\nx", "line 2"),
        ("---\n\nread_only: yes\n---\nx", "line 3"),
        ("---\nlimit: 5\nlimit: 6\n---\nx", "line 3"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"x" * 200_001, "larger"),
    ],
)
def test_a_file_that_is_not_understood_is_shown_and_left_to_the_user(
    memory: Memory, tmp_path: Path, content: str | bytes, why: str
) -> None:
    put(tmp_path / "config/memory/user.md", content)
    block = memory.find("user")
    assert block.read_only and why in block.problem and block.hash
    assert isinstance(content, bytes) or block.text == content
    with pytest.raises(BlockError, match="by the user only"):
        memory.changed(block, "new")
    assert why in memory.problems()[0]


def test_no_pipe_no_folder_and_no_device_holds_it_up(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "memory"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "user.md")
    (folder / "a.md").mkdir()
    (folder / "b.md").symlink_to("/dev/zero")
    (folder / "c.md").symlink_to("c.md")
    assert all(block.problem for block in memory.blocks() if block.scope == "user" and block.label != "user/c")


@settings(max_examples=tries(60), deadline=None)
@given(st.one_of(st.binary(max_size=80), st.lists(st.sampled_from(
    ["---\n", "limit: 7\n", "limit:", "read_only: true\n", "description: é\r\n", "\n", "text", "\ufeff", ":"]
), max_size=9).map(lambda parts: "".join(parts).encode())))  # fmt: skip
def test_whatever_stands_in_a_file_is_a_block_and_the_settings_survive_a_write(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    base = tmp_path_factory.mktemp("m")
    memory = Memory(base / "c", base / "p", base / "n")
    put(base / "n" / "notes.md", data)
    block = memory.find("notes")
    assert block.hash and block.limit > 0
    if not block.read_only:
        memory.write(block, memory.changed(block, "new"))
        after = memory.find("notes")
        assert (after.text, after.limit, after.description) == ("new", block.limit, block.description)
        assert (base / "n" / "notes.md").read_bytes().startswith(block.head.split("\n")[0].encode())


def test_a_change_is_whole_private_and_keeps_the_settings(memory: Memory, tmp_path: Path) -> None:
    block = memory.find("user")
    memory.write(block, memory.changed(block, "likes tea"))
    path = tmp_path / "config/memory/user.md"
    assert (
        path.read_text(encoding="utf-8").startswith("---\ndescription: ")
        and stat.S_IMODE(path.stat().st_mode) == 0o600
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    again = memory.find("user")
    assert again.text == "likes tea" and memory.is_known(again)
    put(path, path.read_text(encoding="utf-8").replace("4000", "10") + "and cake\n")
    edited = memory.find("user")
    assert edited.limit == 10 and edited.text == "likes tea\nand cake" and not memory.is_known(edited)
    memory.write(edited, memory.changed(edited, "tea"))
    assert path.read_text(encoding="utf-8").endswith("limit: 10\n---\n\ntea\n")
    assert [name for name in os.listdir(path.parent) if name != "user.md"] == []


def test_what_the_user_wrote_meanwhile_is_never_lost(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "notes" / "notes.md"
    block = memory.find("notes")
    put(path, "the user's\n")
    for whole in ("mine", ""):
        with pytest.raises(BlockError, match="changed in the meantime"):
            memory.write(block, whole)
    with pytest.raises(BlockError, match="somebody else"):
        file_text(block)
    assert path.read_text(encoding="utf-8") == "the user's\n"
    block = memory.find("notes")
    path.unlink()
    with pytest.raises(BlockError, match="deleted in the meantime"):
        memory.write(block, "mine")


def test_limits_read_only_blocks_and_secrets_are_refused_with_what_to_do(memory: Memory, tmp_path: Path) -> None:
    put(tmp_path / "notes/notes.md", "---\nlimit: 10\n---\n" + "x" * 30)
    put(tmp_path / "notes/fixed.md", "---\nread_only: true\n---\nx")
    over = memory.find("notes")
    with pytest.raises(BlockError, match="40 characters, 30 more than its limit of 10"):
        memory.changed(over, "y" * 40)
    assert memory.changed(over, "y" * 20).endswith("y" * 20 + "\n")
    with pytest.raises(BlockError, match="read-only"):
        memory.changed(memory.find("notes/fixed"), "y")
    with pytest.raises(BlockError, match="no memory block 'usr'; there are user, project"):
        memory.find("usr")
    token = "ghp_" + "a1B2c3D4e5" * 4
    with pytest.raises(BlockError, match="holds a secret"):
        memory.changed(memory.find("user"), f"use {token}")
    put(tmp_path / "config/memory/user.md", f"mine {token}\n")
    assert "more" in memory.changed(memory.find("user"), f"mine {token}\nmore")


def test_a_text_that_looks_like_settings_stays_a_text(memory: Memory, tmp_path: Path) -> None:
    for before in (None, "old\n", "\ufeffold\n"):
        path = tmp_path / "notes" / "notes.md"
        path.unlink(missing_ok=True)
        if before is not None:
            put(path, before)
        block = memory.find("notes")
        memory.write(block, memory.changed(block, "---\nlimit: 1\n---\nx"))
        assert (memory.find("notes").text, memory.find("notes").limit) == ("---\nlimit: 1\n---\nx", 4000)


def test_a_linked_file_is_changed_where_it_lies(memory: Memory, tmp_path: Path) -> None:
    put(tmp_path / "dotfiles/user.md", "old\n")
    (tmp_path / "config/memory").mkdir(parents=True)
    (tmp_path / "config/memory/user.md").symlink_to(tmp_path / "dotfiles/user.md")
    block = memory.find("user")
    memory.write(block, memory.changed(block, "new"))
    assert (tmp_path / "config/memory/user.md").is_symlink()
    assert (tmp_path / "dotfiles/user.md").read_text(encoding="utf-8") == "new\n"


def test_more_files_than_blocks_are_said(memory: Memory, tmp_path: Path) -> None:
    for n in range(MAX_BLOCKS + 3):
        put(tmp_path / f"config/memory/{n:02}.md", "x")
    put(tmp_path / "config/memory/user.md", "always there")
    assert sum(block.scope == "user" for block in memory.blocks()) == MAX_BLOCKS
    assert memory.find("user").text == "always there"
    assert f"has {MAX_BLOCKS + 4} files; only the first {MAX_BLOCKS} are blocks" in memory.problems()[0]


@each_row("before", [None, "old\n"])
@each_row("after", [None, "new\n", ""])
def test_a_change_is_taken_back_and_done_again(tmp_path: Path, before: str | None, after: str | None) -> None:
    path = tmp_path / "memory" / "user.md"

    def now() -> str | None:
        return path.read_text(encoding="utf-8") if path.exists() else None

    if after is not None:
        put(path, after)
    assert put_back(str(path), after, before) and now() == before
    assert put_back(str(path), before, after) and now() == after
    put(path, "the user's\n")
    assert not put_back(str(path), after, before) and now() == "the user's\n"


def test_blocks_are_values_that_are_read_again_only_after_a_change(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "notes" / "notes.md"
    put(path, "one")
    os.utime(path, ns=(1, 1))
    first = memory.blocks()
    assert isinstance(first[0], Block) and memory.blocks() is first
    put(path, "two")
    assert memory.find("notes").text == "two"
    path.unlink()
    assert memory.find("notes").hash == ""

"""write_file: whole files, and never over content the model has not seen."""

import os
import stat
from pathlib import Path

import pytest

from agent_cli.protocol.actions import WritePath
from agent_cli.protocol.messages import FileChange
from agent_cli.tools.base import ToolContext, ToolError
from agent_cli.workspace.files import content_hash

from .calls import REGISTRY, call


async def test_a_new_file_is_created_with_its_folders(context: ToolContext, root: Path) -> None:
    outcome = await call(context, "write_file", path="a/b.txt", content="x\ny\n")
    assert (root / "a" / "b.txt").read_bytes() == b"x\ny\n"
    assert outcome.changes == (FileChange(path="a/b.txt", kind="created", added=2, removed=0),)
    assert outcome.seen == {str(root / "a" / "b.txt"): content_hash(b"x\ny\n")}
    assert outcome.display.startswith("--- /dev/null\n+++ b/a/b.txt\n")


async def test_overwriting_needs_a_read_of_the_present_content(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"old\n")
    with pytest.raises(ToolError, match="you have not read it"):
        await call(context, "write_file", path="f", content="new\n")
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"theirs\n")
    with pytest.raises(ToolError, match="has changed since you read it"):
        await call(context, "write_file", path="f", content="new\n")
    assert (root / "f").read_bytes() == b"theirs\n"
    await call(context, "read_file", path="f")
    outcome = await call(context, "write_file", path="f", content="new\n")
    assert outcome.changes == (FileChange(path="f", kind="modified", added=1, removed=1),)
    await call(context, "write_file", path="f", content="newer\n")
    assert (root / "f").read_bytes() == b"newer\n"


async def test_an_empty_file_may_be_filled_without_a_read(context: ToolContext, root: Path) -> None:
    (root / "f").touch()
    await call(context, "write_file", path="f", content="x")
    assert (root / "f").read_bytes() == b"x"


async def test_the_same_content_is_not_written_again(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"same\n")
    await call(context, "read_file", path="f")
    before = os.stat(root / "f")
    outcome = await call(context, "write_file", path="f", content="same\n")
    assert "already" in outcome.text and not outcome.changes and os.stat(root / "f").st_ino == before.st_ino


async def test_mode_mark_line_ends_and_link_survive(context: ToolContext, root: Path) -> None:
    (root / "real").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    os.chmod(root / "real", 0o750)
    os.symlink("real", root / "link")
    await call(context, "read_file", path="link")
    await call(context, "write_file", path="link", content="a\nc\nd\n")
    assert (root / "real").read_bytes() == b"\xef\xbb\xbfa\r\nc\r\nd\r\n"
    assert (root / "link").is_symlink() and stat.S_IMODE(os.stat(root / "real").st_mode) == 0o750


async def test_the_encoding_is_kept_or_the_write_refused(context: ToolContext, root: Path) -> None:
    (root / "f.py").write_bytes(b"# coding: latin-1\nx = '\xe9'\n")
    await call(context, "read_file", path="f.py")
    await call(context, "write_file", path="f.py", content="# coding: latin-1\nx = 'è'\n")
    assert (root / "f.py").read_bytes() == b"# coding: latin-1\nx = '\xe8'\n"
    with pytest.raises(ToolError, match=r"latin-1, which has no character '漢' \(U\+6F22\)"):
        await call(context, "write_file", path="f.py", content="# 漢\n")
    (root / "g").write_bytes(b"caf\xe9\n")
    await call(context, "read_file", path="g")
    with pytest.raises(ToolError, match="looks like cp1252"):
        await call(context, "write_file", path="g", content="thé\n")


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest of the file unchanged",
        "// ... existing code ...",
        "    # rest of the code stays the same",
        "<!-- ... remaining items -->",
        "/* … unchanged … */",
    ],
)
async def test_a_rewrite_that_leaves_out_code_is_refused(context: ToolContext, root: Path, line: str) -> None:
    (root / "f").write_bytes(b"a\nb\n")
    await call(context, "read_file", path="f")
    with pytest.raises(ToolError, match="left out"):
        await call(context, "write_file", path="f", content=f"a\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "...",
        "    ...",
        "def f(): ...",
        "# the rest is easy",
        "print('...')",
        "- previous work",
        "Loading... existing",
    ],
)
async def test_ordinary_dots_are_no_elision(context: ToolContext, root: Path, line: str) -> None:
    (root / "f").write_bytes(b"a\n")
    await call(context, "read_file", path="f")
    await call(context, "write_file", path="f", content=f"{line}\n")


async def test_places_that_cannot_be_written(context: ToolContext, root: Path) -> None:
    (root / "d").mkdir()
    (root / "bin").write_bytes(b"\x00")
    (root / "file").write_bytes(b"x")
    os.mkfifo(root / "pipe")
    for path, words in (
        ("d", "directory"),
        ("new/", "directory"),
        ("bin", "not a text file"),
        ("pipe", "named pipe"),
        ("file/x", "not a folder"),
    ):
        with pytest.raises(ToolError, match=words):
            await call(context, "write_file", path=path, content="x")


async def test_the_preview_shows_the_diff_and_refuses_what_the_run_would(context: ToolContext, root: Path) -> None:
    tool, params = REGISTRY.parse("write_file", '{"path": "f", "content": "x\\n"}')
    preview = await tool.preview(params, context)
    assert preview.kind == "diff" and preview.text.endswith("+x\n") and not (root / "f").exists()
    assert tool.actions(params, context) == (WritePath(str(root / "f"), "f"),)
    (root / "f").write_bytes(b"old")
    with pytest.raises(ToolError, match="not read"):
        await tool.preview(params, context)

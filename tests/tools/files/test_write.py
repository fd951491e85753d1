"""write_file: whole files, and never over content the model has not seen."""

import os
import re
import stat
from pathlib import Path

import pytest

from agent_cli.protocol.actions import WritePath
from agent_cli.protocol.messages import FileChange
from agent_cli.tools.files import elision_check
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.workspace.files.reader import content_hash
from tests.tools.calls import REGISTRY, call


async def test_a_new_file_is_created_with_its_folders(context: ToolContext, root: Path) -> None:
    outcome = await call(context, "write_file", path="a/b.txt", content="x\ny\n")
    assert (root / "a" / "b.txt").read_bytes() == b"x\ny\n"
    assert outcome.changes == (FileChange(path="a/b.txt", kind="created", added=2, removed=0),)
    assert outcome.seen == {str(root / "a" / "b.txt"): content_hash(b"x\ny\n")}
    assert outcome.display.startswith("--- /dev/null\n+++ b/a/b.txt\n")


async def test_overwriting_needs_a_read_of_the_present_content(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"old\n")
    with pytest.raises(ToolError, match="Read it before you replace it"):
        (root / "long").write_bytes(b"old\n" * 2000)
        await call(context, "write_file", path="long", content="new\n")
    with pytest.raises(ToolError, match=r"you have not read it\. Nothing was written\..*all of this:\nold\n$"):
        await call(context, "write_file", path="f", content="new\n")
    assert (root / "f").read_bytes() == b"old\n"
    outcome = await call(context, "write_file", path="f", content="new\n")
    assert outcome.changes == (FileChange(path="f", kind="modified", added=1, removed=1),)
    await call(context, "write_file", path="f", content="newer\n")
    assert (root / "f").read_bytes() == b"newer\n"


async def test_python_that_does_not_compile_is_written_with_a_warning(context: ToolContext, root: Path) -> None:
    for name, text, warned in (
        ("a.py", "def f(:\n  pass\n", "not valid Python now: line 1:"), ("b.py", "x = (\n", "line 1: '(' was never closed"),
        ("c.pyi", "\nclass\n", "line 2:"), ("d.py", "x = '\\d'\n", ""), ("e.txt", "def f(:\n", ""), ("f.py", "", ""),
    ):  # fmt: skip
        said = (await call(context, "write_file", path=name, content=text)).text
        assert (root / name).read_text(encoding="utf-8") == text
        assert warned in said if warned else "Warning" not in said
    await call(context, "read_file", path="b.py")
    edited = await call(context, "edit_file", path="b.py", edits=[{"old": "(", "new": "["}])
    assert "not valid Python now: line 1: '[' was never closed." in edited.text
    patch = "*** Begin Patch\n*** Update File: b.py\n@@\n-x = [\n+x = {\n*** End Patch"
    assert "'{' was never closed" in (await call(context, "apply_patch", patch=patch)).text


async def test_further_names_of_a_written_file_are_mentioned(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("old\n", encoding="utf-8")
    os.link(root / "f", root / "g")
    await call(context, "read_file", path="f")
    said = (await call(context, "write_file", path="f", content="new\n")).text
    assert "those keep the old content" in said and (root / "g").read_text(encoding="utf-8") == "old\n"


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


_LEFT_OUT = [
    "# ... rest of the file unchanged",
    "// ... existing code ...",
    "    # rest of the code stays the same",
    "<!-- ... remaining items -->",
    "/* … unchanged … */",
    "# ... (rest of the code)",
    "// ... (other methods remain the same)",
    "// rest of the file remains unchanged",
    "-- ... existing columns ...",
    "{/* ... existing JSX ... */}",
    "{/* rest of the component stays the same */}",
    "# [rest of the file]",
    "(rest of the function)",
    "[... rest of the document ...]",
    "<... existing routes ...>",
    "// existing implementation goes here",
    "# previous code omitted for brevity",
    "# ... keep the other tests ...",
    "... rest of the code",
    "...rest of the code",
    "// unchanged",
    "# (no changes here)",
    "/* same as before */",
    "# existing imports remain here",
    "# other methods ...",
    "... remaining code is unchanged",
    "; ... remaining sections",
    "# remaining code ...",
]


@pytest.mark.parametrize("line", _LEFT_OUT)
async def test_a_rewrite_that_leaves_out_code_is_refused(context: ToolContext, root: Path, line: str) -> None:
    (root / "f").write_bytes(b"a\nb\n")
    await call(context, "read_file", path="f")
    with pytest.raises(ToolError, match="left out"):
        await call(context, "write_file", path="f", content=f"a\n{line}\n")


_INNOCENT = [
    "...",
    "    ...",
    "def f(): ...",
    "# the rest is easy",
    "print('...')",
    "- previous work",
    "Loading... existing",
    "    ...rest,",
    "    ...existing,",
    "  ...previous.items,",
    "const { a, ...rest } = props;",
    "x = [...]",
    "Ellipsis",
    "# the rest of the loop",
    "# the rest of the loop runs once",
    "# existing behaviour stays the same for callers",
    "# Keep the order: others depend on it",
    "// other users remain logged in",
    "// previous value, or null",
    "    pass  # ...",
    "# see the remaining tests for how",
    "match x: case [first, *rest]: ...",
    "# unchanged values are skipped",
    "/* same as before the break, but shorter */",
    "// TODO: existing rows need a default",
    "Same as above.",
    '"""..."""',
    "#...",
    "The rest of the text stays where it is.",
    "... remaining arguments are passed to f",
    "[...] other",
    "## Other ...",
    "* Previous Versions ...",
]
_PROSE = [
    "# Other ...",
    "... the rest of the text",
    "# Keep ... in mind",
    "- # ...",
    "# Existing tests ...",
    "# previous code",
]


@pytest.mark.parametrize("line", _PROSE)
async def test_prose_may_have_dots(context: ToolContext, root: Path, line: str) -> None:
    (root / "f.md").write_bytes(b"a\nb\nc\n")
    await call(context, "edit_file", path="f.md", edits=[{"old": "a\nb\n", "new": f"{line}\n"}])
    with pytest.raises(ToolError, match="left out"):
        await call(
            context, "edit_file", path="f.md", edits=[{"old": "c", "new": "[... rest of the document ...]"}]
        )


@pytest.mark.parametrize(
    "table", [elision_check._ALWAYS, elision_check._EVEN_IN_PROSE, elision_check._WHERE_SHORTER]
)
def test_each_sign_of_an_elision_has_an_example(table: tuple[tuple[str, str], ...]) -> None:
    for pattern, example in table:
        assert re.fullmatch(pattern, example, re.IGNORECASE)


@pytest.mark.parametrize("line", _INNOCENT)
async def test_ordinary_words_and_dots_are_no_elision(context: ToolContext, root: Path, line: str) -> None:
    (root / "f").write_bytes(b"a\n")
    await call(context, "read_file", path="f")
    await call(context, "write_file", path="f", content=f"{line}\n")


@pytest.mark.parametrize("line", ["# ...", "// ...", "/* ... */", "# rest of the code", "// existing code"])
async def test_a_bare_mark_counts_where_the_text_gets_shorter(context: ToolContext, root: Path, line: str) -> None:
    (root / "f").write_bytes(b"a\nb\nc\n")
    await call(context, "read_file", path="f")
    with pytest.raises(ToolError, match="left out"):
        await call(context, "write_file", path="f", content=f"a\n{line}\n")
    await call(context, "write_file", path="f", content=f"a\n{line}\nb\nc\n")


def _module(functions: int) -> str:
    return "".join(f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(functions))


async def test_a_rewrite_that_loses_much_is_refused_with_what_would_go(context: ToolContext, root: Path) -> None:
    (root / "f.py").write_text(_module(20), encoding="utf-8")
    await call(context, "read_file", path="f.py")
    with pytest.raises(ToolError) as caught:
        await call(context, "write_file", path="f.py", content=_module(13))
    said = str(caught.value)
    assert "cut f.py from 40 to 26 lines" in said and "53\tdef function_13(value):" in said
    assert "may_shrink: true" in said and (root / "f.py").read_text(encoding="utf-8") == _module(20)
    await call(context, "write_file", path="f.py", content=_module(13), may_shrink=True)
    assert (root / "f.py").read_text(encoding="utf-8") == _module(13)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_module(20), _module(15)),  # a quarter is gone
        (_module(4), _module(1)),  # less than ten lines are gone
        (_module(20), "".join(f"class New{n}:\n    pass\n" for n in range(18))),  # all is new
        ("\n\n\n".join("abcdefgh" * 3), "\n".join("abcdefgh" * 3)),  # blank lines are gone
        ("x = [\n" + "    1,\n" * 40 + "]\n", f"x = [{', '.join('1' for _ in range(40))}]\n"),  # lines are joined
        ("", "x\n"),
    ],
)
async def test_a_rewrite_that_keeps_enough_is_made(
    context: ToolContext, root: Path, before: str, after: str
) -> None:
    (root / "f").write_text(before, encoding="utf-8")
    await call(context, "read_file", path="f")
    await call(context, "write_file", path="f", content=after)
    assert (root / "f").read_text(encoding="utf-8") == after


async def test_a_long_line_that_goes_counts_too(context: ToolContext, root: Path) -> None:
    text = "{" + ",".join(f'"key{number}":{number}' for number in range(150)) + "}"
    (root / "f.json").write_text(text, encoding="utf-8")
    await call(context, "read_file", path="f.json")
    with pytest.raises(ToolError, match="from 1731 to 2 characters"):
        await call(context, "write_file", path="f.json", content="{}")
    await call(context, "write_file", path="f.json", content=text[:1000])


async def test_a_new_file_gets_the_encoding_it_declares(context: ToolContext, root: Path) -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<a>é</a>\n'
    await call(context, "write_file", path="f.xml", content=text)
    assert (root / "f.xml").read_bytes() == text.encode("latin-1")
    await call(context, "write_file", path="f.py", content='open(f, encoding="latin-1")  # é\n')
    assert (root / "f.py").read_bytes().endswith("é\n".encode())


async def test_an_edit_may_delete_as_much_as_it_names(context: ToolContext, root: Path) -> None:
    (root / "f").write_text(_module(20), encoding="utf-8")
    begin = _module(20).index("def function_4")
    await call(context, "edit_file", path="f", edits=[{"old": _module(20)[begin:], "new": ""}])
    assert (root / "f").read_text(encoding="utf-8") == _module(20)[:begin]


async def test_what_others_changed_elsewhere_is_merged(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\r\nb\r\nc\r\nd\r\ne\r\n")
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"a\r\nb\r\nc\r\nd\r\ntheirs\r\n")
    outcome = await call(context, "write_file", path="f", content="ours\nb\nc\nd\ne\n")
    assert (root / "f").read_bytes() == b"ours\r\nb\r\nc\r\nd\r\ntheirs\r\n"
    assert "these changes are kept" in outcome.text and "-e\n+theirs" in outcome.text
    await call(context, "write_file", path="f", content="ours\nb\nc\nd\ntheirs\nnew\n")
    assert (root / "f").read_bytes().endswith(b"theirs\r\nnew\r\n")


async def test_a_formatter_costs_one_more_try_at_most(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"x=1\ny=2\n")
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"x = 1\ny = 2\n")
    with pytest.raises(ToolError, match="need not read") as refused:
        await call(context, "write_file", path="f", content="x=1\ny=3\n")
    assert "-x=1\n-y=2\n+x = 1\n+y = 2" in str(refused.value)
    assert (root / "f").read_bytes() == b"x = 1\ny = 2\n"
    outcome = await call(context, "write_file", path="f", content="x = 1\ny = 3\n")
    assert outcome.ok and (root / "f").read_bytes() == b"x = 1\ny = 3\n"


async def test_a_refused_preview_shows_the_present_content_too(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"b\n")
    tool, params = REGISTRY.parse("write_file", '{"path": "f", "content": "c\\n"}')
    with pytest.raises(ToolError, match="changed by others") as refused:
        await tool.preview(params, context)
    context.seen.update(refused.value.seen)
    assert (await tool.preview(params, context)).text.endswith("-b\n+c\n")


async def test_a_change_too_large_to_show_needs_a_read(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n" * 500)
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"b\n" * 500)
    for _ in range(2):
        with pytest.raises(ToolError, match="Read the file again"):
            await call(context, "write_file", path="f", content="c\n" * 500)


async def test_without_the_old_content_a_changed_file_must_be_read(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"b\n")
    context.seen[str(root / "f")] = content_hash(b"a\n")
    with pytest.raises(ToolError, match="has changed since you read it"):
        await call(context, "write_file", path="f", content="c\n")


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

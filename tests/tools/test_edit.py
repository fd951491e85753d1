"""edit_file: exact, unique, all or none, and byte-exact outside the span."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.messages import FileChange
from agent_cli.sandbox.process import ProcessRunner
from agent_cli.tools.base import ToolContext, ToolError
from agent_cli.workspace.encoding import Codec
from agent_cli.workspace.files import content_hash
from agent_cli.workspace.paths import Workspace

from .calls import REGISTRY, call


def edit(old: str, new: str, **more: bool) -> dict[str, object]:
    return {"old": old, "new": new, **more}


async def refused(context: ToolContext, *edits: dict[str, object], path: str = "f") -> str:
    before = (context.workspace.root / path).read_bytes()
    with pytest.raises(ToolError) as caught:
        await call(context, "edit_file", path=path, edits=list(edits))
    assert (context.workspace.root / path).read_bytes() == before
    return str(caught.value)


async def test_a_unique_match_is_replaced_without_a_prior_read(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a = 1\nb = 2\n")
    outcome = await call(context, "edit_file", path="f", edits=[edit("b = 2", "b = 3")])
    assert (root / "f").read_bytes() == b"a = 1\nb = 3\n"
    assert outcome.text == "Changed f: 1 line added, 1 removed."
    assert outcome.changes == (FileChange(path="f", kind="modified", added=1, removed=1),)
    assert outcome.seen == {str(root / "f"): content_hash(b"a = 1\nb = 3\n")}
    assert "-b = 2\n+b = 3\n" in outcome.display


async def test_edits_apply_in_order_all_or_none(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"one two\n")
    await call(context, "edit_file", path="f", edits=[edit("one", "three"), edit("three two", "four")])
    assert (root / "f").read_bytes() == b"four\n"
    said = await refused(context, edit("four", "five"), edit("six", "seven"))
    assert said.startswith("edit 2 of 2: `old` does not occur in f. Nothing was changed.")


async def test_several_matches_are_refused_with_their_lines_or_all_replaced(
    context: ToolContext, root: Path
) -> None:
    (root / "f").write_bytes(b"x\ny\nx\n")
    assert "at lines 1, 3. Nothing was changed" in await refused(context, edit("x", "z"))
    await call(context, "edit_file", path="f", edits=[edit("x", "xx", replace_all=True)])
    assert (root / "f").read_bytes() == b"xx\ny\nxx\n"


async def test_overlapping_matches_are_ambiguous(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"aaa")
    assert "several times" in await refused(context, edit("aa", "b"))


async def test_a_failed_match_shows_the_nearest_region_with_its_white_space(
    context: ToolContext, root: Path
) -> None:
    (root / "f.go").write_bytes(b"func main() {\n\tif x {\n\t\treturn 1 \n\t}\n}\n")
    said = await refused(context, edit("    if x {\n        return 1\n    }", "q"), path="f.go")
    assert "differs in white space only" in said
    assert "2\t→if x {\n3\t→→return 1·\n4\t→}" in said
    said = await refused(context, edit("if y {\n\t\treturn 12", "q"), path="f.go")
    assert "nearest region" in said and "→if x {" in said
    assert "Nothing in the file resembles it" in await refused(
        context, edit("completely different", "q"), path="f.go"
    )


async def test_what_is_already_applied_is_said_to_be(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nnew text\n")
    assert "already applied" in await refused(context, edit("old text", "new text"))


async def test_senseless_edits_are_refused(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    assert "`old` is empty. Use write_file" in await refused(context, edit("", "x"))
    assert "identical" in await refused(context, edit("a", "a"))
    assert "leave f as it is" in await refused(context, edit("a", "b"), edit("b", "a"))
    assert "left out" in await refused(context, edit("a", "a\n# ... rest of the file"))
    with pytest.raises(ToolError, match="does not exist"):
        await call(context, "edit_file", path="none", edits=[edit("a", "b")])


async def test_a_file_changed_since_it_was_seen_is_mentioned(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nb\n")
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"a\nb\nc\n")
    outcome = await call(context, "edit_file", path="f", edits=[edit("a", "x")])
    assert "had changed since you last read it" in outcome.text
    outcome = await call(context, "edit_file", path="f", edits=[edit("x", "y")])
    assert "had changed" not in outcome.text


async def test_line_ends_mark_mode_and_link_survive(context: ToolContext, root: Path) -> None:
    (root / "real").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\n")
    os.chmod(root / "real", 0o755)
    os.symlink("real", root / "link")
    await call(context, "edit_file", path="link", edits=[edit("a\nb", "a\nx\ny")])
    assert (root / "real").read_bytes() == b"\xef\xbb\xbfa\r\nx\r\ny\r\nc\n"
    assert (root / "link").is_symlink() and stat.S_IMODE(os.stat(root / "real").st_mode) == 0o755
    await call(context, "edit_file", path="real", edits=[edit("x\r\ny", "z")])
    assert (root / "real").read_bytes() == b"\xef\xbb\xbfa\r\nz\r\nc\n"


async def test_a_guessed_encoding_allows_ascii_edits_only(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"caf\xe9 = 1\n")
    assert "looks like cp1252" in await refused(context, edit("1", "é"))
    await call(context, "edit_file", path="f", edits=[edit("1", "2")])
    assert (root / "f").read_bytes() == b"caf\xe9 = 2\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "gbk", "shift_jis"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["\t", "    "])
async def test_only_the_edited_line_changes(
    context: ToolContext, root: Path, encoding: str, end: str, indent: str
) -> None:
    word = {"latin-1": "é", "gbk": "汉字", "shift_jis": "テスト"}.get(encoding, "é漢🎉")
    lines = [f"# coding: {encoding}", f"{indent}{word} = 1", f"{indent}value = 2 ", f"{indent}{word} = 3", "end"]
    (root / "f").write_bytes(end.join(lines).encode(encoding))
    await call(context, "edit_file", path="f", edits=[edit(f"{indent}value = 2 \n", f"{indent}value = 20\n")])
    lines[2] = f"{indent}value = 20"
    assert (root / "f").read_bytes() == end.join(lines).encode(encoding)


_LINE = st.tuples(st.text(st.sampled_from("abc\t é漢"), max_size=5), st.sampled_from(["\n", "\r\n"]))
_CODECS = st.sampled_from([Codec(), Codec("utf-8", b"\xef\xbb\xbf"), Codec("utf-16-le", b"\xff\xfe")])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(_LINE, max_size=6), after=st.lists(_LINE, max_size=6), codec=_CODECS)
async def test_no_byte_outside_the_span_changes(
    tmp_path: Path, before: list[tuple[str, str]], after: list[tuple[str, str]], codec: Codec
) -> None:
    context = ToolContext(Workspace(tmp_path), ProcessRunner(), tmp_path)
    head, tail = ("".join(text + end for text, end in lines) for lines in (before, after))
    path = tmp_path / "f"
    path.write_bytes(codec.encode(f"{head}MARK one{tail}"))
    await call(context, "edit_file", path="f", edits=[edit("MARK one", "MARK two")])
    assert path.read_bytes() == codec.encode(f"{head}MARK two{tail}")


async def test_the_preview_is_the_diff(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    tool, params = REGISTRY.parse("edit_file", '{"path": "f", "edits": [{"old": "a", "new": "b"}]}')
    preview = await tool.preview(params, context)
    assert preview.kind == "diff" and "-a\n+b\n" in preview.text and (root / "f").read_bytes() == b"a\n"


async def test_a_failed_match_in_a_large_file_is_answered_quickly(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("".join(f"value_{n} = compute({n})\n" for n in range(60_000)), encoding="utf-8")
    import time

    begun = time.monotonic()
    await refused(context, edit("value_of_something = compute_it(everything)", "q"))
    assert time.monotonic() - begun < 1.5

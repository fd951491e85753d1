"""edit_file: exact, unique, all or none, and byte-exact outside the span."""

import asyncio
import fcntl
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.messages import FileChange
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.new_context import new_context
from agent_cli.workspace.files.encoding import Codec
from agent_cli.workspace.files.reader import content_hash
from agent_cli.workspace.paths import Workspace
from tests.fuzz import tries
from tests.tools.calls import REGISTRY, call


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
    assert outcome.seen == {}, "the model has not read the rest"
    assert "-b = 2\n+b = 3\n" in outcome.display


async def test_edits_apply_in_order_all_or_none(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"one two\n")
    await call(context, "edit_file", path="f", edits=[edit("one", "three"), edit("three two", "four")])
    assert (root / "f").read_bytes() == b"four\n"
    said = await refused(context, edit("four", "five"), edit("six", "seven"))
    assert said.startswith("edit 2 of 2: `old` does not occur in f. Nothing was changed.\n")


async def test_several_matches_are_refused_with_their_lines_or_all_replaced(
    context: ToolContext, root: Path
) -> None:
    (root / "f").write_bytes(b"x\ny\nx\n")
    assert "at lines 1, 3. Nothing was changed" in await refused(context, edit("x", "z"))
    await call(context, "edit_file", path="f", edits=[edit("x", "xx", replace_all=True)])
    assert (root / "f").read_bytes() == b"xx\ny\nxx\n"


async def test_an_edit_of_blank_lines_alone_is_made_or_refused(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n  \n\n")
    assert "several times" in await refused(context, edit("\n", ""))
    (root / "f").write_bytes(b"    \n")
    outcome = await call(context, "edit_file", path="f", edits=[edit("  \n", "")])
    assert "matched but for indentation" in outcome.text and (root / "f").read_bytes() == b""


async def test_overlapping_matches_are_ambiguous(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"---")
    assert "several times" in await refused(context, edit("--", "b"))


async def test_a_failed_match_shows_the_nearest_region_with_its_white_space(
    context: ToolContext, root: Path
) -> None:
    (root / "f.go").write_bytes(b"func main() {\n\tif x {\n\t\treturn 1 \n\t}\n}\n")
    said = await refused(context, edit("    if x {\n        return 1\n\treturn 2\n    }", "q"), path="f.go")
    assert "nearest region" in said
    assert "1\tfunc main() {\n2\t→if x {\n3\t→→return 1·\n4\t→}" in said
    said = await refused(context, edit("if y {\n\t\treturn 12", "q"), path="f.go")
    assert "nearest region" in said and "→if x {" in said
    assert "Nothing in the file resembles it" in await refused(
        context, edit("completely different", "q"), path="f.go"
    )


async def test_a_match_with_the_placeholder_of_a_secret_is_not_sent_to_read_the_file_again(
    context: ToolContext, root: Path
) -> None:
    (root / "f").write_bytes(b'KEY = "very secret"\nname = 1\n')
    said = await refused(context, edit('KEY = "[masked: KEY]"\nname = 1', "name = 2"))
    assert "stands for a secret that you are not shown" in said and "match the lines beside it" in said


async def test_what_is_already_applied_is_said_to_be(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nbeside\nnew text\n")
    again = edit("beside\nold text", "beside\nnew text")
    outcome = await call(context, "edit_file", path="f", edits=[again])
    assert outcome.ok and not outcome.changes and (root / "f").read_bytes() == b"a\nbeside\nnew text\n"
    assert outcome.text == "Nothing was changed in f. The edit was already applied: its new text is at line 2."
    outcome = await call(context, "edit_file", path="f", edits=[again, edit("a\n", "b\n")])
    assert "Edit 1 of 2 was already applied" in outcome.text
    assert (root / "f").read_bytes() == b"b\nbeside\nnew text\n"


async def test_a_like_line_elsewhere_is_not_the_edit_made_before(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"[dev]\nport = 8080\n[prod]\nport = 9090\n")
    said = await refused(context, edit("port = 8000", "port = 9090"))
    assert "`old` does not occur in f; `new` is at line 4: if that is it, all is done." in said
    assert "nearest region" in said


async def test_an_insertion_made_before_is_not_made_twice(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"import os\nimport sys\n\nx = 1\n")
    again = edit("import os\n", "import os\nimport sys\n")
    outcome = await call(context, "edit_file", path="f", edits=[again])
    assert "already applied" in outcome.text and (root / "f").read_bytes().count(b"import sys") == 1
    await call(context, "edit_file", path="f", edits=[edit("x = 1\n", "x = 1\n\n")])


async def test_what_a_deletion_leaves_does_not_mean_that_it_was_made(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"first = 1\nsecond = 3\n")
    assert "does not occur" in await refused(context, edit("first = 1\nsecond = 2\n", "first = 1\n"))
    assert "does not occur" in await refused(context, edit("third = get()", "first = 1"))


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
    assert outcome.text.endswith(
        "The file had changed since you last read it, by a command or by others; these changes are kept:\n@@ -1,2 +1,3 @@\n a\n b\n+c\n"
    )
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


@pytest.mark.parametrize(
    ("encoding", "text", "old", "new"),
    [
        ("cp932", "// これは日本語のテキストです。設定を変更してください\nx = 1\n", "設定", "構成"),
        ("euc_jp", "// これは日本語のテキストです。設定を変更してください\nx = 1\n", "設定", "構成"),
        ("gb18030", "// 这是一个中文注释，用来说明配置文件的内容\nx = 1\n", "配置", "设置"),
        ("big5", "// 這是一個中文註釋，用來說明設定檔的內容\nx = 1\n", "設定檔", "檔案"),
        ("euc_kr", "// 이것은 한국어 주석입니다. 설정 파일을 바꾸세요\nx = 1\n", "설정", "구성"),
        ("cp1252", "// un café, une crème brûlée, ça va être très bien – oui\nx = 1\n", "café", "thé"),
    ],
)
async def test_an_encoding_that_is_evident_may_be_written(
    context: ToolContext, root: Path, encoding: str, text: str, old: str, new: str
) -> None:
    (root / "f").write_bytes(text.encode(encoding))
    await call(context, "edit_file", path="f", edits=[edit(old, new)])
    assert (root / "f").read_bytes() == text.replace(old, new).encode(encoding)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "// příklad češtiny, žluťoučký kůň úpěl ďábelské ódy\n"),
        ("cp1250", "// zażółć gęślą jaźń\n"),
        ("cp1251", "// это русский текст в комментарии\n"),
        ("cp1254", "// şişli ığdır göç çağrı özgür\n"),
    ],
)
async def test_an_encoding_that_may_be_another_is_not_written(
    context: ToolContext, root: Path, encoding: str, text: str
) -> None:
    (root / "f").write_bytes(text.encode(encoding) + b"x = 1\n")
    assert "only ASCII text can be written" in await refused(context, edit("x = 1", "x = 'é'"))


async def test_bytes_that_are_no_text_are_named(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfabc\xffd\n")
    said = await refused(context, edit("abc", "x"))
    assert "byte 0xff at offset 6 does not fit its byte order mark (utf-8" in said


async def test_edits_written_against_the_same_text_are_made_together(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a = 1\nb = 2\nc = 3\nd = 4\n")
    await call(
        context,
        "edit_file",
        path="f",
        edits=[edit("a = 1\nb = 2", "a = 9\nb = 2"), edit("a = 1\nb = 2\nc = 3\n", "a = 1\nb = 2\nc = 8\n")],
    )
    assert (root / "f").read_bytes() == b"a = 9\nb = 2\nc = 8\nd = 4\n"


async def test_what_was_forgiven_is_said(context: ToolContext, root: Path) -> None:
    (root / "f.py").write_text("def f():\n\treturn 'a'\n", encoding="utf-8")
    outcome = await call(context, "edit_file", path="f.py", edits=[edit("    return 'a'", "    return ‘b’")])
    assert outcome.text == (
        "Changed f.py: 1 line added, 1 removed. The edit matched but for indentation (line 2)."
        " New in this file: ‘ (U+2018), ’ (U+2019); replace it if that was not meant."
        " Warning: it is not valid Python now: line 2: invalid character '‘' (U+2018)."
    )
    (root / "g.py").write_text("x = “a”\ny = 'é'\n", encoding="utf-8")
    outcome = await call(context, "edit_file", path="g.py", edits=[edit("x = “a”", 'x = "a"')])
    assert "“ (U+201C), ” (U+201D) became plain ASCII; put it back" in outcome.text
    text = "# all that the reader needs to know of this is here\nfirst = 1\nsecond = 2\nthird = 3\n"
    (root / "h.py").write_text(text, encoding="utf-8")
    old = text.replace("needs", "wants")
    outcome = await call(
        context, "edit_file", path="h.py", edits=[edit(old, old.replace("third = 3", "third = 4"))]
    )
    assert "matched nearly (line 1). Result:\n@@ -1,4 +1,4 @@" in outcome.text
    assert "\n-third = 3\n+third = 4" in outcome.text
    assert (root / "h.py").read_text(encoding="utf-8") == text.replace("third = 3", "third = 4")


async def test_what_others_changed_unseen_is_not_taken_for_known(context: ToolContext, root: Path) -> None:
    lines = [f"line {number}\n" for number in range(200)]
    (root / "f").write_text("".join(lines), encoding="utf-8")
    await call(context, "read_file", path="f")
    theirs = [f"theirs {number}\n" if number < 100 else lines[number] for number in range(200)]
    (root / "f").write_text("".join(theirs), encoding="utf-8")
    outcome = await call(context, "edit_file", path="f", edits=[edit("line 150\n", "ours\n")])
    assert "had changed since you last read it" in outcome.text
    mine = [*lines[:150], "ours\n", *lines[151:]]
    assert outcome.seen == {str(root / "f"): content_hash("".join(mine).encode())}
    outcome = await call(context, "write_file", path="f", content="".join([*mine[:199], "last\n"]))
    assert (root / "f").read_text(encoding="utf-8") == "".join(
        [*theirs[:150], "ours\n", *theirs[151:199], "last\n"]
    )


async def test_an_edit_to_what_others_wrote_makes_the_file_unknown(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("a\n" * 100, encoding="utf-8")
    await call(context, "read_file", path="f")
    (root / "f").write_text("b\n" * 100 + "theirs\n", encoding="utf-8")
    await call(context, "edit_file", path="f", edits=[edit("theirs", "ours")])
    with pytest.raises(ToolError, match="has changed since you read it"):
        await call(context, "write_file", path="f", content="a\n" * 99)


async def test_no_more_is_said_of_others_than_is_known(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nb\n")
    context.seen[str(root / "f")] = "a hash of long ago"
    outcome = await call(context, "edit_file", path="f", edits=[edit("a", "x")])
    assert outcome.text.endswith("had changed since you last read it; read it again if that matters.")


async def test_an_error_of_a_later_edit_says_which_text_it_speaks_of(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nb\nc\n")
    said = await refused(context, edit("a\n", "a\nb\n"), edit("b\n", "x\n"))
    assert "at lines 2, 3" in said and said.endswith(
        "(Lines are as they would be after edit 1, of which nothing was written.)"
    )
    assert "Lines are as" not in await refused(context, edit("q", "r"), edit("b\n", "x\n"))


async def test_a_declared_encoding_counts_while_the_file_is_ascii(context: ToolContext, root: Path) -> None:
    (root / "f.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = 1\n")
    await call(context, "edit_file", path="f.py", edits=[edit("x = 1", "x = 'é'")])
    assert (root / "f.py").read_bytes() == b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"
    assert "no character '漢'" in await refused(context, edit("'é'", "'漢'"), path="f.py")


async def test_damaged_utf_8_is_left_alone(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes("é ü ö naïve café\n".encode() + b"bad \xff\n")
    said = await refused(context, edit("bad", "good"))
    assert "UTF-8 but for byte 0xff at offset 26" in said and "iconv" not in said
    outcome = await call(context, "read_file", path="f")
    assert "é ü ö naïve café" in outcome.text and "bad \ufffd" in outcome.text


async def test_a_file_left_half_written_is_not_edited(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"new\nold\n")
    (root / ".f.agent-backup").write_bytes(b"old\nold\n")
    said = await refused(context, edit("new", "x"))
    assert "write of f was cut short" in said and "cat .f.agent-backup >" in said
    (root / ".f.agent-backup").write_bytes(b"new\nold\n")
    await call(context, "edit_file", path="f", edits=[edit("new", "x")])
    assert os.listdir(root) == ["f"], "a backup of what stands there is of no use"


async def test_nothing_else_waits_for_a_locked_folder(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    fd = os.open(root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    editing = asyncio.ensure_future(call(context, "edit_file", path="f", edits=[edit("a", "b")]))
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert not editing.done()
    os.close(fd)
    await asyncio.wait_for(editing, 60)
    assert (root / "f").read_bytes() == b"b\n"


async def test_a_write_that_has_begun_is_finished(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    fd = os.open(root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    editing = asyncio.ensure_future(call(context, "edit_file", path="f", edits=[edit("a", "b")]))
    await asyncio.sleep(0.1)
    editing.cancel()
    os.close(fd)
    with pytest.raises(asyncio.CancelledError):
        await editing
    assert (root / "f").read_bytes() == b"b\n" and os.listdir(root) == ["f"]


async def test_a_write_needs_a_read_even_after_an_edit(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("a\nb\nc\n", encoding="utf-8")
    await call(context, "edit_file", path="f", edits=[edit("b", "x")])
    with pytest.raises(ToolError, match="you have not read it"):
        await call(context, "write_file", path="f", content="a\nx\n")


async def test_a_guessed_encoding_allows_ascii_edits_only(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"caf\xe9 = 1\n")
    assert "looks like cp1252" in await refused(context, edit("1", "é"))
    await call(context, "edit_file", path="f", edits=[edit("1", "2")])
    assert (root / "f").read_bytes() == b"caf\xe9 = 2\n"


_WORDS = {
    "latin-1": "é", "gbk": "汉字", "gb18030": "汉字", "shift_jis": "テスト", "euc_jp": "テスト", "euc_kr": "한글", "big5": "漢字",
}  # fmt: skip
_ENDS = {"LF": ["\n"], "CRLF": ["\r\n"], "mixed": ["\r\n", "\n", "\n"], "CR": ["\r"]}


@pytest.mark.parametrize("indent", ["\t", "    "])
@pytest.mark.parametrize("ends", _ENDS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", *_WORDS])
async def test_only_the_edited_line_changes(
    context: ToolContext, root: Path, encoding: str, ends: str, indent: str
) -> None:
    word = _WORDS.get(encoding, "é漢🎉")
    kinds = _ENDS[ends]

    def content(value: str) -> bytes:
        lines = [f"# coding: {encoding}", f"{indent}{word} = 1", f"{indent}{value}", f"{indent}{word} = 3", "end"]
        return "".join(line + kinds[n % len(kinds)] for n, line in enumerate(lines))[: -len(kinds[-1])].encode(
            encoding
        )

    (root / "real").write_bytes(content("value = 2 "))
    mode = 0o755 if ends == "LF" else 0o640
    os.chmod(root / "real", mode)
    os.symlink("real", root / "link")
    drifted = "\t" if indent == "    " else "    "  # the other kind of indentation, and a blank left out
    await call(context, "edit_file", path="link", edits=[edit(f"{drifted}value = 2\n", f"{drifted}value = 20\n")])
    assert (root / "real").read_bytes() == content("value = 20 ")
    assert (root / "link").is_symlink() and stat.S_IMODE(os.stat(root / "real").st_mode) == mode


_LINE = st.tuples(st.text(st.sampled_from("abc\t é漢"), max_size=5), st.sampled_from(["\n", "\r\n"]))
_CODECS = st.sampled_from([Codec(), Codec("utf-8", b"\xef\xbb\xbf"), Codec("utf-16-le", b"\xff\xfe")])


@settings(max_examples=tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(_LINE, max_size=6), after=st.lists(_LINE, max_size=6), codec=_CODECS)
async def test_no_byte_outside_the_span_changes(
    tmp_path: Path, before: list[tuple[str, str]], after: list[tuple[str, str]], codec: Codec
) -> None:
    context = new_context(Workspace(tmp_path), ProcessRunner(), tmp_path)
    head, tail = ("".join(text + end for text, end in lines) for lines in (before, after))
    path = tmp_path / "f"
    path.write_bytes(codec.encode(f"{head}<MARK one>{tail}"))
    await call(context, "edit_file", path="f", edits=[edit("MARK one", "MARK two")])
    assert path.read_bytes() == codec.encode(f"{head}<MARK two>{tail}")


async def test_the_preview_is_the_diff(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    tool, params = REGISTRY.parse("edit_file", '{"path": "f", "edits": [{"old": "a", "new": "b"}]}')
    preview = await tool.preview(params, context)
    assert preview.kind == "diff" and "-a\n+b\n" in preview.text and (root / "f").read_bytes() == b"a\n"


async def test_a_broken_link_is_named_with_what_it_leads_to(context: ToolContext, root: Path) -> None:
    os.symlink("nowhere", root / "link")
    for path, words in (
        ("link", f"link is a broken symbolic link: {root}/nowhere does not exist"),
        ("no", "no does"),
    ):
        with pytest.raises(ToolError) as error:
            await call(context, "edit_file", path=path, edits=[edit("a", "b")])
        assert str(error.value).startswith(words)

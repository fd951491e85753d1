"""What a search shows stands in the files of the folder searched."""

import os
from pathlib import Path

import pytest

from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.search.matches import collect
from agent_cli.tools.search.verify_hits import standing, there
from tests.rows import each_row
from tests.tools.calls import call

_FOUND = (
    b'{"type":"begin","data":{"path":{"text":"f"}}}\n'
    b'{"type":"match","data":{"path":{"text":"f"},"lines":{"text":"inside\\n"},"line_number":1,"absolute_offset":0}}\n'
    b'{"type":"match","data":{"path":{"text":"f"},"lines":{"text":"secret\\n"},"line_number":2,"absolute_offset":7}}\n'
)


def test_a_line_that_is_not_in_the_file_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"inside\nothers\n")
    matches = collect(_FOUND, None, 10, lambda name: standing(tmp_path, name))
    assert [line.text for line in matches.files["f"]] == ["inside"]
    assert (matches.count, matches.lost) == (1, 1)


@each_row(
    ("data", "offset", "raw", "is_so"),
    [
        (b"a\nb\n", 2, b"b\n", True),
        (b"a\nb", 2, b"b", True),
        (b"a\nb\n", 1, b"b\n", False),
        (b"a\nb\n", 2, b"b\nc\n", False),
        (b"\xef\xbb\xbfa\nb\n", 2, b"b\n", True),
        ("a\nbé\n".encode("utf-16"), 2, "bé\n".encode(), True),
        (b"\xfe\xff" + "a\nbé\n".encode("utf-16-be"), 2, "bé\n".encode(), True),
        ("a\nbé\n".encode("utf-16"), 1, b"b", False),
        (b"\xff\xe9 latin\n", 0, b"\xff\xe9 latin\n", True),
        (b"a\0b\n", 0, b"a\n", True),
        (b"", 0, b"b", False),
    ],
)
def test_bytes_are_found_where_ripgrep_counts_them(
    tmp_path: Path, data: bytes, offset: int, raw: bytes, is_so: bool
) -> None:
    (tmp_path / "f").write_bytes(data)
    with standing(tmp_path, "f") as stands:
        assert stands(offset, raw) is is_so


def test_nothing_stands_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_bytes(b"secret")
    (tmp_path / "in").mkdir()
    os.symlink(tmp_path / "out", tmp_path / "in" / "d")
    os.symlink(tmp_path / "out" / "f", tmp_path / "in" / "f")
    for name in ("d/f", "f", "gone", "d"):
        with standing(tmp_path / "in", name) as stands:
            assert not stands(0, b"secret") and not stands(0, b"")
    assert list(there(tmp_path / "in", ["d/f", "f", "gone"])) == ["f"]


@pytest.mark.parametrize("data", [b"one needle\n", "eins needle é\n".encode("utf-16"), b"\xef\xbb\xbfa needle\n"])
async def test_a_search_finds_what_it_found_in_every_encoding(
    context: ToolContext, root: Path, data: bytes
) -> None:
    (root / "f").write_bytes(data)
    (root / "g").write_bytes(b"caf\xe9 needle\r\n")
    found = (await call(context, "grep", pattern="needle")).text
    assert found.count("needle") == 2 and "left out" not in found


async def test_a_call_keeps_to_the_places_it_was_judged_by(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("here")
    (root / "other").write_text("elsewhere")
    os.symlink("f", root / "link")
    params = ReadParams("link")
    judged = frozenset(action.path for action in ReadFile().actions(params, context))  # type: ignore[union-attr]
    assert "here" in (await ReadFile().run(params, context.within(judged))).text
    (root / "link").unlink()
    os.symlink("other", root / "link")
    with pytest.raises(ToolError, match="link points somewhere else now than when the call was approved"):
        await ReadFile().run(params, context.within(judged))
    with pytest.raises(ToolError, match="points somewhere else"):
        await ReadFile().preview(params, context.within(judged))


async def test_a_link_is_deleted_and_moved_as_itself_when_it_was_judged(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("here")
    os.symlink("f", root / "link")
    deletion = "*** Begin Patch\n*** Delete File: link\n*** End Patch\n"
    kept = context.within(frozenset([str(root / "link")]))
    assert (await call(kept, "apply_patch", patch=deletion)).text == "Deleted link."
    assert (root / "f").exists() and not os.path.lexists(root / "link")
    os.symlink("f", root / "link")
    with pytest.raises(ToolError, match="points somewhere else"):
        await call(context.within(frozenset([str(root / "f")])), "apply_patch", patch=deletion)
    assert os.path.lexists(root / "link")

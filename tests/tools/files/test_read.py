"""read_file: pages that say how to go on, whatever the size of file and line."""

import os
import tracemalloc
from pathlib import Path

import pytest

from agent_cli.protocol.actions import ReadPath
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.workspace.files.paging import read_page
from agent_cli.workspace.files.reader import content_hash
from tests.tools.calls import REGISTRY, call


async def test_lines_are_numbered_and_the_content_is_known(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"one\n\nthree")
    outcome = await call(context, "read_file", path="f")
    assert outcome.text == "1\tone\n2\t\n3\tthree"
    assert outcome.seen == {str(root / "f"): content_hash(b"one\n\nthree")}


async def test_a_folder_is_listed(context: ToolContext, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "b").write_bytes(b"12")
    listed = await call(context, "list_dir", path="sub")
    assert "b  2 B" in listed.text and await call(context, "read_file", path="sub") == listed
    assert not listed.seen


async def test_a_page_ends_with_the_next_call(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(1, 3001)), encoding="utf-8")
    first = await call(context, "read_file", path="f")
    assert first.text.endswith('[Lines 1-2000 of 3000 shown. To continue: read_file {"path":"f","offset":2001}]')
    rest = await call(context, "read_file", path="f", offset=2001)
    assert rest.text.startswith("2001\tline 2001\n") and rest.text.endswith("3000\tline 3000")
    some = await call(context, "read_file", path="f", offset=5, limit=2)
    assert some.text.startswith("5\tline 5\n6\tline 6\n[Lines 5-6 of 3000")
    with pytest.raises(ToolError, match="has 3000 lines; there is no line 3001"):
        await call(context, "read_file", path="f", offset=3001)


@pytest.mark.parametrize("count", [3_000, 500_000])
async def test_lines_are_read_from_the_end(context: ToolContext, root: Path, count: int) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(1, count + 1)), encoding="utf-8")
    last = await call(context, "read_file", path="f", offset=-2)
    assert last.text == f"{count - 1}\tline {count - 1}\n{count}\tline {count}"
    some = await call(context, "read_file", path="f", offset=-5, limit=1)
    assert some.text.startswith(f"{count - 4}\tline {count - 4}\n[Lines {count - 4}-{count - 4} of {count} shown")
    whole = await call(context, "read_file", path="f", offset=-2 * count, limit=1)
    assert whole.text.startswith("1\tline 1\n")


async def test_a_page_is_bounded_in_characters(context: ToolContext, root: Path) -> None:
    (root / "f").write_text(("x" * 99 + "\n") * 1000, encoding="utf-8")
    outcome = await call(context, "read_file", path="f")
    assert 38_000 < len(outcome.text) < 46_000 and '"offset":' in outcome.text


async def test_following_the_given_calls_reads_every_line_once(context: ToolContext, root: Path) -> None:
    text = "".join(f"{'y' * (n * 37 % 3000)}{n}\n" for n in range(300))
    (root / "f").write_text(text, encoding="utf-8")
    numbers, offset = [], 1
    for _ in range(50):
        outcome = await call(context, "read_file", path="f", offset=offset)
        numbers += [int(line.split("\t")[0]) for line in outcome.text.splitlines() if not line.startswith("[")]
        if "To continue" not in outcome.text:
            break
        offset = int(outcome.text.rpartition('"offset":')[2].split("}")[0])
    assert numbers == list(range(1, 301))


@pytest.mark.parametrize("size", [5_000_000, 3_000_000])
async def test_a_very_long_line_is_cut_in_the_middle(context: ToolContext, root: Path, size: int) -> None:
    (root / "f").write_bytes(b"start" + b"x" * size + b"end\nsecond\n")
    outcome = await call(context, "read_file", path="f")
    first, second, note = outcome.text.split("\n", 2)
    assert first.startswith("1\tstartxxx") and first.endswith("xxxend") and "characters left out" in first
    assert len(first) < 2100 and second == "2\tsecond"
    assert note.endswith('To see one whole: read_file {"path":"f","offset":1,"column":1}]') and not outcome.seen


async def test_a_huge_file_costs_a_page(context: ToolContext, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.write(b"first\nsecond\n" + b"z" * 3000 + b"\n" + b"line\n" * 1_000_000)
        file.truncate(1 << 30)
    tracemalloc.start()
    outcome = await call(context, "read_file", path="huge", limit=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.text.startswith("1\tfirst\n2\tsecond\n3\tzzz") and "too large to count" in outcome.text
    assert outcome.seen == {} and peak < 10_000_000
    with pytest.raises(ToolError, match="too large to count its lines from the end; use `tail`"):
        await call(context, "read_file", path="huge", offset=-3)


async def test_a_large_file_is_counted_hashed_and_paged_by_scanning(context: ToolContext, root: Path) -> None:
    data = b"".join(b"line %d\r\n" % n for n in range(1, 500_001)) + b"last"
    (root / "f").write_bytes(data)
    outcome = await call(context, "read_file", path="f", offset=499_999)
    assert outcome.text == (
        "499999\tline 499999\n500000\tline 500000\n500001\tlast\n"
        "[Line ends are CRLF; write \\n in edits, they are kept]"
    )
    assert not outcome.seen
    some = await call(context, "read_file", path="f", offset=250_000, limit=1)
    assert some.text.startswith("250000\tline 250000\n[") and "Lines 250000-250000 of 500001 shown" in some.text


async def test_large_files_in_other_encodings(context: ToolContext, root: Path) -> None:
    (root / "wide").write_bytes(("é\n" * 1_500_000).encode("utf-16"))
    outcome = await call(context, "read_file", path="wide", limit=1)
    assert (
        outcome.text.startswith("1\té\n[Encoding: utf-16-le with BOM") and "1-1 of 1500000 shown" in outcome.text
    )
    (root / "latin").write_bytes(b"caf\xe9\n" * 1_000_000)
    outcome = await call(context, "read_file", path="latin", limit=1)
    assert outcome.text.startswith("1\tcaf\ufffd\n") and "Not UTF-8" in outcome.text


async def test_an_empty_file_says_so(context: ToolContext, root: Path) -> None:
    (root / "f").touch()
    outcome = await call(context, "read_file", path="f")
    assert outcome.text == "[f is empty]" and outcome.seen


async def test_encodings_are_read_and_named(context: ToolContext, root: Path) -> None:
    (root / "a").write_bytes("é\r\n".encode("utf-16"))
    (root / "b").write_bytes("un café\n".encode("latin-1"))
    (root / "c").write_bytes(b"one\rtwo\r")
    assert (await call(context, "read_file", path="a")).text.startswith("1\té\n[Encoding: utf-16-le with BOM")
    assert (await call(context, "read_file", path="b")).text == (
        "1\tun café\n[Not UTF-8; shown as cp1252, which is a guess]"
    )
    assert (await call(context, "read_file", path="c")).text == "1\tone\n2\ttwo"


async def test_what_is_not_text_is_refused_with_what_to_do(context: ToolContext, root: Path) -> None:
    (root / "x").write_bytes(b"\x7fELF\x00\x00")
    (root / "big").write_bytes(b"\x00" * 4_500_000)
    os.mkfifo(root / "pipe")
    for path, words in (
        ("x", "an executable"),
        ("big", "binary data"),
        ("pipe", "named pipe"),
        ("none", "does not exist"),
    ):
        with pytest.raises(ToolError, match=words):
            await call(context, "read_file", path=path)


@pytest.mark.parametrize("size", [100_000, 5_000_000])
async def test_a_long_line_can_be_read_part_by_part(context: ToolContext, root: Path, size: int) -> None:
    line = "".join(f"{n:07}é" for n in range(size // 9))
    (root / "f").write_text(f"one\r\n{line}\r\nlast", encoding="utf-8", newline="")
    text, column = "", 1
    for _ in range(4):
        outcome = await call(context, "read_file", path="f", offset=2, column=column)
        part, note = outcome.text.rsplit("\n", 1)
        text += part
        assert len(part.encode()) <= 45_000 and f"characters {column}-{len(text)} of {len(line)}" in note
        if "To continue" not in note:
            break
        column = int(note.split('"column":')[1].split("}")[0])
    assert line.startswith(text) and (len(text) > 150_000 or text == line)
    with pytest.raises(ToolError, match=f"has {len(line)} characters; there is none at"):
        await call(context, "read_file", path="f", offset=2, column=len(line) + 1)
    with pytest.raises(ToolError, match="no line 4"):
        await call(context, "read_file", path="f", offset=4, column=1)


async def test_a_file_is_known_once_all_of_its_pages_were_shown(context: ToolContext, root: Path) -> None:
    data = b"line\n" * 3000
    (root / "f").write_bytes(data)
    known = {str(root / "f"): content_hash(data)}
    assert not (await call(context, "read_file", path="f", offset=2001)).seen
    assert not (await call(context, "read_file", path="f", limit=1000)).seen
    assert (await call(context, "read_file", path="f", offset=900, limit=1101)).seen == known
    (root / "f").write_bytes(data + b"more\n")
    assert not (await call(context, "read_file", path="f", offset=2001)).seen


async def test_a_file_with_a_long_line_is_known_once_its_parts_were_shown(
    context: ToolContext, root: Path
) -> None:
    data = b"a\n" + b"x" * 60_000 + b"\nb\n"
    (root / "f").write_bytes(data)
    assert not (await call(context, "read_file", path="f")).seen
    assert not (await call(context, "read_file", path="f", offset=2, column=1)).seen
    assert (await call(context, "read_file", path="f", offset=2, column=44_000)).seen
    assert context.known.get(content_hash(data)) == data


async def test_what_was_read_in_one_page_is_kept_for_merging(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"one\r\ntwo")
    await call(context, "read_file", path="f")
    assert context.known.get(content_hash(b"one\r\ntwo")) == b"one\r\ntwo"
    await call(context, "read_file", path="f", limit=1)


async def test_a_page_in_a_wide_script_stays_within_its_bytes(context: ToolContext, root: Path) -> None:
    (root / "f").write_text(("漢" * 1990 + "\n") * 100, encoding="utf-8")
    assert 35_000 < len((await call(context, "read_file", path="f")).text.encode()) < 50_000


async def test_the_page_scales_with_what_the_caller_allows(root: Path) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(100_000)), encoding="utf-8")
    for page_bytes in (4_000, 400_000):
        page = read_page(str(root / "f"), "f", 1, 100_000, page_bytes)
        assert page_bytes * 0.5 < sum(len(line) + 8 for line in page.lines) <= page_bytes


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
async def test_large_files_with_a_mark_are_scanned(context: ToolContext, root: Path, mark: str) -> None:
    (root / "f").write_bytes(("é line\n" * 700_000).encode(mark))
    outcome = await call(context, "read_file", path="f", offset=700_000)
    assert outcome.text.startswith("700000\té line\n[Encoding: utf-") and "with BOM" in outcome.text
    assert (await call(context, "read_file", path="f", limit=1)).text.startswith("1\té line\n")


@pytest.mark.parametrize("name", ["-rf", "ü 漢字 🎉", "a'b\"c$(x)", "x" * 255, " lead"])
async def test_any_name_can_be_read(context: ToolContext, root: Path, name: str) -> None:
    (root / name).write_text("x", encoding="utf-8")
    assert (await call(context, "read_file", path=name)).text == "1\tx"


async def test_the_action_is_the_real_path(context: ToolContext, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    os.symlink(tmp_path / "secret", root / "link")
    tool, params = REGISTRY.parse("read_file", '{"path": "link"}')
    assert tool.actions(params, context) == (ReadPath(str(tmp_path / "secret"), "link"),)
    with pytest.raises(ToolError, match="control characters"):
        await call(context, "read_file", path="a\nb")


async def test_a_file_read_in_pages_can_be_merged_with_what_others_change(
    context: ToolContext, root: Path
) -> None:
    lines = [f"{n}" for n in range(3000)]
    (root / "f").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for offset in (2001, 1):
        await call(context, "read_file", path="f", offset=offset)
    theirs = "\n".join(["theirs", *lines[1:]]) + "\n"
    (root / "f").write_text(theirs, encoding="utf-8")
    ours = "\n".join([*lines[:-1], "ours"]) + "\n"
    await call(context, "write_file", path="f", content=ours)
    text = (root / "f").read_text(encoding="utf-8")
    assert text.startswith("theirs\n1\n") and text.endswith("\n2998\nours\n")


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/self/clear_refs"])
async def test_what_the_system_does_not_give_out_is_told(context: ToolContext, path: str) -> None:
    with pytest.raises(ToolError, match=path):
        await call(context, "read_file", path=path)


@pytest.mark.parametrize("tool", ["read_file", "list_dir", "grep", "glob", "edit_file"])
async def test_a_path_from_the_folder_of_the_commands_is_named_in_full(
    context: ToolContext, root: Path, tool: str
) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    await call(context, "shell", command="cd sub")
    more = {"grep": {"pattern": "x"}, "glob": {"pattern": "x"}, "edit_file": {"edits": [{"old": "x", "new": "y"}]}}
    with pytest.raises(ToolError, match=r"start at the workspace root\. Did you mean sub/deep"):
        await call(context, tool, path="deep", **more.get(tool, {}))

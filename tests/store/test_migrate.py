"""What older versions have written reads as if this one had; a newer one's is refused."""

import json
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, Header
from agent_cli.store.fork import forked
from agent_cli.store.migrate import migrate_records, relative
from agent_cli.store.session_file import SessionFile, read_session, write_session
from tests.rows import each_row

EXAMPLE = Path(__file__).parents[2] / "sessions" / "version-1" / "patched-and-started.json"


def test_a_file_of_version_1_reads_as_one_of_today() -> None:
    assert json.loads(EXAMPLE.read_text(encoding="utf-8"))[0]["version"] == 1
    loaded = read_session(EXAMPLE)
    assert (loaded.damage, loaded.torn, loaded.problems()) == ((), False, ())
    header, *rest = loaded.records
    assert isinstance(header, Header) and header.version == FORMAT_VERSION and header.cwd == "/home/me/shop"
    results = [record for record in rest if isinstance(record, ToolResult)]
    seen = {path: known for result in results for path, known in result.seen.items()}
    assert seen == {
        "shop/price.py": "63f5f4647fb1ee1086e11f56db1b0212",
        "shop/__init__.py": "e484708401c5f50dc0162c5b7e7e4b9e",
    }
    assert [result.cwd for result in results if result.cwd] == ["shop"]
    assert len(loaded.records) == len(json.loads(EXAMPLE.read_text(encoding="utf-8")))


def test_reading_twice_changes_nothing_more() -> None:
    once = read_session(EXAMPLE).records
    assert migrate_records(once) == once


def test_a_version_1_file_goes_on_with_records_of_today(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(EXAMPLE.read_bytes())
    before = read_session(path).records
    file, _ = SessionFile.open(path)
    new = ToolResult(
        id="r", call_id="c", tool="read_file", status="ok", text="", seen={"a.py": "1", "/etc/x": "2"}, cwd="."
    )
    file.append([new, UserMessage(id="u", text="on")])
    file.close()
    assert path.read_bytes().startswith(EXAMPLE.read_bytes()[: -len(b"\n]\n")]), "nothing is rewritten"
    assert read_session(path).records == (*before, new, UserMessage(id="u", text="on"))


def test_a_fork_of_a_version_1_session_is_written_as_one_of_today(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_session(path, forked(read_session(EXAMPLE).records, "ffff0000"))
    text = path.read_text(encoding="utf-8")
    assert json.loads(text)[0]["version"] == FORMAT_VERSION
    assert '"seen":{"/home' not in text and '"seen":{"shop/price.py"' in text


@each_row(
    ("path", "root", "expected"),
    [
        ("/w/a/b.py", "/w", "a/b.py"),
        ("/w", "/w", "."),
        ("/web/a", "/w", "/web/a"),
        ("a/b.py", "/w", "a/b.py"),
        ("/a/b", "/", "a/b"),
        ("/", "/", "."),
        ("/w/a", "/w/", "a"),
        ("", "/w", ""),
    ],
)
def test_only_what_lies_inside_becomes_relative(path: str, root: str, expected: str) -> None:
    assert relative(path, root) == expected
    assert relative(expected, root) == expected


def test_a_relative_path_means_the_new_place_after_a_move() -> None:
    header, *rest = read_session(EXAMPLE).records
    assert isinstance(header, Header)
    moved = migrate_records([msgspec.structs.replace(header, cwd="/srv/shop"), *rest])
    assert moved[1:] == tuple(rest)


def test_a_path_that_claims_to_be_inside_and_leads_out_is_dropped() -> None:
    header = read_session(EXAMPLE).records[0]
    seen = {"a.py": "1", "../x": "2", "b/../../c": "3", "/etc/x": "4", "/home/me/shop/../y": "5", "d..e": "6"}
    result = ToolResult(id="r", call_id="c", tool="t", status="ok", text="", seen=seen, cwd="sub/../..")
    _, moved = migrate_records([header, result])
    assert isinstance(moved, ToolResult)
    assert (moved.seen, moved.cwd) == ({"a.py": "1", "/etc/x": "4", "d..e": "6"}, "")

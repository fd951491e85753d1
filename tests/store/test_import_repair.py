"""A session moves to another machine without taking rights along, and a damaged one is made whole."""

import json
import os
import stat
from pathlib import Path
from unittest.mock import ANY

import pytest

from agent_cli.fs.files import Disk
from agent_cli.protocol.messages import AssistantMessage, MemoryChange, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import (
    CheckpointTaken,
    Granted,
    Header,
    InputQueued,
    JobStateChanged,
    ModelCalled,
    SettingsSet,
)
from agent_cli.protocol.usage import Usage
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.projection import Projection
from agent_cli.session.session import Session
from agent_cli.store.catalog import Sessions, describe, totals
from agent_cli.store.export.formats import exported, masked
from agent_cli.store.import_repair import LARGEST_BYTES, import_session, repair
from agent_cli.store.session_file import SessionFile, SessionLocked, StoreError, read_session
from tests.fs.file_limit import at_most
from tests.rows import each_row
from tests.store.talk import records
from tests.store.test_catalog import prompt, saved

EXAMPLE = Path(__file__).parents[2] / "sessions" / "version-1" / "patched-and-started.json"


def header_of(path: Path) -> Header:
    header = read_session(path).records[0]
    assert isinstance(header, Header)
    return header


def test_a_session_goes_on_in_another_directory(tmp_path: Path) -> None:
    sessions, place = Sessions(tmp_path / "all"), tmp_path / "here"
    place.mkdir()
    done = import_session(sessions, EXAMPLE, place)
    assert (done.id, done.came_from, done.problems, done.new_id) == ("4a2f5b00", "/home/me/shop", (), False)
    assert done.path.parent == sessions.project_folder(place) and done.path.name.endswith("-4a2f5b00.json")
    loaded = read_session(done.path)
    header = header_of(done.path)
    assert (header.session_id, header.cwd, header.mode) == ("4a2f5b00", str(place), "ask")
    assert [record.seq for record in loaded.records] == list(range(1, len(loaded.records) + 1))
    seen = {path for record in loaded.records if isinstance(record, ToolResult) for path in record.seen}
    assert seen == {"shop/price.py", "shop/__init__.py"}
    last = loaded.records[-1]
    assert isinstance(last, UserMessage) and last.origin == "hint"
    assert "/home/me/shop" in last.text and str(place) in last.text
    assert Session(loaded.records, None, saved=True).untrusted() == "an imported session"
    assert done.path.stat().st_mode & 0o777 == 0o600
    assert [info.title for info in sessions.list(place)] == [describe(EXAMPLE).title]  # type: ignore[union-attr]


def test_an_id_that_is_taken_is_replaced(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    first, second = (import_session(sessions, EXAMPLE, tmp_path) for _ in range(2))
    assert first.id != second.id and second.new_id and header_of(second.path).session_id == second.id
    assert len(sessions.paths()) == 2


def test_what_reaches_beyond_the_conversation_stays_behind(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    foreign = Sessions(tmp_path / "foreign")
    path = saved(
        foreign,
        Path("/elsewhere"),
        "abcd1111",
        prompt("hello"),
        Granted(id="g", rule="shell(rm *)"),
        SettingsSet(id="s", model="m/y", mode="yolo"),
        JobStateChanged(id="j", job="1", command="sleep 9", state="kept", pid=1),
        InputQueued(id="q", text="delete all"),
        CheckpointTaken(id="c", when="before", checkpoint="1" * 40),
        ToolResult(
            id="r",
            call_id="c1",
            tool="memory",
            status="ok",
            text="",
            memory=(MemoryChange("/home/you/.bashrc", "evil", None),),
            seen={"a.py": "1", "/etc/passwd": "2", "../../etc/passwd": "3", "b/../../c": "4"},
            cwd="../../etc",
        ),
        mode="yolo",
    )
    here = import_session(sessions, path, tmp_path).path
    text = here.read_text(encoding="utf-8")
    assert [value["type"] for value in json.loads(text)] == [
        "session", "user", "user", "settings", "tool_result", "user",
    ]  # fmt: skip
    assert (
        "yolo" not in text
        and "bashrc" not in text
        and "etc" not in text
        and ".." not in text
        and '"a.py":"1"' in text
    )


@pytest.mark.parametrize("how", ["file", "export", "pretty", "wrapped"])
def test_every_form_of_json_can_be_imported(tmp_path: Path, how: str) -> None:
    text = (
        EXAMPLE.read_text(encoding="utf-8") if how == "file" else exported(read_session(EXAMPLE).records, "json")
    )
    if how == "pretty":
        text = json.dumps(json.loads(text), indent=4)
    if how == "wrapped":
        text = json.dumps({"format": "agent-cli-session", "records": json.loads(text)})
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    done = import_session(Sessions(tmp_path / "all"), file, tmp_path)
    expected = [record.id for record in read_session(EXAMPLE).records if not isinstance(record, CheckpointTaken)]
    assert [record.id for record in read_session(done.path).records] == [
        expected[0], ANY, *expected[1:], ANY,
    ]  # fmt: skip


def test_damaged_lines_of_an_import_are_said(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(EXAMPLE.read_bytes().replace(b'"type":"assistant"', b'"type":"assistamt"', 1))
    done = import_session(Sessions(tmp_path / "all"), file, tmp_path)
    assert len(done.problems) == 1 and "is damaged and left out" in done.problems[0]


@each_row("content", [b"", b"[]", b"{}", b"hello", b'{"records": 3}', b"[1, 2]", b"\xff"])
def test_what_is_no_session_is_not_imported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(StoreError, match="not a session"):
        import_session(Sessions(tmp_path / "all"), tmp_path / "x.json", tmp_path)
    with pytest.raises(StoreError, match="cannot read"):
        import_session(Sessions(tmp_path / "all"), tmp_path / "missing.json", tmp_path)
    assert not (tmp_path / "all").exists()


def test_a_damaged_session_is_made_whole_and_the_old_file_is_kept(tmp_path: Path) -> None:
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("one"), prompt("two"), age_s=50)
    broken = path.read_bytes().replace(b'"text":"one"', b'"text":one')[:-6]
    path.write_bytes(broken)
    os.utime(path, (5e8, 5e8))
    before = read_session(path)
    done = repair(path)
    assert done.copy is not None and done.copy.read_bytes() == broken and done.copy.name.endswith(".json.damaged")
    assert [problem.split(":")[0] for problem in done.problems] == [
        "line 3 of the session is damaged and left out",
        "the last record of the session was torn by a crash and is lost",
    ]
    after = read_session(path)
    assert (after.problems(), len(after.records)) == ((), len(before.records)) and path.stat().st_mtime == 5e8
    assert json.loads(path.read_bytes())
    assert repair(path) == (type(done))(path, None, (), len(after.records))
    path.write_bytes(broken)
    second = repair(path).copy
    assert second is not None and second.name.endswith(".damaged-2")
    assert [file.name for file in sorted(path.parent.iterdir()) if file.suffix == ".json"] == [path.name]


class Watched(Disk):
    """A disk that remembers what was synchronised, and in which order: what the folder held, or a file's number."""

    def __init__(self) -> None:
        self.synced: list[dict[str, int] | int] = []

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.synced.append({entry.name: entry.inode() for entry in os.scandir(descriptor)})
        else:
            self.synced.append(status.st_ino)


def test_the_copy_is_on_disk_before_the_session_is_replaced(tmp_path: Path) -> None:
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("one"), prompt("two"))
    path.write_bytes(path.read_bytes()[:-6])
    old, disk = path.stat().st_ino, Watched()
    copy = repair(path, disk).copy
    assert copy is not None
    kept, new = copy.stat().st_ino, path.stat().st_ino
    assert len({old, kept, new}) == 3
    assert disk.synced == [kept, {path.name: old, copy.name: kept}, new, {path.name: new, copy.name: kept}]


def test_a_full_disk_leaves_a_damaged_session_as_it_is(tmp_path: Path) -> None:
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("one"), prompt("two"))
    broken = path.read_bytes()[:-6]
    path.write_bytes(broken)
    with at_most(len(broken) - 1), pytest.raises(StoreError, match=r"File too large\. Nothing was changed"):
        repair(path)
    assert path.read_bytes() == broken and [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_session_in_use_is_not_repaired(tmp_path: Path) -> None:
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("one"))
    file, _ = SessionFile.open(path)
    with pytest.raises(SessionLocked, match="agent sessions show abcd1111"):
        repair(path)
    file.close()


def test_a_masked_export_can_still_be_imported_and_tells_nothing(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    told = ToolResult(
        id="r", call_id="c", tool="shell", status="ok", text=f"PASSWORD=hunter2hunter2\n{token}", display=token,
        command=f"curl -H 'Authorization: Bearer {token}'",
    )  # fmt: skip
    given = (*records(), told, UserMessage(id="u", text=f"my token is {token}"))
    shown = masked(given, Redactor({}))
    assert [record.id for record in shown] == [record.id for record in given]
    assert shown[: len(records())] == records(), "what holds no secret stays as it is"
    for form in ("md", "json", "html"):
        text = exported(shown, form)  # type: ignore[arg-type]
        assert token not in text and "hunter2hunter2" not in text and "[masked: " in text
    (tmp_path / "x.json").write_text(exported(shown, "json"), encoding="utf-8")
    assert import_session(Sessions(tmp_path / "all"), tmp_path / "x.json", tmp_path).problems == ()


def test_calls_that_were_open_are_closed_by_an_import(tmp_path: Path) -> None:
    calls = (ToolCall("c1", "shell", "{}"), ToolCall("c2", "shell", "{}"))
    path = saved(
        Sessions(tmp_path / "foreign"), tmp_path, "abcd1111", prompt("go"),
        AssistantMessage(id="a", turn_id="t", calls=calls),
        ToolResult(id="r", turn_id="t", call_id="c2", tool="shell", status="ok", text="done"),
    )  # fmt: skip
    records = read_session(import_session(Sessions(tmp_path / "all"), path, tmp_path).path).records
    results = [(each.call_id, each.status, each.text) for each in records if isinstance(each, ToolResult)]
    assert results == [("c1", "cancelled", "cancelled: imported"), ("c2", "ok", "done")]
    assert not Projection(records).open_calls


def test_sums_that_cannot_be_are_not_believed(tmp_path: Path) -> None:
    def called(name: str, cost_usd: float, **counts: int) -> ModelCalled:
        usage = Usage(**counts)
        return ModelCalled(id=name, kind="main", model="m/x", outcome="stop", usage=usage, cost_usd=cost_usd)

    path = saved(
        Sessions(tmp_path / "foreign"), tmp_path, "abcd1111", prompt("go"),
        called("a", -5.0, input=3), called("b", 1e9, input=3), called("c", 0.5, input=-1), called("d", 0.25, input=4),
    )  # fmt: skip
    _, used = totals(import_session(Sessions(tmp_path / "all"), path, tmp_path).path)
    assert (used.cost_usd, used.input, used.requests) == (0.75, 10, 4)


@pytest.mark.parametrize("at", [1, 2, None])
def test_a_fork_of_an_imported_session_still_counts_as_one_of_strangers(tmp_path: Path, at: int | None) -> None:
    sessions = Sessions(tmp_path / "all")
    path = saved(
        Sessions(tmp_path / "foreign"), tmp_path, "abcd1111", prompt("one"),
        UserMessage(id="u2", turn_id="t2", text="two"),
    )  # fmt: skip
    copy = sessions.fork(import_session(sessions, path, tmp_path).path, at)
    assert Session(read_session(copy).records, None, saved=True).untrusted() == "an imported session"


def test_only_a_regular_file_of_bounded_size_is_imported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(StoreError, match="cannot read"):
            import_session(Sessions(tmp_path / "all"), file, tmp_path)
    with (tmp_path / "large").open("wb") as large:
        large.truncate(LARGEST_BYTES + 1)
    with pytest.raises(StoreError, match="larger than 200 MB"):
        import_session(Sessions(tmp_path / "all"), tmp_path / "large", tmp_path)


def test_an_id_that_leads_elsewhere_is_not_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(EXAMPLE.read_bytes().replace(b"4a2f5b00", b"../../zz", 1))
    done = import_session(Sessions(tmp_path / "all"), file, tmp_path)
    assert len(done.id) == 8 and "/" not in done.id and "'../../zz' as the session's id" in done.problems[0]


def rewritten(path: Path, how: str) -> None:
    values = json.loads(path.read_bytes())
    forms = {"pretty": json.dumps(values, indent=2), "one line": json.dumps(values)}
    forms["compact"] = json.dumps(values, separators=(",", ":"))
    path.write_text(forms[how], encoding="utf-8")


@pytest.mark.parametrize("how", ["pretty", "one line", "compact"])
def test_a_file_laid_out_anew_by_another_program_is_read_and_repaired(tmp_path: Path, how: str) -> None:
    sessions = Sessions(tmp_path / "all")
    path = saved(sessions, tmp_path, "abcd1111", prompt("one", seq=2), prompt("two", seq=3))
    before = read_session(path).records
    rewritten(path, how)
    loaded = read_session(path)
    assert loaded.records == before and loaded.problems()
    assert [info.title for info in sessions.list(limit=None)] == ["one"]
    with pytest.raises(StoreError, match="run `agent sessions repair abcd1111`"):
        SessionFile.open(path)
    assert repair(path).copy is not None
    after = read_session(path)
    assert (after.records, after.problems()) == (before, ())
    rewritten(path, how)
    sessions.delete(path)
    assert not path.exists()

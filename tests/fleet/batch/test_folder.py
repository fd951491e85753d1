"""The folder of a batch: what is on record survives torn lines, and one process at a time writes to it."""

from pathlib import Path

import msgspec
import pytest

from agent_cli.fleet.attempt import AttemptResult, attempt_folder
from agent_cli.fleet.batch.folder import Batch, BatchError, BatchFolder, Versions, read_batch, read_results
from agent_cli.fleet.task import Source, Task


def line(number: int) -> AttemptResult:
    return AttemptResult(id=f"t{number}", attempt=1, spec_hash="", outcome="done")


def test_a_torn_last_line_is_dropped_and_others_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    folder = BatchFolder(out)
    folder.open()
    folder.append(line(1))
    folder.append(line(2))
    folder.close()
    whole = (out / "results.jsonl").read_bytes()
    for cut in range(len(whole) + 1):
        (out / "results.jsonl").write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        assert len(read_results(out)) == complete
        folder.open()
        folder.append(line(3))
        folder.close()
        assert [each.id for each in read_results(out)] == [*["t1", "t2"][:complete], "t3"]


def test_a_line_in_the_middle_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"broken\n{}\n', encoding="utf-8")
    with pytest.raises(BatchError, match=r"results\.jsonl:1 cannot be read"):
        read_results(tmp_path)


@pytest.mark.parametrize("field", ["cost_usd", "reserved_usd", "duration_s", "started"])
def test_amounts_whose_sum_would_not_be_a_number_are_refused(tmp_path: Path, field: str) -> None:
    result = msgspec.json.encode(msgspec.structs.replace(line(1), **{field: 1e308}))
    (tmp_path / "results.jsonl").write_bytes(result + b"\n")
    with pytest.raises(BatchError, match=rf"results\.jsonl:1 cannot be read: .*{field}.*correct the line"):
        read_results(tmp_path)


def test_ids_that_lead_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    versions = Versions("1.0", "3.11")
    names = ("../../x", "a/b", "..", "")
    for name in names:
        for batch in (
            Batch(id=name, created=0, tasks=(), versions=versions),
            Batch(id="b", created=0, tasks=(Task(id=name, prompt="p"),), versions=versions),
            Batch(id="b", created=0, tasks=(), others={name: Source("", "", "")}, versions=versions),
        ):
            (tmp_path / "batch.json").write_bytes(msgspec.json.encode(batch))
            with pytest.raises(BatchError, match=r"batch\.json cannot be read: .* is not an id"):
                read_batch(tmp_path)
        result = msgspec.structs.replace(line(1), id=name)
        (tmp_path / "results.jsonl").write_bytes(msgspec.json.encode(result) + b"\n")
        with pytest.raises(BatchError, match=r"results\.jsonl:1 cannot be read: .* is not an id"):
            read_results(tmp_path)


def test_a_second_writer_is_refused_and_a_dead_one_is_not_waited_for(tmp_path: Path) -> None:
    first, second = BatchFolder(tmp_path / "out"), BatchFolder(tmp_path / "out")
    first.open()
    with pytest.raises(BatchError, match="is running this batch"):
        second.open()
    first.close()
    second.open()
    second.close()
    (tmp_path / "out" / "lock").write_text(
        '{"pid": 1, "host": "elsewhere", "renewed": 99999999999}', encoding="utf-8"
    )
    with pytest.raises(BatchError, match="elsewhere"):
        first.open()
    (tmp_path / "out" / "lock").write_text('{"pid": 1, "host": "elsewhere", "renewed": 1}', encoding="utf-8")
    first.open()
    first.close()


def test_attempts_are_numbered_beside_folders_that_are_there(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out")
    folder.open()
    assert [folder.new_attempt("t") for _ in range(3)] == [1, 2, 3]
    attempt_folder(folder.path, "t", 7).mkdir()
    assert folder.new_attempt("t") == 8
    folder.close()

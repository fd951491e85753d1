"""The sessions in `sessions/` are documentation and golden data at once: today's program reads, continues
and replays what earlier ones have written."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli.commands.demo.run import PROJECT
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    Header,
    ModelCalled,
    Named,
    Quarantined,
    TurnsRedone,
    TurnsUndone,
    encode,
)
from agent_cli.session.costs import Costs
from agent_cli.session.history import RepairedHistory
from agent_cli.session.projection import Projection
from agent_cli.session.titles import title_of
from agent_cli.store.catalog import describe, totals
from agent_cli.store.session_file import read_session
from tests.cli.record_examples import EXAMPLES
from tests.e2e.world import World
from tests.model.valid import check_request

FOLDER = Path(__file__).parent.parent / "sessions"
FILES = sorted(FOLDER.glob("*.json"))
each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

NOT_FOR_OTHERS = re.compile(
    r"/(?!home/me/)(?:home|work|tmp|root|Users|var|opt|mnt|usr)/[\w.-]+"  # a path of the machine it was made on
    r"|\b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{8,}|AKIA[0-9A-Z]{16}|Bearer \S+|BEGIN [A-Z ]*PRIVATE KEY"
    r"|[\w.+-]+@[\w-]+\.[a-z]{2,}|127\.0\.0\.1|localhost"
)


def records_of(path: Path) -> tuple[AnyRecord, ...]:
    return read_session(path).records


def request_of(records: tuple[AnyRecord, ...], question: str) -> ModelRequest:
    """What the model would be sent if the session went on with a question."""
    header = records[0]
    assert isinstance(header, Header)
    messages = RepairedHistory().of([*Projection(records).visible(), UserMessage(id="next", text=question)])
    return ModelRequest(header.system, messages, ())


def test_there_are_examples_and_the_page_names_each() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^\* `([\w-]+\.json)`: ", page)
    assert sorted(listed) == [path.name for path in FILES]
    assert set(EXAMPLES) == set(listed)


@each
def test_an_example_is_one_json_array_with_one_record_a_line(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    values: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    assert (lines[0], lines[-1], len(lines)) == ("[", "]", len(values) + 2)
    assert [json.loads(line.removesuffix(",")) for line in lines[1:-1]] == values
    assert [value["seq"] for value in values] == list(range(1, len(values) + 1))


@each
def test_an_example_loads_without_damage_and_is_written_again_byte_for_byte(path: Path) -> None:
    loaded = read_session(path)
    assert (loaded.damage, loaded.torn, loaded.end) == ((), False, path.stat().st_size - len(b"\n]\n"))
    again = b"[\n" + b",\n".join(encode(record) for record in loaded.records) + b"\n]\n"
    assert again == path.read_bytes()


@each
def test_the_next_request_of_an_example_is_valid(path: Path) -> None:
    records = records_of(path)
    check_request(request_of(records, "And now?"))
    assert not Projection(records).open_calls


@each
def test_every_request_an_example_ever_sent_is_still_valid(path: Path) -> None:
    records = records_of(path)
    asked = [(place, record.kind) for place, record in enumerate(records) if isinstance(record, ModelCalled)]
    for place, kind in asked:
        if kind == "summary":
            check_request(request_of(records[:place], "Summarise."))
        else:
            check_request(ModelRequest("", RepairedHistory().of(Projection(records[:place]).visible()), ()))
    assert asked


@each
def test_an_example_names_no_machine_and_holds_no_secret(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert NOT_FOR_OTHERS.findall(text) == []
    header = records_of(path)[0]
    assert isinstance(header, Header) and header.cwd.startswith("/home/me/") and header.cwd in header.system


def test_the_check_for_secrets_and_paths_finds_them() -> None:
    bad = [
        "/work/x",
        "/tmp/a",
        "/home/you/a",
        "/root/.ssh",
        "sk-abcdefgh12345678",
        "Bearer x",
        "me@example.org",
    ]
    assert [text for text in bad if not NOT_FOR_OTHERS.search(text)] == []
    assert NOT_FOR_OTHERS.search("/home/me/basket a/home/me/x") is None


@each
def test_an_example_is_listed_with_its_first_prompt_and_its_totals(path: Path) -> None:
    info = describe(path)
    prompts = [r.text for r in records_of(path) if isinstance(r, UserMessage) and r.origin == "human"]
    names = [record.title for record in records_of(path) if isinstance(record, Named)]
    assert info is not None and info.title == (names or [title_of(prompts[0])])[-1]
    assert totals(path)[0] == len(prompts)
    assert totals(path)[1].requests == sum(isinstance(record, ModelCalled) for record in records_of(path))


@each
def test_an_example_replays_in_a_fresh_copy_of_its_project(path: Path, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        root = world.work / "project"
        if path.name in EXAMPLES:
            root.mkdir()
            for name, text in EXAMPLES[path.name].files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
        else:
            shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        done = world.run("replay", str(path), "--cd", str(root), "--mode", "yolo")
        assert (done.code, done.err, world.bodies()) == (0, "", [])
        shown = _plain(done.out)
        answers = _answers(records_of(path))
        assert [answer for answer in answers if _plain(answer) not in shown] == []


def test_the_refused_example_shows_a_refusal_an_undo_and_a_redo() -> None:
    records = records_of(FOLDER / "refused-and-undone.json")
    results = [record for record in records if isinstance(record, ToolResult)]
    assert [(r.tool, r.status) for r in results] == [
        ("read_file", "ok"), ("edit_file", "ok"), ("shell", "denied"), ("write_file", "ok"), ("edit_file", "ok"),
    ]  # fmt: skip
    assert "No, keep the README." in results[2].text
    moves = [type(record) for record in records if isinstance(record, TurnsUndone | TurnsRedone)]
    assert moves == [TurnsUndone, TurnsRedone, TurnsUndone]
    seen = [message.text for message in Projection(records).visible() if isinstance(message, UserMessage)]
    assert seen == ["Greet in German instead, and tidy up.", "Add the farewell to greet.py instead."]


def test_the_compacted_example_sends_a_summary_and_keeps_the_originals() -> None:
    records = records_of(FOLDER / "compacted-log.json")
    (fold,) = (record for record in records if isinstance(record, CompactionSaved))
    assert fold.after < fold.before
    visible = Projection(records).visible()
    assert visible[0] == UserMessage(
        id=fold.id, turn_id=fold.turn_id, text=fold.summary, origin="summary", time=fold.time
    )
    sent = sum(len(message.text) for message in visible)
    assert sum(len(r.text) for r in records if isinstance(r, ToolResult)) > sent, "the log itself is kept"


def test_the_held_back_example_has_a_placeholder_and_failed_attempts() -> None:
    records = records_of(FOLDER / "held-back-and-tried-again.json")
    (held,) = (record for record in records if isinstance(record, Quarantined))
    sent = Projection(records).visible()[0]
    assert sent.id == held.message_id and "cannot be sent: messages.1" in sent.text
    outcomes = [record.outcome for record in records if isinstance(record, ModelCalled)]
    assert outcomes == ["bad_request", "stop", "overloaded", "connection", "tool_calls", "stop"]
    costs = Costs()
    for record in records:
        if isinstance(record, ModelCalled):
            costs.add(record)
    causes = {line.cause: line.totals.requests for line in costs.lines()}
    assert causes == {"turns": 3, "failed attempts": 3}


def _answers(records: tuple[AnyRecord, ...]) -> list[str]:
    return [
        line for r in records if isinstance(r, AssistantMessage) for line in r.text.splitlines() if line.strip()
    ]


def _plain(text: str) -> str:
    """Words only: Markdown, wrapping and indentation are the screen's affair."""
    return " ".join(re.findall(r"\w+", text))


def test_the_patched_example_keeps_its_folder_and_stops_what_it_started() -> None:
    results = [
        record for record in records_of(FOLDER / "patched-and-started.json") if isinstance(record, ToolResult)
    ]
    by_tool = {result.tool: result for result in results}
    assert all(result.status == "ok" for result in results)
    assert [change.path for change in by_tool["apply_patch"].changes] == ["shop/price.py", "shop/__init__.py"]
    assert by_tool["jobs"].text.startswith("Stopped job 1")
    assert by_tool["shell"].text.startswith("2\n") and "working directory: shop" in by_tool["shell"].text
    assert by_tool["finish"].text.startswith("`total` rounds")


def test_the_rewound_example_keeps_what_was_pinned_and_finds_what_was_folded() -> None:
    records = records_of(FOLDER / "rewound-and-remembered.json")
    sent = Projection(records).visible()
    assert sent[0].id == next(record.id for record in records if isinstance(record, CompactionSaved))
    kept = sent[1]
    assert isinstance(kept, UserMessage) and kept.text.startswith("The first word is lost")
    assert not any("generator" in m.text for m in sent if isinstance(m, UserMessage) and m.origin == "human")
    (noted,) = (change for r in records if isinstance(r, ToolResult) for change in r.memory)
    assert noted.before is None and (noted.after or "").endswith("\n\nTests: python3 -m unittest\n")
    found = next(r for r in records if isinstance(r, ToolResult) and r.tool == "search_history")
    assert "The tests are run with" in found.text

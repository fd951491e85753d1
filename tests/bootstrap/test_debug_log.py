"""The log of `--debug` is read by people, has a bounded size, and holds no secret."""

import os
import re
from pathlib import Path

from agent_cli.bootstrap.debug_log import DebugLog, remove_old_logs
from agent_cli.protocol.events import Notice, ToolCallStarted
from agent_cli.redaction.redactor import Redactor
from tests.e2e.debug_lines import logged

SECRET = "correct-horse-7-battery-staple"


def a_log(folder: Path, most_bytes: int = 10_000) -> DebugLog:
    return DebugLog(folder / "logs" / "0ab1727c.log", lambda: Redactor({"MY_KEY": SECRET}), most_bytes)


def test_a_line_says_when_and_what(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.event(
        ToolCallStarted(seq=3, time=1.79e9 + 0.25, call_id="c1", tool="shell", title="make\ntest \u202e\x1b[31m")
    )
    log.event(Notice(level="info", text="true"))
    text = log.path.read_text(encoding="utf-8")
    assert re.match(
        r"2026-09-\d\d \d\d:\d\d:\d\d\.250 tool_call_started seq=3 .*call_id=c1 tool=shell title=\"make", text
    )
    assert len(text.splitlines()) == 2 and "\x1b" not in text and "\u202e" not in text
    assert logged(log.path)[1]["text"] == "true"
    assert log.path.stat().st_mode & 0o777 == 0o600 and log.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_request_has_only_what_is_new_a_message_a_line(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    first = {
        "model": "m",
        "tools": [{"name": "shell"}],
        "messages": [{"role": "user", "content": f"I am {SECRET}"}],
    }
    log.request("openai/m", first)
    log.request("openai/m", {**first, "messages": [*first["messages"], {"role": "assistant", "content": "A\nB"}]})
    one, two = logged(log.path)
    assert one["body"] == {"model": "m", "tools": [{"name": "shell"}]}
    assert one["added"] == [{"role": "user", "content": "I am [masked: MY_KEY]"}] and one["unchanged"] == 0
    assert (two["unchanged"], two["added"]) == (
        1,
        [{"role": "assistant", "content": "A\nB"}],
    ) and "body" not in two


def test_a_full_log_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    log = a_log(tmp_path, most_bytes=500)
    for number in range(60):
        log.event(Notice(level="info", text=f"number {number} " + "x" * 100))
    names = sorted(path.name for path in log.path.parent.iterdir())
    assert names == ["0ab1727c.log", *(f"0ab1727c.log.{number}" for number in (1, 2, 3))]
    assert all(path.stat().st_size < 1000 for path in log.path.parent.iterdir())
    texts = [
        event["text"] for path in (*map(log.path.with_name, names[:0:-1]), log.path) for event in logged(path)
    ]
    assert texts[-1].startswith("number 59 ") and len(texts) < 30
    assert [int(text.split()[1]) for text in texts] == list(range(60 - len(texts), 60))


def test_a_log_goes_on_where_its_session_is_resumed(tmp_path: Path) -> None:
    for text in ("first", "second"):
        a_log(tmp_path).event(Notice(level="info", text=text))
    assert [event["text"] for event in logged(a_log(tmp_path).path)] == ["first", "second"]


def test_logs_of_old_sessions_go(tmp_path: Path) -> None:
    for number in range(5):
        for name in (f"s{number}.log", f"s{number}.log.1"):
            (tmp_path / name).write_text("x")
            os.utime(tmp_path / name, (1000 + number, 1000 + number))
    (tmp_path / "mine.txt").write_text("x")
    remove_old_logs(tmp_path, 2)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["mine.txt", "s3.log", "s3.log.1", "s4.log", "s4.log.1"]

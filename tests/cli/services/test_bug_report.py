"""A report of a fault: what is in it, and what must not be."""

import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.setup import Setup
from agent_cli.cli.services.bug_report import ReportedSession, running, saved, write_report
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled, TurnEnded
from agent_cli.redaction.redactor import Redactor
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.store.session_file import write_session
from tests.ui.fake_client import SNAPSHOT

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0" + "K1l2M3n4O5p6Q7r8"
OWN = "correct-horse-7-battery-staple"
CONFIG = f"""\
mode: plan
providers:
  mine:
    base_url: "https://me:{OWN}@models.example/v1"
    headers: {{x-team: internal-header-value}}
tools: {{shell: {{env: {{DEPLOY_TOKEN: {OWN}, SPEED: fast}}}}}}
"""


@pytest.fixture
async def processes() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    for folder in ("work", "own/config", "own/state/logs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own" / "config" / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return Setup(ParsedOptions("agent", {}), root=tmp_path / "work", own=tmp_path / "own")


def session(folder: Path) -> Path:
    """A conversation in which secrets were said, and one turn failed."""
    records: list[AnyRecord] = [
        Header(
            id="h",
            version=FORMAT_VERSION,
            session_id="abc123",
            cwd="/work",
            model="m/x",
            mode="ask",
            created_by="test",
            system="You are agent.",
        ),
        UserMessage(id="u", turn_id="t1", text=f"why does {OWN} not work?"),
        ModelCalled(id="c1", turn_id="t1", kind="main", model="m/x", outcome="stop"),
        AssistantMessage(id="a", turn_id="t1", text="Let me look."),
        ToolResult(id="r", turn_id="t1", call_id="c", tool="shell", status="ok", text=f"export GITHUB={TOKEN}"),
        ModelCalled(id="c2", turn_id="t1", kind="main", model="m/x", outcome="rate_limit"),
        TurnEnded(id="e", turn_id="t1", stop_reason="provider_error", error=f"refused {TOKEN}"),
        TurnEnded(id="e2", turn_id="t2", stop_reason="interrupted"),
    ]
    numbered = [msgspec.structs.replace(record, seq=at) for at, record in enumerate(records, 1)]
    path = folder / "20261121T000000Z-abc123.json"
    write_session(path, numbered)
    return path


def unpacked(report: Path) -> dict[str, str]:
    with zipfile.ZipFile(report) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


async def test_a_report_has_what_one_needs_and_no_secret(
    setup: Setup, processes: ProcessRunner, tmp_path: Path
) -> None:
    (setup.state / "logs" / "abc123.log").write_text(f'text="{OWN}"\n' * 10_000, encoding="utf-8")
    now = msgspec.structs.replace(SNAPSHOT, session_path=str(session(tmp_path)))
    redactor = Redactor({"MY_KEY": OWN})
    said = await write_report(setup, processes, redactor, running(now), {"colours": "yes"})
    (report,) = (setup.state / "bugs").iterdir()
    assert said.split("\n")[0] == f"Report written, nothing sent: {report}"
    assert report.stat().st_mode & 0o777 == 0o600 and report.parent.stat().st_mode & 0o777 == 0o700
    parts = unpacked(report)
    assert list(parts) == ["facts.txt", "config.txt", "errors.jsonl", "session.json", "log-tail.txt"]
    assert all(f"  {name}" in said for name in parts)
    whole = "".join(parts.values())
    assert OWN not in whole and TOKEN not in whole and "internal-header-value" not in whole
    assert "colours: yes" in parts["facts.txt"] and "git: git version" in parts["facts.txt"]
    assert f'mode: "plan"    # {setup.config_dir / "config.yaml"}:1' in parts["config.txt"]
    assert "SPEED" in parts["config.txt"] and '"fast"' in parts["config.txt"]
    errors = [json.loads(line)["id"] for line in parts["errors.jsonl"].splitlines()]
    assert errors == ["c2", "e"]
    assert [record["type"] for record in json.loads(parts["session.json"])][:2] == ["session", "user"]
    assert 0 < len(parts["log-tail.txt"]) <= 200_000 and parts["log-tail.txt"].startswith('text="')


async def test_without_a_session_the_rest_is_written(setup: Setup, processes: ProcessRunner) -> None:
    await write_report(setup, processes, Redactor(), ReportedSession(), {})
    (report,) = (setup.state / "bugs").iterdir()
    assert list(unpacked(report)) == ["facts.txt", "config.txt"]


async def test_a_report_that_cannot_be_written_is_an_error(setup: Setup, processes: ProcessRunner) -> None:
    (setup.state / "bugs").write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError, match="bugs"):
        await write_report(setup, processes, Redactor(), ReportedSession(), {})


async def test_a_saved_session_is_reported_as_a_running_one_is(
    setup: Setup, processes: ProcessRunner, tmp_path: Path
) -> None:
    path = session(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'{"type":"assistant"', b'{"type":"???"'))
    await write_report(setup, processes, Redactor({"MY_KEY": OWN}), saved(path), {})
    (report,) = (setup.state / "bugs").iterdir()
    parts = unpacked(report)
    assert list(parts) == ["facts.txt", "config.txt", "errors.jsonl", "session.json"]
    assert OWN not in "".join(parts.values()) and TOKEN not in "".join(parts.values())
    assert "session: abc123, 1 prompt, saved, written by test" in parts["facts.txt"]
    assert "damage: line 5 of the session is damaged" in parts["facts.txt"]

"""The files that an evaluation adds to the folder of a batch: `eval.json` with everything that the score depends
on, and exports for other programs: predictions and trajectories."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.fs.files import read_regular, reason_of, replace_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage
from agent_cli.protocol.records import AnyRecord, Header
from agent_cli.store.child_sessions import child_sessions
from agent_cli.store.session_file import StoreError, read_session

from ..attempt import AttemptResult, attempt_folder
from ..report.summary import Summary, summarize
from ..task import Task
from .atif import trajectory
from .harbor_tasks import Suite, SuiteError
from .swebench import predictions

EVAL_FILE = "eval.json"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`eval.json`: everything that the score depends on. Unknown values are null or empty."""

    suite: str
    suite_commit: str = ""
    """Commit of the repository that contains the suite; a trailing `+` means uncommitted changes."""
    model: str
    models_reported: tuple[str, ...] = ()
    """The models that answered, according to the sessions."""
    effort: str = ""
    mode: str = ""
    sandbox: str = ""
    tools: tuple[str, ...] = ()
    """The built-in tools offered, and `agent`, `mcp` and `skill` if enabled."""
    tools_sha256: str = ""
    """SHA-256 of the declarations of the built-in tools."""
    attempts: int = 1
    agent_version: str
    python: str = ""
    platform: str = ""
    date: str = ""
    """Date of the first run, in UTC."""
    prices: dict[str, Any] | None = None
    """US dollars per million tokens; null if no price is known."""
    prompts: tuple[str, ...] = ()
    """SHA-256 of each system prompt sent, without the path of the tree."""
    checksums: dict[str, str] = {}
    """SHA-256 of each task."""
    skipped: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, str]:
        """Return the facts shown at the head of a report."""
        known = {
            "Suite": self.suite,
            "Suite commit": self.suite_commit,
            "Checksum of the tasks": _digest(sorted(self.checksums.items()))[:16],
            "Model": self.model,
            "Model reported": ", ".join(self.models_reported),
            "Effort": self.effort,
            "Mode": self.mode,
            "Sandbox": self.sandbox,
            "Tools": f"{len(self.tools)}, {self.tools_sha256[:16]}" if self.tools else "",
            "Agent version": self.agent_version,
            "System prompt": ", ".join(each[:16] for each in self.prompts),
            "Prices per million tokens": _prices(self.prices),
        }
        return {name: value for name, value in known.items() if value}


def checksums_of(suite: Suite) -> dict[str, str]:
    """Return the checksum of each task, or else a hash of the task as read."""
    return {task.id: task.meta.get("checksum") or _digest(task) for task in suite.tasks}


def read_record(out: Path) -> Record | None:
    """Return the record of an evaluation; None in the folder of another batch.

    Raises:
        SuiteError: it cannot be read.
    """
    try:
        return decode_json(read_regular(out / EVAL_FILE), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SuiteError(f"{out / EVAL_FILE} cannot be read: {reason_of(error, out / EVAL_FILE)}") from error


def write_record(out: Path, record: Record) -> None:
    """Save a record.

    Raises:
        SuiteError: it cannot be written.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(out / EVAL_FILE, msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:
        raise SuiteError(f"{out / EVAL_FILE} cannot be written: {error.strerror}") from error


def read_summary(out: Path, tasks: Sequence[Task], results: Sequence[AttemptResult]) -> Summary:
    """Return the summary of a batch, including its evaluation record, if any, and skipped tasks."""
    record = read_record(out)
    if record is None:
        return summarize(tasks, results)
    known = {task.id for task in tasks}
    missing = [Task(id=name, prompt="") for name in record.skipped if name not in known]
    return summarize([*tasks, *missing], results, about=record.facts(), skipped=record.skipped)


def with_sessions(record: Record, out: Path, results: Sequence[AttemptResult]) -> Record:
    """Return the record completed from the sessions: the prompts sent and the models that answered."""
    prompts, models = set(record.prompts), set(record.models_reported)
    for result in results:
        records = _session(_session_file(out, result))
        if records and isinstance(header := records[0], Header):
            prompts.add(hashlib.sha256(header.system.replace(header.cwd, "").encode()).hexdigest())
            models |= {each.model for each in records if isinstance(each, AssistantMessage) and each.model}
    return msgspec.structs.replace(record, prompts=tuple(sorted(prompts)), models_reported=tuple(sorted(models)))


def predictions_of(out: Path, tasks: Sequence[Task], results: Sequence[AttemptResult]) -> bytes:
    """Return `preds.jsonl`: a line for each task that has an attempt. In a patch that is not UTF-8, and so cannot
    be written as JSON, invalid bytes are replaced."""

    def patch(result: AttemptResult) -> str:
        try:
            folder = attempt_folder(out, result.id, result.attempt)
            return read_regular(folder / "patch.diff").decode("utf-8", "replace")
        except OSError:
            return ""

    return b"".join(msgspec.json.encode(each) + b"\n" for each in predictions(tasks, results, patch))


def trajectory_of(out: Path, result: AttemptResult) -> dict[str, Any] | None:
    """Return the trajectory of an attempt; None if no session was saved."""
    return trajectory_of_file(_session_file(out, result))


def trajectory_of_file(path: Path) -> dict[str, Any] | None:
    """Return the trajectory of a session file, with those of its sub-agents; None if it cannot be read."""
    records = _session(path)
    if records is None:
        return None
    children: dict[str, list[Sequence[AnyRecord]]] = {}
    for child in child_sessions(path):
        if below := _session(child.path):
            children.setdefault(child.call_id, []).append(below)
    return trajectory(records, children)


def _session_file(out: Path, result: AttemptResult) -> Path:
    return attempt_folder(out, result.id, result.attempt) / "session.json"


def _session(path: Path) -> Sequence[AnyRecord] | None:
    """Return the records of a session file, of which the first is the header; None if it cannot be read."""
    try:
        records = read_session(path).records
    except (StoreError, OSError):
        return None
    return records if records and isinstance(records[0], Header) else None


def _prices(prices: Mapping[str, Any] | None) -> str:
    known = {name: value for name, value in (prices or {}).items() if isinstance(value, int | float)}
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in known.items())


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()

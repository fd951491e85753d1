"""A bug report: a file in the state folder, for the user to read and to pass on, or not. Nothing is sent, no
network is used, and known secrets are masked throughout."""

import asyncio
import io
import os
import platform
import shutil
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli import __version__
from agent_cli.bootstrap.setup import Setup
from agent_cli.fs.files import create_file, make_private, read_regular
from agent_cli.fs.which import program
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.messages import is_prompt
from agent_cli.protocol.records import AnyRecord, Header, ModelCalled, SettingsSet, TurnEnded, encode, header_of
from agent_cli.redaction.redactor import Redactor
from agent_cli.sandbox.process.runner import OverdueError, ProcessError, ProcessRunner
from agent_cli.store.export.formats import exported, masked
from agent_cli.store.session_file import read_session
from agent_cli.ui.text.lines import number

from .listings.settings import config

FOLDER = "bugs"
_GOOD_ENDS = frozenset({"end_turn", "interrupted", "abandoned", "declined"})
_GOOD_OUTCOMES = frozenset({"stop", "tool_calls", "interrupted"})
_MOST_ERRORS = 50
_LOG_TAIL_BYTES = 200_000
_VARIABLES = (
    *("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "COLORFGBG", "NO_COLOR", "CLICOLOR", "TMUX"),
    *("LANG", "LC_ALL", "LC_CTYPE", "SHELL", "VIRTUAL_ENV", "WSL_DISTRO_NAME", "SSH_CONNECTION", "SSH_TTY"),
)
"""For the last few, only the fact that they are set is reported."""
_ONLY_WHETHER = frozenset({"TMUX", "VIRTUAL_ENV", "SSH_CONNECTION", "SSH_TTY"})
_PROGRAMS = ("git", "rg", "bwrap")


class ReportedSession(msgspec.Struct, frozen=True):
    """The session of a report."""

    id: str = ""
    path: str = ""
    """Its file; empty if it has none."""
    facts: dict[str, str] = {}
    """Known facts by name: model, mode, sandbox, length."""


def running(now: Snapshot) -> ReportedSession:
    """Return the running session."""
    length = f"{number(now.turns, 'turn')}, {now.context_tokens} of {now.context_window} tokens"
    facts = {
        "model": f"{now.model} {now.effort}".strip(),
        "mode": now.mode,
        "sandbox": now.sandbox,
        "session": f"{now.session_id}, {length}",
    }
    return ReportedSession(now.session_id, now.session_path, facts)


def saved(path: Path) -> ReportedSession:
    """Return a saved session.

    Raises:
        StoreError: it cannot be read.
    """
    loaded = read_session(path)
    header = header_of(loaded.records)
    settings = [each for each in loaded.records if isinstance(each, Header | SettingsSet)][-1]
    prompts = sum(is_prompt(each) for each in loaded.records)
    facts = {
        "model": f"{settings.model} {settings.effort}".strip(),
        "mode": settings.mode,
        "session": f"{header.session_id}, {number(prompts, 'prompt')}, saved, written by {header.created_by}",
    }
    if problems := loaded.problems():
        facts["damage"] = "; ".join(problems[:_MOST_ERRORS])
    return ReportedSession(header.session_id, str(path), facts)


async def write_report(
    setup: Setup, processes: ProcessRunner, redactor: Redactor, session: ReportedSession, facts: Mapping[str, str]
) -> str:
    """Write the report and return a description with its path.

    Raises:
        OSError: it cannot be written.
        StoreError: the session cannot be read.
    """
    versions = {name: await _version(setup, processes, name) for name in _PROGRAMS}
    return await asyncio.to_thread(_written, setup, redactor, session, {**facts, **versions})


def _written(setup: Setup, redactor: Redactor, session: ReportedSession, facts: Mapping[str, str]) -> str:
    parts = _parts(setup, redactor, session, facts)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (text, _) in parts.items():
            archive.writestr(name, text.encode("utf-8", "replace"))
    folder = setup.state / FOLDER
    make_private(folder)
    path = folder / f"agent-bug-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}.zip"
    create_file(path, packed.getvalue())
    rows = [f"  {name:<14} {what}" for name, (_, what) in parts.items()]
    return "\n".join([f"Report written, nothing sent: {path}", *rows, _READ_IT])


_READ_IT = "Known secrets are masked, but the conversation is included.\nRead the file before you share it."


def _parts(
    setup: Setup, redactor: Redactor, session: ReportedSession, facts: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return text and description of each part, by file name."""
    settings = "".join(f"{line.key}: {line.value}    # {line.place}\n" for line in config(setup, redactor))
    parts = {
        "facts.txt": (_facts(setup, session, facts, redactor), "program, machine, terminal, state folder"),
        "config.txt": (settings, "every configuration key, with the file that sets it"),
    }
    if session.path and Path(session.path).exists():
        records = masked(read_session(Path(session.path)).records, redactor)
        errors = [record for record in records if _is_error(record)][-_MOST_ERRORS:]
        if errors:
            text = "".join(encode(record).decode() + "\n" for record in errors)
            parts["errors.jsonl"] = (text, f"failed model calls and turns of this session, the last {len(errors)}")
        parts["session.json"] = (exported(records, "json"), f"this session, {number(len(records), 'record')}")
    log = setup.state / "logs" / f"{session.id}.log"
    if tail := _tail(log):
        parts["log-tail.txt"] = (redactor.mask(tail, assignments=True), "the end of the log of --debug")
    return parts


def _is_error(record: AnyRecord) -> bool:
    match record:
        case TurnEnded(stop_reason=reason, error=error):
            return bool(error) or reason not in _GOOD_ENDS
        case ModelCalled(outcome=outcome):
            return outcome not in _GOOD_OUTCOMES
        case _:
            return False


def _facts(setup: Setup, session: ReportedSession, facts: Mapping[str, str], redactor: Redactor) -> str:
    size = shutil.get_terminal_size()
    state = setup.state
    known = {
        "agent": __version__,
        "python": f"{platform.python_version()} ({sys.implementation.name})",
        "system": platform.platform(),
        "machine": platform.machine(),
        "encoding": sys.stdout.encoding or "?",
        "terminal": f"{size.columns} columns, {size.lines} rows, stdin {_kind(0)}, stdout {_kind(1)}",
        **{name: _variable(name) for name in _VARIABLES},
        **facts,
        "state folder": f"{state}, {shutil.disk_usage(state).free // 1_000_000:,} MB free",
        **session.facts,
        "layers": ", ".join(layer.name for layer in setup.loaded.layers) or "none",
    }
    return redactor.mask("".join(f"{name}: {value}\n" for name, value in known.items()), assignments=True)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        return "unset"
    return "set" if name in _ONLY_WHETHER else value


def _kind(descriptor: int) -> str:
    try:
        return "a terminal" if os.isatty(descriptor) else "no terminal"
    except OSError:
        return "closed"


def _tail(log: Path) -> str:
    """Return the last whole lines of a log; empty if there is none."""
    try:
        size = log.stat().st_size
        data = read_regular(log, start=max(0, size - _LOG_TAIL_BYTES))
    except OSError:
        return ""
    if size > _LOG_TAIL_BYTES:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


async def _version(setup: Setup, processes: ProcessRunner, name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = program(name, f"{beside.parent}:{os.environ.get('PATH', os.defpath)}", setup.workspace.roots)
    if found is None:
        return "not found"
    try:
        done = await processes.run([found, "--version"], cwd=Path("/"), timeout_s=5.0, max_output_bytes=10_000)
    except (ProcessError, OverdueError) as error:
        return str(error)
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]

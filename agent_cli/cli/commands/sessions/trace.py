"""`agent trace`: show a trace file in the terminal, and send spans that a collector did not get."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.config.dirs import state_dir, unsent_traces_dir
from agent_cli.config.schema import Ui
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import one_line
from agent_cli.telemetry.export.otlp_json import spans_in
from agent_cli.telemetry.export.otlp_settings import OtlpError, OtlpSettings, has_protobuf, otlp_settings
from agent_cli.telemetry.export.trace_file import RequestReader, TraceFileError
from agent_cli.ui.services import TracedTurn
from agent_cli.ui.text.lines import number
from agent_cli.ui.text.theme import NONE, choose

from ...services.completion import session_ids
from .output import emit, setup_for_sessions, size

if TYPE_CHECKING:
    from agent_cli.telemetry.export.delivery import Delivery

app = typer.Typer(help="Show and send traces of sessions.", no_args_is_help=True)
_UNUSABLE, _REFUSED, _NOT_TAKEN = 2, 3, 4
_ORDER = (_REFUSED, _NOT_TAKEN, _UNUSABLE)
"""Precedence of exit codes if files have different ones."""
MOST_SHOWN_BYTES = 32_000_000
"""Maximum size of a file to show; about thirty thousand spans."""


@app.command("show")
def show_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|ID",
            help="A file that --trace has written, or a saved session.",
            autocompletion=session_ids,
        ),
    ],
    rows: Annotated[int, typer.Option("--rows", help="Spans of each turn to show at most.", min=1)] = 60,
) -> int:
    """Show where the time of each turn went, and what took longest."""

    from ...services.listings.traces import traced_turns, turns_of

    if not file.suffix and len(file.parts) == 1 and not os.path.exists(file):
        return _print(traced_turns(setup_for_sessions().sessions.find(str(file))), rows)
    try:
        with RequestReader(file) as reader:
            is_cut = reader.skip_to_last(MOST_SHOWN_BYTES)
            spans = list(spans_in(decode_json(line.data) for line in reader.lines()))
            reader.check()
            size_bytes, damaged = reader.size, reader.damaged
    except TraceFileError as error:
        hint = "; a .json file is for ui.perfetto.dev" if file.suffix == ".json" else ""
        raise UsageError(f"{one_line(str(error))}{hint}") from error
    if is_cut:
        print(
            f"agent: the file has {size(size_bytes)}; only the turns in its last {size(MOST_SHOWN_BYTES)} are "
            "shown, and the first one may lack spans",
            file=sys.stderr,
        )
    if damaged:
        verb = "is" if damaged == 1 else "are"
        print(f"agent: {number(damaged, 'line')} of the file cannot be read and {verb} left out", file=sys.stderr)
    return _print(turns_of(spans), rows)


def _print(turns: Sequence[TracedTurn], rows: int) -> int:
    from agent_cli.ui.commands.trace import render_turn

    theme = choose(Ui()) if sys.stdout.isatty() else NONE
    width = shutil.get_terminal_size().columns
    for at, turn in enumerate(turns):
        emit([*([""] if at else []), *render_turn(turn, theme, width, rows)])
    if not turns:
        emit(["There are no turns in it."])
    return 0


@app.command("send")
def send_command(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="Default: all that could not be sent.")
    ] = None,
) -> int:
    """Send trace files to the collector that the OTEL_EXPORTER_OTLP_… variables name."""
    from agent_cli.telemetry.export.delivery import kept_files

    folder = unsent_traces_dir(state_dir())
    found = [file.absolute() for file in files] if files else kept_files(folder)
    if not found:
        emit(["There is nothing to send."])
        return 0
    try:
        settings = otlp_settings(os.environ, protobuf=has_protobuf())
    except OtlpError as error:
        raise UsageError(one_line(str(error))) from error
    return asyncio.run(_send(found, settings, folder))


async def _send(files: list[Path], settings: OtlpSettings, folder: Path) -> int:
    """Send the files one by one; a failure does not stop the others."""
    from agent_cli.telemetry.export.delivery import BusyError, deliver, is_kept

    codes: set[int] = set()
    for file in files:
        try:
            done = await deliver(file, settings, folder)
        except TraceFileError as error:
            print(f"agent: {one_line(str(error))}", file=sys.stderr)
            codes.add(_NOT_TAKEN if isinstance(error, BusyError) else _UNUSABLE)
            continue
        codes.add(_tell(done, settings.place, is_kept=is_kept(file, folder)))
    return next((code for code in _ORDER if code in codes), 0)


def _tell(done: "Delivery", place: str, *, is_kept: bool) -> int:
    """Print the result for a file, and return its exit code."""
    from agent_cli.ui.text.hints import AT_A_SHELL, advice

    said: list[str] = []
    of = f"{done.sent} of " if done.left else ""
    emit([f"{one_line(str(done.path))}: sent {of}{number(done.sent + done.left, 'span')} to {one_line(place)}"])
    if done.damaged:
        said.append(f"{number(done.damaged, 'line')} cannot be read and were not sent")
    if done.rejected:
        said.append(f"the collector rejected {number(done.rejected, 'span')} and would do so again")
    if (failure := done.failure) is not None:
        hint = f". {advice((failure.hint,), AT_A_SHELL)}" if failure.hint is not None else ""
        what = f"the rest is kept in {done.path}" if is_kept and done.sent else f"{done.path} is unchanged"
        again = f"agent trace send {shlex.quote(str(done.path))}"
        said += [f"{str(failure).rstrip('.')}{hint}", f"{what}; to send it again: {again}"]
    for each in said:
        print(f"agent: {one_line(each)}", file=sys.stderr)
    if failure is not None and failure.status in (401, 403):
        return _REFUSED
    return _NOT_TAKEN if failure is not None or done.rejected else 0

"""`agent trace`: show a trace file in the terminal, and send what a collector did not get."""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.config.dirs import state_dir, unsent_traces_dir
from agent_cli.config.schema import Ui
from agent_cli.telemetry.export.otlp_settings import OtlpError, OtlpSettings, has_protobuf, otlp_settings
from agent_cli.telemetry.export.trace_file import TraceFileError
from agent_cli.ui.services import TracedTurn
from agent_cli.ui.text.lines import number
from agent_cli.ui.text.theme import NONE, choose

from ...setup.options import UsageError
from .output import emit, one_line, setup_for_sessions

app = typer.Typer(help="Show and send traces of sessions.", no_args_is_help=True)
_FAILED = 1


@app.command("show")
def show_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|ID", help="A file that --trace has written, or a saved session.")
    ],
    rows: Annotated[int, typer.Option("--rows", help="Spans of each turn to show at most.", min=1)] = 60,
) -> int:
    """Show where the time of each turn went, and what took longest."""
    from agent_cli.telemetry.export.otlp_json import spans_in
    from agent_cli.telemetry.export.trace_file import read_requests

    from ...services.listings import traced_turns, turns_of

    if not file.suffix and len(file.parts) == 1 and not file.exists():
        return _print(traced_turns(setup_for_sessions().sessions.find(str(file))), rows)
    try:
        lines, damaged = read_requests(file)
    except TraceFileError as error:
        hint = "; a .json file is for ui.perfetto.dev" if file.suffix == ".json" else ""
        raise UsageError(f"{one_line(str(error))}{hint}") from error
    spans = list(spans_in(map(msgspec.json.decode, lines)))
    if damaged:
        print(f"agent: {number(damaged, 'line')} of the file cannot be read and are left out", file=sys.stderr)
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
        return asyncio.run(_send(found, settings, folder))
    except (OtlpError, TraceFileError) as error:
        raise UsageError(one_line(str(error))) from error


async def _send(files: list[Path], settings: OtlpSettings, folder: Path) -> int:
    from agent_cli.telemetry.export.delivery import deliver

    code = 0
    for file in files:
        done = await deliver(file, settings, folder)
        of = f"{done.sent} of " if done.left else ""
        emit([f"{one_line(str(file))}: sent {of}{number(done.sent + done.left, 'span')} to {settings.place}"])
        if done.damaged:
            print(f"agent: {number(done.damaged, 'line')} cannot be read and were not sent", file=sys.stderr)
        if done.problem:
            print(f"agent: {one_line(done.problem)}", file=sys.stderr)
            code = _FAILED
    return code

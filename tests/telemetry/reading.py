"""What a trace file holds."""

from pathlib import Path

from agent_cli.telemetry.export.trace_file import RequestReader


def read_requests(path: Path) -> tuple[list[bytes], int]:
    """The lines of a trace file that are whole requests, and how many were not."""
    with RequestReader(path) as reader:
        lines = [line.data for line in reader.lines()]
        reader.check()
        return lines, reader.damaged

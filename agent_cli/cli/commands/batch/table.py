"""The running attempts of a batch as a table on a terminal, with the ended ones above it. Imported only on a
terminal."""

import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agent_cli.fleet.batch.events import AttemptEnded, BatchBegan, BatchEvent
from agent_cli.ui.text.lines import dollars, seconds, truncate

from .progress import Tally, Watcher, began_line, ended_line

_MOST_ROWS = 20


class LiveTable(Watcher):
    """A table redrawn every second."""

    def __init__(self) -> None:
        # Bypass the stream that strips control sequences: everything drawn here was sanitized piece by piece.
        self._console = Console(file=sys.__stdout__, highlight=False)
        self._tally = Tally()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def watch(self, event: BatchEvent) -> None:
        """Print permanent lines, and count all events."""
        self._tally.take(event)
        match event:
            case BatchBegan():
                self._print(began_line(event), "")
            case AttemptEnded(result=result):
                self._print(ended_line(event), "green" if result.is_good else "red")

    def _print(self, line: str, style: str) -> None:
        self._live.console.print(Text(truncate(line, self._console.width), style=style))

    def tick(self) -> None:
        """Draw the table."""
        self._live.update(self._drawing(), refresh=True)

    def _drawing(self) -> Group:
        table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim", expand=True)
        for head, side in (
            ("task", "left"),
            ("step", "right"),
            ("last", "left"),
            ("time", "right"),
            ("cost", "right"),
        ):
            table.add_column(head, justify=side, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        now = time.monotonic()
        most = max(1, min(_MOST_ROWS, self._console.height - 6))
        for key, step in list(self._tally.running.items())[:most]:
            name, _, attempt = key.rpartition(" ")
            shown = name if attempt == "1" else f"{name} ({attempt})"
            cost = dollars(step.cost_usd) if step.cost_usd else ""
            table.add_row(Text(shown), str(step.steps), Text(step.last), seconds(now - step.since), cost)
        rows: list[Table | Text] = [table] if self._tally.running else []
        if len(self._tally.running) > most:
            rows.append(Text(f" and {len(self._tally.running) - most} more", style="dim"))
        rows.append(Text(truncate(self._tally.totals(), self._console.width)))
        if pause := self._tally.pause():
            rows.append(Text(truncate(pause, self._console.width), style="yellow"))
        if self._tally.stopping:
            line = f"stopping: {self._tally.stopping} · Ctrl-C again kills what runs"
            rows.append(Text(truncate(line, self._console.width), style="yellow"))
        return Group(*rows)

    def close(self) -> None:
        """Erase the table; printed lines stay."""
        self._live.stop()

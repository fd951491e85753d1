"""Start the interactive loop: load the line editor while the first paint is on the screen.

The import takes longer than everything before it. Keys typed meanwhile are kept in `terminal_modes.TypeAhead`.
"""

import gc
import sys
from pathlib import Path

from agent_cli.config.schema import Ui
from agent_cli.protocol.client import Client

from ..commands.api import NOTHING, ExitReason, FirstInput
from ..services import FrontEndServices
from ..text.theme import is_plain
from .first_paint import FirstPaint

_GC_THRESHOLDS = (2_000, 5, 20)


async def run_repl(
    client: Client,
    host: FrontEndServices,
    settings: Ui,
    *,
    history_file: Path,
    painted: FirstPaint,
    first_input: FirstInput = NOTHING,
) -> ExitReason:
    """Run the REPL until the user leaves, and return the reason. The engine is shut down by then. `painted` is the
    view already on the screen, and has the keyboard; it is ended here if no other session follows."""
    if is_plain(settings, sys.stdin, sys.stdout):
        from ..plain.repl import run_plain

        return await run_plain(client, host, settings, sys.stdin, sys.stdout, first_input=first_input)
    from .repl import Repl

    collect_often()
    leaving = await Repl(client, host, settings, history_file, painted).run(first_input)
    if leaving.is_final:
        painted.end()
    return leaving


def collect_often() -> None:
    """Exclude loaded modules from garbage collection, and collect the rest every few frames: each frame of the
    line editor leaves 35 kB in a cycle, which add up to 7 MB before the initial threshold is reached."""
    if not gc.get_freeze_count():
        gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def let_go(*, is_first: bool) -> None:
    """Free a session that has ended. Its objects refer to each other, and full collections are rare, so a long one
    would stay in memory beside the next ones; the first was even excluded from collections, with the modules."""
    if is_first:
        gc.unfreeze()
    gc.collect()
    if is_first:
        gc.freeze()

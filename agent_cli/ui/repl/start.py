"""Start the interactive loop: load the line editor while the first paint stands on the screen.

Loading it takes longer than everything before it. What is typed meanwhile waits in `terminal_modes.TypeAhead`.
"""

import gc
import sys
from pathlib import Path

from agent_cli.config.schema import Ui
from agent_cli.protocol.client import Client

from ..commands.api import NOTHING, ExitReason, FirstInput
from ..services import Host
from ..text.theme import is_plain
from .first_paint import FirstPaint

_GC_THRESHOLDS = (2_000, 5, 20)


async def run_repl(
    client: Client,
    host: Host,
    settings: Ui,
    *,
    history_file: Path,
    painted: FirstPaint,
    first_input: FirstInput = NOTHING,
) -> ExitReason:
    """Talk to the user until they leave, and say why they left. The engine is shut down by then. `painted` is what
    stands on the screen already, and has the keyboard; it is ended here when no other session follows."""
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
    """Leave what is loaded out of garbage collections, and look at the rest every few frames: each frame of the
    line editor leaves 35 kB in a cycle, which come to 7 MB before the threshold of the start is reached."""
    if not gc.get_freeze_count():
        gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)

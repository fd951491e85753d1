"""`agent doctor`: check whether a task could run here. One line per check, with advice below if it fails."""

import asyncio
import shutil
import sys
from contextlib import aclosing

from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.sanitize import clean
from agent_cli.ui.text import lines

from ...services.doctor.checks import findings, shown, summary
from ..sessions.output import print_json

_PATH_WIDTH = 60


def run_doctor(setup: Setup) -> int:
    """Run all checks; return 0 only if a task could run."""
    return asyncio.run(_check_all(setup))


def list_files(setup: Setup, *, as_json: bool) -> int:
    """Print each file that is read here, awaits the user's trust or is ignored."""
    from ...services.extensions.file_report import file_lines

    found = file_lines(setup)
    if as_json:
        print_json(found)
        return 0
    if not found:
        print("No instructions, skills, commands, hooks or MCP servers were found here.")
        return 0
    width = max((lines.cells(lines.one_line(each.path, _PATH_WIDTH)) for each in found), default=0)
    for each in found:
        path = lines.one_line(each.path, _PATH_WIDTH)
        tokens = f", {each.tokens:,} token{'' if each.tokens == 1 else 's'}" if each.tokens else ""
        print(f"{each.state:6}  {lines.pad(path, width)}  {clean(each.what)}{tokens}")
    total = sum(each.tokens for each in found)
    entries = lines.number(len(found), "entry", "entries")
    print(f"\n{entries}; together they add about {total:,} tokens to every request.")
    return 0


async def _check_all(setup: Setup) -> int:
    failed = 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    async with aclosing(findings(setup)) as found:
        async for finding in found:
            failed += finding.verdict == "FAIL"
            print("\n".join(shown(finding, width)), flush=True)
    print(f"\n{summary(failed)}")
    return 1 if failed else 0

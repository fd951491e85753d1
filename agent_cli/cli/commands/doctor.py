"""`agent doctor`: could a task run here? One line a check; below it, where something is amiss, what to do."""

import asyncio
import shutil
import sys
from contextlib import aclosing

from ..services.doctor.checks import findings, shown, summary
from ..setup.options import ParsedOptions
from ..setup.setup import Setup


def run_doctor() -> int:
    """Run all checks; 0 only if a task could run."""
    return asyncio.run(_check_all(Setup(ParsedOptions("agent", {}))))


async def _check_all(setup: Setup) -> int:
    failed = 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    async with aclosing(findings(setup)) as found:
        async for finding in found:
            failed += finding.verdict == "FAIL"
            print("\n".join(shown(finding, width)), flush=True)
    print(f"\n{summary(failed)}")
    return 1 if failed else 0

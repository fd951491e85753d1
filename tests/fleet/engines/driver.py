"""A script that drives an engine until it is killed: kind, number of jobs, their command, scheduler file."""

import asyncio
import sys
from pathlib import Path

from agent_cli.fleet.engines.dask_engine import DaskEngine
from agent_cli.fleet.engines.local import LocalEngine
from agent_cli.fleet.engines.queueing import Engine
from tests.fleet.engines.attempts import QUICK
from tests.fleet.engines.harness import job


async def main(kind: str, number: int, command: str, file: Path) -> None:
    engine: Engine
    match kind:
        case "local":
            engine = LocalEngine(number, QUICK)
        case "dask in-process":
            engine = await DaskEngine.connect(slots=number, attempt=QUICK)
        case _:
            engine = await DaskEngine.connect(scheduler_file=str(file), attempt=QUICK)
    for each in range(number):
        await engine.submit(job(str(each), command))
    async for _ in engine.events():
        pass


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))

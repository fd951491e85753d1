"""`agent demo`: the real engine, tools and files on a temporary copy of a small broken project; only the model is
a recording. Needs no key and no network."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.setup import Setup
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner

from .replay import watch

_HERE = Path(__file__).parent
PROJECT = _HERE / "demo_project"
RECORDING = _HERE / "demo.json"
PROMPT = "The tests of this project fail. Find out why, fix the code, and prove it."


async def _mended(root: Path) -> bool:
    try:
        done = await ProcessRunner().run(["python3", "-m", "unittest"], cwd=root, timeout_s=30.0)
    except (ProcessError, TimeoutError):
        return False
    return done.exit_code == 0


def run_demo() -> int:
    """Run the demo; return 0 if the project was fixed."""
    with tempfile.TemporaryDirectory(prefix="agent-demo-") as folder:
        root = Path(folder) / "basket"
        shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        chosen = ParsedOptions(
            "agent",
            {
                "model": f"replay/{RECORDING}",
                "mode": "auto-edit",
                "no_session": True,
                "cd": str(root),
                "set": ["permissions.allow=[shell(python3 -m unittest *)]"],
            },
        )
        setup = Setup(chosen, own=Path(folder) / "own")
        print(f"A throw-away copy of a broken project: {root}\n", flush=True)
        code = asyncio.run(watch(setup, [PROMPT]))
        if code == 0 and not asyncio.run(_mended(root)):
            print("\nThe project is not fixed: its tests could not be run, or still fail. Is python3 installed?")
            return 1
        if code == 0:
            print("\nThat was a recording for the model, everything else was real. Now in your own project:")
            print('  agent              a conversation\n  agent run "…"      one task')
        return code

"""`agent demo`: the real engine, tools and files on a throw-away copy of a small broken project; only the
model is a recording. Needs no key and no network."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from .options import Chosen
from .replay import watch
from .setup import Setup

_HERE = Path(__file__).parent
PROJECT = _HERE / "demo_project"
RECORDING = _HERE / "demo.json"
PROMPT = "The tests of this project fail. Find out why, mend the code, and prove it."


def run_demo() -> int:
    """Run the demo; 0 when the project is mended."""
    with tempfile.TemporaryDirectory(prefix="agent-demo-") as folder:
        root = Path(folder) / "basket"
        shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        chosen = Chosen(
            "agent",
            {
                "model": f"replay/{RECORDING}",
                "mode": "auto-edit",
                "no_session": True,
                "cd": str(root),
                "set": ["permissions.allow=[shell(python3 -m unittest *)]"],
            },
        )
        setup = Setup(chosen)
        print(f"A throw-away copy of a broken project: {root}\n", flush=True)
        code = asyncio.run(watch(setup, [PROMPT]))
        if code == 0:
            print("\nThat was a recording for the model, everything else was real. Now in your own project:")
            print('  agent              a conversation\n  agent run "…"      one task')
        return code

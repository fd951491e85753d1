"""Tools in a process whose locale knows ASCII only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import asyncio, sys
from pathlib import Path
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.new_context import new_context
from agent_cli.tools.registry import default_registry
from agent_cli.workspace.paths import Workspace

async def main():
    registry, runner = default_registry(), ProcessRunner()
    registry.specs()
    context = new_context(Workspace(Path(".")), runner, Path("../spill"))
    for name, arguments in (
        ("write_file", '{"path": "\\u00fc.txt", "content": "\\u6f22 needle"}'),
        ("read_file", '{"path": "\\u00fc.txt"}'),
        ("grep", '{"pattern": "needle"}'),
        ("shell", '{"command": "echo \\u6f22; ls"}'),
    ):
        tool, params = registry.parse(name, arguments)
        outcome = await tool.run(params, context)
        sys.stdout.buffer.write(outcome.text.encode() + b"\\n")
    await runner.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_tools_work_whatever_the_locale(tmp_path: Path, locale: str) -> None:
    env = {"PATH": os.environ["PATH"], "LC_ALL": locale, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], cwd=tmp_path, env=env, capture_output=True, timeout=90)
    out = done.stdout.decode("utf-8")
    assert done.returncode == 0, done.stderr
    assert "1\t漢 needle" in out and "ü.txt\n1: 漢 needle" in out and "漢\nü.txt" in out
    assert (tmp_path / "ü.txt").read_bytes() == "漢 needle".encode()

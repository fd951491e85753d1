"""What starting each front end may load."""

import subprocess
import sys
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
DRAWING = {"rich", "pygments", "markdown_it"}
NEVER = {"litellm", "httpx", "pydantic", "typer", "yaml", "jsonschema", "agent_cli.engine", "agent_cli.model"}


def loaded(module: str) -> set[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=90
    )
    names = done.stdout.split()
    return set(names) | {name.split(".")[0] for name in names}


@each_row(
    ("module", "without"),
    [
        ("agent_cli.ui.headless.runner", DRAWING | NEVER | {"prompt_toolkit"}),
        ("agent_cli.ui.plain.repl", DRAWING | NEVER | {"prompt_toolkit"}),
        ("agent_cli.ui.repl.start", DRAWING | NEVER | {"prompt_toolkit"}),
        ("agent_cli.ui.repl.repl", DRAWING | NEVER),
        ("agent_cli.cli.interactive", DRAWING | {"prompt_toolkit"}),
    ],
)
def test_nothing_heavy_is_loaded(module: str, without: set[str]) -> None:
    assert not loaded(module) & without

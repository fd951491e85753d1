"""A workspace with real files and processes for tools to work in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.new_context import new_context
from agent_cli.workspace.memory import Memory
from agent_cli.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The workspace's root; everything else of a test lies beside it."""
    (tmp_path / "work").mkdir()
    return (tmp_path / "work").resolve()


@pytest.fixture
async def context(root: Path, tmp_path: Path) -> AsyncIterator[ToolContext]:
    processes = ProcessRunner()
    memory = Memory(tmp_path / "config", tmp_path / "state", tmp_path / "notes")
    yield new_context(Workspace(root), processes, tmp_path / "state" / "spill", call_id="call_1", memory=memory)
    await processes.aclose()

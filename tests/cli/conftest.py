"""A fresh machine for each test: the real program, a model on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Commands
from tests.e2e.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as machine:
        yield machine


@pytest.fixture
def agent(world: World) -> Iterator[Commands]:
    """The program, for command lines in a row that share a process."""
    with Commands(world) as commands:
        yield commands

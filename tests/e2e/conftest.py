"""A fresh machine for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as machine:
        yield machine

"""What holds for the whole run: nothing of ours stays in the folder for temporary files."""

import gc
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def clean_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each process of the run has a folder of its own, as short as sockets want their paths, and leaves it empty."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="at-", ignore_cleanup_errors=True) as folder:
        tmp_path_factory.getbasetemp()
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        gc.collect()
        deadline = time.monotonic() + 30
        while any(Path(folder).iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)  # a reaper clears up behind a program that has just ended
        left = sorted(path.name for path in Path(folder).iterdir())
        tempfile.tempdir = None
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
    assert not left, f"left in the temporary folder: {left}"

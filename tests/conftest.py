"""What holds for the whole run: nothing of ours stays in the folder for temporary files, and little time is spent
beside the tests."""

import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fuzz import LEVEL, tries
from tests.sandbox import trials

# Each run tries the same examples, so that what fails has to do with the change; a long run tries new ones.
settings.register_profile("suite", max_examples=tries(100), deadline=None, derandomize=not LEVEL)
settings.load_profile("suite")
gc.disable()  # until all tests are found: they stay, and looking through them again and again cost most of the time


def pytest_configure(config: pytest.Config) -> None:
    """Let programs start as from a terminal: in the background of a script interrupts are ignored, and `nohup` has
    SIGHUP ignored. Let `python3` be an interpreter: that of a version manager is a script that looks for one each
    time."""
    for number, action in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, action)
    folders = os.environ["PATH"].split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(sorted(folders, key=_has_scripts))
    if config.getoption("numprocesses", None):
        trials.settings()  # the workers inherit what it finds


def _has_scripts(folder: str) -> bool:
    try:
        with (Path(folder) / "python3").open("rb") as program:
            return program.read(2) == b"#!"
    except OSError:
        return False


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of every later collection of garbage."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what may be missing on this machine where tests have failed."""
    if terminalreporter.stats.get("failed") and sys.platform == "linux" and not shutil.which("bwrap"):
        terminalreporter.write_line(
            "bubblewrap is not installed, and tests of the sandbox need it: install it first"
        )


_seen_after: dict[str, str] = {}
"""What lay in the folder for temporary files, and after which test for the first time."""


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Remember which test may have left something."""
    if tempfile.tempdir and tempfile.tempdir == os.environ.get("TMPDIR"):
        for name in os.listdir(tempfile.tempdir):
            _seen_after.setdefault(name, nodeid)


@pytest.fixture(scope="session", autouse=True)
def clean_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each process of the run has a folder of its own, as short as sockets want their paths, and leaves it empty."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="at-", ignore_cleanup_errors=True) as folder:
        tmp_path_factory.getbasetemp()
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        gc.collect()
        gc.freeze()  # pytest collects once more, and would look through all that stays a second time
        deadline = time.monotonic() + 30
        while any(Path(folder).iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)  # a reaper clears up behind a program that has just ended
        left = {path.name: _seen_after.get(path.name) for path in Path(folder).iterdir()}
        tempfile.tempdir = None
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
    assert not left, f"left in the temporary folder: {left}"

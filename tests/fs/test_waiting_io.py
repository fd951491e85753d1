"""The file of a result is whole or unchanged, wherever it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.fs.waiting_io import write_output

from .file_limit import at_most

WRITES = "from agent_cli.fs.waiting_io import write_output; write_output('out', b'new')"


def test_a_result_that_does_not_fit_leaves_the_old_file_or_none(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"mine")
    for path in (old, new):
        with at_most(1000), pytest.raises(OSError):
            write_output(str(path), b"x" * 2000)
    assert os.listdir(tmp_path) == ["old"] and old.read_bytes() == b"mine"


@pytest.mark.parametrize("folder", ["rw", "ro"])
def test_a_file_that_is_mounted_is_written_in_place(tmp_path: Path, folder: str) -> None:
    (tmp_path / "room").mkdir()
    for name in ("room/out", "shown"):
        (tmp_path / name).write_bytes(b"old")
    mounts = f"mount --bind room room && cd room && mount --bind ../shown out && mount -o remount,bind,{folder} ."
    space = ["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", f'{mounts} && exec "$@"', "-"]
    if subprocess.run([*space, "true"], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("this machine allows no mounts")
    subprocess.run([*space, sys.executable, "-c", WRITES], cwd=tmp_path, check=True)
    assert (tmp_path / "room/out").read_bytes() == b"old" and (tmp_path / "shown").read_bytes() == b"new"

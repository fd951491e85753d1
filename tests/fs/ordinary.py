"""A user without the rights of root, for tests of what the rights of folders forbid."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """Yield a folder of an ordinary user, who we are meanwhile; root becomes one."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="o-", dir="/tmp")))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, _NOBODY, -1)
        os.setresuid(_NOBODY, _NOBODY, 0)
    try:
        yield folder
    finally:
        if is_root:
            os.setresuid(0, 0, 0)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                Path(place, name).chmod(0o700)
        shutil.rmtree(folder)

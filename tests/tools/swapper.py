"""A child process that swaps what is at a path, over and over: file, link to outside, hard link to a file outside,
named pipe, and a link to outside in place of its folder. Each line of its input is the next path's folder; each
line of its output says how often the last path was swapped."""

import ctypes
import os
import select
import shutil
import sys
from pathlib import Path

_EXCHANGE = 2
TEXT = "A\n"


def _put_file(at: Path, out: Path) -> None:
    at.write_text(TEXT, encoding="utf-8")


def _put_link(at: Path, out: Path) -> None:
    at.symlink_to(out / "f")


def _put_hard_link(at: Path, out: Path) -> None:
    os.link(out / "h", at)


def _put_pipe(at: Path, out: Path) -> None:
    os.mkfifo(at)


FORMS = (_put_file, _put_link, _put_file, _put_hard_link, _put_file, _put_pipe, _put_file)


def swap_once(folder: Path, out: Path) -> None:
    """Let `folder/d/f` be each of its forms once, and `folder/d` a link to `out`."""
    draft = folder / "t"
    for put in FORMS:
        put(draft, out)
        (folder / "d").mkdir(exist_ok=True)
        os.replace(draft, folder / "d" / "f")
        draft.unlink(missing_ok=True)  # two names of one file: nothing was renamed
    for _ in range(2):
        ctypes.CDLL(None).renameat2(-100, os.fsencode(folder / "d"), -100, os.fsencode(folder / "l"), _EXCHANGE)


def prepare(folder: Path, out: Path) -> None:
    """Make the folder with the file, and the link that takes its folder's place."""
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "f").write_text(TEXT)
    (folder / "l").symlink_to(out)


def main() -> None:
    """Swap until the input ends."""
    out = Path(sys.argv[1])
    for line in iter(sys.stdin.readline, ""):
        folder, count = Path(line.strip()), 0
        prepare(folder, out)
        print("ready", flush=True)
        while not (count and select.select([sys.stdin], [], [], 0)[0]):
            swap_once(folder, out)
            count += 1
        sys.stdin.readline()
        shutil.rmtree(folder)
        print(count, flush=True)


if __name__ == "__main__":
    main()

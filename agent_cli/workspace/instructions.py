"""The project's instructions to agents: the AGENTS.md chain from the repository's root down to where the
agent works, after the user's own file for all projects."""

import os
from collections.abc import Sequence
from pathlib import Path

MAX_BYTES = 32_768
"""Of each file; what is beyond is left out, and said to be."""

DEFAULT_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")


def instructions(
    cwd: Path, names: Sequence[str] = DEFAULT_NAMES, config_dir: Path | None = None
) -> tuple[tuple[str, str], ...]:
    """(path, text) of each file that applies, the most general first, so that the nearest has the last word.

    In every folder from the repository's root (the nearest ancestor with `.git`, else `cwd` alone) down to
    `cwd` the first of `names` that can be read counts; before them that of `config_dir`. Files that are
    empty or cannot be read do not count.
    """
    folders = [*([config_dir] if config_dir else []), *_chain(cwd.resolve())]
    found = (_first(folder, names) for folder in dict.fromkeys(folders))
    return tuple(pair for pair in found if pair)


def _chain(cwd: Path) -> list[Path]:
    upwards = [cwd, *cwd.parents]
    for depth, folder in enumerate(upwards):
        if (folder / ".git").exists():
            return upwards[depth::-1]
    return [cwd]


def _first(folder: Path, names: Sequence[str]) -> tuple[str, str] | None:
    for name in names:
        path = folder / name
        if text := _read(path):
            return str(path), text
    return None


def _read(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(MAX_BYTES + 1) or b""
    except OSError:
        return ""
    text = data[:MAX_BYTES].decode("utf-8-sig", errors="replace" if len(data) <= MAX_BYTES else "ignore")
    text = text.replace("\r\n", "\n").strip()
    cut = f"\n\n[cut: only the first {MAX_BYTES // 1024} KB of {path.name} are shown]"
    return text + cut if len(data) > MAX_BYTES else text

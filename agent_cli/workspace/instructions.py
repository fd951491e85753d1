"""The project's instructions to agents: the AGENTS.md chain from the repository's root down to where the
agent works, after the user's own file for all projects.

What is read here goes to the model unasked, so a project's file may be a link to another text of the same project,
and to nothing else."""

import os
from collections.abc import Sequence
from pathlib import Path

from .anchored import spot
from .small_files import regular_bytes

MAX_BYTES = 32_768
"""Of each file; what is beyond is left out, and said to be."""

DEFAULT_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")


def instructions(
    cwd: Path, names: Sequence[str] = DEFAULT_NAMES, config_dir: Path | None = None
) -> tuple[tuple[str, str], ...]:
    """(path, text) of each file that applies, the most general first, so that the nearest has the last word.

    In every folder from the repository's root (the nearest ancestor with `.git`, else `cwd` alone) down to
    `cwd` the first of `names` that can be read counts; before them that of `config_dir`. Files that are
    empty or cannot be read do not count, and neither do links that lead out of the project or to a file of
    another kind, as its ending tells.
    """
    chain = _chain(cwd.resolve())
    found = [_first(folder, names, chain[0]) for folder in dict.fromkeys(chain) if folder != config_dir]
    own = _first(config_dir, names, None) if config_dir else None
    return tuple(pair for pair in (own, *found) if pair)


def _chain(cwd: Path) -> list[Path]:
    upwards = [cwd, *cwd.parents]
    for depth, folder in enumerate(upwards):
        if (folder / ".git").exists():
            return upwards[depth::-1]
    return [cwd]


def _first(folder: Path, names: Sequence[str], project: Path | None) -> tuple[str, str] | None:
    for name in names:
        path = folder / name
        if text := _read(path, project):
            return str(path), text
    return None


def _read(path: Path, project: Path | None) -> str:
    try:
        real = os.path.realpath(path)
        if project is not None and not _is_text_of(real, path, project):
            return ""
        with spot(real) as at:
            data = regular_bytes(at, MAX_BYTES + 1)
    except OSError:
        return ""
    text = data[:MAX_BYTES].decode("utf-8-sig", errors="replace" if len(data) <= MAX_BYTES else "ignore")
    text = text.replace("\r\n", "\n").strip()
    cut = f"\n\n[cut: only the first {MAX_BYTES // 1024} KB of {path.name} are shown]"
    return text + cut if len(data) > MAX_BYTES else text


def _is_text_of(real: str, path: Path, project: Path) -> bool:
    return Path(real).is_relative_to(project) and Path(real).suffix == path.suffix

"""Recognize command lines with which Python would load its own library from the working directory: code in the
line or on standard input, and installed modules. In a workspace, a file `json.py` would then run instead of
Python's."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_VALUED = ("-W", "-X", "--check-hash-based-pycs")
SAFE_PATH: Mapping[str, str] = {"PYTHONSAFEPATH": "1"}
"""Keeps Python from 3.11 on from searching the working directory."""


def safe_path(words: Iterable[str], root: Path) -> Mapping[str, str]:
    """Return the variables for a command line that starts in `root`. Empty if it runs a script, which finds its
    modules beside itself, or a module of the workspace."""
    return SAFE_PATH if any(_loads_from_cwd(_split(word), root) for word in _lines(words)) else {}


def _lines(words: Iterable[str]) -> list[str]:
    """Return the line itself and the words that may be lines, as after `sh -c`."""
    given = list(words)
    inner = [piece for word in given for piece in _split(word)] if len(given) == 1 else given
    return [shlex.join(inner), *(word for word in inner if re.search(r"\s", word))]


def _split(line: str) -> list[str]:
    try:
        found = shlex.shlex(line, posix=True, punctuation_chars=True)
        found.whitespace_split = True
        return list(found)
    except ValueError:
        return line.split()


def _loads_from_cwd(words: Sequence[str], root: Path) -> bool:
    return any(_PYTHON.fullmatch(word) and _is_inline(words[at + 1 :], root) for at, word in enumerate(words))


def _is_inline(rest: Sequence[str], root: Path) -> bool:
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "-":
        flags = "" if rest[at].startswith("--") else rest[at][1:]
        if "c" in flags:
            return True
        if "m" in flags:
            module = flags.partition("m")[2] or "".join(rest[at + 1 : at + 2])
            return not _is_in(root, module)
        at += 2 if rest[at] in _VALUED else 1
    return at == len(rest) or rest[at] == "-" or rest[at][0] in "<|;&>)"


def _is_in(root: Path, module: str) -> bool:
    path = os.path.join(root, module.partition(".")[0])
    return os.path.isdir(path) or os.path.isfile(f"{path}.py")

"""Files and folders of a workspace that git's settings lead to: hooks kept with the project, filters, monitors,
further settings. Whoever may write them has git run what they like. Settings are read here, not asked of git."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from .git_folder import git_folder
from .small_files import small_bytes

_LARGEST = 200_000
_DEEPEST = 5
"""How often settings may include others."""
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"(.*?)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_FOLDERS = ("core.hookspath", "init.templatedir")
_FILES = ("core.attributesfile", "core.excludesfile")
_WORDS = re.compile(r"[^\s;|&()<>'\"`$=]+")
"""Of a command line; what is quoted or has a blank is found by none, as no line for a shell would be."""


def run_by_git(root: str) -> tuple[str, ...]:
    """The real paths below a workspace folder to which the settings of its repository and of the user lead. Hooks
    and included settings need not be there yet."""
    try:
        place = git_folder(root)
    except (OSError, ValueError):
        return ()
    if place is None:
        return ()
    home = os.path.expanduser("~")
    files = (
        *(os.path.join(place.common, "config"), os.path.join(place.own, "config.worktree")),
        *(os.path.join(home, ".gitconfig"), os.path.join(home, ".config", "git", "config")),
    )
    found = {os.path.realpath(path) for file in files for path in _named_in(file, place.top, _DEEPEST)}
    inside = os.path.realpath(root).rstrip(os.sep) + os.sep
    return tuple(sorted(path for path in found if path.startswith(inside)))


def _named_in(file: str, top: str, deepest: int) -> Iterator[str]:
    """The paths that a file of settings names; relative ones begin at the work tree, of includes at the file."""
    for name, value in _settings(file):
        if name.startswith(("include.", "includeif.")) and name.endswith(".path"):
            included = _joined(os.path.dirname(file), value)
            yield included
            if deepest:
                yield from _named_in(included, top, deepest - 1)
        elif name in _FOLDERS or name in _FILES:
            yield _joined(top, value)
        else:
            words = (_joined(top, word.lstrip("!")) for word in _WORDS.findall(value) if "/" in word)
            yield from filter(os.path.isfile, words)


def _settings(file: str) -> Iterator[tuple[str, str]]:
    """The settings in a file, by their names in small letters, as far as git could read it."""
    text, section = "", ""
    with suppress(OSError):
        text = small_bytes(file, _LARGEST).decode("utf-8", "surrogateescape")
    for line in text.replace("\\\n", " ").split("\n"):
        rest = line
        if head := _SECTION.match(line):
            section = f"{head[1]}.{head[2]}".lower() if head[2] is not None else head[1].lower()
            rest = line[head.end() :]
        if found := _SETTING.match(rest):
            yield f"{section}.{found[1].lower()}", found[2].strip()


def _joined(base: str, value: str) -> str:
    plain = value.replace("\0", "").strip('"')
    return os.path.normpath(os.path.join(base, os.path.expanduser(plain)))

"""Decide whether the configuration of a repository makes git start other programs: filters, converters, monitors,
hooks. The files are parsed here instead of asking git. Any setting not on the list of harmless ones counts as
unsafe."""

import os
import re
from collections.abc import Callable

from agent_cli.fs.files import read_regular
from agent_cli.fs.git_files import GITLINK, INERT, index_entries, settings

from .repository import GitFolder, git_folder

_LARGEST_CONFIG = 200_000
_LARGEST_INDEX = 50_000_000
_MAX_CACHED = 1000
_HARMLESS = re.compile(
    INERT + r"|core\.(compression|loosecompression|abbrev|untrackedcache|trustctime|checkstat|preloadindex"
    r"|longpaths|protecthfs|protectntfs|bigfilethreshold|sparsecheckout|sparsecheckoutcone|commentchar|whitespace)"
    r"|remote\..*\.(push|pushurl|prune|prunetags|tagopt|mirror|skipdefaultupdate|gh-resolved)"
    r"|branch\..*\.(pushremote|description|vscode-merge-base|gh-merge-base)"
    r"|submodule\..*\.(branch|ignore)|lfs\.(repositoryformatversion|.*\.access)"
    r"|(user|author|committer)\.signingkey|push\.followtags|fetch\.prunetags|index\.version"
    r"|rebase\.(autosquash|autostash|updaterefs)|merge\.(ff|conflictstyle|renames|renamelimit)|rerere\.(enabled|autoupdate)"
    r"|status\.(short|branch|showuntrackedfiles)|log\.(date|decorate)|(color|advice|column|gc|pack)(\..*)?\.\w+"
    r"|diff\.(renames|renamelimit|algorithm|colormoved|mnemonicprefix|noprefix|context)|feature\.manyfiles"
    r"|extensions\.(objectformat|worktreeconfig)",
    re.DOTALL,
)
_HOOK_OF_READING = "post-index-change"
"""The only hook run by commands that change nothing, when they refresh the index."""


class GitSettings:
    """The configuration of repositories; a file is read again when it has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], bool]] = {}

    def are_harmless(self, folder: str) -> bool:
        """Return True if git cannot start another program for a read-only command in this folder, however it finds
        its repository. Without a repository, nothing can be started."""
        real = os.path.realpath(folder)
        if ".git" in real.lower().split(os.sep):
            return False
        try:
            while place := git_folder(real):
                if not self._is_harmless(place):
                    return False
                real = os.path.dirname(place.top)
                if real == place.top:
                    break
        except (OSError, ValueError):
            return False
        return True

    def _is_harmless(self, place: GitFolder) -> bool:
        for folder in {place.own, place.common}:
            if any(name.startswith("sharedindex.") for name in os.listdir(folder)):
                return False
            for name in ("config", "config.worktree"):
                if not self._holds(os.path.join(folder, name), _LARGEST_CONFIG, _is_harmless_config):
                    return False
            if os.path.lexists(os.path.join(folder, "hooks", _HOOK_OF_READING)):
                return False
        return self._holds(os.path.join(place.own, "index"), _LARGEST_INDEX, _names_nothing_nested)

    def _holds(self, path: str, most_bytes: int, holds: Callable[[bytes], bool]) -> bool:
        """Return True if a predicate holds for a file's content, or if the file does not exist."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return True
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            data = read_regular(path, most_bytes + 1)
            known = self._known[path] = (stamp, len(data) <= most_bytes and holds(data))
        return known[1]


def _names_nothing_nested(index: bytes) -> bool:
    return not any(entry.mode == GITLINK for entry in index_entries(index))


def _is_harmless_config(data: bytes) -> bool:
    """Return True if every line of a configuration is understood and contains only harmless settings."""
    return all(_HARMLESS.fullmatch(name) for name, _ in settings(data, strict=True))

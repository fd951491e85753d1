"""Find the files that deny rules close: outside the workspace, under other names (hard links), and, where commands
are otherwise unrestricted (`yolo` without a sandbox), everything that bubblewrap must mask."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice

from agent_cli.policy.rules.path_verdict import Policy, is_write_denied, watched
from agent_cli.policy.rules.rule import Rule, absolute_pattern, fixed_part, matches_path
from agent_cli.policy.rules.secret_paths import is_secret, secret_patterns
from agent_cli.protocol.actions import Deny
from agent_cli.protocol.paths import is_inside
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.workspace.matching_files import MatchingFiles
from agent_cli.workspace.paths import Workspace


class DeniedFiles:
    """Finds the denied files for each command. If there are none, commands run unconfined."""

    def __init__(self, workspace: Workspace) -> None:
        self._policy: Policy | None = None
        self._read = MatchingFiles(workspace.roots, self._is_unreadable, unseen=True)
        self._write = MatchingFiles(workspace.roots, self._is_unwritable, unseen=True)

    def masked(self, policy: Policy) -> Confinement | None:
        """Return a confinement that masks only files that rules deny; None if no such file exists."""
        if self._policy is None or self._policy.rules != policy.rules:
            self._read.forget()
            self._write.forget()
        self._policy = policy
        hidden = self._unreadable(policy)
        fixed = self._write.paths() if policy.rules.of("deny", "write") else ()
        if not hidden and not fixed:
            return None
        lists = self._read.access_lists if hidden else ()
        return Confinement(
            writable=(),
            read_only=(*fixed, *lists),
            hidden=hidden,
            network="open",
            readable=policy.roots,
            is_bounded=False,
        )

    def _unreadable(self, policy: Policy) -> tuple[str, ...]:
        if not policy.rules.of("deny", "read"):
            closed = self._read.paths()
            return closed if self._read.access_lists else ()
        outside = tuple(path for path in closed_outside(policy) if self._is_unreadable(path))
        return (*outside, *self._read.paths(outside))

    def _is_unreadable(self, path: str) -> bool:
        policy = self._policy
        if policy is None or not (policy.rules.of("deny", "read") or policy.hidden(path, False)):
            return False
        return isinstance(watched(path, path, policy), Deny)

    def _is_unwritable(self, path: str) -> bool:
        return self._policy is not None and is_write_denied(path, self._policy)


_MOST_ENTRIES = 20_000
"""Maximum number of entries examined for one rule, or among closed files."""


def closed_outside(policy: Policy) -> Iterator[str]:
    """Yield the existing files and folders outside the workspace that read rules close."""
    for rule in (*policy.rules.of("deny", "read"), *policy.rules.of("ask", "read")):
        if rule.pattern:
            yield from _covered(rule, policy)


def usual_secrets(home: str) -> Iterator[str]:
    """Yield the existing files and folders outside any workspace that usually hold secrets."""
    with suppress(OSError), os.scandir(home) as entries:
        yield from (entry.path for entry in entries if is_secret(entry.path))
    yield from filter(os.path.lexists, _usual_places(home))


@lru_cache(maxsize=1)
def _usual_places(home: str) -> tuple[str, ...]:
    """Return the usual locations of secrets that cannot be found by name alone."""
    names = (pattern.removeprefix("**/").removesuffix("/**") for pattern in secret_patterns())
    told = (name for name in names if "*" not in name and "/" in name and not name.startswith(("/proc", "/dev")))
    return tuple(name if name.startswith("/") else os.path.join(home, name) for name in told)


@lru_cache(maxsize=1)
def _secret_files(home: str) -> dict[tuple[int, int], str]:
    """Return the usual secret files of a home directory by device and inode. Cached, because package stores
    contain many hard-linked files, each of which is compared with these."""
    found = {}
    for path in islice((file for each in usual_secrets(home) for file in _files(each)), _MOST_ENTRIES):
        with suppress(OSError):
            status = os.stat(path)
            found[status.st_dev, status.st_ino] = path
    return found


def further_names(path: str, home: str, closed: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """Return the closed files, including those in closed folders, and the usual secrets that are the same file as
    the one at a path."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return ()
    secret = _secret_files(home).get((status.st_dev, status.st_ino), path)
    named = (file for each in closed() for file in islice(_files(each), _MOST_ENTRIES) if _is_same(file, status))
    return (*((secret,) if secret != path else ()), *named)


@lru_cache(maxsize=4096)
def _begins_in(rule: Rule, root: str) -> tuple[str, bool]:
    """Return the fixed leading path of a rule's pattern, and whether anything follows it."""
    return fixed_part(absolute_pattern(rule, root))


def _covered(rule: Rule, policy: Policy) -> Iterator[str]:
    folder, is_pattern = _begins_in(rule, policy.root)
    if folder == "/" or folder in policy.roots or not os.path.lexists(folder):  # true for most rules
        return
    path = os.path.realpath(folder)
    if is_inside(path, ("/proc", "/sys", "/dev", *policy.roots)) or path == "/" or not os.path.lexists(path):
        return
    if is_pattern:
        entries = islice(_entries(path, policy.roots), _MOST_ENTRIES)
        yield from (each for each in entries if matches_path(rule, each, policy.root))
    elif not any(is_inside(root, [path]) for root in policy.roots):
        yield path


def _entries(folder: str, without: tuple[str, ...]) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if os.path.join(place, name) not in without]
        yield from (os.path.join(place, name) for name in (*folders, *names))


def _files(path: str) -> Iterator[str]:
    """Yield a path and all files below it."""
    yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _is_same(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False

"""Read the folders of a workspace once for several questions, such as those that are asked before each command."""

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import msgspec

Same = tuple[int, int]
"""Device and inode number: equal for hard links to one file."""
_Answer = TypeVar("_Answer")


class FolderStatus(msgspec.Struct, frozen=True):
    """What `stat` says of a folder."""

    times: tuple[int, int]
    """mtime and ctime in nanoseconds."""
    owner: int


class Listing(msgspec.Struct, frozen=True):
    """Names in a folder by kind."""

    folders: tuple[str, ...]
    links: tuple[str, ...]
    """Symbolic links."""
    others: tuple[str, ...]
    linked: dict[str, Same]
    """Those of `others` that have several hard links."""


class FolderView:
    """What was read so far, and what was concluded from it."""

    def __init__(self) -> None:
        self._status: dict[str, FolderStatus] = {}
        self._listings: dict[str, Listing] = {}
        self._answers: dict[Hashable, Any] = {}
        self._revision: int | None = None
        self.find_revision: Callable[[], int] = lambda: 0
        self.is_over = False
        """True after the block of `read_once`: tasks that were started in it still have this view."""

    @property
    def revision(self) -> int:
        """Number that changes with every change to a folder or access list of the workspace; 0 if unknown."""
        if self._revision is None:  # no `cached_property`: in Python 3.11 all of them would wait for a slow one
            self._revision = self.find_revision()
        return self._revision

    def status(self, path: str) -> FolderStatus:
        """Return the status of a folder.

        Raises:
            OSError: it cannot be looked at.
        """
        if (known := self._status.get(path)) is None:
            found = os.stat(path)
            known = FolderStatus((found.st_mtime_ns, found.st_ctime_ns), found.st_uid)
            self._status[path] = known
        return known

    def listing(self, path: str) -> Listing:
        """List a folder.

        Raises:
            OSError: it cannot be listed.
        """
        if (known := self._listings.get(path)) is None:
            known = self._listings[path] = _listed(path)
        return known

    def answer(self, question: Hashable, find: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a question; `find` is called if it was not asked before."""
        if question not in self._answers:
            self._answers[question] = find()
        return cast(_Answer, self._answers[question])

    def forget(self, question: Hashable) -> None:
        """Have a question answered anew."""
        self._answers.pop(question, None)


_VIEW: ContextVar[FolderView | None] = ContextVar("folder_view", default=None)


def current_view() -> FolderView | None:
    """Return the view of the block that this runs in; None outside of any."""
    view = _VIEW.get()
    return None if view is None or view.is_over else view


@contextmanager
def read_once() -> Iterator[FolderView]:
    """Read each folder at most once within the block, in this task and in threads that it waits for."""
    view = FolderView()
    token = _VIEW.set(view)
    try:
        yield view
    finally:
        _VIEW.reset(token)
        view.is_over = True


def _listed(path: str) -> Listing:
    folders, links, others, linked = list[str](), list[str](), list[str](), dict[str, Same]()
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                others.append(entry.name)
                with suppress(FileNotFoundError):  # a command may delete files meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if status.st_nlink > 1:
                        linked[entry.name] = (status.st_dev, status.st_ino)
    return Listing(tuple(folders), tuple(links), tuple(others), linked)

"""The tree of an attempt: run programs in it, save its changes, and remove it."""

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent_cli.fs.files import replace_file
from agent_cli.fs.nofollow import dir_entry
from agent_cli.fs.which import RunProgram
from agent_cli.workspace.worktrees.concealed import concealed_files
from agent_cli.workspace.worktrees.delete import delete_tree
from agent_cli.workspace.worktrees.merge import mark_saved, save_patch
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError, open_worktree

from ..attempt import Patch
from ..task import OverlayFile
from .wrapper import Wrapper


class AttemptTree:
    """A checkout or copy that belongs to an attempt."""

    def __init__(
        self,
        worktree: Worktree,
        run: RunProgram,
        wrapper: Wrapper,
        variables: Mapping[str, str],
        notes: tuple[str, ...],
    ) -> None:
        self.path = Path(worktree.path)
        """Its path outside of any sandbox."""
        self.inside = Path(wrapper.inside or worktree.path)
        """Its path for programs started through `wrapper`: the repository's own path, if possible."""
        self.base_commit = worktree.commit
        """Empty for a copy of a plain folder."""
        self.wrapper = wrapper
        """Makes the command lines that start programs with the tree at `inside`."""
        self.variables = variables
        """For every program that runs in the tree: slot, ports, git settings."""
        self.notes = notes
        """Features unavailable here, for the report, such as missing dependency folders, and why."""
        self._run = run

    def overlay(self, files: Iterable[OverlayFile]) -> None:
        """Write files over the tree, following no links.

        Raises:
            WorktreeError: a file cannot be written.
        """
        for file in files:
            _lay(self.path, file)

    async def save_patch(self, file: Path) -> Patch:
        """Write all changes against the base to a file, and verify it.

        Raises:
            WorktreeError, OSError: the tree cannot be read, or the file not written.
        """
        return await save_readable(open_worktree(self.path), file, self._run)

    async def concealed(self, is_wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the wanted files that the patch lacks because an ignore file was added or changed.

        Raises:
            WorktreeError: the tree cannot be read.
        """
        return await concealed_files(open_worktree(self.path), self._run, is_wanted)

    async def mark_saved(self) -> None:
        """Mark the present contents of the tree as saved: `verify` may have changed it since the patch. Later
        changes by a user still protect the tree from removal.

        Raises:
            WorktreeError, OSError: it cannot be read, or not marked.
        """
        await mark_saved(open_worktree(self.path), self._run)

    async def remove(self, *, discard: bool = False) -> None:
        """Remove the tree with everything that belongs to it, if its changes are saved; with `discard` even if it
        was changed since.

        Raises:
            WorktreeError: it is not one of our trees, or something in it would be lost.
        """
        await remove(open_worktree(self.path), self._run, discard=discard)


async def save_readable(tree: Worktree, file: Path, run: RunProgram) -> Patch:
    """Write all changes of a tree to a file, including those in folders that git could not read.

    Raises:
        WorktreeError, OSError: the tree cannot be read, or the file not written.
    """
    if not tree.is_going:
        await asyncio.to_thread(make_readable, Path(tree.path))
    saved = await save_patch(tree, file, run)
    return Patch(saved.sha256, saved.added, saved.removed, saved.files, saved.left_out)


def _lay(top: Path, file: OverlayFile) -> None:
    """Write a file. Anything in its place is removed, because an agent could block its tests otherwise; no link is
    followed."""
    parts = file.path.split("/")
    if not all(parts) or {"..", ".", ".git"}.intersection(parts) or "\0" in file.path:
        raise WorktreeError(f"{file.path!r} is not the path of a file in the tree")
    mode = 0o755 if file.executable else 0o644
    real = os.path.realpath(top)
    try:
        _make_way(real, parts)
        with dir_entry(os.path.join(real, file.path), []) as at:
            replace_file(at.name, file.content, mode=mode, dir_fd=at.folder)
    except (OSError, WorktreeError) as error:
        why = getattr(error, "strerror", None) or error
        raise WorktreeError(f"{file.path} cannot be written: {why}") from error


def _make_way(top: str, parts: Sequence[str]) -> None:
    """Remove a folder in place of a file, and a link or file in place of a parent folder."""
    here = top
    for number, part in enumerate(parts, 1):
        here = os.path.join(here, part)
        if not os.path.lexists(here):
            return
        is_folder, is_last = stat.S_ISDIR(os.lstat(here).st_mode), number == len(parts)
        if is_folder and is_last:
            delete_tree(here)
        elif not is_folder and not is_last:
            os.unlink(here)


def make_readable(top: Path) -> None:
    """Make a tree readable for git. Its owner gets the read permission back: git silently skips folders that
    cannot be listed, so their contents would be missing from the patch. Pipes, sockets and devices, which have no
    contents, are removed: git would wait forever for data from a pipe.

    Raises:
        OSError: a permission cannot be changed, or a file not removed.
    """
    folders = [os.fspath(top)]
    while folders:
        here = folders.pop()
        with os.scandir(here) as entries:
            found = [(entry.path, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        for path, mode in found:
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                os.unlink(path)
            wanted = 0o700 if stat.S_ISDIR(mode) else 0o400 if stat.S_ISREG(mode) else 0
            if mode & wanted != wanted:
                os.chmod(path, stat.S_IMODE(mode) | wanted)
            if stat.S_ISDIR(mode):
                folders.append(path)

"""`agent worktree`: list the git worktrees of sessions and sub-agents, merge and clean them."""

import os
import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.config.dirs import state_dir, worktrees_dir
from agent_cli.protocol.sanitize import clean as sanitized
from agent_cli.protocol.sanitize import one_line
from agent_cli.store.session_file import StoreError
from agent_cli.ui.text.lines import ago, number
from agent_cli.workspace.git.repository import git_folder
from agent_cli.workspace.worktrees.clean import WorktreeInfo, clean_worktrees, list_worktrees
from agent_cli.workspace.worktrees.merge import MergeResult, merge, patch
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError, this_process, worktrees

from ..services.completion import completing
from ..services.worktree_session import with_git
from .sessions.output import emit, size

worktree = typer.Typer(help="List, merge and clean git worktrees.", no_args_is_help=True)
_GB = 1e9


def _folder() -> Path:
    return worktrees_dir(state_dir())


_names = completing(lambda: sorted({each.name for each in worktrees(_folder())}))
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The worktree.", autocompletion=_names)]


@worktree.command("list")
def list_command(json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> int:
    """List the worktrees of sessions and sub-agents, with their size and why they are kept."""
    infos = with_git(lambda run: list_worktrees(_folder(), run))
    if json:
        value = {"folder": str(_folder()), "worktrees": infos}
        emit([dumps(msgspec.to_builtins(value), indent=2)])  # a path need not be UTF-8
        return 0
    emit(_lines(infos))
    if not infos:
        emit(["There are no worktrees. `agent -w NAME` works in one."])
    return 0


@worktree.command("merge")
def merge_command(
    name: _Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> int:
    """Merge the changes of a worktree into the main checkout, as changes of files."""
    found = _named(name)
    if found.owner != this_process() and found.owner.is_alive():
        raise UsageError(f"process {found.owner.pid} is working in the worktree {name}; let it end first")
    try:
        text = with_git(lambda run: patch(found, run)).decode("utf-8", "replace")
        if not text:
            emit([f"Nothing is changed in the worktree {name}."])
            return 0
        emit(sanitized(text).splitlines())
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("nobody can be asked here; write --yes to merge")
            if input(f"Merge this into {found.root}? [y/N] ").strip().lower() not in ("y", "yes"):
                return 1
        result = with_git(lambda run: merge(found, Path(found.root), run))
    except (WorktreeError, OSError) as error:
        raise StoreError(str(error)) from error
    return _told(result, found)


@worktree.command("clean")
def clean_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed instead.")] = False,
    keep_gb: Annotated[
        float, typer.Option("--keep-gb", metavar="N", min=0.0, help="Stop when the others take no more than this.")
    ] = 0.0,
) -> int:
    """Remove worktrees that have no changes or were merged, oldest first. What holds changes stays."""
    done = with_git(lambda run: clean_worktrees(_folder(), run, keep_bytes=int(keep_gb * _GB), dry_run=dry_run))
    freed = size(sum(each.size_bytes for each in done.removed))
    word = "Would remove" if dry_run else "Removed"
    emit([f"{word} {number(len(done.removed), 'worktree')}, {freed}.", *_lines(done.removed)])
    if done.left:
        emit([f"Left {number(len(done.left), 'worktree')}, {size(done.left_bytes)}:", *_lines(done.left)])
    return 0


def _named(name: str) -> Worktree:
    """Return the worktree of this name, preferring the repository of the working directory."""
    found = [each for each in worktrees(_folder()) if each.name == name]
    place = git_folder(os.getcwd())
    common = os.path.realpath(place.common) if place else ""
    here = [each for each in found if os.path.realpath(each.place.common) == common]
    match here or found:
        case [one]:
            return one
        case []:
            raise UsageError(f"there is no worktree {name!r}; `agent worktree list` lists them")
        case several:
            roots = ", ".join(each.root for each in several)
            raise UsageError(f"several repositories have a worktree {name!r}: {roots}; write the command in one")


def _told(result: MergeResult, found: Worktree) -> int:
    """Print the result of a merge; return the exit code."""
    conflicts = [f"{one_line(path)}: {one_line(why)}" for path, why in result.conflicting]
    if conflicts and not result.applied:
        emit(["Nothing was merged:", *conflicts, f"The changes are in {found.path}."])
        return 1
    same = f", {number(len(result.identical), 'file')} had them already" if result.identical else ""
    emit([f"Merged {number(len(result.applied), 'file')} into {found.root}{same}.", *conflicts])
    if result.left_out:
        emit([f"Not merged, since they are repositories: {', '.join(map(one_line, result.left_out))}"])
    emit(["`agent worktree clean` removes what was merged."])
    return 1 if conflicts else 0


def _lines(infos: tuple[WorktreeInfo, ...]) -> list[str]:
    width = max((len(each.name) for each in infos), default=0)
    return [
        f"{one_line(each.name):<{width}}  {size(each.size_bytes):>8}  {ago(each.used):<12}  {_state(each)}"
        f"  {one_line(each.root or each.path)}"
        for each in infos
    ]


def _state(info: WorktreeInfo) -> str:
    if info.is_in_use:
        return "in use"
    return f"stays: {one_line(info.stays)}" if info.stays else "can go"

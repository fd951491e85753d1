"""Files that a shell line is known to write, by its redirections and by the tables of programs.

Undo covers only the workspace, so files written elsewhere are named before the line runs.
"""

from collections.abc import Iterator

from agent_cli.protocol.paths import is_inside

from ..rules.path_verdict import Policy
from . import destructive
from .line import steps
from .named_files import real_path
from .parser import SimpleCommand, Unsure

_MAX_DEPTH = 4


def written_outside(line: str, cwd: str, policy: Policy) -> tuple[str, ...]:
    """Return the real paths of files outside the workspace that a line is known to write or remove. The private
    temporary files of the sandbox do not count. A line that cannot be parsed names none."""
    own = policy.scratch if policy.sandboxed else ()
    paths = dict.fromkeys(_written(line, cwd, policy, 0))
    return tuple(path for path in paths if not is_inside(path, policy.roots) and not is_inside(path, own))


def _written(line: str, cwd: str, policy: Policy, depth: int) -> Iterator[str]:
    try:
        found = steps(line, cwd, policy) if depth <= _MAX_DEPTH else []
    except Unsure:
        return
    for step in found:
        for command in step.inside.commands:
            yield from (real_path(target, step.cwd, policy) for target in _targets(command))
        for script in step.inside.scripts:
            yield from _written(script, step.cwd, policy, depth + 1)


def _targets(command: SimpleCommand) -> Iterator[str]:
    """Yield the paths that a command writes, as written."""
    yield from (target for target in command.writes if target not in destructive.HARMLESS)
    yield from destructive.written_targets(command)

"""Create the context of a session's tools."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.environment import child_env
from agent_cli.workspace.paths import Workspace

from .kit.base import ToolContext
from .shell.background_jobs import Jobs
from .shell.shell_session import ShellSession


def new_context(
    workspace: Workspace,
    processes: ProcessRunner,
    spill_dir: Path,
    *,
    shell_env: Mapping[str, str] | None = None,
    jobs: Jobs | None = None,
    cache_dir: Path | None = None,
    seen: dict[str, str] | None = None,
    **given: Any,
) -> ToolContext:
    """Create a context with a new shell session; `given` sets further fields of `ToolContext`."""
    return ToolContext(
        workspace=workspace,
        processes=processes,
        shell=ShellSession(workspace.root, child_env(os.environ, shell_env), workspace.roots),
        jobs=jobs or Jobs(),
        spill_dir=spill_dir,
        cache_dir=cache_dir or spill_dir.parent / "cache",
        seen={} if seen is None else seen,
        **given,
    )

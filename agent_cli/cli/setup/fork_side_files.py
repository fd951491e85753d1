"""What lies beside a session and goes along with a copy of it: its notes, its kept output, its checkpoints."""

import os
from pathlib import Path

from agent_cli.workspace.checkpoints.maintenance import share_session


def copy_beside(state: Path, project: str, session_id: str, copy_id: str) -> None:
    """Let a copy begin with what the session has; `project` is the name of the folder of its directory."""
    import shutil

    for folder, copy in (("notes", shutil.copy2), ("spill", os.link)):
        if (origin := state / folder / session_id).is_dir():
            shutil.copytree(origin, state / folder / copy_id, copy_function=copy)
    share_session(state / "projects" / project, session_id, copy_id)

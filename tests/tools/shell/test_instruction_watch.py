"""What the watch on instruction files makes of files that cannot be read."""

from pathlib import Path

import pytest

from agent_cli.tools.shell.instruction_watch import InstructionWatch
from agent_cli.workspace.paths import Workspace


@pytest.mark.parametrize("name", ["AGENTS.md", "skills/one/SKILL.md"])
def test_a_link_to_itself_in_the_place_of_an_instruction_file_stops_no_command(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).symlink_to(Path(name).name)
    watch = InstructionWatch(
        Workspace(tmp_path), ("AGENTS.md",), lambda _: True, lambda: "a web page", lambda *_: None, ("SKILL.md",)
    )
    watch.begin(brings=True)
    assert watch.look() == []

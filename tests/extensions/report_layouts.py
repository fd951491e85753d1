"""For each folder given: what `agent doctor --files` says in it, and which of the given calls send something. Run as a
program, since the home directory is a variable of the process."""

import os
import sys
from pathlib import Path

import msgspec

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.setup import Setup
from agent_cli.cli.services.extensions.custom_commands import own_prompt
from agent_cli.cli.services.extensions.file_report import file_lines
from agent_cli.cli.services.extensions.skill_calls import skill_prompt


def _sends(setup: Setup, name: str) -> bool:
    prompt = own_prompt(setup, name, "x") or skill_prompt(setup, name, "x", "")
    return prompt is not None and not prompt.problem and bool(prompt.input.text)


def main() -> None:
    found = []
    for folder, calls in msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[str, list[str]]]):
        os.environ["HOME"] = f"{folder}/home"
        setup = Setup(ParsedOptions("agent", {}), root=Path(folder) / "work", own=Path(folder) / "own")
        found.append((file_lines(setup), [name for name in calls if not _sends(setup, name)]))
    sys.stdout.buffer.write(msgspec.json.encode(found))


main()

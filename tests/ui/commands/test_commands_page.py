"""`docs/commands.md` says what the table of commands says."""

import re
from pathlib import Path

from agent_cli.ui.commands.registry import ANSWERS, OTHER_NAMES, TABLE

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `/(.+?)` \| (yes|waits|idle) \| (.+) \|$", re.MULTILINE)


def test_the_page_has_every_command_with_its_arguments_and_when_it_can_be_used() -> None:
    written = [(left.replace("\\|", "|"), when == "idle") for left, when, _ in ROW.findall(PAGE)]
    assert written == [(f"{c.name} {c.arguments}".strip(), c.idle) for c in TABLE.values()]


def test_the_page_has_every_other_name() -> None:
    pairs = {
        (other, name)
        for others, name in re.findall(r"((?:`/[\w?-]+`(?:, | and )?)+) (?:is|are) `/([\w-]+)`", PAGE)
        for other in re.findall(r"`/([\w?-]+)`", others)
    }
    assert set(OTHER_NAMES.items()) <= pairs
    assert all(f"`/{name}`" in PAGE for name in ANSWERS)

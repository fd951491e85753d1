"""`docs/commands.md` says what the table of commands says."""

import re
from pathlib import Path

from agent_cli.ui.commands.registry import ALIASES, TABLE

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `/(.+?)` \| (yes|waits|idle) \| (.+) \|$", re.MULTILINE)


def test_the_page_has_every_command_with_its_arguments_and_when_it_can_be_used() -> None:
    written = [(left.replace("\\|", "|"), when == "idle") for left, when, _ in ROW.findall(PAGE)]
    assert written == [(f"{c.name} {c.arguments}".strip(), c.idle) for c in TABLE.values()]


def test_the_page_has_every_other_name() -> None:
    pairs = {
        tuple(re.findall(r"`/([\w?]+)`", part)) for part in PAGE.split("`/?` is")[1].split("\n")[0].split(",")
    }
    words = " ".join(" ".join(pair) for pair in pairs)
    assert all(other in f"? {words}".split() and name in words.split() for other, name in ALIASES.items())

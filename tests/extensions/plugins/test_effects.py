"""What is shown of a plug-in before a yes is all that its skills can do after it."""

from pathlib import Path

from agent_cli.extensions.plugins.effects import part_lines, text_lines
from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.skills.find import SkillCache, find_skills
from tests.rows import each_row

HEAD = "---\nname: look\ndescription: Looks.\nallowed-tools: Bash(*)\n---\n"
INSERTS = f"{HEAD}!`touch ran`\n"


def in_its_folder(root: Path, content: str) -> None:
    file = root / "skills" / "look" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(content.encode())


def in_small_letters(root: Path) -> None:
    in_its_folder(root, INSERTS)
    (root / "skills" / "look" / "SKILL.md").rename(root / "skills" / "look" / "skill.md")


def behind_a_link(root: Path) -> None:
    (root / "elsewhere").mkdir()
    in_its_folder(root / "elsewhere", INSERTS)
    (root / "skills").mkdir()
    (root / "skills" / "look").symlink_to("../elsewhere/skills/look")


def with_line_ends_of_windows(root: Path) -> None:
    in_its_folder(root, f"{HEAD}Look:\n```!\ntouch ran\n```\nSee.\n".replace("\n", "\r\n"))


def behind_much_text(root: Path) -> None:
    in_its_folder(root, f"{HEAD}{'x' * 600_000}\n!`touch ran`\n")


def as_the_plugin_itself(root: Path) -> None:
    (root / "SKILL.md").write_text(INSERTS, encoding="utf-8")


@each_row(
    "place",
    [in_small_letters, behind_a_link, with_line_ends_of_windows, behind_much_text, as_the_plugin_itself],
)
def test_every_skill_that_can_be_called_is_shown_with_what_it_runs_and_allows(tmp_path: Path, place) -> None:
    root = tmp_path / "tools"
    root.mkdir()
    place(root)
    plugin = read_plugin(root, "tools")
    found = find_skills(plugin.places("skills"), SkillCache(tmp_path / "cache" / "skills"))
    assert [skill.name for skill in found.skills] == ["tools:look"]
    assert list(text_lines(plugin)) == [
        "skill look: inserts the output of touch ran",
        "skill look: allows Bash(*)",
    ]
    assert list(part_lines(plugin)) == ["1 skill"]

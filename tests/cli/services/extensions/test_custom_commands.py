"""Whose commands count, and what the user has agreed to."""

from pathlib import Path

import pytest

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.setup import Setup
from agent_cli.cli.services.extensions.custom_commands import agree, own_commands, own_prompt


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    for folder in ("work/.agent/commands", "own/config/commands"):
        (tmp_path / folder).mkdir(parents=True)
    return Setup(ParsedOptions("agent", {}), root=tmp_path / "work", own=tmp_path / "own")


def mine(setup: Setup, name: str, text: str) -> None:
    (setup.config_dir / "commands" / name).write_text(text, encoding="utf-8")


def theirs(setup: Setup, name: str, text: str) -> None:
    (setup.workspace.root / ".agent" / "commands" / name).write_text(text, encoding="utf-8")


def test_a_command_of_the_user_counts_at_once_and_so_do_its_edits(setup: Setup) -> None:
    mine(setup, "fix.md", "Fix it.")
    prompt = own_prompt(setup, "fix", "")
    assert prompt and (prompt.text, prompt.agreed) == ("Fix it.", True)
    mine(setup, "fix.md", "Fix it well.")
    prompt = own_prompt(setup, "fix", "")
    assert prompt and (prompt.text, prompt.agreed) == ("Fix it well.", True)
    assert own_prompt(setup, "other", "") is None


def test_a_command_of_the_project_counts_as_it_was_agreed_to(setup: Setup) -> None:
    theirs(setup, "x.md", "First.")
    prompt = own_prompt(setup, "x", "")
    assert prompt and not prompt.agreed
    agree(setup, prompt)
    again = own_prompt(setup, "x", "")
    assert again and again.agreed
    theirs(setup, "x.md", "Second.")
    changed = own_prompt(setup, "x", "")
    assert changed and changed.text == "Second." and not changed.agreed


def test_what_was_shown_is_agreed_to_and_not_what_came_afterwards(setup: Setup) -> None:
    theirs(setup, "x.md", "Shown.")
    shown = own_prompt(setup, "x", "")
    assert shown
    theirs(setup, "x.md", "Swapped.")
    agree(setup, shown)
    now = own_prompt(setup, "x", "")
    assert now and not now.agreed


def test_the_users_own_comes_before_the_projects(setup: Setup) -> None:
    mine(setup, "x.md", "Mine.")
    theirs(setup, "x.md", "Theirs.")
    theirs(setup, "y.md", "---\ndescription: About y\nargument-hint: N\n---\nY")
    prompt = own_prompt(setup, "x", "")
    assert prompt and prompt.text == "Mine." and prompt.agreed
    first, second, third = own_commands(setup)
    assert (first.name, first.problem, first.place) == ("x", "", str(setup.config_dir / "commands" / "x.md"))
    assert (second.name, second.problem, second.place) == ("agent:x", "", ".agent/commands/x.md")
    other = own_prompt(setup, "agent:x", "")
    assert other and other.text == "Theirs." and not other.agreed
    assert (third.name, third.description, third.hint) == ("y", "About y", "N")


def test_a_folder_that_is_a_link_brings_nothing(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "x.md").write_text("Else.", encoding="utf-8")
    folder = setup.workspace.root / ".agent" / "commands"
    folder.rmdir()
    folder.symlink_to(tmp_path / "else")
    assert own_commands(setup) == ()


def test_answers_that_cannot_be_read_agree_to_nothing(setup: Setup) -> None:
    theirs(setup, "x.md", "X.")
    setup.state.mkdir(parents=True)
    (setup.state / "trust.json").write_text("nonsense", encoding="utf-8")
    prompt = own_prompt(setup, "x", "")
    assert prompt and not prompt.agreed and "trust.json" in prompt.problem


def test_commands_of_other_agents_are_read_where_they_lie(setup: Setup) -> None:
    root = setup.workspace.root
    for name, text in {
        ".claude/commands/audit.md": "Review $0.\n!`git diff $0`",
        ".gemini/commands/git/review.toml": 'prompt = "Review {{args}}"',
        ".opencode/command/init.md": "Begin.",
        ".cursor/commands/audit.md": "Look.",
    }.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text, encoding="utf-8")
    found = {each.name: each.place for each in own_commands(setup)}
    assert found == {
        "audit": ".claude/commands/audit.md",
        "git:review": ".gemini/commands/git/review.toml",
        "opencode:init": ".opencode/command/init.md",  # /init is built in
        "cursor:audit": ".cursor/commands/audit.md",
    }
    prompt = own_prompt(setup, "audit", "a.py")
    assert prompt and not prompt.agreed
    assert prompt.input.text == "Review a.py.\n!`git diff a.py`"
    assert [each.command for each in prompt.input.insertions] == ["git diff a.py"]


def test_what_a_command_wants_allowed_is_a_part_of_what_is_agreed_to(setup: Setup) -> None:
    theirs(setup, "x.md", "---\nallowed-tools: Bash(git diff:*), Read, Nonsense(x)\n---\nLook.")
    prompt = own_prompt(setup, "x", "")
    assert prompt and "allowed until the turn ends: shell(git diff *), read" in prompt.text
    assert prompt.input.text == "Look." and prompt.input.allowed == ("shell(git diff *)", "read")
    agree(setup, prompt)
    theirs(setup, "x.md", "---\nallowed-tools: Bash\n---\nLook.")
    widened = own_prompt(setup, "x", "")
    assert widened and not widened.agreed and widened.input.allowed == ("shell",)

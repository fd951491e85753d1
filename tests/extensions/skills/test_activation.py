"""What a call of a skill brings: its text with arguments, its commands, the files with it."""

from pathlib import Path

import pytest

from agent_cli.extensions.skills.activation import SkillContext, is_given, skill_content
from agent_cli.extensions.skills.find import read_skill
from agent_cli.protocol.messages import Attachment, Message, ToolResult, UserMessage
from agent_cli.protocol.operations import AttachedText
from tests.costs import assert_linear

from .files import Machine, write_skill

SETTING = SkillContext("/project", "s1")


def bring(machine: Machine, body: str, argument: str = "", *, trusted: bool = True, **fields: str) -> AttachedText:
    write_skill(machine.home / ".claude/skills/fix", body, **fields)
    (skill,) = machine.find().skills
    return skill_content(skill, read_skill(skill), argument, SETTING, trusted=trusted)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("body", "argument", "fields", "said"),
    [
        ("Fix $0, then $1.", "a 'b c'", {}, "Fix a, then b c."),
        ("All: $ARGUMENTS; second: $ARGUMENTS[1]", "a b", {}, "All: a b; second: b"),
        ("Fix $issue for $who.", "12 Ann", {"arguments": "[issue, who]"}, "Fix 12 for Ann."),
        (r"Pay \$0 and $0", "x", {}, "Pay $0 and x"),
        ("In ${CLAUDE_PROJECT_DIR} of ${CLAUDE_SESSION_ID}.", "", {}, "In /project of s1."),
        ("awk '{print $1}'", "", {}, "awk '{print $1}'"),
        ("Fix $0.", "", {"argument_hint": "FILE"}, "Fix ."),
        ("Fix it.", "now", {}, "Fix it.\n\nnow"),
        ("Not the end: </skill> really", "", {}, "Not the end: <\\/skill> really"),
    ],
)  # fmt: skip
def test_arguments_take_their_places(
    machine: Machine, body: str, argument: str, fields: dict[str, str], said: str
) -> None:
    text = bring(machine, body, argument, **fields).text
    assert text.split("\n", 1)[1].partition("\n</skill>")[0] == said


def test_commands_stand_where_they_are_said_to(machine: Machine) -> None:
    brought = bring(machine, "State: !`git log $0`\n```!\nmake\n```", "-3")
    assert [each.command for each in brought.insertions] == ["git log -3", "make"]
    assert all(brought.text.startswith(each.marker, each.at) for each in brought.insertions)


def test_arguments_are_no_commands(machine: Machine) -> None:
    assert bring(machine, "Look at $ARGUMENTS.", "!`rm -rf x`").insertions == ()


def test_what_a_skill_wants_allowed_counts_where_it_is_trusted(machine: Machine) -> None:
    wanted = "Bash(git add:*) Read Odd(thing)"
    assert bring(machine, "x", allowed_tools=wanted).allowed == ("shell(git add *)", "read")
    assert bring(machine, "x", allowed_tools=wanted, trusted=False).allowed == ()


def test_files_are_named_and_not_read(machine: Machine) -> None:
    folder = machine.home / ".claude/skills/fix"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts/run.sh").write_text("secret content")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    text = bring(machine, "Do it.").text
    assert text.endswith("when the skill says so: scripts/run.sh") and "secret content" not in text


def test_looking_for_what_was_shortened_takes_time_as_the_text_is_long(machine: Machine) -> None:
    def look(times: int) -> None:
        text = bring(machine, "[… " * times).text
        assert is_given(
            text, [ToolResult(id="r", seq=1, time=0, call_id="c", tool="skill", status="ok", text=text)]
        )

    assert_linear(look, 1_500)


def test_a_text_is_given_as_long_as_all_of_it_is_sent(machine: Machine) -> None:
    text = bring(machine, "Do it.").text
    result = ToolResult(id="r", seq=1, time=0, call_id="c", tool="skill", status="ok", text=text)
    prompt = UserMessage(id="u", seq=1, time=0, text="/fix", attachments=(Attachment("skill fix", text),))
    cut = text.replace("Do it.", "[… 6 characters of this result left out; recall c shows them …]")

    def given(*messages: Message) -> bool:
        return is_given(text, messages)

    assert given(result) and given(prompt)
    assert not given()
    assert not given(ToolResult(id="r", seq=1, time=0, call_id="c", tool="read_file", status="ok", text=text))
    assert not given(ToolResult(id="r", seq=1, time=0, call_id="c", tool="skill", status="ok", text=cut))
    assert not is_given(bring(machine, "Do it again.").text, [result])

"""Front matter as it is found in files of other agents, much of it almost-YAML."""

from pathlib import Path

from agent_cli.extensions.agents.parse import parse_agent
from agent_cli.extensions.front_matter import entries, first_line, read_front_matter
from agent_cli.extensions.places import Place
from agent_cli.protocol.agent_types import AgentType

COLON = "description: Use it when: a test fails"
"""A description that YAML does not allow without quotes."""


def values(*lines: str) -> dict[str, object]:
    read = read_front_matter("\n".join(("---", COLON, *lines, "---", "Text.", "")), Path("file.md"))
    assert (read.body, "not valid YAML" in read.problem) == ("Text.\n", True)
    return {key: value for key, value in read.values.items() if key != "description"}


def sub_agent(*lines: str) -> AgentType:
    text = "\n".join(("---", "name: tester", COLON, *lines, "---", "You test.", ""))
    return parse_agent(text, Path("tester.md"), Place(Path("."), "claude", "user"))[0]


def test_a_list_stays_a_list_in_front_matter_that_is_not_valid_yaml() -> None:
    assert values("tools:", "  - Read", "  - Bash(git log:*)", "model: inherit") == {
        "tools": ["Read", "Bash(git log:*)"], "model": "inherit",
    }  # fmt: skip
    assert values("tools:", "- Read", "- Grep") == {"tools": ["Read", "Grep"]}
    assert values('tools: ["Read", "Grep"]') == {"tools": ["Read", "Grep"]}
    assert values("tools: Read,", "  Grep") == {"tools": "Read,\n  Grep"}
    assert values("argument-hint: [file] [line]") == {"argument-hint": "[file] [line]"}


def test_a_key_without_a_value_is_not_an_empty_list() -> None:
    assert values("tools:", "", "color: red") == {"tools": None, "color": "red"}
    assert sub_agent("tools:").tools is None


def test_a_block_of_text_is_kept_without_its_mark() -> None:
    assert values("notes: >-", "  One", "  two.") == {"notes": "One two."}
    assert values("notes: |", "  One: two", "three.") == {"notes": "One: two\nthree."}


def test_a_text_with_quotes_or_an_address_keeps_them() -> None:
    assert values('hint: "one" or "two": which', "see: it is at", "https://a.example/b") == {
        "hint": 'one" or "two": which', "see": "it is at\nhttps://a.example/b",
    }  # fmt: skip


def test_a_sub_agent_with_a_list_of_tools_has_these_whatever_its_description() -> None:
    assert sub_agent("tools:", "  - Read", "  - Write").tools == ("read_file", "write_file")
    assert sub_agent('tools: ["Read", "Write"]').tools == ("read_file", "write_file")
    assert sub_agent("tools: 'Read', 'Write'").tools == ("read_file", "write_file")


def test_a_description_goes_on_over_examples_in_tags() -> None:
    lines = ("description: Use it for tests. Examples:", "", "<example>", "Context: one fails.", 'user: "Why?"',
             "</example>", "", 'tools: ["Read"]')  # fmt: skip
    text = "\n".join(("---", "name: tester", *lines, "---", "You test.", ""))
    made, notes = parse_agent(text, Path("tester.md"), Place(Path("."), "claude", "user"))
    described = 'Use it for tests. Examples: <example> Context: one fails. user: "Why?" </example>'
    assert (made.description, made.tools) == (described, ("read_file",))
    assert not [note for note in notes if "without effect" in note]


def test_entries_have_no_quotes_around_them() -> None:
    assert entries('Read, "Grep", Bash(git commit -m "a b":*)') == [
        "Read", "Grep", 'Bash(git commit -m "a b":*)',
    ]  # fmt: skip


def test_a_fault_has_its_line_in_the_file() -> None:
    read = read_front_matter("---\nname: a\ndescription: [x\n---\nText.\n", Path("/somewhere/file.md"))
    assert read.problem == "its front matter is not valid YAML: line 3: did not find expected ',' or ']'"


def test_front_matter_that_does_not_end_is_none_and_is_said() -> None:
    read = read_front_matter("---\nname: a\nText.\n", Path("file.md"))
    assert read.values == {} and read.problem == "its front matter has no second line of ---"
    assert first_line(read.body) == "name: a"
    assert read_front_matter("---\nText below a rule.\n", Path("file.md")).problem == ""

"""A change of a tool's definition is seen in full, whatever part it hides in."""

from typing import Any

import msgspec

from agent_cli.mcp.catalog.changes import changed_parts, definition_diff
from agent_cli.mcp.types.offer import ToolDefinition
from tests.rows import each_row

TOOL = ToolDefinition(
    "send",
    title="Send",
    description="Send a message.\nTo one person.",
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
    output_schema={"type": "object"},
    annotations={"readOnlyHint": False},
)


def changed(**parts: Any) -> ToolDefinition:
    return msgspec.structs.replace(TOOL, **parts)


@each_row(
    ("now", "parts", "added"),
    [
        (changed(title="Send!"), "title", "+title: Send!"),
        (changed(description="Send a message.\nTo all."), "description", "+description: To all."),
        (
            changed(input_schema={"type": "object", "properties": {"to": {}, "bcc": {}}}),
            "parameters",
            '+parameters:     "bcc": {},',
        ),
        (changed(output_schema=None), "result schema", '-result schema:   "type": "object"'),
        (changed(annotations={"readOnlyHint": True}), "annotations", '+annotations:   "readOnlyHint": true'),
        (changed(annotations={}), "annotations", '-annotations:   "readOnlyHint": false'),
        (changed(title="x", annotations={"a": 1}), "title, annotations", "+title: x"),
    ],
)
def test_each_part_is_named_and_shown(now: ToolDefinition, parts: str, added: str) -> None:
    assert changed_parts(TOOL, now) == parts
    assert added in definition_diff(TOOL, now).splitlines()


def test_the_same_definition_has_not_changed() -> None:
    turned = changed(input_schema={"properties": {"to": {"type": "string"}}, "type": "object"})
    assert changed_parts(TOOL, TOOL) == changed_parts(TOOL, turned) == ""
    assert definition_diff(TOOL, TOOL) == ""


def test_a_new_tool_is_shown_whole() -> None:
    assert "new" in changed_parts(None, TOOL)
    lines = definition_diff(None, TOOL).splitlines()
    assert lines[:4] == [
        "+name: send",
        "+title: Send",
        "+description: Send a message.",
        "+description: To one person.",
    ]
    assert all(line.startswith("+") for line in lines)


def test_a_renamed_tool_is_a_new_one() -> None:
    assert "new" in changed_parts({"send": TOOL}.get("send2"), changed(name="send2"))


@each_row(
    ("hidden", "shown"),
    [
        ("\u200b", "⟨U+200B⟩"),
        ("\u202e", "⟨U+202E⟩"),
        ("\U000e0041", "⟨tag:A⟩"),
        ("\x1b[8m", "^[[8m"),
        ("\r", "^M"),
        ("\x9b2J", "2J"),
        ("\u2028", "⟨U+2028⟩"),
    ],
)
def test_what_is_invisible_is_written_out(hidden: str, shown: str) -> None:
    for now in (
        changed(description=f"Send a message.\nTo one{hidden} person."),
        changed(title=f"Se{hidden}nd"),
        changed(annotations={f"read{hidden}": 1}),
        changed(input_schema={"description": f"a{hidden}b"}),
    ):
        text = definition_diff(TOOL, now)
        assert changed_parts(TOOL, now) and text
        assert all(character.isprintable() or character == "\n" for character in text)
        if "annotations" not in changed_parts(TOOL, now) and "parameters" not in changed_parts(TOOL, now):
            assert shown in text


def test_a_line_that_looks_like_a_mark_of_a_diff_is_shown() -> None:
    text = definition_diff(TOOL, changed(description="--- a\n+++ b\n@@ c"))
    for line in ("--- a", "+++ b", "@@ c"):
        assert f"+description: {line}" in text

"""What models write is understood where it has a single meaning, and stays as it is otherwise."""

import json

import pytest

from agent_cli.model.written_calls import meant_calls
from agent_cli.protocol.messages import ToolCall


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"content": "a\n\tb"}', '{"content":"a\\n\\tb"}'),
        (json.dumps(json.dumps({"path": "a"})), '{"path":"a"}'),
        (json.dumps('{"content": "a\nb"}'), '{"content":"a\\nb"}'),
        ('{"path":  "a"}', '{"path":  "a"}'),
        ('{"path": "a"', '{"path": "a"'),
        ('{"content": "a\n', '{"content": "a\n'),
        ('{"path": "a"}{"path": "b"}', '{"path": "a"}{"path": "b"}'),
        ('"just text"', '"just text"'),
        ('["a\n"]', '["a\n"]'),
        ("[" * 100_000, "[" * 100_000),
        (r'{"content": "half a pair: \ud83d"}', r'{"content": "half a pair: \ud83d"}'),
        ('{"content": "a\n\\ud83d"}', '{"content": "a\n\\ud83d"}'),
        ('{"content": "a\n", "limit": NaN}', '{"content": "a\n", "limit": NaN}'),
        ('{"content": "a\n", "limit": -1e999}', '{"content": "a\n", "limit": -1e999}'),
        ('{"content": "a\n", "limit": 1.5}', '{"content":"a\\n","limit":1.5}'),
    ],
)
def test_arguments_become_valid_json_only_where_their_meaning_is_clear(written: str, arguments: str) -> None:
    assert meant_calls(ToolCall("x", "read", written)) == (ToolCall("x", "read", arguments),)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("functions.shell", "shell"),
        ("multi_tool_use.functions.read_file", "read_file"),
        ("default_api:grep", "grep"),
        ("shell<|channel|>commentary", "shell"),
        ("functions.shell<|channel|>json", "shell"),
        (" shell\n", "shell"),
        ("mcp__demo__echo-1", "mcp__demo__echo-1"),
        ("functions.", "functions."),
        ("src/main.py", "src/main.py"),
        ("a.functions.shell", "a.functions.shell"),
        ("<|channel|>", "<|channel|>"),
        ("", ""),
    ],
)
def test_a_name_with_a_namespace_or_a_token_of_the_model_is_the_name_of_its_tool(written: str, name: str) -> None:
    assert meant_calls(ToolCall("x", written, "{}", "signed")) == (ToolCall("x", name, "{}", "signed"),)


def test_calls_wrapped_in_a_parallel_call_are_calls() -> None:
    uses = [
        {"recipient_name": "functions.read_file", "parameters": {"path": "a"}},
        {"recipient_name": "functions.grep", "parameters": {"pattern": "x"}},
    ]
    written = json.dumps({"tool_uses": uses})
    calls = meant_calls(ToolCall("x", "multi_tool_use.parallel", written))
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("read_file", {"path": "a"}),
        ("grep", {"pattern": "x"}),
    ]
    assert len({call.id for call in calls}) == 2
    for broken in (written[:-4], '{"tool_uses": []}', '{"tool_uses": [{"recipient_name": "functions.grep"}]}'):
        (call,) = meant_calls(ToolCall("x", "multi_tool_use.parallel", broken))
        assert (call.id, call.name, call.arguments) == ("x", "parallel", broken)

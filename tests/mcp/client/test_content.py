"""What a server answers, as the model gets it."""

from agent_cli.mcp.client.content import outcome_of


def test_a_text_nested_deeper_than_json_is_read_stands_beside_the_structured_result() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    outcome = outcome_of({"content": [{"type": "text", "text": deep}], "structuredContent": {"found": 3}})
    assert outcome.text == f'{deep}\n{{"found":3}}'

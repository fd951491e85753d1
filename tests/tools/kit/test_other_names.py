"""Arguments under the names of other agents."""

from agent_cli.tools.kit.other_names import own_arguments

TASK = {"type": "object", "properties": {"task": {"type": "string"}, "type": {"type": "string"}}}


def test_a_prompt_is_a_task_or_a_remark_but_never_lost_beside_a_task() -> None:
    claude = {"description": "Fix it", "prompt": "All of it", "subagent_type": "general"}
    assert own_arguments(TASK, claude) == {"task": "All of it", "type": "general"}
    both = {"task": "Fix it", "prompt": "All of it"}
    assert own_arguments(TASK, both) == both, "refused, because the tool has no such argument"
    page = {"type": "object", "properties": {"url": {"type": "string"}}}
    assert own_arguments(page, {"url": "x", "prompt": "What is it?"}) == {"url": "x"}

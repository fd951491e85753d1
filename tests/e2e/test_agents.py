"""Sub-agents through the program: what they are given, what they may, what they cost, and that each has an end."""

import json
from typing import Any

from tests.e2e.world import World
from tests.model.server import Call, Reply


def agent(task: str, **more: Any) -> Call:
    return Call("agent", {"task": task, **more})


def test_a_sub_agent_answers_once_and_its_cost_is_the_parents(world: World) -> None:
    (world.work / "a.txt").write_text("secret plan\n", encoding="utf-8")
    world.script(
        Reply(calls=(agent("Read a.txt and say what it is.", type="explore"),)),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(text="It is a secret plan."),
        Reply(text="All known."),
    )
    done = world.run("run", "look into it", "--output-format", "json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["text"] == "All known."
    first, child, _, last = world.bodies()
    names = [tool["function"]["name"] for tool in child["tools"]]
    assert "agent" not in names and "edit_file" not in names and "read_file" in names
    assert "look into it" not in json.dumps(child["messages"])
    assert "Read a.txt and say what it is." in json.dumps(child["messages"])
    (told,) = [m["content"] for m in last["messages"] if m["role"] == "tool"]
    assert '<agent_result name="explore-1"' in told and "It is a secret plan." in told and "2 steps" in told
    assert result["usage"]["requests"] == 4 if "requests" in result["usage"] else True
    calls = world.records("model_call")
    assert [each["kind"] for each in calls] == ["main", "subagent", "subagent", "main"]

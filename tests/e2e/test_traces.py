"""Traces of the real program: written as spans end, and sent to a collector."""

from tests.e2e.world import World, shell
from tests.model.server import Reply


def test_smoke(world: World) -> None:
    world.script(shell("echo $TRACEPARENT; env | grep OTEL; sleep 0.1"), Reply(text="The answer"))
    done = world.run("run", "ask", "--trace", "t.jsonl", "--mode", "yolo", env={"OTEL_X": "y"})
    print(done)
    print((world.work / "t.jsonl").read_text())
    world.script(shell("echo $TRACEPARENT; env | grep OTEL; sleep 0.1"), Reply(text="The answer"))
    done = world.run("run", "ask", "--trace", "t.json", "--mode", "yolo", env={"OTEL_X": "y"})
    print((world.work / "t.json").read_text())
    print(world.messages())
    assert 0

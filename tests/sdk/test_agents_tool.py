"""What the model is told when it looks after a sub-agent in the background."""

from collections.abc import Iterator

from agent_cli import Allow
from agent_cli.protocol.operations import Compact
from tests.model.server import Call, Received, Reply
from tests.sdk.conftest import Machine


async def test_a_background_sub_agent_is_listed_guided_waited_for_and_given_more(machine: Machine) -> None:
    said: list[str] = []

    def parent() -> Iterator[Reply]:
        """The parent's steps; what each call returned is in `said`."""
        yield Reply(calls=(Call("agent", {"task": "Task one", "background": True}),))
        for action, more in (
            ("list", {}),
            ("read", {"id": "general-1"}),
            ("read", {}),
            ("read", {"id": "nope"}),
            ("send", {"id": "general-1", "text": " "}),
            ("send", {"id": "general-1", "text": "look at b too"}),
            ("wait", {"id": "general-1"}),
            ("send", {"id": "general-1", "text": "and c"}),
            ("wait", {"id": "general-1"}),
            ("stop", {"id": "general-1"}),
            ("list", {}),
        ):
            yield Reply(calls=(Call("agents", {"action": action, **more}),))
        yield Reply(text="All is known.")

    steps = parent()
    waits = f"until test -e {machine.home}/go; do sleep 0.05; done"
    child = iter([Reply(calls=(Call("shell", {"command": waits}),)),
                  Reply(text="One is done."), Reply(text="So is c.")])  # fmt: skip

    def answer(request: Received) -> Reply:
        messages = request.body["messages"]
        if "Task one" in str(messages[1]["content"]):
            return next(child)
        if messages[-1]["role"] == "tool":
            said.append(str(messages[-1]["content"]))
            if "next step" in said[-1]:
                (machine.home / "go").touch()  # in the workspace it might count as a change of the sub-agent
        return next(steps)

    machine.server.answer = answer
    async with machine.agent(mode="yolo", sandbox="off") as agent:
        assert (await agent.run("look into it")).text == "All is known."
    begun, listed, read, unnamed, unknown, empty, sent, first, again, second, stopped, last = said
    identifier = begun.partition("(")[2][:8]
    assert begun.startswith(f"general-1 ({identifier}) works in the background.")
    assert "the user's next prompt; if your answer needs it, wait" in begun
    assert listed.startswith(f"general-1 ({identifier}): ") and listed.endswith(". Task one")
    assert read.startswith("general-1 is ") and "1 steps" not in listed + read
    others = f"The sub-agents are: general-1 ({identifier})."
    assert unnamed == f"Which one? Give its id or name. {others}"
    assert unknown == f"There is no sub-agent 'nope'. {others}"
    assert empty == "`send` needs a text." and sent == "general-1 reads it at its next step."
    head = f'<agent_result name="general-1" id="{identifier}">'
    assert first == f"{head}\nOne is done.\n</agent_result>\n[2 steps]"
    assert again == "general-1 has it as its next task; `wait` waits for the result."
    assert second == stopped == f"{head}\nSo is c.\n</agent_result>\n[3 steps]"
    assert last == f"general-1 ({identifier}): done, 3 steps. and c"


async def test_a_summary_names_what_still_runs(machine: Machine) -> None:
    waits = "until test -e go; do sleep 0.05; done"
    child = iter([Reply(calls=(Call("shell", {"command": waits}),)), Reply(text="Found.")])
    started = Reply(calls=(Call("agent", {"task": "Task one", "background": True}),
                           Call("shell", {"command": waits, "background": True})))  # fmt: skip
    parent = iter([started, Reply(text="They run. " * 500), Reply(text="Both were begun."), Reply(text="I wait.")])

    def answer(request: Received) -> Reply:
        first = str(request.body["messages"][1]["content"])
        return next(parent if "begin both" in first or "Running in the background" in first else child)

    machine.server.answer = answer
    async with machine.agent(mode="yolo", sandbox="off", approve=lambda request: Allow()) as agent:
        await agent.run("begin both")
        session = agent._live()
        submission = await session.client.submit(Compact())
        async for _ in session.events_of(submission):
            pass
        assert (await agent.run("what now?")).text == "I wait."
        summary = str(machine.server.requests[-1].body["messages"][1]["content"])
        (machine.work / "go").touch()
    running = summary.partition("Running in the background:\n")[2]
    assert f"{running}\n".startswith(f"- job 1: {waits}\n- sub-agent general-1: Task one\n"), summary

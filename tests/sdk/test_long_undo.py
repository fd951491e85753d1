"""An undo of very many files: other things go on meanwhile, and it may be stopped."""

import asyncio
import os

from agent_cli.protocol.events import Notice, OperationFailed, Restored
from agent_cli.protocol.operations import Interrupt, Undo
from tests.model.server import Call, Reply
from tests.sdk.conftest import Machine

MANY = 3_000


async def test_a_long_undo_leaves_the_loop_free_and_goes_on_after_a_stop(machine: Machine) -> None:
    (machine.work / "kept").mkdir()
    made = machine.work / "made"
    command = f"mkdir made && cd made && seq {MANY} | xargs touch"
    machine.script(Reply(calls=(Call("shell", {"command": command}),)), Reply(text="done"))
    async with machine.agent(mode="yolo", sandbox="off") as agent:
        await agent.run("make many")
        assert len(os.listdir(made)) == MANY
        session = agent._live()
        undo = await session.client.submit(Undo())
        async with asyncio.timeout(60):
            while len(os.listdir(made)) == MANY:
                await asyncio.sleep(0)
        left = len(os.listdir(made))
        assert 0 < left < MANY, "the loop runs while files are restored"
        await session.client.submit(Interrupt())
        *told, end = [event async for event in session.events_of(undo)]
        assert isinstance(end, OperationFailed) and end.error.message == "stopped by the user"
        (note,) = [event.text for event in told if isinstance(event, Notice)]
        assert note.startswith("Stopped midway") and "/undo does the rest" in note
        assert 0 < len(os.listdir(made)) <= left
        again = await session.client.submit(Undo())
        (restored,) = [event async for event in session.events_of(again) if isinstance(event, Restored)]
        assert restored.report.conflicts == () and not made.exists()
        report = await agent.redo()
        assert report.conflicts == () and len(os.listdir(made)) == MANY

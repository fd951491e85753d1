"""`agent acp` driven by the client of the official library, which reads every message with its own models."""

import os
from typing import TYPE_CHECKING, Any

from tests.e2e.world import AGENT, World, shell
from tests.model.server import Call, Reply

if TYPE_CHECKING:
    from acp import schema as wire


class Client:
    """Records what it is told, and allows every call."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[wire.ToolCallUpdate] = []

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Record it."""
        self.updates.append(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: "wire.ToolCallUpdate",
        options: "list[wire.PermissionOption]",
        **kwargs: Any,
    ) -> "wire.RequestPermissionResponse":
        """Take the first option."""
        from acp import schema as wire

        self.asked.append(tool_call)
        chosen = wire.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return wire.RequestPermissionResponse(outcome=chosen)


async def test_the_official_client_has_a_whole_conversation(world: World) -> None:
    import acp  # which takes seconds to load

    world.measured()
    written = Call("write_file", {"path": "a.txt", "content": "one\n"})
    world.script(
        Reply(text="I write.", calls=(written,)), shell("echo run"), Reply(text="Done."), Reply(text="On.")
    )
    client: Any = Client()
    place = {"cwd": str(world.work), "mcp_servers": []}
    env = world.environment()
    async with acp.spawn_agent_process(client, AGENT, "acp", env=env, cwd=world.work) as (agent, process):
        begun = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert begun.protocol_version == 1 and begun.agent_capabilities.load_session
        session = await agent.new_session(**place)
        done = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        assert done.stop_reason == "end_turn"
        assert [each.title for each in client.asked] == ["Write a.txt"]
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
        chosen = await agent.set_config_option(session_id=session.session_id, config_id="mode", value="ask")
        assert [each.id for each in chosen.config_options] == ["mode", "model", "effort"]
        (saved,) = (await agent.list_sessions(cwd=str(world.work))).sessions
        await agent.close_session(session_id=saved.session_id)
        client.updates.clear()
        await agent.load_session(session_id=saved.session_id, **place)
        kinds = [type(each).__name__ for each in client.updates]
        assert kinds[:3] == ["UserMessageChunk", "AgentMessageChunk", "ToolCallStart"]
        copy = await agent.fork_session(session_id=saved.session_id, **place)
        done = await agent.prompt(session_id=copy.session_id, prompt=[acp.text_block("go on")])
        assert done.stop_reason == "end_turn"
        await agent.cancel(session_id=copy.session_id)
        pid = process.pid
    assert not os.path.exists(f"/proc/{pid}")

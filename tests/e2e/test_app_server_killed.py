"""The server is killed at random moments: what a client was told is on disk, the session goes on, nothing is left."""

from random import Random

import pytest

from tests.e2e.rpc import Message, Piped
from tests.e2e.world import World, until
from tests.fuzz import only_long
from tests.model.server import Call, Received, Reply

KILLS = range(5)
MANY = range(5, 100)
_MOST_EVENTS = 19
"""A turn has about so many."""


def answer(request: Received) -> Reply:
    """A command, a change, and a text that comes in pieces; then a short answer to the next prompt."""
    messages = request.body["messages"]
    prompts = [at for at, each in enumerate(messages) if each["role"] == "user"]
    results = [each for each in messages[prompts[-1] :] if each["role"] == "tool"]
    if "and now?" in str(messages[prompts[-1]]["content"]):
        return Reply(text="Resumed.")
    if not results:
        return Reply(calls=(Call("shell", {"command": "echo one; sleep 0.05; echo two; sleep 0.05; echo three"}),))
    if len(results) == 1:
        return Reply(calls=(Call("write_file", {"path": "a.txt", "content": "a\n" * 100}),))
    return Reply(text="All of it is done now, as far as anybody can say. ", event_delay_s=0.01)


def killed(world: World, moment: int) -> tuple[str, list[Message]]:
    """Have the server killed after so many events of a turn; returns the session and all events that came."""
    client = Piped(world, "--mode", "yolo").hello()
    session = client.open()
    client.ask("user_input", session_id=session, text="go")
    client.until(lambda _: len(found := client.events()) >= moment or any(map(_is_end, found)))
    client.process.kill()
    client.rest()
    client.process.wait(60)
    return session, client.events()


def _is_end(event: Message) -> bool:
    return event["type"] in ("turn_completed", "turn_failed", "turn_aborted")


@pytest.mark.parametrize("seed", [*KILLS, *only_long(MANY)])
def test_kill_9_of_the_server(world: World, seed: int) -> None:
    world.use_own_tmp()
    world.server.answer = answer
    session, told = killed(world, Random(seed).randint(1, _MOST_EVENTS))
    until(lambda: not world.alive())
    again = Piped(world, "--mode", "yolo").hello()
    is_begun = any(each["type"] == "step_started" for each in told)  # the prompt is on disk then
    if not is_begun and not world.sessions():
        assert again.refused("session/open", session_id=session)["code"] == -32000
        again.leave()
        return
    opened = again.ask("session/open", session_id=session)
    assert opened["session_id"] == session and opened["started"]
    assert again.prompt(session, "and now?")["text"] == "Resumed."
    *earlier, last = again.ask("session/history", session_id=session)["turns"]
    assert last[0]["text"] == "and now?"
    assert [turn[0]["text"] for turn in earlier] == ["go"] or not (earlier or is_begun)
    kept = {each.get("message_id") or each.get("call_id") for turn in earlier for each in turn}
    for event in told:
        if event["type"] == "answer_completed":
            assert event["message_id"] in kept, event
        elif event["type"] == "tool_call_finished":
            assert event["call_id"] in kept, event
    again.leave()

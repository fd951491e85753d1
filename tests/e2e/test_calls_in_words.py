"""A model that is told of tools in words and writes calls that cannot be read: it is told why, and may try again."""

from typing import Any

import pytest

from tests.e2e.world import World
from tests.model.replies import Reply

ENV = {"AGENT_MODEL": "mine/mm"}


def call(inside: str) -> str:
    return f"<tool_call>\n{inside}\n</tool_call>"


GOOD = call('{"name": "list_dir", "arguments": {}}')
BAD = {
    "unknown tool": (call('{"name": "list_dirs", "arguments": {}}'), "Did you mean list_dir"),
    "broken JSON": (call('{"name": "shell", "arguments": {"command": ls}}'), "not valid JSON"),
    "wrong argument": (call('{"name": "read_file", "arguments": {"file": "a"}}'), "Wrong arguments for read_file"),
    "text behind": (f"{GOOD}\nNow I wait for the result.", "text stands behind the call"),
}


@pytest.fixture
def in_words(world: World) -> World:
    provider = f"{{base_url: {world.server.url!r}, wire: chat_completions, models: {{mm: {{tools: false}}}}}}"
    (world.config / "config.yaml").write_text(f"providers: {{mine: {provider}}}\n")
    return world


def asked(world: World) -> list[dict[str, Any]]:
    """The bodies of the requests for an answer; an unknown server is also asked what it is."""
    return [each.body for each in world.server.requests if each.path.endswith("/chat/completions")]


@pytest.mark.parametrize("case", BAD)
def test_a_call_that_cannot_be_read_is_answered_with_the_reason(in_words: World, case: str) -> None:
    answer, reason = BAD[case]
    in_words.script(Reply(text=answer), Reply(text=GOOD), Reply(text="Done."))
    done = in_words.run("run", "look", "--output-format", "json", env=ENV)
    assert (done.code, done.result["text"]) == (0, "Done.")
    assert reason in asked(in_words)[1]["messages"][-1]["content"]


def test_calls_that_stay_unreadable_are_no_answer(in_words: World) -> None:
    in_words.script(*[Reply(text=BAD["broken JSON"][0])] * 9)
    done = in_words.run("run", "look", "--output-format", "json", env=ENV)
    assert (done.code, done.result["stop_reason"], len(asked(in_words))) == (7, "stuck", 5)
    assert "<tool_call>" not in done.result["text"]

"""The meter against a provider that counts by itself: tools, reasoning and pictures included."""

from pathlib import Path

import msgspec

from agent_cli.engine.context.token_meter import message_tokens
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import AssistantMessage, Reasoning, ToolResult, UserMessage
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.usage import Usage
from tests.engine.harness import Engine, engine
from tests.model.scripted import Entry, Reply, ScriptedModel, Text, Think, call, say
from tests.model.test_switching import PICTURE

CHARS_PER_TOKEN = 3.4
PICTURE_TOKENS = 1_600
PROSE = "The parser reads one token after the other and never looks back further than it has to. " * 20


def counted(request: ModelRequest) -> int:
    """What this provider says a request has: another tokenizer than the one the estimate assumes."""
    chars = len(request.system) + len(msgspec.json.encode(request.tools))
    pictures = 0
    for message in request.messages:
        match message:
            case UserMessage():
                chars += len(message.lead) + len(message.text) + 14
                pictures += len(message.images)
            case AssistantMessage():
                chars += len(message.text) + 14 + sum(len(each.text) for each in message.reasoning)
                chars += sum(len(each.name) + len(each.arguments) + 30 for each in message.calls)
            case ToolResult():
                chars += len(message.text) + 14
    return int(chars / CHARS_PER_TOKEN) + PICTURE_TOKENS * pictures


async def test_it_is_within_five_percent_of_what_the_provider_counts(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(12):
        (work / f"f{number}").write_text(f"{number} " + PROSE, encoding="utf-8")
    off: list[float] = []
    it: Engine

    def reply(request: ModelRequest) -> Entry:
        real = counted(request)
        if len(request.messages) > 1:
            off.append(abs(it.agent.snapshot().context_tokens - real) / real)
        usage = Usage(input=real, output=50)
        step = len(off) % 6
        if step < 4:
            thought = Think("I should look at the next file. " * 4, signature="proof")
            return Reply((thought, Text("Looking."), call("read_file", path=f"f{len(off) % 12}")), usage=usage)
        return say(PROSE, usage=Usage(input=real, output=int(len(PROSE) / CHARS_PER_TOKEN)))

    model = ScriptedModel(then=reply, context_window=400_000)
    async with engine(tmp_path, model=model) as started:
        it = started
        for turn in range(12):
            images = (PICTURE,) if turn % 4 == 1 else ()
            await it.until_ended(await it.submit(UserInput(f"turn {turn}: go on", images=images)))
        source = it.agent.snapshot().context_source
    assert len(off) > 20 and source == "last response + estimate"
    settled = off[4:]
    assert max(settled) <= 0.05, [round(each, 3) for each in off]


async def test_it_never_adds_up_what_several_calls_have_used(tmp_path: Path) -> None:
    usage = Usage(input=5_000, output=100)
    async with engine(tmp_path, say("a", usage=usage), say("b", usage=usage), say("c", usage=usage)) as it:
        for _ in range(3):
            await it.prompt("again")
        assert it.agent.snapshot().context_tokens < 5_300


def test_reasoning_counts_if_it_is_sent_back() -> None:
    def tokens(reasoning: Reasoning) -> int:
        return message_tokens(AssistantMessage(id="a", reasoning=(reasoning,)))

    left_out = tokens(Reasoning(PROSE, provider="lab"))
    for sent in (Reasoning(PROSE, signature="s"), Reasoning(PROSE, provider="lab", field="reasoning")):
        assert tokens(sent) > left_out + 200

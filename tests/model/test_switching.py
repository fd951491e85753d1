"""A conversation goes on with another provider, and comes back, whatever it holds: each provider's double
refuses what the provider itself would refuse."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Config, Provider
from agent_cli.model.http_model import encode
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import LearnedLimits, Model, ModelInfo, ModelRequest, ToolSpec
from agent_cli.model.types.provider_table import PROVIDERS, Quirks, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.dialect import Dialect
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.session.history import RepairedHistory
from tests.fuzz import LEVEL, tries
from tests.model import strict, strict_anthropic, strict_responses
from tests.model.scenarios import TOOL, answer
from tests.model.server import Call, Reply, Server

PICTURE = Image("image/png", "iVBORw0KGgo=")
LONG_ID = "call:" + "x" * 90


class Side(NamedTuple):
    """One of the models a conversation moves between."""

    model: str
    wire: str = "chat_completions"
    flavour: str = ""
    effort: str = ""


SIDES = {
    "deepseek": Side("deepseek/deepseek-v4-pro", flavour="deepseek"),
    "plain": Side("openai/gpt-4.1", flavour="plain"),
    "mistral": Side("mistral/devstral-latest", flavour="mistral"),
    "gemini": Side("gemini/gemini-3.1-pro-preview", flavour="gemini"),
    "claude": Side("anthropic/claude-sonnet-5-5", "anthropic_messages", effort="high"),
    "claude_with_a_budget": Side("anthropic/claude-sonnet-4-5", "anthropic_messages", effort="high"),
    "gpt": Side("openai/gpt-5.6", "openai_responses", effort="high"),
}
PAIRS = [(one, two) for one in SIDES for two in SIDES if one != two]


class Talk:
    """A conversation, with the part of the core that matters: answers are kept, calls are answered."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def ask(self, text: str) -> None:
        self.messages.append(UserMessage(id=self._id(), text=text, context="today", images=(PICTURE,)))

    async def step(self, side: Side, model: Model) -> None:
        """One answer and the results of its calls: every other one has failed, with pictures or nothing."""
        tool = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
        request = ModelRequest(
            "be good", RepairedHistory().of(self.messages), (tool,), effort=side.effort, session_id="s" * 80
        )
        got = await answer(model, request)
        self.messages.append(
            AssistantMessage(
                id=self._id(),
                text=got.text,
                reasoning=got.reasoning,
                calls=got.calls,
                finish=got.finish,
                model=side.model,
            )
        )
        for place, call in enumerate(got.calls):
            status, text, images = ("failed", "no", (PICTURE,)) if place % 2 else ("ok", "", ())
            self.messages.append(
                ToolResult(id=self._id(), call_id=call.id, tool="read", status=status, text=text, images=images)
            )

    def _id(self) -> str:
        return f"m{len(self.messages)}"


def script(name: str) -> tuple[Reply, ...]:
    """A turn of three answers: everything a provider can send back, then less, then text."""
    odd = (
        Call("read", {"path": "a"}, f"{LONG_ID}{name}", signature="thought" if name == "gemini" else ""),
        Call("read", {}, f" {name}"),
        Call("read", {"path": "b"}, ""),
    )
    return (
        Reply(
            reasoning=f"hm {name}",
            signature=f"signed {name}",
            redacted=(f"hidden {name}",),
            text="I look.",
            calls=odd,
        ),
        Reply(calls=(Call("read", {"path": "c"}, f"fine_{name}"),)),
        Reply(text="Done."),
    )


async def opened(side: Side, server: Server) -> Model:
    provider, _, _ = side.model.partition("/")
    keys = {name: "k" for spec in PROVIDERS.values() for name in spec.key_vars}
    given = Provider(wire=side.wire, base_url=server.url)  # type: ignore[arg-type]
    return await open_model(side.model, Config(providers={provider: given}), keys)


def proofs(body: Any) -> set[str]:
    """What a request holds of anybody's reasoning."""
    found: set[str] = set()
    fields = ("signature", "data", "encrypted_content", "reasoning_content", "thought_signature")
    match body:
        case dict():
            found |= {
                body[name] for name in fields if isinstance(body.get(name), str) and "media_type" not in body
            }
            for value in body.values():
                found |= proofs(value)
        case list():
            for value in body:
                found |= proofs(value)
    return found


OWN = {
    "plain": {"hm plain"},
    "deepseek": {"hm deepseek"},
    "gemini": {"thought"},
    "claude": {"signed claude", "hidden claude"},
    "claude_with_a_budget": {"signed claude_with_a_budget", "hidden claude_with_a_budget"},
    "gpt": {"signed gpt", "hidden gpt"},
}
"""What must come back of each one's first answer."""


@pytest.mark.parametrize("steps", [1, 3], ids=["within_a_turn", "behind_a_turn"])
@pytest.mark.parametrize(("one", "two"), PAIRS)
async def test_a_conversation_goes_to_another_provider_and_back(one: str, two: str, steps: int) -> None:
    talk = Talk()
    talk.ask("look")
    first, second = SIDES[one], SIDES[two]
    async with (
        Server(*script(one), Reply(text="Welcome back."), flavour=first.flavour) as home,
        Server(*script(two), flavour=second.flavour) as away,
    ):
        here, there = await opened(first, home), await opened(second, away)
        for _ in range(steps):
            await talk.step(first, here)
        if steps > 1:
            talk.ask("go on")
        for _ in range(3):
            await talk.step(second, there)
        talk.ask("thanks")
        await talk.step(first, here)
        await here.aclose()
        await there.aclose()
    assert not [request.complaint for request in (*home.requests, *away.requests) if request.complaint]
    same = first.model.partition("/")[0] == second.model.partition("/")[0] and first.wire == second.wire
    known = {"", " ", "skip_thought_signature_validator"}
    assert proofs(away.requests[0].body) - known <= (OWN.get(one, set()) if same else set())
    assert proofs(home.requests[-1].body) - known == OWN.get(one, set()) | (OWN[two] if same else set())
    assert OWN.get(two, set()) <= proofs(away.requests[-1].body)


def dialects() -> Iterator[tuple[Dialect, Side, Any]]:
    complaints = {
        "chat_completions": strict.complaint,
        "anthropic_messages": strict_anthropic.complaint,
        "openai_responses": strict_responses.complaint,
    }
    for name, side in SIDES.items():
        provider, _, model = side.model.partition("/")
        quirks = Quirks() if name == "plain" else PROVIDERS[provider].quirks
        route = Route(side.model, provider, model, side.wire, quirks=quirks)  # type: ignore[arg-type]
        info = ModelInfo(side.model)
        dialect: Dialect = ChatDialect(route)
        if side.wire == "anthropic_messages":
            dialect = AnthropicDialect(route, info)
        elif side.wire == "openai_responses":
            dialect = ResponsesDialect(route, info)
        yield dialect, side, complaints[side.wire]


DIALECTS = list(dialects())

texts = st.sampled_from(["", " ", "\n\n", "fine", "a\ud83c", "\udf89b", "é 🎉", "x" * 200]) | st.text(max_size=8)
ids = st.sampled_from([" ", ":", LONG_ID, "a b", "é", "\x00", "same", "c1", "c2", "\ud83c", "toolu_1"]) | st.text(
    max_size=4
)
arguments = st.sampled_from(
    ["{}", '{"p": 1}', "", "[]", "nul", '{"p', '{"p": "\\ud83c"}', '{"a": 1, "a": 2}', '{"n": NaN}']
)
pictures = st.lists(st.sampled_from([PICTURE, Image("image/png", ""), Image("image/webp", "!!")]), max_size=2).map(
    tuple
)
providers = st.sampled_from(["anthropic", "openai", "deepseek", "gemini", "mistral", ""])
thoughts = st.builds(
    Reasoning,
    text=texts,
    signature=st.sampled_from(["", "sig", "sig2"]),
    provider=providers,
    redacted=st.booleans(),
    after_text=st.integers(0, 12),
    after_calls=st.integers(0, 3),
)
calls = st.builds(
    ToolCall,
    id=ids,
    name=st.sampled_from(["read", "grep"]),
    arguments=arguments,
    signature=st.sampled_from(["", "thought"]),
)
users = st.builds(lambda text, context, images: ("user", text, context, images), texts, texts, pictures)
answers = st.builds(
    lambda text, reasoning, calls, finish, provider: ("assistant", text, reasoning, calls, finish, provider),
    texts,
    st.lists(thoughts, max_size=3).map(tuple),
    st.lists(calls, max_size=3),
    st.sampled_from(["stop", "tool_calls", "length", "interrupted", "unknown"]),
    providers,
)
results = st.builds(
    lambda place, text, status, images: ("result", place, text, status, images),
    st.integers(0, 40),
    texts,
    st.sampled_from(["ok", "failed", "denied", "cancelled", "unknown"]),
    pictures,
)


def history(steps: list[Any]) -> list[Message]:
    """Messages as a damaged session may hold them: results that are missing, doubled, orphaned or out of
    place, blank texts, calls cut short. Ids of calls are unique, as the core makes them."""
    made: list[Message] = []
    used: list[str] = []
    for number, step in enumerate(steps):
        match step:
            case ("user", text, context, images):
                made.append(UserMessage(id=f"m{number}", text=text, context=context, images=images))
            case ("assistant", text, reasoning, calls, finish, provider):
                own: list[ToolCall] = []
                for call in calls:
                    identifier = call.id if call.id and call.id not in used else f"call_{number}_{len(own)}"
                    used.append(identifier)
                    own.append(ToolCall(identifier, call.name, call.arguments, call.signature))
                model = f"{provider}/m" if provider else ""
                made.append(
                    AssistantMessage(
                        id=f"m{number}",
                        text=text,
                        reasoning=reasoning,
                        calls=tuple(own),
                        finish=finish,
                        model=model,
                    )
                )
            case ("result", place, text, status, images):
                target = used[place % len(used)] if used else "nobody"
                made.append(
                    ToolResult(
                        id=f"m{number}", call_id=target, tool="read", status=status, text=text, images=images
                    )
                )
    made.append(UserMessage(id="last", text="go on"))
    return made


def check_history(steps: list[Any], may_call: bool, refused: tuple[str, ...]) -> None:
    """Every provider takes the request, whatever was learnt of it."""
    messages = RepairedHistory().of(history(steps))
    for dialect, side, complaint in DIALECTS:
        request = ModelRequest("s", messages, (TOOL,), may_call=may_call, effort=side.effort)
        written = dialect.write(request, LearnedLimits(refused=refused))
        body = json.loads(encode(written.body))
        extra = frozenset({"reasoning_effort"})
        assert complaint(body, extra, side.flavour if "reasoning" not in refused else "") == "", side.model
        assert len(written.sources) == len(body[dialect.lists])
        assert all(source in ("", *(message.id for message in messages)) for source in written.sources)


steps = st.lists(st.one_of(users, answers, answers, results, results), max_size=14)
lessons = st.lists(
    st.sampled_from(["images", "cache_marks", "prefix", "effort", "summary", "phase"]), max_size=2
).map(tuple)


@settings(max_examples=tries(200, LEVEL), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.booleans(), lessons)
def test_any_history_is_taken_by_every_provider(made: list[Any], may_call: bool, refused: tuple[str, ...]) -> None:
    check_history(made, may_call, refused)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.booleans(), lessons)
def test_ten_thousand_damaged_histories_are_taken(
    made: list[Any], may_call: bool, refused: tuple[str, ...]
) -> None:
    check_history(made, may_call, refused)

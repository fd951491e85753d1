import asyncio
from contextlib import aclosing

import pytest

from agent_cli.config.schema import Config, ModelOverride, Provider
from agent_cli.model.catalog.server_query import CapabilityProbe, questions
from agent_cli.model.http_model import NativeModel
from agent_cli.model.routing import open_model, resolve
from agent_cli.model.types.base import Adjusted, ModelEvent, ModelInfo, ModelRequest, takes_pictures
from agent_cli.model.types.info import Facts, Source
from agent_cli.model.types.provider_table import PROVIDERS, Route, Wire
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.usage import LearnedLimits
from tests.model.side_server import SideServer

ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),))
DONE = [{"message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"}]
CHUNK = (
    'data: {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)
SHOW = {"model_info": {"q.context_length": 40_960}, "capabilities": ["completion", "tools"]}


async def opened(name: str, server: SideServer, provider: str = "", **override: int) -> NativeModel:
    at = server.root if name.startswith("ollama") else server.url
    models = {name.partition("/")[2]: ModelOverride(**override)}
    config = Config(providers={provider or name.partition("/")[0]: Provider(base_url=at, models=models)})
    model = await open_model(name, config, {})
    assert isinstance(model, NativeModel)
    return model


async def said(model: NativeModel) -> list[ModelEvent]:
    return [event async for event in model.stream(ASK)]


async def test_nothing_is_asked_before_the_first_message() -> None:
    async with SideServer({"/props": {"n_ctx": 4_096}}, [[CHUNK]]) as server:
        model = await opened("llamacpp/q", server)
        assert model.info == ModelInfo("llamacpp/q") and not server.asked
        await said(model)
        assert (model.info.context_window, model.info.source("context_window")) == (4_096, "server")
        assert server.paths() == ["/v1/chat/completions", "/props"]
        await model.aclose()


async def test_a_server_is_asked_once() -> None:
    async with SideServer({"/props": {"n_ctx": 4_096}}, [[CHUNK], [CHUNK]]) as server:
        model = await opened("llamacpp/q", server)
        await said(model)
        await said(model)
        assert server.paths().count("/props") == 1
        await model.aclose()


async def test_a_server_of_unknown_make_is_asked_every_way() -> None:
    answers = {"/v1/models": {"data": [{"id": "q"}]}, "/props": {"n_ctx": 7_000}}
    async with SideServer(answers, [[CHUNK]]) as server:
        model = await opened("mine/q", server)
        await said(model)
        assert model.info.context_window == 7_000
        await model.aclose()
    async with SideServer({"/v1/models": {"data": [{"id": "q", "max_model_len": 5_000}]}}, [[CHUNK]]) as server:
        model = await opened("hosted_vllm/q", server)
        await said(model)
        assert model.info.context_window == 5_000
        await model.aclose()


async def test_lm_studio_is_asked_again_once_the_model_is_loaded() -> None:
    idle = {"data": [{"id": "q", "type": "llm", "state": "not-loaded", "max_context_length": 131_072}]}
    loaded = {"data": [{"id": "q", "type": "llm", "state": "loaded", "loaded_context_length": 4_096}]}
    async with SideServer({"/api/v0/models": (idle, loaded)}, [[CHUNK], [CHUNK]]) as server:
        model = await opened("lm_studio/q", server)
        await said(model)
        assert model.info.context_window is None
        await said(model)
        assert model.info.context_window == 4_096
        await model.aclose()


async def test_a_slow_server_does_not_hold_up_the_first_message() -> None:
    """The message is answered while the server still owes its answer about itself."""
    async with SideServer({"/props": {"n_ctx": 4_096}}, [[CHUNK], [CHUNK], [CHUNK]], delay_s=300.0) as server:
        model = await opened("llamacpp/q", server)
        async with asyncio.timeout(60):
            await said(model)
        assert model.info.context_window is None
        await said(model)
        await said(model)
        assert server.paths().count("/props") == 2  # then it is given up
        await model.aclose()


async def test_without_such_endpoints_everything_works() -> None:
    async with SideServer({}, [[CHUNK]]) as server:
        model = await opened("mine/q", server)
        assert await said(model)
        assert model.info == ModelInfo("mine/q")
        await model.aclose()


async def test_a_cancelled_call_leaves_no_question_behind() -> None:
    async with SideServer({"/props": {"n_ctx": 4_096}}, [[CHUNK]], delay_s=30.0) as server:
        model = await opened("llamacpp/q", server)
        task = asyncio.create_task(said(model))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task})
        await model.aclose()
        mine = {each.get_coro().__qualname__ for each in asyncio.all_tasks()}  # type: ignore[union-attr]
        assert not any(CapabilityProbe.__name__ in name or "said" in name for name in mine)


async def test_the_configuration_beats_the_server() -> None:
    async with SideServer({"/props": {"n_ctx": 4_096}}, [[CHUNK]]) as server:
        model = await opened("llamacpp/q", server, context_window=8_000)
        await said(model)
        assert (model.info.context_window, model.info.source("context_window")) == (8_000, "configuration")
        await model.aclose()


async def test_ollama_is_asked_for_the_context_its_model_can_have() -> None:
    ps = ({"models": []}, {"models": [{"name": "q", "context_length": 40_960}]})
    async with SideServer({"/api/show": SHOW, "/api/ps": ps}, [DONE, DONE, DONE]) as server:
        model = await opened("ollama/q", server)
        for _ in range(3):
            assert not any(isinstance(event, Adjusted) for event in await said(model))
        assert [body["options"]["num_ctx"] for body in server.bodies()] == [32_768] * 3
        assert (model.info.context_window, model.info.tools, model.info.images) == (32_768, True, False)
        assert server.paths().count("/api/show") == 1 and server.paths().count("/api/ps") == 2
        await model.aclose()


async def test_a_smaller_context_than_asked_for_is_told_once() -> None:
    ps = ({"models": []}, {"models": [{"name": "q", "context_length": 8_192}]})
    async with SideServer({"/api/show": SHOW, "/api/ps": ps}, [DONE, DONE, DONE]) as server:
        model = await opened("ollama/q", server)
        told = [event for _ in range(3) for event in await said(model) if isinstance(event, Adjusted)]
        assert len(told) == 1
        assert "8,192 tokens instead of 32,768" in told[0].text and "context_window" in told[0].text
        assert model.info.context_window == 8_192
        await model.aclose()


def test_hosted_providers_whose_figures_are_known_are_not_asked() -> None:
    env = {var: "k" for spec in PROVIDERS.values() for var in spec.key_vars}
    for name in ("openai/gpt-4.1", "deepseek/deepseek-v4-pro", "xai/grok-4.5", "anthropic/claude-opus-5-5"):
        assert questions(resolve(name, {}, env), ModelInfo(name)) == []
    known = ModelInfo("groq/x").plus(Facts("catalogue", 1))
    assert questions(resolve("groq/x", {}, env), known)
    assert questions(resolve("openrouter/a/b", {}, env), ModelInfo("openrouter/a/b"))


async def test_a_gateway_with_the_responses_format_is_asked_too() -> None:
    answers = {"/v1/models": {"data": [{"id": "q", "max_input_tokens": 200_000}]}}
    async with SideServer(answers, []) as server:
        route = Route("mine/q", "mine", "q", "openai_responses", server.url)
        probe = CapabilityProbe(ModelInfo("mine/q"), route)
        await probe.ask(20)
    assert probe.info.context_window == 200_000


def test_a_learnt_window_counts_until_a_server_nearby_tells_the_one_in_force() -> None:
    probe = CapabilityProbe(ModelInfo("p/m").plus(Facts("catalogue", 100_000)))
    info = probe.with_learned(LearnedLimits(context_window=8_000, efforts=("low",)))
    assert (info.context_window, info.source("context_window"), info.efforts) == (8_000, "learnt", ("low",))
    assert probe.with_learned(LearnedLimits()).context_window == 100_000


@pytest.mark.parametrize("learnt", [4_096, 1_000_000])
async def test_a_server_that_was_started_anew_is_believed(learnt: int) -> None:
    class Remembers:
        def recall(self, key: str) -> LearnedLimits:
            return LearnedLimits(context_window=learnt)

        def learn(self, key: str, learnt: LearnedLimits) -> None: ...

        def replace(self, key: str, learnt: LearnedLimits) -> None: ...

    async with SideServer({"/props": {"n_ctx": 32_768}}, [[CHUNK]]) as server:
        config = Config(providers={"llamacpp": Provider(base_url=server.url)})
        model = await open_model("llamacpp/q", config, {}, Remembers())
        assert (model.info.context_window, model.info.source("context_window")) == (learnt, "learnt")
        async with aclosing(model.stream(ASK)) as events:
            async for _ in events:
                pass
        assert (model.info.context_window, model.info.source("context_window")) == (32_768, "server")
        await model.aclose()


def test_a_probe_without_a_route_asks_nothing() -> None:
    assert CapabilityProbe(ModelInfo("p/m")).info == ModelInfo("p/m")
    assert questions(Route("a/b", "a", "b", "anthropic_messages", "http://127.0.0.1:1"), ModelInfo("a/b")) == []


async def remote(server: SideServer, monkeypatch: pytest.MonkeyPatch) -> NativeModel:
    """A model of a server far away, as seen through a proxy."""
    monkeypatch.setenv("HTTP_PROXY", server.root)
    monkeypatch.delenv("NO_PROXY", raising=False)
    config = Config(providers={"far": Provider(base_url="http://api.example.com/v1")})
    model = await open_model("far/m", config, {})
    assert isinstance(model, NativeModel)
    return model


async def test_a_server_far_away_is_asked_beside_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "data": [
            {"id": "m", "context_length": 64_000, "pricing": {"prompt": "0.000001", "completion": "0.000002"}}
        ]
    }
    async with SideServer({"/v1/models": listed}, [[CHUNK], [CHUNK]], chat_delay_s=0.3) as server:
        model = await remote(server, monkeypatch)
        await said(model)
        assert (model.info.context_window, model.info.prices.output) == (64_000, 2)
        await said(model)
        assert server.paths().count("/v1/models") == 1
        await model.aclose()


async def test_a_slow_server_far_away_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SideServer({"/v1/models": {"data": []}}, [[CHUNK]], delay_s=300.0) as server:
        model = await remote(server, monkeypatch)
        async with asyncio.timeout(60):
            await said(model)
        assert not any("_ask" in repr(task.get_coro()) for task in asyncio.all_tasks())
        await model.aclose()


@pytest.mark.parametrize(
    ("source", "wire", "are_sent"),
    [
        ("catalogue", "chat_completions", True),
        ("server", "chat_completions", False),
        ("configuration", "openai_responses", False),
        ("catalogue", "ollama_chat", False),
    ],
)
def test_images_are_left_out_where_a_reliable_source_says_so(source: Source, wire: Wire, are_sent: bool) -> None:
    info = ModelInfo("mine/q").plus(Facts(source, images=False))
    probe = CapabilityProbe(info, Route("mine/q", "mine", "q", wire, "http://127.0.0.1:1/v1"))
    assert takes_pictures(probe.effective_limits(LearnedLimits())) == are_sent

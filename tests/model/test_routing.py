import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_cli.config.schema import Config, ModelOverride, Provider, Timeouts
from agent_cli.model.catalog.catalog import known
from agent_cli.model.http_model import NativeModel
from agent_cli.model.litellm.model import LiteLLMModel
from agent_cli.model.replay import ReplayModel
from agent_cli.model.routing import (
    BadAddress,
    BadModelName,
    MissingKey,
    NoModel,
    bad_addresses,
    choose_default,
    may_choose,
    open_model,
    preload,
    probe_server,
    resolve,
    servers,
)
from agent_cli.model.types.provider_table import ALIASES, BARE_NAMES, PROVIDERS, Route
from agent_cli.protocol.usage import LearnedLimits
from agent_cli.store.state.learned_limits import LearnedLimitsFile
from tests.model.server import Server
from tests.model.side_server import SideServer
from tests.rows import each_row

OPENAI = {"OPENAI_API_KEY": " sk-1 \n"}


def route(name: str, env: Mapping[str, str] | None = None, **providers: Provider) -> Route:
    return resolve(name, providers, env or {})


@each_row(
    ("name", "env", "wire", "base_url", "model"),
    [
        ("openai/gpt-4.1", OPENAI, "chat_completions", "https://api.openai.com/v1", "gpt-4.1"),
        ("openai/gpt-5.6", OPENAI, "openai_responses", "https://api.openai.com/v1", "gpt-5.6"),
        ("openai/o3", OPENAI, "openai_responses", "https://api.openai.com/v1", "o3"),
        ("gpt-4.1", OPENAI, "chat_completions", "https://api.openai.com/v1", "gpt-4.1"),
        ("openai/gpt-5.6", {"OPENAI_BASE_URL": "http://gw/v1/"}, "chat_completions", "http://gw/v1", "gpt-5.6"),
        ("openrouter/a/b:free", {"OPENROUTER_API_KEY": "k"}, "chat_completions", "https://openrouter.ai/api/v1",
         "a/b:free"),
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY": "k"}, "anthropic_messages", "https://api.anthropic.com",
         "claude-x"),
        ("gemini/gemini-x", {"GOOGLE_API_KEY": "k"}, "chat_completions", PROVIDERS["gemini"].base_url, "gemini-x"),
        ("bedrock/x.y", {}, "litellm", "", "x.y"),
        ("ollama/qwen:7b", {}, "ollama_chat", "http://127.0.0.1:11434", "qwen:7b"),
        ("ollama_chat/q", {"OLLAMA_HOST": "0.0.0.0"}, "ollama_chat", "http://127.0.0.1:11434", "q"),
        ("ollama/q", {"OLLAMA_HOST": "0.0.0.0:7"}, "ollama_chat", "http://127.0.0.1:7", "q"),
        ("ollama/q", {"OLLAMA_HOST": "gpu"}, "ollama_chat", "http://gpu:11434", "q"),
        ("ollama/q", {"OLLAMA_HOST": "[::]:8"}, "ollama_chat", "http://127.0.0.1:8", "q"),
        ("ollama/q", {"OLLAMA_HOST": "https://o.example"}, "ollama_chat", "https://o.example", "q"),
        ("ollama/q", {"OLLAMA_HOST": "https://o.example/gw/"}, "ollama_chat", "https://o.example/gw", "q"),
        ("ollama/q", {"OLLAMA_API_BASE": "http://a:1/v1/"}, "ollama_chat", "http://a:1", "q"),
        ("vllm/m", {"HOSTED_VLLM_API_BASE": "http://v:1/v1"}, "chat_completions", "http://v:1/v1", "m"),
    ],
)  # fmt: skip
def test_routes(name: str, env: dict[str, str], wire: str, base_url: str, model: str) -> None:
    got = route(name, env)
    assert (got.wire, got.base_url, got.model) == (wire, base_url, model)


def test_keys_are_trimmed_and_hidden() -> None:
    got = route("openai/gpt-4.1", OPENAI)
    assert got.api_key == "sk-1"
    assert "sk-1" not in repr(got)


def test_the_configuration_wins() -> None:
    mine = Provider(
        base_url="http://mine:1/v1", api_key_env="MINE", headers={"x": "y"}, timeouts=Timeouts(idle_s=5)
    )
    got = route("mine/m", {"MINE": "k"}, mine=mine)
    assert (got.wire, got.base_url, got.api_key, got.headers, got.timeouts.idle_s) == (
        "chat_completions", "http://mine:1/v1", "k", {"x": "y"}, 5,
    )  # fmt: skip
    deepseek = Provider(base_url="http://d/v1", wire="litellm")
    got = route("deepseek/m", {"DEEPSEEK_API_BASE": "http://other"}, deepseek=deepseek)
    assert (got.wire, got.base_url) == ("litellm", "http://d/v1")
    assert got.quirks == PROVIDERS["deepseek"].quirks
    assert route("ollama_chat/m", ollama=Provider(base_url="http://far:1")).base_url == "http://far:1"
    for given in ("http://far:1", "http://far:1/v1"):
        got = route("ollama/m", ollama=Provider(base_url=given, wire="chat_completions"))
        assert (got.wire, got.base_url) == ("chat_completions", "http://far:1/v1")


def test_calls_written_as_text_are_looked_for_where_servers_may_hand_them_on() -> None:
    for name in ("ollama/q", "lm_studio/q", "llamacpp/q", "hosted_vllm/q"):
        assert route(name).quirks.text_calls, name
    assert route("mine/q", mine=Provider(base_url="http://x/v1")).quirks.text_calls
    assert route("openai/q", {**OPENAI, "OPENAI_BASE_URL": "http://x/v1"}).quirks.text_calls
    for name in ("openai/gpt-4.1", "deepseek/x", "anthropic/x"):
        assert not route(name, {**OPENAI, "DEEPSEEK_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}).quirks.text_calls


def test_a_missing_key_names_the_variable() -> None:
    with pytest.raises(MissingKey, match="OPENAI_API_KEY") as caught:
        route("openai/gpt-4.1", {"OPENAI_API_KEY": " "})
    assert caught.value.kind == "auth"
    with pytest.raises(MissingKey, match="MINE"):
        route("openai/gpt-4.1", OPENAI, openai=Provider(api_key_env="MINE"))


BAD = [
    "http://[::1",
    "http://127.0.0.1:notaport",
    "http://h:99999/v1",
    "ftp://x/v1",
    "http://bob:p/w@h/v1",
]


@each_row("address", BAD)
async def test_an_address_that_cannot_be_read_is_named(address: str) -> None:
    two = Config(providers={"two": Provider(base_url=address)})
    for name, config, env, source in (
        ("two/m", two, {}, "`providers.two.base_url`"),
        ("openai/gpt-4.1", Config(), {**OPENAI, "OPENAI_BASE_URL": address}, "OPENAI_BASE_URL"),
        ("ollama/q", Config(), {"OLLAMA_HOST": address}, "OLLAMA_HOST"),
    ):
        with pytest.raises(BadAddress) as caught:
            await open_model(name, config, env)
        assert str(caught.value).startswith(f"{source} is not an address") and caught.value.kind == "not_found"
        assert "bob" not in str(caught.value)
        preload(name, config, env)
        assert all(address not in base_url for _, base_url, _ in servers(config, env))
        assert [str(error) for error in bad_addresses(config, env)] == [str(caught.value)]
        with pytest.raises(BadAddress, match="is not an address"):
            await choose_default(config, env, silent)
    assert await choose_default(two, {"GROQ_API_KEY": "k"}, silent) == f"groq/{PROVIDERS['groq'].default_model}"


def test_a_password_in_an_address_is_neither_shown_nor_remembered() -> None:
    got = route("mine/m", mine=Provider(base_url="https://bob:PW@host:8/v1"))
    assert got.base_url == "https://bob:PW@host:8/v1"
    assert got.key == "mine/m https://host:8/v1" and "PW" not in repr(got)
    assert route("mine/m", mine=Provider(base_url="http://h/a@b/v1")).key == "mine/m http://h/a@b/v1"


@each_row("name", ["", "/", "x/", "/x", "nonsense"])
def test_names_that_name_nothing(name: str) -> None:
    with pytest.raises(BadModelName, match="PROVIDER/MODEL") as caught:
        route(name)
    assert caught.value.kind == "not_found"


async def test_clients_and_what_is_known_of_their_models() -> None:
    override = ModelOverride(context_window=7)
    config = Config(providers={"ollama": Provider(models={"q": override})})
    model = await open_model("ollama/q", config, {})
    assert isinstance(model, NativeModel)
    assert (model.info.context_window, model.info.source("context_window")) == (7, "configuration")
    for name, key in (("anthropic/claude-sonnet-4-6", "ANTHROPIC_API_KEY"), ("openai/gpt-5.6", "OPENAI_API_KEY")):
        assert isinstance(await open_model(name, config, {key: "k"}), NativeModel)
    assert isinstance(await open_model("bedrock/x", config, {}), LiteLLMModel)
    with pytest.raises(MissingKey):
        await open_model("openai/gpt-4.1", config, {})


async def test_a_recording_is_a_model(tmp_path) -> None:
    file = tmp_path / "s.json"
    file.write_text("[\n]\n", encoding="utf-8")
    model = await open_model(f"replay/{file}", Config(), {})
    assert isinstance(model, ReplayModel)
    assert model.info.name == f"replay/{file}"
    with pytest.raises(BadModelName, match="cannot read the recording"):
        await open_model(f"replay/{tmp_path}/none.json", Config(), {})


def test_preload_never_fails() -> None:
    for name in ("nonsense", "replay/x", "ollama/q", "openai/gpt-4.1"):
        preload(name, Config(), {})


async def silent(base_url: str, key: str) -> tuple[str, ...] | None:
    return None


async def test_the_first_key_in_the_documented_order_decides() -> None:
    env = {"GROQ_API_KEY": "k", "DEEPSEEK_API_KEY": "k"}
    assert await choose_default(Config(), env, silent) == f"deepseek/{PROVIDERS['deepseek'].default_model}"
    env["ANTHROPIC_API_KEY"] = "k"
    assert (await choose_default(Config(), env, silent)).startswith("anthropic/")
    config = Config(providers={"xai": Provider(api_key_env="MY_XAI")})
    assert (await choose_default(config, {"MY_XAI": "k"}, silent)).startswith("xai/")


async def test_a_gateway_is_asked_for_its_models() -> None:
    async def probe(base_url: str, key: str) -> tuple[str, ...] | None:
        assert (base_url, key) == ("http://gw/v1", "sk-1")
        return ("text-embedding-3", "local-model")

    env = {**OPENAI, "OPENAI_BASE_URL": "http://gw/v1"}
    assert await choose_default(Config(), env, probe) == "openai/local-model"
    assert (await choose_default(Config(), env, silent)).startswith("openai/")


async def test_a_local_server_is_found_over_http() -> None:
    async with Server(models=("nomic-embed-text", "all-minilm:22m", "bge-m3", "qwen3:8b")) as server:
        assert await probe_server(server.url, "") == ("nomic-embed-text", "all-minilm:22m", "bge-m3", "qwen3:8b")
        env = {"OLLAMA_HOST": f"127.0.0.1:{server.port}"}
        assert await choose_default(Config(), env) == "ollama/qwen3:8b"
        config = Config(providers={"mine": Provider(base_url=server.url)})
        assert await choose_default(config, {}) == "mine/qwen3:8b"


@pytest.mark.parametrize(
    "variable", ["OLLAMA_HOST", "LM_STUDIO_API_BASE", "LLAMACPP_API_BASE", "HOSTED_VLLM_API_BASE"]
)
async def test_every_local_server_is_found_without_a_key(variable: str) -> None:
    async with SideServer({"/v1/models": {"data": [{"id": "nomic-embed-text"}, {"id": "q"}]}}) as server:
        assert (await choose_default(Config(), {variable: f"127.0.0.1:{server.port}"})).endswith("/q")
        assert await probe_server(server.root, "") == ("nomic-embed-text", "q")
    async with SideServer({"/v1/models": {"data": [{"id": "nomic-embed-text"}]}}) as server:
        with pytest.raises(NoModel):
            await choose_default(Config(), {variable: f"127.0.0.1:{server.port}"})


async def test_what_was_learnt_of_a_model_is_known_when_it_is_opened(tmp_path) -> None:
    memory = LearnedLimitsFile(tmp_path / "learnt.json")
    config = Config(providers={"mine": Provider(base_url="http://127.0.0.1:9/v1")})
    memory.learn("mine/q http://127.0.0.1:9/v1", LearnedLimits(context_window=12_000))
    model = await open_model("mine/q", config, {}, memory)
    assert (model.info.context_window, model.info.source("context_window")) == (12_000, "learnt")


async def test_a_server_that_is_none_is_passed_over() -> None:
    async with Server(models=("x",)) as server:
        assert await probe_server(server.url + "/nothing", "") == ("x",)
    assert await probe_server(server.url, "") is None
    assert await probe_server("nonsense", "") is None


async def test_without_anything_the_way_out_is_told() -> None:
    with pytest.raises(NoModel, match="ANTHROPIC_API_KEY"):
        await choose_default(Config(), {}, silent)


def test_the_table_is_sound() -> None:
    names = {info.name for info in known()}
    for provider, spec in PROVIDERS.items():
        if spec.default_model and provider != "openrouter":
            assert f"{provider}/{spec.default_model}" in names, provider
        assert spec.local or spec.key_vars
        assert not spec.base_url.endswith("/")
    assert set(ALIASES.values()) | set(BARE_NAMES.values()) <= set(PROVIDERS)
    assert json.dumps(sorted(PROVIDERS))


def test_the_documentation_has_every_provider_and_variable() -> None:
    text = (Path(__file__).parents[2] / "docs/providers.md").read_text(encoding="utf-8")
    for provider, spec in PROVIDERS.items():
        for name in (provider, *spec.key_vars, *spec.base_url_vars, spec.base_url, spec.default_model):
            assert not name or f"`{name}`" in text, name


def test_a_key_in_place_of_a_variable_s_name_is_not_shown() -> None:
    providers = {"mine": Provider(base_url="http://x/v1", api_key_env="sk-abc-123")}
    with pytest.raises(MissingKey) as raised:
        resolve("mine/m", providers, {})
    assert "NAME of a variable" in str(raised.value) and "sk-abc" not in str(raised.value)


@each_row(
    ("name", "may"),
    [
        ("anthropic/b", True), ("claude-x", True), ("lab/b", True), ("vllm/b", True), ("openai/fast", True), ("openai/b", False),
        ("mistral/b", False), ("replay/b", False),
    ],
)  # fmt: skip
def test_a_model_chooses_among_what_is_configured_and_its_own_provider(name: str, may: bool) -> None:
    configured = Config(small_model="openai/fast", providers={"lab": Provider(), "hosted_vllm": Provider()})
    assert may_choose(name, "anthropic/a", configured) is may


def test_a_recording_chooses_no_other_recording() -> None:
    assert not may_choose("replay/b", "replay/a", Config())

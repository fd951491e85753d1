from typing import Any

from agent_cli.model.catalog.server_facts import (
    OLLAMA_WINDOW,
    from_list,
    from_lm_studio,
    from_ollama,
    from_props,
    running_window,
)
from agent_cli.model.types.info import Facts, Prices
from tests.rows import each_row

SHOW = {
    "parameters": 'stop    "<|im_end|>"\ntemperature 0.6',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 262_144, "qwen3.block_count": 36},
    "capabilities": ["completion", "tools", "thinking"],
}
OPENROUTER = {
    "id": "maker/model",
    "canonical_slug": "maker/model-20260101",
    "context_length": 400_000,
    "top_provider": {"context_length": 256_000, "max_completion_tokens": 32_000},
    "pricing": {"prompt": "0.0000012", "completion": "0.000006", "input_cache_read": "0.00000012"},
    "supported_parameters": ["tools", "reasoning", "max_tokens"],
    "architecture": {"input_modalities": ["text", "image"]},
}


def test_openrouter_s_list() -> None:
    answer = {"data": [{"id": "other"}, OPENROUTER]}
    expected = Facts(
        "server", 256_000, 32_000, tools=True, images=True, reasoning=True, prices=Prices(1.2, 6.0, 0.12)
    )
    assert from_list(answer, "maker/model") == expected
    assert from_list(answer, "maker/model-20260101") == expected
    assert from_list(answer, "maker/unknown") is None


def test_prices_that_depend_are_unknown() -> None:
    entry = OPENROUTER | {"pricing": {"prompt": "-1", "completion": "much", "input_cache_read": 5}}
    facts = from_list({"data": [entry]}, "maker/model")
    assert facts is not None and facts.prices == Prices()


@each_row(
    ("entry", "facts"),
    [
        ({"max_model_len": 40_960, "root": "/models/q"}, Facts("server", 40_960)),  # vLLM
        ({"context_window": 131_072, "max_completion_tokens": 8_192}, Facts("server", 131_072, 8_192)),  # Groq
        ({"max_context_length": 32_768, "capabilities": {"function_calling": True, "vision": False}},
         Facts("server", 32_768, tools=True, images=False)),  # Mistral
        ({"context_length": 8_192, "supports_tools": False, "supports_image_input": True},
         Facts("server", 8_192, tools=False, images=True)),  # Fireworks
        ({"meta": {"n_ctx": 4_096, "n_ctx_train": 131_072}}, Facts("server", 4_096)),  # llama.cpp
        ({"object": "model", "owned_by": "me"}, None),
        ({"context_length": "many", "max_model_len": -1, "pricing": [], "capabilities": "all"}, None),
        ({"context_length": True}, None),
    ],
)  # fmt: skip
def test_lists_of_other_servers(entry: dict[str, Any], facts: Facts | None) -> None:
    assert from_list({"data": [{"id": "other"}, {"id": "m"} | entry]}, "m") == facts


def test_a_server_of_one_model_may_list_it_under_another_name() -> None:
    answer = {"data": [{"id": "/models/q.gguf", "max_model_len": 9}]}
    assert from_list(answer, "q") == Facts("server", 9)
    assert from_list([{"id": "q", "max_model_len": 9}], "q") == Facts("server", 9)


def test_llama_cpp_s_properties() -> None:
    props = {"default_generation_settings": {"n_ctx": 16_384}, "n_ctx": 9, "modalities": {"vision": True}}
    assert from_props(props) == Facts("server", 16_384, images=True)
    assert from_props({"n_ctx": 8_192}) == Facts("server", 8_192)
    assert from_props({"default_generation_settings": {}}) is None


def test_lm_studio_s_list() -> None:
    loaded = {
        "id": "q",
        "type": "llm",
        "state": "loaded",
        "max_context_length": 131_072,
        "loaded_context_length": 8_192,
    }
    idle = {
        "id": "v",
        "type": "vlm",
        "state": "not-loaded",
        "max_context_length": 131_072,
        "capabilities": ["tool_use"],
    }
    answer = {"data": [loaded, idle]}
    assert from_lm_studio(answer, "q") == Facts("server", 8_192, images=False)
    assert from_lm_studio(answer, "v") == Facts("server", tools=True, images=True)
    assert from_lm_studio(answer, "x") is None


def ollama_window(show: dict[str, Any], running: Any = None) -> int | None:
    facts = from_ollama(show, running, "q")
    assert facts is not None
    return facts.context_window


def test_the_context_to_ask_ollama_for() -> None:
    assert ollama_window(SHOW) == OLLAMA_WINDOW
    assert ollama_window(SHOW | {"model_info": {"x.context_length": 8_192}}) == 8_192
    assert ollama_window(SHOW | {"model_info": {}}) == OLLAMA_WINDOW
    assert ollama_window(SHOW | {"parameters": "num_ctx 65536\ntop_k 20"}) == 65_536
    assert ollama_window(SHOW | {"parameters": "num_ctx                        4096"}) == 4_096
    assert ollama_window(SHOW | {"parameters": "num_ctx 999999"}) == 262_144
    generous = {"models": [{"name": "q:latest", "context_length": 131_072}]}
    assert ollama_window(SHOW, generous) == 131_072
    assert ollama_window(SHOW, {"models": [{"name": "q:latest", "context_length": 4_096}]}) == OLLAMA_WINDOW
    assert ollama_window(SHOW, {"models": [{"name": "other", "context_length": 131_072}]}) == OLLAMA_WINDOW


def test_what_an_ollama_model_can() -> None:
    facts = from_ollama(SHOW, None, "q")
    assert facts == Facts("server", OLLAMA_WINDOW, tools=True, images=False, reasoning=True)
    named = from_ollama(SHOW | {"thinking": {"values": ["high", "low", "medium"], "default": "medium"}}, None, "q")
    assert named is not None and named.efforts == ("low", "medium", "high")
    switched = from_ollama(SHOW | {"thinking": {"values": [False, True]}}, None, "q")
    assert switched is not None and switched.efforts is None
    old = from_ollama({"model_info": {}}, None, "q")
    assert old is not None and (old.tools, old.images, old.reasoning) == (None, None, None)
    assert from_ollama({"error": "model 'q' not found"}, None, "q") is None


def test_the_context_of_a_running_ollama_model() -> None:
    running = {"models": [{"name": "a", "context_length": 5}, {"model": "q:latest", "context_length": 7}]}
    assert running_window(running, "q") == running_window(running, "q:latest") == 7
    assert running_window({"models": [{"name": "q"}]}, "q") is None
    assert running_window({"models": [{"name": "other", "context_length": 5}]}, "q") is None


@each_row("odd", [None, [], {}, "x", 5, {"data": 5}, {"data": [5, None]}, {"models": {}}, {"data": [{}]}])
def test_odd_answers_say_nothing(odd: Any) -> None:
    assert from_list(odd, "m") is None
    assert from_props(odd) is None
    assert running_window(odd, "m") is None
    assert from_lm_studio(odd, "m") in (None, Facts("server"))
    assert from_ollama(odd, odd, "m") is None or odd

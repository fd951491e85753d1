import json
import subprocess
import sys
from pathlib import Path

import msgspec

from agent_cli.config.schema import ModelOverride
from agent_cli.config.schema import Prices as GivenPrices
from agent_cli.model.catalog.catalog import CATALOGUE, known, litellm_table, model_info
from agent_cli.model.catalog.row import Row, facts_of, row_of
from agent_cli.model.types.info import LongPrompt, ModelInfo, Prices, Rates

ROOT = Path(__file__).parents[3]


def test_a_known_model_has_window_prices_and_abilities() -> None:
    info = model_info("anthropic/claude-sonnet-4-5")
    assert (info.context_window, info.max_output_tokens) == (200_000, 64_000)
    assert info.prices == Prices(3, 15, 0.3, 3.75, 6)
    assert (info.tools, info.images, info.reasoning) == (True, True, True)
    assert set(info.sources.values()) == {"catalogue"}
    assert model_info("openai/gpt-5.6").efforts == ("none", "low", "medium", "high", "xhigh")


def test_what_is_unknown_stays_unknown() -> None:
    assert model_info("nobody/nothing") == ModelInfo("nobody/nothing")
    assert model_info("nobody/nothing", deep=True) == ModelInfo("nobody/nothing")
    assert model_info("nobody/nothing").source("context_window") == "unknown"


def test_the_configuration_beats_the_catalogue_figure_by_figure() -> None:
    override = ModelOverride(max_output_tokens=9, images=False, prices=GivenPrices(input=7))
    info = model_info("anthropic/claude-sonnet-4-5", override)
    assert (info.context_window, info.max_output_tokens, info.images) == (200_000, 9, False)
    assert info.prices == Prices(7, 15, 0.3, 3.75, 6)
    assert [info.source(name) for name in ("context_window", "max_output_tokens", "images", "input", "output")] == [
        "catalogue", "configuration", "configuration", "configuration", "catalogue",
    ]  # fmt: skip
    assert model_info("anthropic/claude-sonnet-4-5", ModelOverride()) == model_info("anthropic/claude-sonnet-4-5")


def test_a_router_s_model_has_the_window_but_not_the_price() -> None:
    info = model_info("openrouter/anthropic/claude-sonnet-4.6:beta")
    assert (info.context_window, info.prices, info.tools) == (1_000_000, Prices(), True)


def test_the_rest_is_looked_up_in_litellm_s_table_without_importing_it() -> None:
    name = "bedrock/us.anthropic.claude-sonnet-4-6"
    assert model_info(name) == ModelInfo(name)
    assert model_info(name, deep=True).source("context_window") == "litellm"
    assert model_info(name, deep=True).context_window


def test_a_row_of_the_table() -> None:
    entry = {
        "max_tokens": 5, "input_cost_per_token": 3e-06, "output_cost_per_token": 0, "max_output_tokens": 4,
        "input_cost_per_token_above_200k_tokens": 6e-06, "input_cost_per_token_above_200k_tokens_batches": 1e-06,
        "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 7e-06,
        "supports_vision": False, "supports_reasoning": True, "supports_xhigh_reasoning_effort": True,
    }  # fmt: skip
    row = row_of(entry)
    assert row.cells() == [5, 4, 3, 0, None, None, None, "Ir", "ldhx", [[200000, 6, None, None, None, 7]]]
    assert msgspec.convert(row.cells(), Row) == row
    facts = facts_of(row, "litellm")
    assert (facts.tools, facts.images, facts.reasoning) == (None, False, True)
    assert facts.efforts == ("low", "medium", "high", "xhigh")
    assert facts.prices.long == (LongPrompt(200_000, Rates(input=6, cache_write_1h=7)),)


def test_rates_that_the_table_writes_as_ranges() -> None:
    each = [
        {"range": [0, 256000.0], "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
        {"range": [256000.0, 1e6], "input_cost_per_token": 3e-06, "output_cost_per_token": 4e-06},
    ]
    prices = facts_of(row_of({"tiered_pricing": each}), "litellm").prices
    assert prices == Prices(1, 2, long=(LongPrompt(256_000, Rates(3, 4)),))


def test_the_catalogue_is_small() -> None:
    assert CATALOGUE.stat().st_size < 90_000
    assert sum(1 for _ in known()) > 300


def test_models_are_found_by_parts_of_their_name() -> None:
    found = [info.name for info in known("Anthropic sonnet-4-6")]
    assert "anthropic/claude-sonnet-4-6" in found
    assert all("sonnet-4-6" in name for name in found)


def test_the_catalogue_is_what_the_generator_makes() -> None:
    assert litellm_table() is not None
    command = [sys.executable, str(ROOT / "scripts/make_catalog.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert json.loads(CATALOGUE.read_text(encoding="utf-8"))

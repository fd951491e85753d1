import json
import subprocess
import sys
import time
from pathlib import Path

from agent_cli.config.schema import ModelOverride
from agent_cli.config.schema import Prices as GivenPrices
from agent_cli.model import catalog
from agent_cli.model.base import ModelInfo, Prices
from agent_cli.model.catalog import CATALOGUE, known, litellm_table, model_info, row_of

ROOT = Path(__file__).parents[2]


def test_a_known_model_has_window_and_prices() -> None:
    assert model_info("anthropic/claude-sonnet-4-6") == ModelInfo(
        "anthropic/claude-sonnet-4-6", 1_000_000, 128_000, Prices(3, 15, 0.3, 3.75), "catalogue"
    )


def test_what_is_unknown_stays_unknown() -> None:
    assert model_info("nobody/nothing") == ModelInfo("nobody/nothing")
    assert model_info("nobody/nothing", deep=True) == ModelInfo("nobody/nothing")


def test_each_fact_comes_from_the_first_source_that_has_it() -> None:
    reported = ModelInfo("x", context_window=32_000, source="server")
    override = ModelOverride(max_output_tokens=9, prices=GivenPrices(input=7))
    info = model_info("anthropic/claude-sonnet-4-6", override, reported=reported)
    assert info == ModelInfo("anthropic/claude-sonnet-4-6", 32_000, 9, Prices(7, 15, 0.3, 3.75), "configuration")
    assert model_info("anthropic/claude-sonnet-4-6", ModelOverride()).source == "catalogue"
    assert model_info("x/y", reported=reported).source == "server"


def test_a_router_s_model_has_the_window_but_not_the_price() -> None:
    info = model_info("openrouter/anthropic/claude-sonnet-4.6:beta")
    assert (info.context_window, info.prices) == (1_000_000, Prices())


def test_the_rest_is_looked_up_in_litellm_s_table_without_importing_it() -> None:
    name = "bedrock/us.anthropic.claude-sonnet-4-6"
    assert model_info(name).source == "unknown"
    assert model_info(name, deep=True).source == "litellm"
    assert model_info(name, deep=True).context_window


def test_a_row_of_the_table() -> None:
    entry = {"max_tokens": 5, "input_cost_per_token": 3e-06, "output_cost_per_token": 0, "max_output_tokens": 4}
    assert row_of(entry) == (5, 4, 3.0, 0.0, None, None)


def test_the_catalogue_is_small_and_loads_at_once() -> None:
    assert CATALOGUE.stat().st_size < 110_000
    times = []
    for _ in range(5):
        catalog._catalogue.cache_clear()
        started = time.perf_counter()
        catalog._catalogue()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.002
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

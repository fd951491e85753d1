"""Short names of model families."""

import pytest

from agent_cli.model.catalog.aliases import USUAL, newest
from agent_cli.model.catalog.catalog import known, model_info
from agent_cli.model.routing import BadModelName, resolve


def test_every_short_name_stands_for_a_known_model() -> None:
    names = {info.name for info in known()}
    assert all(newest(alias) in names for alias in USUAL)
    assert all(model_info(newest(alias)).context_window for alias in USUAL)


def test_the_newest_of_a_family_is_chosen_and_no_variant_of_it() -> None:
    sonnets = [info.name for info in known("anthropic/claude-sonnet")]
    assert newest("Sonnet") == newest("claude") == max(sonnets, key=lambda name: (name.count("-") < 5, name))
    assert newest("gpt").startswith("openai/gpt-") and newest("gpt").count("-") == 1
    assert newest("gpt-mini").endswith("-mini") and newest("nothing") == ""


def test_a_short_name_is_a_model_name() -> None:
    route = resolve("opus", {}, {"ANTHROPIC_API_KEY": "k" * 20})
    assert route.name == newest("opus") and route.model.startswith("claude-opus-")
    with pytest.raises(BadModelName):
        resolve("nothing", {}, {})

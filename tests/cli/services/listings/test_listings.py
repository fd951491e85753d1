"""The lists behind slash commands: models with a key first, tools with their source, keys with their place."""

from pathlib import Path

import msgspec
import pytest

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.setup import Setup
from agent_cli.cli.services.listings.extensions import tools
from agent_cli.cli.services.listings.models import models
from agent_cli.cli.services.listings.settings import config
from agent_cli.redaction.redactor import Redactor
from agent_cli.tools.plugins import Extension
from agent_cli.tools.registry import default_registry

CONFIG = """\
ui: {theme: dark, plain: false}
providers:
  mine:
    base_url: "http://127.0.0.1:9/v1"
    headers: {Authorization: "Bearer abcdefghijklmnop"}
    models: {big: {context_window: 5000, prices: {input: 1, output: 2}}}
  kept: {api_key_env: NOT_SET_KEY, base_url: "http://127.0.0.1:9", models: {small: {}}}
tools: {shell: {env: {MY_TOKEN: "abcdef123456", LEVEL: high}}}
"""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    for folder in ("work", "own/config"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own" / "config" / "config.yaml").write_text(CONFIG, encoding="utf-8")
    keys = tmp_path / "own" / "config" / "keys.yaml"
    keys.write_text("DEEPSEEK_API_KEY: 0123456789abcdef\nGROQ_API_KEY: {keyring: a/b}\n", encoding="utf-8")
    keys.chmod(0o600)
    return Setup(ParsedOptions("agent", {}), root=tmp_path / "work", own=tmp_path / "own")


class Ticket:
    """Reads a ticket. At length."""

    name = "ticket"

    class Params(msgspec.Struct):
        """Nothing."""

    def run(self, params: object, context: object) -> str:
        return ""


def test_models_that_can_be_used_come_first(setup: Setup) -> None:
    found = {line.name: line for line in models(setup, "", "xyz/now")}
    usable = [line.has_key for line in found.values()]
    assert usable == sorted(usable, reverse=True) and True in usable and False in usable
    big = found["mine/big"]
    assert (big.window, big.input_usd, big.output_usd, big.has_key) == (5_000, 1.0, 2.0, True)
    assert not found["kept/small"].has_key and "xyz/now" in found
    providers = {line.name.partition("/")[0] for line in found.values() if line.has_key}
    assert {"deepseek", "groq", "mine"} <= providers


def test_models_are_found_by_words(setup: Setup) -> None:
    assert [line.name for line in models(setup, "mine big", "m/now")] == ["mine/big"]
    assert models(setup, "no such model at all", "m/now") == ()


def test_tools_have_a_sentence_and_a_source() -> None:
    found = tools(default_registry((), True, [Extension(Ticket(), "project", asks=True)]))
    assert found[-1].name == "ticket" and found[-1].summary == "Reads a ticket."
    assert found[-1].source == "this project, .agent/tools"
    assert {line.source for line in found[:-1]} == {"built in"}
    assert all(0 < len(line.summary) < 200 and "\n" not in line.summary for line in found)


def test_keys_have_their_values_and_places_and_hide_secrets(setup: Setup) -> None:
    known = {line.key: line for line in config(setup, Redactor())}
    file = setup.config_dir / "config.yaml"
    theme = known["ui.theme"]
    assert (theme.value, theme.place, theme.is_default) == ('"dark"', f"{file}:1", False)
    assert known["ui.plain"].is_default and known["ui.vi_mode"].is_default
    assert known["providers.mine.headers.Authorization"].value == '"[masked]"'
    assert known["tools.shell.env.MY_TOKEN"].value == '"[masked]"'
    assert known["tools.shell.env.LEVEL"].value == '"high"'
    assert known["providers.mine.timeouts.connect_s"].is_default
    assert not known["providers.mine.models.big.context_window"].is_default

"""`${NAME}` in the configuration."""

import pytest

from agent_cli.config.expand import expand
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import Provider
from agent_cli.model.routing import resolve
from tests.rows import each_row


@each_row(
    ("text", "wanted"),
    [
        ("plain $HOME $(x) {y}", "plain $HOME $(x) {y}"), ("${A}", "one"), ("x-${A}-${B:-two}", "x-one-two"), ("${B:-}", ""),
        ("${EMPTY:-full}", "full"), ("${A:-other}", "one"), ("https://${A}.example/${B:-v1}", "https://one.example/v1"),
    ],
)  # fmt: skip
def test_variables_are_put_in(text: str, wanted: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": ""}, "k") == wanted


def test_a_value_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "no"}, "k") == "${B}"


def test_addresses_and_headers_of_providers_are_expanded_and_a_missing_variable_is_named() -> None:
    mine = {"mine": Provider(base_url="https://${HOST:-gw}.example/v1", headers={"x-key": "k-${TOKEN}"})}
    route = resolve("mine/m", mine, {"TOKEN": "t"})
    assert (route.base_url, route.headers) == ("https://gw.example/v1", {"x-key": "k-t"})
    with pytest.raises(ConfigError, match=r"providers\.mine\.headers\.x-key: the variable TOKEN is not set"):
        resolve("mine/m", mine, {})

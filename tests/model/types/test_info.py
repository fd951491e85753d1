import pytest

from agent_cli.model.types.info import Facts, LongPrompt, ModelInfo, Prices, Rates
from agent_cli.protocol.usage import Usage
from tests.rows import each_row

LONG = Prices(2, 12, 0.2, 2.5, long=(LongPrompt(200_000, Rates(4, 18, 0.4)), LongPrompt(500_000, Rates(input=8))))
INFO = ModelInfo("p/m", prices=LONG)

CONFIGURED = Facts("configuration", max_output_tokens=9, prices=Prices(input=7))
LEARNT = Facts("learnt", context_window=8_000)
SERVER = Facts("server", context_window=32_000, tools=False, prices=Prices(1, 1))
SHIPPED = Facts("catalogue", 200_000, 64_000, tools=True, images=True, prices=LONG)


def test_each_figure_comes_from_the_best_source_in_whatever_order_they_come() -> None:
    sources = (CONFIGURED, LEARNT, SERVER, SHIPPED)
    for order in (sources, sources[::-1], (SERVER, CONFIGURED, SHIPPED, LEARNT)):
        info = ModelInfo("p/m")
        for facts in order:
            info = info.plus(facts)
        assert (info.context_window, info.max_output_tokens, info.tools, info.images) == (8_000, 9, False, True)
        assert [info.source(name) for name in ("context_window", "max_output_tokens", "tools", "images")] == [
            "learnt", "configuration", "server", "catalogue",
        ]  # fmt: skip
        assert (info.prices.input, info.prices.output, info.prices.cache_read) == (7, 1, 0.2)
        assert (info.source("input"), info.source("output"), info.source("long")) == (
            "configuration", "server", "catalogue",
        )  # fmt: skip


def test_a_tier_never_overrides_a_price_from_a_better_source() -> None:
    info = ModelInfo("p/m").plus(SHIPPED).plus(CONFIGURED)
    rates = info.prices.rates_for(300_000)
    assert (rates.input, rates.output, rates.cache_read) == (7, 18, 0.4)


def test_the_newer_of_two_equal_sources_counts() -> None:
    info = ModelInfo("p/m").plus(SERVER).plus(Facts("server", context_window=16_000))
    assert (info.context_window, info.tools) == (16_000, False)


@each_row(
    ("usage", "cost"),
    [
        (Usage(input=100_000, output=1_000), 0.212),
        (Usage(input=200_000, output=0), 0.4),
        (Usage(input=200_001, output=1_000_000), 18.800004),
        (Usage(input=1, output=0, cache_read=300_000), 0.120004),  # the cache counts for the length
        (Usage(input=1, output=0, cache_write=300_000), 0.750004),  # no rate of its own: as for short ones
        (Usage(input=600_000, output=1_000_000), 22.8),  # a tier leaves to the one below what it does not say
        (Usage(input=1), None),
        (Usage(output=1), None),
        (None, None),
    ],
)
def test_the_whole_request_is_priced_by_the_length_of_its_prompt(usage: Usage | None, cost: float | None) -> None:
    got = INFO.cost_usd(usage)
    assert got is None if cost is None else got == pytest.approx(cost)


def test_an_unknown_price_makes_the_cost_unknown_only_when_it_is_needed() -> None:
    info = ModelInfo("p/m", prices=Prices(input=1))
    assert info.cost_usd(Usage(input=1_000_000, output=0)) == 1
    assert info.cost_usd(Usage(input=1, output=1)) is None


def test_cached_tokens_without_a_price_of_their_own_cost_as_any_others() -> None:
    info = ModelInfo("p/m", prices=Prices(1, 1))
    assert info.cost_usd(Usage(input=0, output=0, cache_read=500_000, cache_write=500_000)) == 1


def test_the_worst_case_takes_the_dearest_way_to_send_a_prompt() -> None:
    assert INFO.worst_case_usd(100_000, 1_000) == pytest.approx(0.262)
    assert INFO.worst_case_usd(300_000, 0) == pytest.approx(1.2)
    assert ModelInfo("p/m", prices=Prices(input=1)).worst_case_usd(1, 1) is None
    assert ModelInfo("p/m", prices=Prices(output=1)).worst_case_usd(1, 1) is None
    assert ModelInfo("p/m", prices=Prices(0, 0)).worst_case_usd(1, 1) == 0


def test_a_worst_case_is_never_below_the_cost() -> None:
    for size in (1, 199_999, 200_001, 600_000):
        for usage in (Usage(size, 5), Usage(0, 5, cache_read=size), Usage(0, 5, cache_write=size)):
            cost, worst = INFO.cost_usd(usage), INFO.worst_case_usd(size, 5)
            assert cost is not None and worst is not None and cost <= worst + 1e-12

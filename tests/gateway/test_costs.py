"""What answers cost: the tokens of a usage, by the first price that fits the model."""

import pytest

from checkrail.config.gateway import PriceConfig
from checkrail.gateway.costs import add_cost, can_have_price

PRICES = (
    PriceConfig("gpt-5-mini*", input=0.25, output=2.0, cached=0.025),
    PriceConfig("gpt-5*", input=1.25, output=10.0),
    PriceConfig("claude-*", input=3.0, output=15.0, cached=0.3, cache_write=3.75),
    PriceConfig("/^free/", input=0.0, output=0.0),
)


def usage(sent=0, answered=0, **details):
    counted = {"input_tokens": sent, "output_tokens": answered, "total_tokens": sent + answered}
    return counted | ({"input_tokens_details": details} if details else {})


@pytest.mark.parametrize(
    ("model", "used", "cost"),
    [
        ("gpt-5", usage(1_000_000, 100_000), 2.25),
        ("gpt-5-mini", usage(1_000_000, 100_000), 0.45),
        ("gpt-5-mini-2026-01-01", usage(2_000_000, 0), 0.5),
        ("gpt-5-mini", usage(1_000_000, 0, cached_tokens=400_000), 0.16),
        ("gpt-5", usage(1_000_000, 0, cached_tokens=400_000), 1.25),
        (
            "claude-x",
            usage(1_000_000, 0, cached_tokens=200_000, cache_creation_tokens=400_000),
            1.2 + 0.06 + 1.5,
        ),
        ("free-model", usage(10, 10), 0.0),
        ("gpt-5", usage(1, 0), 0.00000125),
        ("gpt-5", {"total_tokens": 5}, 0.0),
    ],
)
def test_tokens_cost_what_their_price_says(model, used, cost):
    found = add_cost(used, (model,), PRICES)
    assert found == {**used, "cost": pytest.approx(cost)}
    assert "cost" not in used


@pytest.mark.parametrize(
    ("used", "model"), [(usage(5, 5), "llama"), (usage(5, 5), None), (None, "gpt-5"), ({}, "gpt-5")]
)
def test_what_has_no_price_or_no_usage_is_left_as_it_is(used, model):
    assert add_cost(used, (model,), PRICES) is used


def test_counts_that_make_no_sense_cost_nothing_and_break_nothing():
    odd = {"input_tokens": "many", "output_tokens": -5, "input_tokens_details": ["x"]}
    assert add_cost(odd, ("gpt-5",), PRICES)["cost"] == 0.0
    more = usage(10, 0, cached_tokens=1_000_000)
    assert add_cost(more, ("gpt-5-mini",), PRICES)["cost"] == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("asked", "answered", "cost"),
    [
        ("gpt-5", "gpt-5-mini-2026-01-01", 1.25),
        ("alias", "gpt-5-mini-2026-01-01", 0.25),
        ("gpt-5-mini", None, 0.25),
        (None, "gpt-5", 1.25),
    ],
)
def test_the_name_that_was_asked_comes_before_the_one_that_answered(asked, answered, cost):
    found = add_cost(usage(1_000_000), (asked, answered), PRICES)
    assert found["cost"] == pytest.approx(cost)


@pytest.mark.parametrize(
    ("model", "known"),
    [("gpt-5", True), ("claude-3", True), ("claude", True), ("llama", False), ("gpt-4", False)],
)
def test_a_model_may_have_the_price_of_a_longer_name(model, known):
    assert can_have_price(model, PRICES) is known

"""The reward of a purchase, on cases made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.webshop.catalogue import Product
from prover_cli.envs.webshop.goals import NO_LIMIT, Goal
from prover_cli.envs.webshop.reward import (
    COLOURS,
    MATCH_ABOVE,
    Purchase,
    normalise_colour,
    score,
    token_set_ratio,
)
from prover_cli.envs.webshop.vocabulary import DEPARTMENTS

PHRASES = sorted({a for d in DEPARTMENTS for a in d.attributes})
RIGHT = {"color": "red", "size": "large"}


def _product(**changes: Any) -> Product:
    fields: dict[str, Any] = {
        "asin": "B000000001",
        "title": "Acme Canvas Tote",
        "description": "A Roomy bag.",
        "bullets": ("Vegan Leather handles", "zip closure"),
        "prices": (20.0,),
        "options": {"color": ("red", "coral"), "size": ("small", "large")},
        "attributes": ("machine wash", "slim fit"),
        "category": "fashion",
        "query": "tote bags",
        "product_category": "Clothing › Women › Handbags",
        **changes,
    }
    return Product(**fields)


GOAL_PRODUCT = _product()
NOUNS = {"Acme Canvas Tote": ["acme", "canvas", "tote"], "Oak Desk": ["oak", "desk"]}


def _goal(**changes: Any) -> Goal:
    fields: dict[str, Any] = {
        "asin": "B000000001",
        "text": "a tote",
        "attributes": ("machine wash", "slim fit"),
        "options": ("red", "large"),
        "upper": 30.0,
        **changes,
    }
    return Goal(**fields)


def _buy(
    goal: Goal,
    chosen: dict[str, str],
    bought: Product = GOAL_PRODUCT,
    price: float = 20.0,
    nouns: dict[str, list[str]] = NOUNS,
) -> Purchase:
    return score(goal, GOAL_PRODUCT, bought, price, chosen, nouns)


@pytest.mark.parametrize("price", [20.0, 30.0])
def test_everything_right_is_success(price: float) -> None:
    bought = _buy(_goal(), RIGHT, price=price)
    assert bought.success and bought.reward == 1.0
    assert bought.info["r_att"] == bought.info["r_option"] == bought.info["r_price"] == 1


@pytest.mark.parametrize(
    ("chosen", "matched"),
    [
        ({"color": "red", "size": "small"}, 1),
        ({"color": "coral", "size": "large"}, 1),
        ({"color": "red"}, 1),
        ({}, 0),
        ({"size": "red", "color": "large"}, 2),
    ],
)
def test_a_wrong_option_costs_its_share(chosen: dict[str, str], matched: int) -> None:
    bought = _buy(_goal(), chosen)
    assert bought.reward == pytest.approx((3 + matched) / 5)
    assert bought.info["r_option"] == matched / 2


def test_a_price_above_the_limit_costs_its_share() -> None:
    bought = _buy(_goal(), RIGHT, price=30.01)
    assert bought.reward == pytest.approx(4 / 5)
    assert not bought.success and not bought.info["r_price"]
    assert _buy(_goal(upper=NO_LIMIT), RIGHT, price=9999.0).success


def test_a_missing_attribute_costs_its_share() -> None:
    other = _product(attributes=("machine wash", "long sleeve"))
    bought = _buy(_goal(), RIGHT, other)
    assert bought.reward == pytest.approx(4 / 5)
    assert bought.info["r_att"] == 0.5


@pytest.mark.parametrize(
    "attribute", ["machine wash", "machine washing", "canvas", "vegan leather", "roomy", "zip"]
)
def test_an_attribute_may_be_alike_or_stand_in_the_texts(attribute: str) -> None:
    assert _buy(_goal(attributes=(attribute,)), RIGHT).success


def test_the_shares_add_up_and_no_options_means_no_option_part() -> None:
    info = _buy(_goal(), RIGHT).info
    assert (info["w_att"], info["w_option"], info["w_price"]) == (0.4, 0.4, 0.2)
    bought = _buy(_goal(options=()), {"color": "coral"})
    assert bought.success
    assert "r_option" not in bought.info and bought.info["w_option"] == 0


@pytest.mark.parametrize(
    ("nouns", "kind"),
    [
        (["tote"], 1.0),
        (["tote", *"abcdefghi"], 1.0),
        (["tote", *"abcdefghij"], 0.1),
        (["desk"], 0.0),
        ([], 1.0),
    ],
)
def test_titles_without_common_nouns_override_the_same_query(nouns: list[str], kind: float) -> None:
    wanted = _product(title="Goal")
    known = {"Goal": nouns, "Acme Canvas Tote": ["acme", "canvas", "tote"]}
    bought = score(_goal(), wanted, GOAL_PRODUCT, 20.0, RIGHT, known)
    assert bought.info["query_match"] and bought.info["category_match"]
    assert bought.info["r_type"] == kind
    assert bought.reward == pytest.approx(kind)


@pytest.mark.parametrize(
    ("query", "category", "n_nouns", "kind"),
    [
        ("tote bags", "X", 10, 1.0),
        ("desks", "Women › Clothing", 10, 1.0),
        ("desks", "Clothing › Men", 10, 0.5),
        ("desks", "X", 5, 0.5),
        ("desks", "X", 4, 1.0),
    ],
)
def test_another_kind_of_product_is_worth_half(
    query: str, category: str, n_nouns: int, kind: float
) -> None:
    other = _product(title="Other", query=query, product_category=category)
    nouns = {"Acme Canvas Tote": ["tote", *"abcdefghi"[: n_nouns - 1]], "Other": ["tote"]}
    bought = _buy(_goal(), RIGHT, other, nouns=nouns)
    assert bought.info["title_score"] == pytest.approx(1 / n_nouns)
    assert bought.info["r_type"] == kind


def test_a_repeated_noun_makes_even_the_goal_product_score_below_one() -> None:
    bought = _buy(_goal(), RIGHT, nouns={"Acme Canvas Tote": ["tote", "bag", "tote"]})
    assert bought.info["title_score"] == pytest.approx(2 / 3)
    assert bought.success


@pytest.mark.parametrize(
    ("value", "colour"),
    [
        ("red", "red"),
        ("rose gold", "gold"),
        ("navy blue", "blue"),
        ("dark green", "dark"),
        ("rust | brown", "brown"),
        ("standard", "tan"),
        ("x-large", "x-large"),
        ("", ""),
    ],
)
def test_the_first_colour_of_the_list_stands_for_a_value(value: str, colour: str) -> None:
    assert normalise_colour(value) == colour


def test_the_colours_are_102_words_in_order() -> None:
    assert len(COLOURS) == 102
    assert sorted(COLOURS) == COLOURS


@pytest.mark.parametrize(
    ("wanted", "chosen", "matches"),
    [
        ("navy blue", "blue", True),
        ("dark green", "dark red", True),
        ("red", "dark red", False),
        ("large", "x-large", True),
        ("x-large", "large", True),
        ("small", "large", False),
        ("2 pack", "3 pack", False),
        (("color", "dark red"), "red", True),
        (("color", "red"), "dark red", False),
        (("color", "navy blue"), "sky blue", True),
        (("size", "x-large"), "large", True),
        (("size", "large"), "x-large", False),
        (("size", "large"), "small", False),
        (("color", "rust | brown"), "brown", True),
    ],
)
def test_options_match_as_values_or_as_printed_pairs(
    wanted: Any, chosen: str, matches: bool
) -> None:
    bought = _buy(_goal(options=(wanted,)), {"anything": chosen})
    assert bought.info["r_option"] == float(matches)


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [
        ("machine wash", "wash machine", 100),
        ("large", "x-large", 100),
        ("Gluten Free!", "gluten free", 100),
        ("café", "caf", 100),
        ("", "red", 0),
        ("-- !", "red", 0),
        ("é", "é", 0),
        ("", "", 0),
        ("ab", "cd", 0),
    ],
)
def test_token_set_ratios(first: str, second: str, ratio: int) -> None:
    assert token_set_ratio(first, second) == token_set_ratio(second, first) == ratio


@given(st.sampled_from(PHRASES), st.sampled_from(PHRASES), st.text(max_size=12))
def test_token_set_ratio_decides_the_same_both_ways(first: str, second: str, text: str) -> None:
    for a, b in ((first, second), (first, text), (first, f"{second} {text}")):
        there, back = token_set_ratio(a, b), token_set_ratio(b, a)
        assert 0 <= there <= 100
        assert (there > MATCH_ABOVE) == (back > MATCH_ABOVE)
    assert token_set_ratio(first, first) == 100
    assert token_set_ratio(text, "") == token_set_ratio("", text) == 0

"""What a generated catalogue is like: varied titles, and siblings that differ in one thing."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.catalogue import RawCatalogue
from prover_cli.envs.webshop.generate import FAMILY, generate, write
from prover_cli.envs.webshop.reward import (
    COLOURS,
    MATCH_ABOVE,
    normalise_colour,
    token_set_ratio,
)
from prover_cli.envs.webshop.vocabulary import DEPARTMENTS, PACKS, SHAPES, TAILS, Department

WRITE = """
import sys
from pathlib import Path
from prover_cli.envs.webshop.generate import generate, write
write(generate(150, 6), Path(sys.argv[1]))
"""

Item = Mapping[str, Any]
THINGS = [noun for d in DEPARTMENTS for leaf in d.leaves for noun in leaf.nouns]


@pytest.fixture(scope="module")
def raw() -> RawCatalogue:
    return generate(1000, 0)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_process_writes_the_same_bytes(tmp_path: Path) -> None:
    write(generate(150, 6), tmp_path / "here")
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", WRITE, str(tmp_path / hash_seed)]
        subprocess.run(command, env=environment, check=True)
        assert _bytes(tmp_path / hash_seed) == _bytes(tmp_path / "here")


@pytest.mark.parametrize("n_products", [1, 4, 5, 203])
def test_any_number_of_products_is_whole(n_products: int) -> None:
    raw = generate(n_products, 2)
    asins = [item["asin"] for item in raw.items]
    assert len(set(asins)) == n_products
    assert set(raw.attributes) == set(asins) >= set(raw.human)
    assert all(re.fullmatch("B[0-9A-Z]{9}", asin) for asin in asins)
    assert set(raw.nouns) == {item["name"] for item in raw.items}


def _shape(title: str) -> str:
    """A title with its runs of words reduced to one mark."""
    return re.sub(r"\w[\w ]*", "w", title)


def test_titles_are_varied_and_not_much_longer_than_needed(raw: RawCatalogue) -> None:
    titles = [item["name"] for item in raw.items]
    assert len(set(titles)) > 0.97 * len(titles)
    assert len(SHAPES) >= 8
    punctuations = Counter(map(_shape, titles))
    assert sum(n > len(titles) / 30 for n in punctuations.values()) >= 8
    brandless = [title for title in titles if not _brands(raw, title)]
    assert len(titles) / 20 < len(brandless) < len(titles) / 3
    assert sum(map(len, titles)) / len(titles) < 75


def _brands(raw: RawCatalogue, title: str) -> list[str]:
    """The nouns of the title that the vocabulary has nowhere else."""
    known = {noun for _, nouns in (*TAILS, *PACKS) for noun in nouns}
    known |= {word for thing in THINGS for word in thing.split()}
    return [noun for noun in raw.nouns[title] if noun not in known]


def test_nouns_are_words_of_the_title_in_order(raw: RawCatalogue) -> None:
    for title, nouns in raw.nouns.items():
        words = iter(re.findall(r"\w+", title.lower()))
        assert nouns
        assert all(noun in words for noun in nouns), (title, nouns)


def test_the_thing_sold_is_among_the_nouns(raw: RawCatalogue) -> None:
    for item in raw.items:
        assert _thing(raw, item) in item["name"].lower()


def _thing(raw: RawCatalogue, item: Item) -> str:
    nouns = f" {' '.join(raw.nouns[item['name']])} "
    (thing,) = (thing for thing in THINGS if f" {thing} " in nouns)
    return thing


def _differences(raw: RawCatalogue, one: Item, other: Item) -> list[str]:
    """What of that a purchase is scored by differs between two products."""
    names = ["product_category", "category", "query", "pricing"]
    found = [name for name in names if one[name] != other[name]]
    if _thing(raw, one) != _thing(raw, other):
        found.append("thing")
    first, second = (set(raw.attributes[item["asin"]]["attributes"]) for item in (one, other))
    found += ["attribute"] * max(len(first - second), len(second - first))
    options, others = one["customization_options"], other["customization_options"]
    assert list(options) == list(others)
    return found + [name for name in options if options[name] != others[name]]


@pytest.mark.parametrize("seed", range(30))
def test_each_sibling_differs_from_one_product_in_exactly_one_thing(seed: int) -> None:
    raw = generate(FAMILY, seed)
    items = list(raw.items)
    changes = ["pricing", "attribute", *items[0]["customization_options"]]
    assert len(changes) == FAMILY - 1
    found = [
        sorted(_differences(raw, base, item) for item in items if item is not base)
        for base in items
    ]
    assert sorted([change] for change in changes) in found


@pytest.mark.parametrize("seed", range(10))
def test_the_dear_sibling_is_beyond_every_limit_of_the_others(seed: int) -> None:
    env = WebShopEnvironment(products=FAMILY, catalogue_seed=seed, goals="synthetic")
    prices = {product.asin: env.shop.price(product.asin) for product in env.shop.catalogue}
    dear = max(prices, key=lambda asin: prices[asin])
    goals = [goal for goal in env.shop.goals if goal.asin != dear]
    assert goals and all(goal.upper < prices[dear] for goal in goals)


def test_an_attribute_shows_exactly_where_a_product_has_it(raw: RawCatalogue) -> None:
    departments = {d.category: d for d in DEPARTMENTS}
    for item in raw.items:
        own = raw.attributes[item["asin"]]["attributes"]
        texts = [item["name"], " ".join(item["small_description"]), item["full_description"]]
        shown = " | ".join(texts).lower()
        for attribute in departments[item["category"]].attributes:
            assert (attribute in shown) == (attribute in own), (attribute, item)


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.combinations(words, 2))


@pytest.mark.parametrize("department", DEPARTMENTS, ids=lambda d: d.category)
def test_the_reward_tells_attributes_and_option_values_apart(department: Department) -> None:
    for pair in _pairs(department.attributes):
        assert token_set_ratio(*pair) <= MATCH_ABOVE, pair
    values = [(n, v.replace("/", " | ").lower()) for n, vs in department.options for v in vs]
    for one, other in _pairs([normalise_colour(value) for _, value in values]):
        assert token_set_ratio(one, other) <= MATCH_ABOVE, (one, other)
    for pair in values:
        as_text = next((colour for colour in COLOURS if colour in pair), str(pair))
        assert token_set_ratio(normalise_colour(pair[1]), as_text) > MATCH_ABOVE, pair


def test_prices_are_missing_or_ranges_as_often_as_in_real_listings() -> None:
    pricing = [item["pricing"] for item in generate(4000, 1).items]
    missing, ranges = pricing.count(""), sum(" - " in text for text in pricing)
    assert missing / len(pricing) == pytest.approx(0.12, abs=0.04)
    assert ranges / len(pricing) == pytest.approx(0.2, abs=0.05)


def test_every_option_value_can_be_clicked() -> None:
    env = WebShopEnvironment(products=300)
    task = env.tasks("all")[0]
    for product in env.shop.catalogue:
        page = {"kind": "item", "asin": product.asin}
        session = env.restore(task, json.dumps(page).encode())
        for name, values in product.options.items():
            for value in values:
                assert session.step(f"click[{value}]").valid
                assert session.state.options[name] == value


def test_option_values_are_as_untidy_as_real_ones(raw: RawCatalogue) -> None:
    values = {
        content["value"]
        for item in raw.items
        for contents in item["customization_options"].values()
        for content in contents
    }
    assert not any(set(value) & set("[]") for value in values)
    assert sum("/" in value for value in values) >= 5
    assert sum(not value.isascii() for value in values) >= 5
    assert sum(value != value.lower() for value in values) > len(values) / 2


def test_some_human_goals_ask_for_nothing(raw: RawCatalogue) -> None:
    entries = [entry for entries in raw.human.values() for entry in entries]
    empty = sum(not entry["instruction_attributes"] for entry in entries)
    assert empty / len(entries) == pytest.approx(0.05, abs=0.03)

"""The shop against recordings of the official engine on the same catalogue."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.webshop import WebShopEnvironment, goals, world
from prover_cli.envs.webshop.pages import PageState
from prover_cli.envs.webshop.session import WebShopSession

pytestmark = pytest.mark.reference

MODES = ("human", "synthetic")


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(reference: Path, mode: str) -> Any:
    return json.loads((reference / "reference_traces.json").read_bytes())[mode]


@pytest.fixture(scope="module")
def shop(reference: Path, mode: str) -> world.Shop:
    return WebShopEnvironment(data=str(reference / "catalogue_300"), goals=mode).shop


def test_sizes_are_the_official_ones(shop: world.Shop, recorded: Any) -> None:
    assert len(shop.catalogue) == recorded["n_products"] == 300
    assert len(shop.goals) == recorded["n_goals"]


def test_hidden_prices_are_the_official_ones(shop: world.Shop, recorded: Any) -> None:
    assert len(recorded["prices"]) == 25
    assert {asin: shop.price(asin) for asin in recorded["prices"]} == recorded["prices"]


def test_goals_and_their_order_are_the_official_ones(shop: world.Shop, recorded: Any) -> None:
    assert len(recorded["goals_head"]) == 12
    for index, expected in enumerate(recorded["goals_head"]):
        goal = shop.goals[index]
        product = shop.product(goal.asin)
        wanted = expected["goal_options"]
        pairs = tuple(wanted.items()) if isinstance(wanted, dict) else tuple(wanted)
        assert (goal.asin, goal.text) == (expected["asin"], expected["instruction_text"])
        assert goal.attributes == tuple(expected["attributes"])
        assert sorted(goal.options) == sorted(pairs)
        assert goal.upper == expected["price_upper"]
        assert shop.goals.weight(index) == pytest.approx(expected["weight"], abs=1e-12)
        for name, value in (
            ("category", product.category),
            ("query", product.query),
            ("name", product.title),
            ("product_category", product.product_category),
        ):
            assert value == expected[name]


def test_every_recorded_purchase_scores_the_same(shop: world.Shop, recorded: Any) -> None:
    assert len(recorded["reward_table"]) == 200
    parts = ("title_score", "r_type", "r_att", "r_option", "r_price")
    for row in recorded["reward_table"]:
        bought = shop.purchase(shop.goals[row["goal"]], row["asin"], row["options"])
        assert shop.price(row["asin"]) == row["price"]
        assert bought.reward == pytest.approx(row["reward"], abs=1e-12), row
        for part in parts:
            known = bought.info.get(part)
            assert known == pytest.approx(row[part], abs=1e-12), (part, row)


def test_every_recorded_step_shows_the_same_page(shop: world.Shop, recorded: Any) -> None:
    n_steps = 0
    for episode in recorded["episodes"]:
        goal = shop.goals[episode["goal"]]
        plain = WebShopSession(shop, goal, False, False, PageState())
        rich = WebShopSession(shop, goal, True, False, PageState())
        for step in episode["steps"]:
            where = (episode["goal"], step["action"])
            n_steps += 1
            if step["action"] is not None:
                result, marked = plain.step(step["action"]), rich.step(step["action"])
                assert result.reward == pytest.approx(step["reward"], abs=1e-12), where
                assert result.done == step["done"], where
                assert marked.observation.text == step["rich"], where
            assert plain.observe().text == step["obs"], where
            assert list(plain.page.clickables()) == step["avail"]["clickables"], where
    assert n_steps == 149


def test_every_recorded_episode_ends_with_the_same_parts(shop: world.Shop, recorded: Any) -> None:
    assert len(recorded["episodes"]) == 12
    for episode in recorded["episodes"]:
        goal = shop.goals[episode["goal"]]
        bought = shop.purchase(goal, episode["bought"], episode["options"])
        assert shop.price(episode["bought"]) == episode["price"]
        assert set(bought.info) == set(episode["info"])
        for part, value in episode["info"].items():
            assert bought.info[part] == pytest.approx(value, abs=1e-12), part


def _likeness_of_neighbours(texts: list[str]) -> float:
    words = [set(text.split()) for text in texts]
    alike = (len(a & b) / len(a | b) for a, b in itertools.pairwise(words))
    return sum(alike) / len(texts)


def test_undoing_the_shuffle_brings_goals_of_a_product_together(reference: Path) -> None:
    """The published list is in shuffled order; in file order a product's goals are neighbours."""
    published = json.loads((reference / "human_goals.json").read_bytes())
    assert len(published) == 12_087
    in_file_order = [""] * len(published)
    for text, place in zip(published, goals.shuffled_order(len(published)), strict=True):
        in_file_order[place] = text
    shuffled = random.Random(0).sample(published, len(published))
    by_chance = _likeness_of_neighbours(shuffled)
    assert _likeness_of_neighbours(published) < 1.05 * by_chance
    assert _likeness_of_neighbours(in_file_order) > 1.4 * by_chance

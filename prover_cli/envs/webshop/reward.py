"""WebShop's reward of a purchase, in [0, 1]; 1 is success.

    reward = r_type * (matched attributes + matched options + price ok) / (all of them)

`r_type` compares what kind of thing was bought: by query, category levels and the nouns of the
titles. Attributes and options match fuzzily (token set ratio above 85).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from prover_cli.envs.webshop.catalogue import Product
from prover_cli.envs.webshop.goals import Goal

MATCH_ABOVE = 85

# In this order: the first colour contained in a value stands for it.
COLOURS = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown "
    "burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee "
    "cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia "
    "gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender "
    "lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor "
    "mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red "
    "rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower "
    "tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
).split()


@dataclass(frozen=True)
class Purchase:
    """The reward of a purchase and what it is made of (shares of the goal's requirements)."""

    reward: float
    info: Mapping[str, Any]

    @property
    def success(self) -> bool:
        return self.reward == 1.0


def score(
    goal: Goal,
    wanted: Product,
    bought: Product,
    price: float,
    options: Mapping[str, str],
    nouns: Mapping[str, Sequence[str]],
) -> Purchase:
    """The reward of buying `bought` at its hidden `price` with the chosen `options`.

    `wanted` is the goal's product and `nouns` the nouns of both titles.
    """
    kind, info = _type_score(wanted, bought, nouns)
    n_attributes = sum(_has_attribute(bought, attribute) for attribute in goal.attributes)
    n_options = _matched_options(goal.options, list(options.values()))
    affordable = price <= goal.upper
    total = len(goal.attributes) + len(goal.options) + 1
    info |= {
        "r_att": n_attributes / len(goal.attributes),
        "r_price": affordable,
        "w_att": len(goal.attributes) / total,
        "w_option": len(goal.options) / total,
        "w_price": 1 / total,
    }
    if goal.options:
        info["r_option"] = n_options / len(goal.options)
    return Purchase(kind * (n_attributes + n_options + affordable) / total, info)


def _type_score(
    wanted: Product, bought: Product, nouns: Mapping[str, Sequence[str]]
) -> tuple[float, dict[str, Any]]:
    goal_nouns = nouns[wanted.title]
    common = set(nouns[bought.title]) & set(goal_nouns)
    title_score = len(common) / len(goal_nouns) if goal_nouns else 0.2
    query_match = bought.query == wanted.query
    category_match = len(bought.levels & wanted.levels) >= 2
    kind = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    # A title without common nouns overrides a match of query or category.
    if title_score < 0.1:
        kind = 0.1
    if title_score == 0.0:
        kind = 0.0
    info = {
        "r_type": kind,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }
    return kind, info


def _has_attribute(product: Product, attribute: str) -> bool:
    if any(token_set_ratio(own, attribute) > MATCH_ABOVE for own in product.attributes):
        return True
    return any(attribute in text for text in product.lower_texts)


def _matched_options(wanted: Sequence[Any], chosen: Sequence[str]) -> int:
    values = [normalise_colour(value) for value in chosen]
    return sum(
        any(token_set_ratio(value, goal) > MATCH_ABOVE for value in values)
        for goal in map(_option_text, wanted)
    )


def _option_text(option: Any) -> str:
    """What a goal option is compared as.

    A value with its colour reduced; a pair of name and value as it prints, unless a part of it is
    exactly a colour word.
    """
    if isinstance(option, str):
        return normalise_colour(option)
    pair = tuple(option)
    return next((colour for colour in COLOURS if colour in pair), str(pair))


def normalise_colour(value: str) -> str:
    """The first colour word contained in a value, or the value."""
    return next((colour for colour in COLOURS if colour in value), value)


@lru_cache(maxsize=1 << 16)
def token_set_ratio(first: str, second: str) -> int:
    """Similarity in 0..100 of two texts as sets of words."""
    a, b = _words(first), _words(second)
    if not a or not b:
        return 0
    common = " ".join(sorted(a & b))
    both_a = f"{common} {' '.join(sorted(a - b))}".strip()
    both_b = f"{common} {' '.join(sorted(b - a))}".strip()
    pairs = ((common, both_a), (common, both_b), (both_a, both_b))
    return round(100 * max(_ratio(x, y) for x, y in pairs))


def _words(text: str) -> set[str]:
    plain = re.sub(r"[\u0080-\u00ff]", "", text)
    return set(re.sub(r"\W", " ", plain).lower().split())


def _ratio(first: str, second: str) -> float:
    if not first or not second:
        return 0.0
    return SequenceMatcher(None, first, second).ratio()

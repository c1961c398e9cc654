"""Shopping goals: what the instruction asks for and what a purchase is scored against."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from prover_cli.envs.webshop.catalogue import Product, RawCatalogue

NO_LIMIT = 1_000_000.0
SHUFFLE_SEED = 233
_LIMITS = tuple(float(10 * i) for i in range(1, 100))


@dataclass(frozen=True)
class Goal:
    """`options` are values alone (human goals) or pairs of name and value (synthetic goals)."""

    asin: str
    text: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    upper: float
    """The price limit; `NO_LIMIT` when the instruction names none."""
    weight: float = 1.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def make(
    mode: str,
    raw: RawCatalogue,
    catalogue: Sequence[Product],
    prices: Mapping[str, float],
    generator: random.Random,
) -> list[Goal]:
    """All goals in WebShop's order: drawn in product order, then shuffled with the seed 233.

    `mode` is human or synthetic. `generator` must be the one the hidden prices were drawn from.
    """
    drawn = _human if mode == "human" else _synthetic
    goals = list(drawn(raw, catalogue, prices, generator))
    if mode == "synthetic":
        goals = _weigh(goals)
    random.Random(SHUFFLE_SEED).shuffle(goals)
    return goals


def _limit(price: float, generator: random.Random) -> tuple[float, str]:
    """A price limit above `price` and the words that state it."""
    candidates = [limit for limit in _LIMITS if limit > price][:4]
    if len(candidates) < 2:
        return NO_LIMIT, ""
    upper = max(generator.sample(candidates, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def _human(
    raw: RawCatalogue,
    catalogue: Sequence[Product],
    prices: Mapping[str, float],
    generator: random.Random,
) -> Iterator[Goal]:
    for product in catalogue:
        for entry in raw.human.get(product.asin, ()):
            attributes = tuple(entry["instruction_attributes"])
            if not attributes:
                continue
            upper, words = _limit(prices[product.asin], generator)
            text = entry["instruction"].strip(".") + words
            options = tuple(entry["instruction_options"])
            yield Goal(product.asin, text, attributes, options, upper)


def _synthetic(
    raw: RawCatalogue,
    catalogue: Sequence[Product],
    prices: Mapping[str, float],
    generator: random.Random,
) -> Iterator[Goal]:
    for product in catalogue:
        entry = raw.attributes.get(product.asin, {})
        instruction, attributes = entry.get("instruction"), entry.get("instruction_attributes")
        if not instruction or not attributes:
            continue
        upper, words = _limit(prices[product.asin], generator)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            pairs = tuple(zip(names, values, strict=True))
            listed = ", and ".join(f"{name}: {value}" for name, value in pairs)
            text = instruction + (f" with {listed}" if pairs else "") + words
            yield Goal(product.asin, text, tuple(attributes), pairs, upper)


def _weigh(goals: Sequence[Goal]) -> list[Goal]:
    """Weight each goal by the mean rarity of its attributes among the goals."""
    counts = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [
        replace(goal, weight=sum(1 / counts[a] for a in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]

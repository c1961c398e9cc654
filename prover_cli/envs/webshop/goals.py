"""Shopping goals: what the instruction asks for and what a purchase is scored against."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from prover_cli.envs.webshop.catalogue import Wishes

MODES = ("human", "synthetic")
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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class WishedFor:
    """What goals are made of: a product, its hidden price and what is asked of it."""

    asin: str
    price: float
    options: Mapping[str, tuple[str, ...]]
    wishes: Wishes


def draw(mode: str, products: Iterable[WishedFor], generator: random.Random) -> Iterator[Goal]:
    """All goals in the order in which WebShop makes them, before its shuffle.

    `products` come in catalogue order, and `generator` must be the one the hidden prices were
    drawn from, so that with the same seed the price limits are WebShop's too.
    """
    of_product: Callable[[WishedFor, random.Random], Iterator[Goal]]
    of_product = _human if mode == "human" else _synthetic
    return itertools.chain.from_iterable(of_product(product, generator) for product in products)


def shuffled_order(n_goals: int) -> list[int]:
    """WebShop's order: for each place, the goal that stands there."""
    order = list(range(n_goals))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order


def _limit(price: float, generator: random.Random) -> tuple[float, str]:
    """A price limit above `price` and the words that state it."""
    candidates = [limit for limit in _LIMITS if limit > price][:4]
    if len(candidates) < 2:
        return NO_LIMIT, ""
    upper = max(generator.sample(candidates, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def _human(product: WishedFor, generator: random.Random) -> Iterator[Goal]:
    for request in product.wishes.requests:
        upper, words = _limit(product.price, generator)
        text = request.text.strip(".") + words
        yield Goal(product.asin, text, request.attributes, request.options, upper)


def _synthetic(product: WishedFor, generator: random.Random) -> Iterator[Goal]:
    wishes = product.wishes
    if not wishes.instruction:
        return
    upper, words = _limit(product.price, generator)
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        pairs = tuple(zip(names, values, strict=True))
        listed = ", and ".join(f"{name}: {value}" for name, value in pairs)
        text = wishes.instruction + (f" with {listed}" if pairs else "") + words
        yield Goal(product.asin, text, wishes.attributes, pairs, upper)

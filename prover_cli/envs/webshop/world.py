"""Everything sessions share: products, goals, prices, nouns and the search index; read-only."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.webshop import goals as goal_rules
from prover_cli.envs.webshop.catalogue import Product, RawCatalogue, hidden_prices, products
from prover_cli.envs.webshop.goals import Goal
from prover_cli.envs.webshop.nouns import TitleNouns
from prover_cli.envs.webshop.reward import Purchase, score
from prover_cli.ids import digest

HITS = 50
PAGE_SIZE = 10


@dataclass(frozen=True)
class Shop:
    """A catalogue with hidden prices and goals. Build it with `build`."""

    catalogue: Sequence[Product]
    goals: Sequence[Goal]
    prices: Mapping[str, float]
    nouns: Mapping[str, Sequence[str]]

    @cached_property
    def by_asin(self) -> Mapping[str, Product]:
        return {product.asin: product for product in self.catalogue}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides goals, pages and rewards."""
        parts = [
            [{**asdict(product), "options": dict(product.options)}, self.prices[product.asin]]
            for product in self.catalogue
        ]
        nouns = [list(self.nouns[p.title]) for p in self.catalogue]
        return digest(["webshop", parts, nouns, [goal.as_json() for goal in self.goals]])

    def search(self, keywords: str) -> tuple[Product, ...]:
        """The hits of a search, best first."""
        return self._search(keywords)

    @cached_property
    def _search(self) -> _Search:
        return _Search(self.catalogue)

    def purchase(self, goal: Goal, asin: str, options: Mapping[str, str]) -> Purchase:
        """The reward of a purchase."""
        wanted, bought = self.by_asin[goal.asin], self.by_asin[asin]
        return score(goal, wanted, bought, self.prices[asin], options, self.nouns)


class _Search:
    """A search engine that remembers recent queries."""

    def __init__(self, catalogue: Sequence[Product]) -> None:
        self._catalogue = catalogue
        self._index = BM25Index(product.searched_text for product in catalogue)
        self._cached = lru_cache(maxsize=1 << 14)(self._find)

    def __call__(self, keywords: str) -> tuple[Product, ...]:
        return self._cached(keywords)

    def _find(self, keywords: str) -> tuple[Product, ...]:
        return tuple(self._catalogue[i] for i in self._index.search(keywords, HITS))


def build(raw: RawCatalogue, mode: str, price_seed: int, limit: int | None = None) -> Shop:
    """Apply WebShop's rules to a catalogue. Prices, then price limits, come from `price_seed`."""
    catalogue = products(raw, limit)
    generator = random.Random(price_seed)
    prices = hidden_prices(catalogue, generator)
    goals = goal_rules.make(mode, raw, catalogue, prices, generator)
    return Shop(catalogue, goals, prices, TitleNouns(raw.nouns))

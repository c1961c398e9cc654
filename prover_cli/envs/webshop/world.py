"""Everything sessions share: products, goals, prices, nouns and search; read-only.

It lives in the cache, built once for each content, so any number of processes opens it in no time
and has it in memory only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from prover_cli.envs.cache import building, cache_home
from prover_cli.envs.webshop import generate, store, task_file, vocabulary
from prover_cli.envs.webshop.catalogue import Product, RawCatalogue, listings
from prover_cli.envs.webshop.files import Advance, OfficialFiles
from prover_cli.envs.webshop.goals import MODES, Goal
from prover_cli.envs.webshop.nouns import Tagger
from prover_cli.envs.webshop.reward import Purchase, score
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.envs.webshop.task_file import TaskFile
from prover_cli.errors import UsageError
from prover_cli.ids import digest, file_hash

HITS = 50
PAGE_SIZE = 10
SEARCH = "BM25 exactly as Lucene's (k1 0.9, b 0.4)"
LARGE = 256 * 2**20
"""Bytes of official files above which the user prepares them with a command of its own."""


class Shop:
    """A catalogue with hidden prices and goals."""

    def __init__(self, catalogue: Catalogue, tasks: TaskFile, tagger: Tagger) -> None:
        self.catalogue = catalogue
        self.goals = tasks
        self._tagger = tagger
        self._search = lru_cache(maxsize=1 << 14)(self._find)

    def product(self, asin: str) -> Product:
        return self.catalogue.find(asin)

    def price(self, asin: str) -> float:
        """The hidden price that a purchase is scored with."""
        return float(self.goals.prices[self.catalogue.place(asin)])

    def nouns(self, product: Product) -> Sequence[str]:
        """The nouns of a product's title."""
        return self._tagger.nouns(product.title) if product.nouns is None else product.nouns

    def search(self, keywords: str) -> tuple[int, ...]:
        """Places in the catalogue of the hits of a search, best first."""
        return self._search(keywords)

    def _find(self, keywords: str) -> tuple[int, ...]:
        return tuple(self.catalogue.search_index.search(keywords, HITS))

    def purchase(self, goal: Goal, asin: str, options: Mapping[str, str]) -> Purchase:
        """The reward of a purchase."""
        wanted, bought = self.product(goal.asin), self.product(asin)
        nouns = {product.title: self.nouns(product) for product in (wanted, bought)}
        return score(goal, wanted, bought, self.price(asin), options, nouns)


def generated(n_products: int, seed: int) -> Catalogue:
    """The generated catalogue of that size and seed."""
    makers = [file_hash(Path(str(module.__file__))) for module in (generate, vocabulary)]
    key = digest([store.LAYOUT, makers, n_products, seed])
    return _catalogue(key, lambda: generate.generate(n_products, seed), None)


def official(folder: Path, limit: int | None, advance: Advance | None = None) -> Catalogue:
    """The catalogue of official files, the first `limit` raw entries of it.

    `advance` is told about the bytes read; without it, large files that nobody has prepared yet are
    refused with a `UsageError`.
    """
    files = OfficialFiles.find(folder)
    key = digest([store.LAYOUT, files.hashes(), limit])
    if advance is None and files.n_bytes() > LARGE and not _folder(key).is_dir():
        raise UsageError(
            f"{folder} holds {files.n_bytes() / 1e9:.1f} GB of WebShop data that must be prepared "
            "once",
            hint=f"prover tasks prepare webshop --data {folder}",
        )
    return _catalogue(key, lambda: files.read(advance or (lambda n_bytes: None)), limit)


def _folder(key: str) -> Path:
    return cache_home() / "webshop" / key


def _catalogue(key: str, read: Callable[[], RawCatalogue], limit: int | None) -> Catalogue:
    folder = _folder(key)
    if not folder.is_dir():
        with building(folder) as private:
            raw, skipped = read(), Counter[str]()
            store.write(private, raw.source, listings(raw, limit, skipped), skipped)
    return Catalogue(folder)


def tasks(catalogue: Catalogue, mode: str, price_seed: int) -> TaskFile:
    """Prices, then price limits, come from `price_seed`; see `task_file`."""
    if mode not in MODES or not isinstance(price_seed, int):
        raise UsageError(
            f"goals are {' or '.join(MODES)} with a whole number as price_seed, "
            f"not {mode!r} with {price_seed!r}"
        )
    folder = catalogue.folder / f"tasks-{mode}-{price_seed}"
    if not folder.is_dir():
        with building(folder) as private:
            task_file.write(private, catalogue, mode, price_seed)
    return TaskFile(folder, catalogue)

"""A catalogue in files that open at once and are shared by every process that reads them.

A folder holds the products (an Arrow file), where to find each asin, the search index, and
`catalogue.json`, which says what belongs together. It is written once, product by product, so the
memory it takes does not depend on the size of the texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.bm25_build import IndexBuilder
from prover_cli.envs.cache import check, mapped_array
from prover_cli.envs.rows import Rows, RowWriter
from prover_cli.envs.webshop.catalogue import Listing, Product, Request, Wishes
from prover_cli.envs.webshop.goals import WishedFor
from prover_cli.errors import UsageError

LAYOUT = 1
"""Raise it when the files, or the rules that make their content, change."""
PRODUCTS, SUMMARY, INDEX = "products.arrow", "catalogue.json", "index"
REMEMBERED = 1 << 14
"""Products kept as objects after they were read."""

_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("asin", "title", "description")),
        pa.field("bullets", _TEXTS),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("options", pa.string()),
        pa.field("attributes", _TEXTS),
        *(pa.field(name, pa.string()) for name in ("category", "query", "product_category")),
        pa.field("nouns", _TEXTS),
        pa.field("wishes", pa.string()),
    ]
)


def write(folder: Path, source: str, rows: Iterable[Listing], skipped: Counter[str]) -> None:
    """Write a catalogue into an empty folder. `skipped` is read at the end."""
    (folder / INDEX).mkdir()
    index = IndexBuilder(folder / INDEX)
    asins: list[str] = []
    untagged = 0
    with RowWriter(folder / PRODUCTS, _SCHEMA) as writer:
        for listing in rows:
            writer.add(_as_row(listing))
            index.add(listing.product.searched_text)
            asins.append(listing.product.asin)
            untagged += listing.product.nouns is None
    if not asins:
        raise UsageError(f"{source} has no products")
    index.finish()
    _write_places(folder, asins)
    summary = {
        "layout": LAYOUT,
        "source": source,
        "hash": writer.content_hash,
        "n_products": len(asins),
        "n_titles_without_nouns": untagged,
        "skipped": dict(sorted(skipped.items())),
    }
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    (folder / SUMMARY).write_text(text, encoding="utf-8")


def _write_places(folder: Path, asins: Sequence[str]) -> None:
    names = np.array(asins, dtype="U10")
    order = np.argsort(names, kind="stable")
    np.save(folder / "asins.npy", names[order])
    np.save(folder / "places.npy", order.astype(np.int32))


def _as_row(listing: Listing) -> dict[str, Any]:
    product, wishes = listing.product, listing.wishes
    low, high = (*product.prices, None)[:2]
    asked = bool(wishes.instruction or wishes.requests)
    return {
        "asin": product.asin,
        "title": product.title,
        "description": product.description,
        "bullets": list(product.bullets),
        "low": low,
        "high": high,
        "options": _json([[name, list(values)] for name, values in product.options.items()]),
        "attributes": list(product.attributes),
        "category": product.category,
        "query": product.query,
        "product_category": product.product_category,
        "nouns": None if product.nouns is None else list(product.nouns),
        "wishes": _json(_wishes_as_json(wishes)) if asked else None,
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _wishes_as_json(wishes: Wishes) -> list[Any]:
    requests = [[r.text, list(r.attributes), list(r.options)] for r in wishes.requests]
    return [wishes.instruction, list(wishes.attributes), requests]


def _wishes(text: str) -> Wishes:
    instruction, attributes, requests = json.loads(text)
    return Wishes(
        instruction,
        tuple(attributes),
        tuple(Request(words, tuple(a), tuple(o)) for words, a, o in requests),
    )


def _options(text: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, values in json.loads(text)}


class Catalogue(Sequence[Product]):
    """The products of a folder, read when asked for.

    Raises `UsageError` for a folder that is damaged or whose parts do not belong together.
    """

    def __init__(self, folder: Path) -> None:
        check(folder)
        self.folder = folder
        self.summary: Mapping[str, Any] = json.loads((folder / SUMMARY).read_bytes())
        self._rows = Rows(folder / PRODUCTS)
        self._asins: NDArray[np.str_] = mapped_array(folder / "asins.npy")
        self._places: NDArray[np.int32] = mapped_array(folder / "places.npy")
        self.search_index = BM25Index.open(folder / INDEX)
        self._read = lru_cache(maxsize=REMEMBERED)(self._product)

    @property
    def hash(self) -> str:
        """Hash of all products and what is asked of them."""
        return str(self.summary["hash"])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._read(i) for i in range(*place.indices(len(self)))]
        return self._read(range(len(self))[place])

    def find(self, asin: str) -> Product:
        """The product of that asin; `KeyError` when there is none."""
        return self._read(self.place(asin))

    def place(self, asin: str) -> int:
        """Where a product stands; `KeyError` when there is none of that asin."""
        found = int(np.searchsorted(self._asins, asin))
        if found == len(self._asins) or self._asins[found] != asin:
            raise KeyError(asin)
        return int(self._places[found])

    def _product(self, place: int) -> Product:
        row = self._rows[place]
        row.pop("wishes")
        low, high = row.pop("low"), row.pop("high")
        for name in ("bullets", "attributes"):
            row[name] = tuple(row[name])
        row["nouns"] = None if row["nouns"] is None else tuple(row["nouns"])
        row["options"] = _options(row["options"])
        return Product(prices=(low,) if high is None else (low, high), **row)

    def price_ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest price of every product; the highest is NaN where there is one."""
        columns = pa.Table.from_batches(self._rows.batches(("low", "high")))
        low, high = (columns[name].to_numpy(zero_copy_only=False) for name in ("low", "high"))
        return low.astype(np.float64), high.astype(np.float64)

    def wished_for(self, prices: NDArray[np.float64]) -> Iterator[WishedFor]:
        """The products that instructions ask for, in catalogue order."""
        start = 0
        for batch in self._rows.batches(("asin", "options", "wishes")):
            asked = pc.indices_nonzero(pc.is_valid(batch["wishes"]))
            for place, row in zip(asked.to_pylist(), batch.take(asked).to_pylist(), strict=True):
                price, options = float(prices[start + place]), _options(row["options"])
                yield WishedFor(row["asin"], price, options, _wishes(row["wishes"]))
            start += batch.num_rows

    def titles_without_nouns(self) -> Iterator[str]:
        """The titles whose nouns did not come with them."""
        for batch in self._rows.batches(("title", "nouns")):
            yield from batch.filter(pc.is_null(batch["nouns"]))["title"].to_pylist()

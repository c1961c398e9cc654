"""Products as WebShop's files describe them, read by WebShop's rules."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prover_cli.errors import UsageError

LEVEL = " › "
NO_PRICE = 100.0
NO_ATTRIBUTES = ("DUMMY_ATTR",)


@dataclass(frozen=True)
class Product:
    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    """One price, or the ends of a range."""
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str
    nouns: tuple[str, ...] | None = None
    """The nouns of the title (lower case, in order, repeats kept), where they came with it."""

    @cached_property
    def price_tag(self) -> str:
        """The price as every page shows it; the hidden price may be another."""
        return " to ".join(f"${number}" for number in self.prices)

    @cached_property
    def levels(self) -> frozenset[str]:
        """The category levels, for the reward's category match."""
        return frozenset(level.strip() for level in self.product_category.split(LEVEL.strip()))

    @cached_property
    def searched_text(self) -> str:
        """The text a search looks through."""
        options = ", and ".join(f"{name}: {', '.join(v)}" for name, v in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()

    @cached_property
    def lower_texts(self) -> tuple[str, str, str]:
        """Title, bullets and description in lower case, where attributes are looked for."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()


@dataclass(frozen=True)
class Request:
    """One person's instruction for a product; `options` are values alone."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Wishes:
    """What instructions ask for a product: the synthetic one, and those of people."""

    instruction: str = ""
    attributes: tuple[str, ...] = ()
    """What the synthetic instruction asks for."""
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True)
class Listing:
    product: Product
    wishes: Wishes


@dataclass(frozen=True)
class RawCatalogue:
    """The content of the official files, as parsed JSON."""

    items: Iterable[Mapping[str, Any]]
    attributes: Mapping[str, Mapping[str, Any]]
    human: Mapping[str, Sequence[Mapping[str, Any]]]
    nouns: Mapping[str, Sequence[str]]
    """Nouns of each title."""
    source: str = "the generated catalogue"


def listings(
    raw: RawCatalogue, limit: int | None = None, skipped: Counter[str] | None = None
) -> Iterator[Listing]:
    """The products in file order; the first `limit` raw entries only.

    Entries without a usable asin and repeats are skipped, and counted by reason in `skipped`.
    Raises `UsageError` for a product that WebShop's rules cannot read.
    """
    seen: set[str] = set()
    counts = Counter[str]() if skipped is None else skipped
    for number, item in enumerate(raw.items):
        if number == limit:
            return
        if not isinstance(item, Mapping):
            raise UsageError(f"{raw.source}: entry {number} is not a product but {item!r:.60}")
        asin = str(item.get("asin") or "nan")
        if reason := _unusable(asin, seen):
            counts[reason] += 1
            continue
        seen.add(asin)
        try:
            known = raw.attributes.get(asin)
            product = _product(asin, item, known, raw.nouns)
            listing = Listing(product, _wishes(known or {}, raw.human.get(asin, ())))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise UsageError(
                f"{raw.source}: product {asin} is not as WebShop's files have it: {what}"
            ) from error
        yield listing


def _unusable(asin: str, seen: set[str]) -> str | None:
    if asin == "nan":
        return "no asin"
    if len(asin) > 10:
        return "asin of more than 10 characters"
    return "asin seen before" if asin in seen else None


def _product(
    asin: str,
    item: Mapping[str, Any],
    known: Mapping[str, Any] | None,
    nouns: Mapping[str, Sequence[str]],
) -> Product:
    title = _text(item["name"])
    bullets = item["small_description"] or []
    tagged = nouns.get(title)
    return Product(
        asin=asin,
        title=title,
        description=_text(item["full_description"] or ""),
        bullets=_texts([bullets] if isinstance(bullets, str) else bullets),
        prices=_prices(item.get("pricing")),
        options=_options(item.get("customization_options") or {}),
        attributes=_texts(known["attributes"]) if known else NO_ATTRIBUTES,
        category=_text(item["category"]),
        query=_text(item["query"]).lower().strip(),
        product_category=_text(item["product_category"]),
        nouns=None if tagged is None else _texts(tagged),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{values!r:.60} is not a list of texts")
    return tuple(_text(value) for value in values)


def _prices(pricing: str | None) -> tuple[float, ...]:
    pieces = [re.sub(r"[^\d.]", "", piece) for piece in _text(pricing or "").split("$")[1:]]
    numbers = tuple(float(piece) for piece in pieces if piece.strip("."))[:2]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{pricing!r:.60} is not a price")
    return numbers or (NO_PRICE,)


def _options(raw: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        name.lower(): tuple(
            content["value"].strip().replace("/", " | ").lower() for content in contents
        )
        for name, contents in raw.items()
        if contents is not None
    }


def _wishes(known: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> Wishes:
    """Instructions that name attributes; WebShop makes no goal of the others."""
    wanted = known.get("instruction_attributes")
    return Wishes(
        _text(known.get("instruction") or "") if wanted else "",
        _texts(wanted or []),
        tuple(
            Request(
                _text(entry["instruction"]),
                _texts(entry["instruction_attributes"]),
                _texts(entry["instruction_options"]),
            )
            for entry in requests
            if entry["instruction_attributes"]
        ),
    )

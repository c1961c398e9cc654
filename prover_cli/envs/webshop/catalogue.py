"""Products as WebShop's files describe them, read by WebShop's rules.

Three files: `items_shuffle*.json` (products), `items_ins_v2*.json` (attributes and synthetic
instructions) and `items_human_ins.json` (human instructions), all optional but the first. A fourth,
`title_nouns.json`, holds the nouns of every title, from which the reward compares titles.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prover_cli.errors import UsageError

LEVEL = " › "
NO_PRICE = 100.0


@dataclass(frozen=True)
class RawCatalogue:
    """The content of the official files, as parsed JSON."""

    items: Sequence[Mapping[str, Any]]
    attributes: Mapping[str, Mapping[str, Any]]
    human: Mapping[str, Sequence[Mapping[str, Any]]]
    nouns: Mapping[str, Sequence[str]]
    """Nouns (lower case, in order, repeats kept) of each title."""
    source: str = "the generated catalogue"


@dataclass(frozen=True)
class Product:
    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    """One price, or the ends of a range."""
    price_tag: str
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str

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


def read(folder: Path) -> RawCatalogue:
    """Read the official files of a folder; `UsageError` names what is missing or broken."""
    items = _load(_only(folder, "items_shuffle*.json", required=True))
    attributes = _load(_only(folder, "items_ins_v2*.json"))
    human = _load(_only(folder, "items_human_ins.json"))
    nouns = _load(_only(folder, "title_nouns.json"))
    if not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
        raise UsageError(f"{folder}/items_shuffle*.json is not a list of products")
    maps = {"items_ins_v2*": attributes, "items_human_ins": human, "title_nouns": nouns}
    for name, content in maps.items():
        if not isinstance(content, dict | None):
            raise UsageError(f"{folder}/{name}.json does not map products to what is known of them")
    return RawCatalogue(items, attributes or {}, human or {}, nouns or {}, str(folder))


def _only(folder: Path, pattern: str, *, required: bool = False) -> Path | None:
    found = sorted(folder.glob(pattern))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"{folder} holds several {pattern}: {names}; keep the one to use")
    if required and not found:
        raise UsageError(
            f"{folder} holds no {pattern}: not a folder of WebShop data",
            hint="prover rollout --env webshop (without --data) uses the generated catalogue",
        )
    return found[0] if found else None


def _load(path: Path | None) -> Any:
    if path is None:
        return None
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from error


def products(raw: RawCatalogue, limit: int | None = None) -> list[Product]:
    """The products in file order; the first `limit` raw entries only.

    Entries without a usable asin (`nan`, longer than 10 characters) and repeats are skipped.
    """
    seen: set[str] = set()
    result: list[Product] = []
    for item in raw.items[:limit]:
        asin = str(item.get("asin", "nan"))
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        try:
            result.append(_product(item, raw.attributes.get(asin)))
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{raw.source}: product {asin} is not as WebShop's files have it: {error!r}"
            ) from error
    return result


def _product(item: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> Product:
    bullets = item["small_description"] or []
    prices, tag = _prices(item.get("pricing"))
    return Product(
        asin=item["asin"],
        title=item["name"],
        description=item["full_description"] or "",
        bullets=(bullets,) if isinstance(bullets, str) else tuple(bullets),
        prices=prices,
        price_tag=tag,
        options=_options(item.get("customization_options") or {}),
        attributes=tuple(annotation["attributes"]) if annotation else ("DUMMY_ATTR",),
        category=item["category"],
        query=item["query"].lower().strip(),
        product_category=item["product_category"],
    )


def _prices(pricing: str | None) -> tuple[tuple[float, ...], str]:
    pieces = [re.sub(r"[^\d.]", "", piece) for piece in (pricing or "").split("$")[1:]]
    numbers = tuple(float(piece) for piece in pieces if piece.strip("."))[:2]
    if not numbers:
        return (NO_PRICE,), f"${NO_PRICE}"
    return numbers, " to ".join(f"${number}" for number in numbers)


def _options(raw: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        name.lower(): tuple(
            content["value"].strip().replace("/", " | ").lower() for content in contents
        )
        for name, contents in raw.items()
        if contents is not None
    }


def hidden_prices(catalogue: Iterable[Product], generator: random.Random) -> dict[str, float]:
    """The price each product is scored with: its own, or one drawn from its range, in order."""
    return {
        product.asin: product.prices[0]
        if len(product.prices) == 1
        else generator.uniform(product.prices[0], product.prices[1])
        for product in catalogue
    }

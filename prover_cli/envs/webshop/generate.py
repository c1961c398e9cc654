"""A seeded catalogue of invented products in the official file formats.

Products come in families of five that a hasty look cannot tell apart: to a first product there is
one that is too dear, one with another attribute, and one for each of two options with other values.
Nothing else that a purchase is scored by differs; brands and the wording of titles vary freely.
Each product has goals of its own, so the right sibling is a different one each time, and the first
search result is often the wrong one. The same seed gives byte-identical files.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prover_cli.envs.webshop.catalogue import LEVEL, NO_PRICE, RawCatalogue
from prover_cli.envs.webshop.vocabulary import (
    ACRONYMS,
    BRAND_ENDS,
    BRAND_STARTS,
    BULLETS,
    DEPARTMENTS,
    DESCRIPTIONS,
    INSTRUCTIONS,
    PACKS,
    SHAPES,
    STYLES,
    TAILS,
    Department,
    Leaf,
)

FAMILY = 5
_ASIN_SYMBOLS = string.digits + string.ascii_uppercase
_UNPRICED_FAMILIES = 0.15
"""The dear sibling has a price all the same, so fewer products are without."""
_RANGED_FAMILIES = 0.2
_BEYOND_LIMITS = 40.0
"""No price limit is further above the price it was made for."""


@dataclass(frozen=True)
class _Draft:
    """What makes up one product before it is written out."""

    name: str
    """Tells it from all other products of all seeds."""
    department: Department
    leaf: Leaf
    noun: str
    attributes: tuple[str, ...]
    """The first two are in the title, the others in the features only."""
    pricing: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    pack: tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Title:
    text: str
    nouns: list[str]
    brand: str


def generate(n_products: int, seed: int) -> RawCatalogue:
    """A catalogue of `n_products` products with instructions of both kinds."""
    generator = random.Random(seed)
    drafts = _drafts(n_products, seed, generator)
    generator.shuffle(drafts)
    items, attributes, human = [], {}, {}
    nouns: dict[str, list[str]] = {}
    asins: set[str] = set()
    for draft in drafts:
        asin = _asin(draft.name)
        while asin in asins:
            asin = _asin(asin)
        asins.add(asin)
        title = _title(draft, generator)
        while title.text in nouns:
            title = _title(draft, generator)
        nouns[title.text] = title.nouns
        items.append(_item(asin, draft, title, generator))
        attributes[asin] = _attribute_entry(draft, generator)
        entries = [
            _human_entry(asin, draft, generator) for _ in range(generator.choice((0, 1, 1, 2)))
        ]
        if entries:
            human[asin] = entries
    return RawCatalogue(items, attributes, human, nouns)


def write(raw: RawCatalogue, folder: Path) -> None:
    """Write a catalogue as the official files (and the nouns of its titles)."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "items_shuffle.json": raw.items,
        "items_ins_v2.json": raw.attributes,
        "items_human_ins.json": raw.human,
        "title_nouns.json": raw.nouns,
    }
    for name, content in contents.items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / name).write_text(text, encoding="utf-8")


def _drafts(n_products: int, seed: int, generator: random.Random) -> list[_Draft]:
    kinds = [(d, leaf, noun) for d in DEPARTMENTS for leaf in d.leaves for noun in leaf.nouns]
    generator.shuffle(kinds)
    drafts: list[_Draft] = []
    while len(drafts) < n_products:
        number = len(drafts) // FAMILY
        drafts += _family(*kinds[number % len(kinds)], f"{seed}/{number}", generator)
    return drafts[:n_products]


def _family(
    department: Department, leaf: Leaf, noun: str, name: str, generator: random.Random
) -> Iterator[_Draft]:
    first, second, third, *hidden = generator.sample(department.attributes, generator.randint(3, 5))
    pricing, dear = _pricings(
        math.exp(generator.gauss(math.log(department.price), 0.6)) + 3, generator
    )
    splits = [(n, *_split_values(values, generator)) for n, values in department.options]
    options = tuple((n, values) for n, values, _ in splits)
    base = _Draft(
        f"{name}/0",
        department,
        leaf,
        noun,
        (first, second, *hidden),
        pricing,
        options,
        generator.choice(PACKS),
    )
    yield base
    yield replace(base, name=f"{name}/1", pricing=dear)
    yield replace(base, name=f"{name}/2", attributes=(first, third, *hidden))
    for i, (option, _, others) in enumerate(splits):
        changed = tuple((n, others if n == option else values) for n, values in options)
        yield replace(base, name=f"{name}/{3 + i}", options=changed)


def _split_values(
    values: Sequence[str], generator: random.Random
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two disjoint choices of values, each of two to four."""
    mixed = generator.sample(values, generator.randint(4, min(8, len(values))))
    half = len(mixed) // 2
    return tuple(mixed[:half]), tuple(mixed[half:])


def _pricings(price: float, generator: random.Random) -> tuple[str, str]:
    """What a family asks, and what its dear sibling does: more than any limit of the others."""
    kind = generator.random()
    unpriced = kind < _UNPRICED_FAMILIES
    base = NO_PRICE if unpriced else price
    dear = base * generator.uniform(2.2, 3.5) + _BEYOND_LIMITS
    if unpriced:
        return "", _dollars(dear)
    if kind < _UNPRICED_FAMILIES + _RANGED_FAMILIES:
        width = generator.uniform(1.05, 1.3)
        return _dollars(base, base * width), _dollars(dear, dear * width)
    return _dollars(base), _dollars(dear)


def _dollars(*prices: float) -> str:
    return " - ".join(f"${price:,.2f}" for price in prices)


def _asin(name: str) -> str:
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    symbols = []
    for _ in range(9):
        number, symbol = divmod(number, len(_ASIN_SYMBOLS))
        symbols.append(_ASIN_SYMBOLS[symbol])
    return "B" + "".join(symbols)


def _title(draft: _Draft, generator: random.Random) -> _Title:
    """A wording of the title, and its nouns in the order in which it has them."""
    shape = generator.choice(SHAPES)
    brand = generator.choice(BRAND_STARTS) + generator.choice(BRAND_ENDS)
    first, second = generator.sample(draft.attributes[:2], 2)
    tail, tail_nouns = generator.choice(TAILS)
    pack, pack_nouns = draft.pack
    texts = {
        "brand": brand,
        "style": generator.choice(STYLES),
        "noun": _headline(draft.noun),
        "first": _headline(first),
        "second": _headline(second),
        "tail": tail,
        "pack": pack,
    }
    nouns = {
        "brand": (brand.lower(),),
        "noun": draft.noun.split(),
        "tail": tail_nouns,
        "pack": pack_nouns,
    }
    parts = (field for _, field, _, _ in string.Formatter().parse(shape) if field)
    return _Title(
        shape.format(**texts), [noun for part in parts for noun in nouns.get(part, ())], brand
    )


def _headline(words: str) -> str:
    return " ".join(w.upper() if w in ACRONYMS else w.capitalize() for w in words.split())


def _item(asin: str, draft: _Draft, title: _Title, generator: random.Random) -> dict[str, Any]:
    bullets = [
        generator.choice(BULLETS).format(attribute=attribute.capitalize(), noun=draft.noun)
        for attribute in draft.attributes
    ]
    generator.shuffle(bullets)
    description = generator.choice(DESCRIPTIONS)
    return {
        "asin": asin,
        "name": title.text,
        "full_description": description.format(noun=draft.noun, brand=title.brand),
        "small_description": bullets,
        "pricing": draft.pricing,
        "images": [f"{asin}.jpg"],
        "product_category": f"{draft.department.title}{LEVEL}{draft.leaf.path}",
        "category": draft.department.category,
        "query": draft.leaf.query,
        "customization_options": {
            name: [{"value": value, "image": None} for value in values]
            for name, values in draft.options
        },
    }


def _attribute_entry(draft: _Draft, generator: random.Random) -> dict[str, Any]:
    wanted = _wanted(draft, generator)
    return {
        "attributes": generator.sample(draft.attributes, len(draft.attributes)),
        "instruction": f"Find me {', '.join(wanted)} {draft.leaf.query}",
        "instruction_attributes": wanted,
    }


def _human_entry(asin: str, draft: _Draft, generator: random.Random) -> dict[str, Any]:
    wanted = _wanted(draft, generator)
    chosen = [
        (name, generator.choice(values).replace("/", " | ").lower())
        for name, values in draft.options
    ]
    instruction = generator.choice(INSTRUCTIONS).format(
        noun=draft.noun,
        attributes=" and ".join(wanted),
        options=", ".join(value for _, value in chosen),
    )
    empty = generator.random() < 0.05
    return {
        "asin": asin,
        "instruction": f"{instruction}.",
        "attributes": list(draft.attributes),
        "options": [f"{name}: {value}" for name, value in chosen],
        "instruction_attributes": [] if empty else wanted,
        "instruction_options": [value for _, value in chosen],
        "assignment_id": "GENERATED",
        "worker_id": "GENERATED",
    }


def _wanted(draft: _Draft, generator: random.Random) -> list[str]:
    """Two attributes to ask for; now and then one that only the features name."""
    shown, hidden = draft.attributes[:2], draft.attributes[2:]
    if hidden and generator.random() < 0.25:
        return [generator.choice(shown), generator.choice(hidden)]
    return generator.sample(shown, 2)

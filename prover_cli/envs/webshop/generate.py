"""A seeded catalogue of invented products in the official file formats.

Products come in families of five that a hasty look cannot tell apart: the same thing with the same
or nearly the same attributes, where one is too dear, one lacks an attribute and two lack
options. Each product has goals of its own, so the right sibling is a different one each time, and
the first search result is often the wrong one. The same seed gives byte-identical files.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover_cli.envs.webshop.catalogue import LEVEL, RawCatalogue
from prover_cli.envs.webshop.vocabulary import (
    BRAND_ENDS,
    BRAND_STARTS,
    DEPARTMENTS,
    INSTRUCTIONS,
    STYLES,
    TAILS,
    Department,
    Leaf,
)

FAMILY = 5


@dataclass(frozen=True)
class _Draft:
    """What makes up one product before it is written out."""

    asin: str
    department: Department
    leaf: Leaf
    noun: str
    brand: str
    attributes: tuple[str, ...]
    """The first two are in the title, the others in the features only."""
    price: float
    options: tuple[tuple[str, tuple[str, ...]], ...]


def generate(n_products: int, seed: int) -> RawCatalogue:
    """A catalogue of `n_products` products with instructions of both kinds."""
    generator = random.Random(seed)
    drafts = _drafts(n_products, seed, generator)
    generator.shuffle(drafts)
    items, attributes, human, nouns = [], {}, {}, {}
    for draft in drafts:
        item = _item(draft, generator)
        items.append(item)
        nouns[item["name"]] = _title_nouns(item["name"], draft)
        attributes[draft.asin] = _attribute_entry(draft, generator)
        entries = [_human_entry(draft, generator) for _ in range(generator.choice((0, 1, 1, 2)))]
        if entries:
            human[draft.asin] = entries
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
    drafts: list[_Draft] = []
    while len(drafts) < n_products:
        number = len(drafts) // FAMILY
        drafts += _family(*kinds[number % len(kinds)], f"{seed}/{number}", generator)
    return drafts[:n_products]


def _family(
    department: Department, leaf: Leaf, noun: str, name: str, generator: random.Random
) -> Iterator[_Draft]:
    first, second, third, *rest = generator.sample(department.attributes, 5)
    price = math.exp(generator.gauss(math.log(department.price), 0.6)) + 3
    options = [_split_values(values, generator) for _, values in department.options]
    names = [option for option, _ in department.options]
    common = tuple((n, values) for n, (values, _) in zip(names, options, strict=True))
    other = tuple((n, values) for n, (_, values) in zip(names, options, strict=True))
    siblings = (
        ((first, second), 1.0, common),
        ((first, second), generator.uniform(2.2, 3.5), common),
        ((first, third), generator.uniform(0.8, 1.1), common),
        ((first, second), generator.uniform(0.8, 1.1), other),
        ((first, second), generator.uniform(0.8, 1.1), common[:1] + other[1:]),
    )
    for i, (pair, factor, values) in enumerate(siblings):
        digits = hashlib.sha256(f"{name}/{i}".encode()).hexdigest()[:9].upper()
        brand = generator.choice(BRAND_STARTS) + generator.choice(BRAND_ENDS)
        shown = pair if generator.random() < 0.5 else pair[::-1]
        extra = tuple(generator.sample(rest, generator.randint(0, len(rest))))
        yield _Draft(
            f"B{digits}", department, leaf, noun, brand, shown + extra, price * factor, values
        )


def _split_values(
    values: Sequence[str], generator: random.Random
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two disjoint choices of values, each of at least two."""
    mixed = generator.sample(values, len(values))
    half = len(mixed) // 2
    return tuple(mixed[:half]), tuple(mixed[half:])


def _title(draft: _Draft, generator: random.Random) -> str:
    style, (tail, _) = generator.choice(STYLES), generator.choice(TAILS)
    shown = " ".join(attribute.title() for attribute in draft.attributes[:2])
    return f"{draft.brand} {style} {draft.noun.title()} {shown}, {tail}"


def _title_nouns(title: str, draft: _Draft) -> list[str]:
    tail = next(nouns for text, nouns in TAILS if title.endswith(text))
    return [draft.brand.lower(), *draft.noun.lower().split(), *tail]


def _item(draft: _Draft, generator: random.Random) -> dict[str, Any]:
    bullets = [f"{a.capitalize()} {draft.noun} for daily use" for a in draft.attributes]
    generator.shuffle(bullets)
    return {
        "asin": draft.asin,
        "name": _title(draft, generator),
        "full_description": f"A {draft.noun} by {draft.brand}." if generator.random() < 0.7 else "",
        "small_description": bullets,
        "pricing": _pricing(draft.price, generator),
        "images": [f"{draft.asin}.jpg"],
        "product_category": f"{draft.department.title}{LEVEL}{draft.leaf.path}",
        "category": draft.department.category,
        "query": draft.leaf.query,
        "customization_options": {
            name: [{"value": value, "image": None} for value in values]
            for name, values in draft.options
        },
    }


def _pricing(price: float, generator: random.Random) -> str:
    kind = generator.random()
    if kind < 0.1:
        return ""
    if kind < 0.25:
        return f"${price:,.2f} - ${price * generator.uniform(1.05, 1.3):,.2f}"
    return f"${price:,.2f}"


def _attribute_entry(draft: _Draft, generator: random.Random) -> dict[str, Any]:
    wanted = _wanted(draft, generator)
    return {
        "attributes": list(draft.attributes),
        "instruction": f"Find me {', '.join(wanted)} {draft.leaf.query}",
        "instruction_attributes": wanted,
    }


def _human_entry(draft: _Draft, generator: random.Random) -> dict[str, Any]:
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
        "asin": draft.asin,
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
    hidden = draft.attributes[2:]
    if hidden and generator.random() < 0.25:
        return [generator.choice(draft.attributes[:2]), generator.choice(hidden)]
    return list(draft.attributes[:2])

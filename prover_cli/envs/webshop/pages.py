"""What a WebShop page says and which buttons it has.

A page is rendered from the dynamic state alone, in two of the official forms: `text` (pieces joined
by [SEP], chosen options invisible) and `text_rich` (one piece a line, buttons marked).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prover_cli.envs.webshop.catalogue import Product
from prover_cli.envs.webshop.world import PAGE_SIZE, Shop

SUB_PAGES = ("description", "features", "reviews", "attributes")


@dataclass
class PageState:
    """Everything that changes in an episode."""

    kind: str = "index"
    """index, results, item, one of SUB_PAGES, or done."""
    keywords: list[str] = field(default_factory=list)
    number: int = 1
    """Page of the results, from 1."""
    asin: str | None = None
    visited: list[str] = field(default_factory=list)
    """Products looked at, in order, each once."""
    options: dict[str, str] = field(default_factory=dict)
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A text on a page; `button` makes it clickable, `option` names the option it is a value of."""

    text: str
    button: bool = False
    option: str | None = None
    product: bool = False


class PageView:
    """One page of a shop for a state. `show_attributes` adds the sub page of that name."""

    def __init__(
        self, shop: Shop, instruction: str, state: PageState, show_attributes: bool
    ) -> None:
        self._shop, self._instruction, self._state = shop, instruction, state
        self._show_attributes = show_attributes

    def hits(self) -> tuple[int, ...]:
        """All hits of the current search, as places in the catalogue."""
        return self._shop.search(" ".join(self._state.keywords))

    def listed(self) -> list[Product]:
        """The products on the current results page."""
        start = (self._state.number - 1) * PAGE_SIZE
        return [self._shop.catalogue[hit] for hit in self.hits()[start : start + PAGE_SIZE]]

    def clickables(self) -> dict[str, str | None]:
        """Lower-cased labels in order, each with the option it sets (None for other buttons)."""
        if self._state.kind == "index":
            return {"search": None}
        buttons = [piece for piece in self.pieces() if piece.button]
        # The reference lists option values after all other buttons, wherever they are shown.
        buttons.sort(key=lambda piece: piece.option is not None)
        return {piece.text.lower(): piece.option for piece in buttons}

    def pieces(self) -> list[Piece]:
        """The page, piece by piece."""
        match self._state.kind:
            case "index":
                return [*self._heading(back=False, title=True), Piece("Search", button=True)]
            case "results":
                return [*self._heading(), *self._results()]
            case "item":
                return [*self._heading(), *self._item(self._product())]
            case "done":
                return list(self._receipt(self._product()))
            case kind:
                texts = self._sub_page(kind, self._product())
                # The reference's template has a blank before each bullet.
                blank = " " if kind == "features" else ""
                pieces = [Piece(blank + text) for text in texts]
                return [*self._heading(), Piece("< Prev", button=True), *pieces]

    def _product(self) -> Product:
        assert self._state.asin is not None
        return self._shop.product(self._state.asin)

    def _heading(self, back: bool = True, title: bool = False) -> Iterator[Piece]:
        if title:
            yield Piece("WebShop")
        # The reference's first page has a blank here that its `text` form strips.
        yield Piece("Instruction: " if title else "Instruction:")
        yield Piece(self._instruction)
        if back:
            yield Piece("Back to Search", button=True)

    def _results(self) -> Iterator[Piece]:
        yield Piece(f"Page {self._state.number} (Total results: {len(self.hits())})")
        if self._state.number > 1:
            yield Piece("< Prev", button=True)
        yield Piece("Next >", button=True)
        for product in self.listed():
            yield Piece(product.asin, button=True, product=True)
            yield Piece(product.title)
            yield Piece(product.price_tag)

    def _item(self, product: Product) -> Iterator[Piece]:
        yield Piece("< Prev", button=True)
        for name, values in product.options.items():
            yield Piece(name)
            for value in values:
                yield Piece(value, button=True, option=name)
        yield Piece(product.title)
        yield Piece(f"Price: {product.price_tag}")
        yield Piece("Rating: N.A.")
        shown = SUB_PAGES if self._show_attributes else SUB_PAGES[:-1]
        for label in (*(name.capitalize() for name in shown), "Buy Now"):
            yield Piece(label, button=True)

    @staticmethod
    def _sub_page(kind: str, product: Product) -> list[str]:
        match kind:
            case "description":
                return [product.description] if product.description else []
            case "features":
                return list(product.bullets)
            case "attributes":
                tail = (product.category, product.query, product.product_category)
                return [*product.attributes, *tail]
            case _:
                return []

    def _receipt(self, product: Product) -> Iterator[Piece]:
        options = json.dumps(self._state.options)
        before = (
            "Thank you for shopping with us!|Your code: |None| (Paste it in your MTurk interface.)"
        )
        unknown = "attrs|None|category|None|query|None|product category|None"
        # The misspelt label is the reference's.
        target = "asin|options|attrs|price upper|instuction text|category|product category|query"
        yield from map(Piece, (*before.split("|"), "Purchased", "asin", product.asin))
        yield from map(Piece, ("options", options, *unknown.split("|"), "Target"))
        yield from map(Piece, (*target.split("|"), "Goal ", "None", "Reward"))
        yield Piece("Your score (min 0.0, max 1.0)")
        yield from map(Piece, (str(self._state.reward), "Reward Details ", "None"))

    def text(self) -> str:
        """The page in the form `text`."""
        return " [SEP] ".join(piece.text.strip() for piece in self.pieces())

    def rich(self) -> str:
        """The page in the form `text_rich`."""
        lines: list[str] = []
        notes: list[str] = []
        for piece in self.pieces():
            if piece.option is not None and self._in_address(piece.text):
                notes.insert(0, f"You have clicked {piece.text}.")
                lines.append(f"  [clicked button] {piece.text} [clicked button_]")
            elif piece.option is not None:
                lines.append(f"  [button] {piece.text} [button_]")
            elif piece.product:
                seen = piece.text in self._state.visited
                mark = "clicked button" if seen else "button"
                lines += ["", f"[{mark}] {piece.text} [{mark}_]"]
            elif piece.button:
                lines.append(f"[button] {piece.text} [button_]")
            else:
                lines.append(piece.text)
        return "\n".join([*notes, *lines]) + "\n"

    def _in_address(self, value: str) -> bool:
        """Whether the reference marks a value as clicked: its quoted text is in the address."""
        state = self._state
        tail = f"{'+'.join(state.keywords)}/{state.number}/{json.dumps(state.options)}"
        return f'"{value}"' in tail

    def structure(self) -> Mapping[str, Any]:
        """The page as plain data, for prompt styles that lay it out themselves."""
        state = self._state
        data: dict[str, Any] = {"kind": state.kind, "instruction": self._instruction}
        if state.kind == "results":
            data |= {"number": state.number, "n_hits": len(self.hits())}
            data["products"] = [
                {"asin": p.asin, "title": p.title, "price": p.price_tag} for p in self.listed()
            ]
        elif state.kind not in ("index", "done"):
            product = self._product()
            data |= {"title": product.title, "price": product.price_tag}
            data |= {"options": dict(product.options), "chosen": dict(state.options)}
            data["texts"] = self._sub_page(state.kind, product)
        return data

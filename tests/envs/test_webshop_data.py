"""Folders of WebShop data that cannot be used are refused with the name of the culprit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.catalogue import Product, RawCatalogue, listings
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A usable folder, to be spoilt."""
    write(generate(20, 0), tmp_path / "shop")
    return tmp_path / "shop"


def _refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        WebShopEnvironment(data=str(folder))
    return caught.value.message


@pytest.mark.parametrize("name", ["empty", "absent"])
def test_a_folder_without_products_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    message = _refusal(tmp_path / name)
    assert str(tmp_path / name) in message and "items_shuffle*.json" in message


@pytest.mark.parametrize(
    "name", ["items_shuffle.json", "items_ins_v2.json", "items_human_ins.json", "title_nouns.json"]
)
@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe{}"])
def test_broken_json_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert str(folder / name) in _refusal(folder)


@pytest.mark.parametrize("name", ["items_shuffle_1000.json", "items_ins_v2_1000.json"])
def test_two_files_of_a_kind_are_both_named(folder: Path, name: str) -> None:
    (folder / name).write_text("[]")
    message = _refusal(folder)
    assert str(folder) in message
    assert name in message and name.replace("_1000", "") in message


def test_products_that_are_no_list_are_refused(folder: Path) -> None:
    (folder / "items_shuffle.json").write_text("{}")
    message = _refusal(folder)
    assert str(folder) in message and "list" in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items_shuffle.json", [{"asin": "B000000000"}]),
        ("items_shuffle.json", ["B000000000"]),
        ("items_human_ins.json", [{"asin": "B000000000"}]),
        ("items_ins_v2.json", ["gluten free"]),
    ],
)
def test_json_of_another_shape_is_refused(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content))
    assert str(folder) in _refusal(folder)


def test_data_without_goals_says_what_to_try(folder: Path) -> None:
    (folder / "items_human_ins.json").unlink()
    with pytest.raises(UsageError, match="no human goals") as caught:
        WebShopEnvironment(data=str(folder))
    assert caught.value.hint == "--goals synthetic"
    assert len(WebShopEnvironment(data=str(folder), goals="synthetic").tasks("all")) > 0


def test_only_the_products_file_is_needed_to_read_a_catalogue(folder: Path) -> None:
    (folder / "items_ins_v2.json").unlink()
    (folder / "title_nouns.json").unlink()
    env = WebShopEnvironment(data=str(folder))
    assert env.shop.catalogue[0].attributes == ("DUMMY_ATTR",)
    product = env.shop.catalogue[0]
    assert product.nouns is None


def _products(raw: RawCatalogue, limit: int | None = None) -> list[Product]:
    return [listing.product for listing in listings(raw, limit)]


def _item(asin: str = "B000000001", **changes: object) -> dict[str, object]:
    return {
        "asin": asin,
        "name": "Tote Bag",
        "full_description": None,
        "small_description": "one bullet",
        "pricing": "",
        "category": "fashion",
        "query": " Tote Bags ",
        "product_category": "A › B",
        "customization_options": "",
        **changes,
    }


def test_unusable_and_repeated_entries_are_skipped() -> None:
    entries = [
        _item("nan"),
        _item("B0000000012"),
        _item("B000000001", name="first"),
        _item("B000000001", name="second"),
        _item("B000000002"),
    ]
    kept = _products(RawCatalogue(entries, {}, {}, {}))
    assert [p.asin for p in kept] == ["B000000001", "B000000002"]
    assert kept[0].title == "first"
    assert len(_products(RawCatalogue(entries, {}, {}, {}), 3)) == 1


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
        ("$9.99", (9.99,), "$9.99"),
        ("$319.00", (319.0,), "$319.0"),
        ("$1,299.00", (1299.0,), "$1299.0"),
        ("$9.99 - $20.50", (9.99, 20.5), "$9.99 to $20.5"),
        ("$1.00 - $2.00 - $3.00", (1.0, 2.0), "$1.0 to $2.0"),
    ],
)
def test_prices_are_read_from_tags(
    pricing: str | None, prices: tuple[float, ...], tag: str
) -> None:
    (product,) = _products(RawCatalogue([_item(pricing=pricing)], {}, {}, {}))
    assert (product.prices, product.price_tag) == (prices, tag)


def test_texts_and_options_are_normalised_when_read() -> None:
    values = [{"value": " Rust/Brown ", "image": None}, {"value": "XL", "image": None}]
    options = {"Color": values, "Size": None}
    (product,) = _products(RawCatalogue([_item(customization_options=options)], {}, {}, {}))
    assert product.options == {"color": ("rust | brown", "xl")}
    assert (product.query, product.description) == ("tote bags", "")
    assert product.bullets == ("one bullet",)
    assert product.levels == {"A", "B"}
    assert product.searched_text == "tote bag  one bullet color: rust | brown, xl"

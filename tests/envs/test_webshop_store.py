"""A catalogue opened from the cache is the one that was read; what is damaged is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.webshop import world
from prover_cli.envs.webshop.catalogue import listings
from prover_cli.envs.webshop.generate import generate
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.errors import UsageError
from prover_cli.ids import digest

Raw = dict[str, Any]
"""The content of the four files by short name."""
NAMES = {
    "items": "items_shuffle.json",
    "attributes": "items_ins_v2.json",
    "human": "items_human_ins.json",
    "nouns": "title_nouns.json",
}
FILES = (
    *("catalogue.json", "products.arrow", "asins.npy", "places.npy", "index/terms.arrow"),
    *(f"index/{name}.npy" for name in ("offsets", "documents", "counts", "lengths")),
)
OPEN = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.ids import digest
catalogue = Catalogue(Path(sys.argv[1]))
hits = [catalogue.search_index.search(query, 50) for query in ("table", "red", "zzz")]
print(digest([[asdict(product) for product in catalogue], hits]))
"""


def _raw(n_products: int = 12, seed: int = 0) -> Raw:
    return json.loads(json.dumps(vars(generate(n_products, seed))))  # type: ignore[no-any-return]


def _folder(path: Path, raw: Raw, **layout: Any) -> Path:
    """The official files of a catalogue."""
    path.mkdir()
    for name, file in NAMES.items():
        (path / file).write_text(json.dumps(raw[name], **layout), encoding="utf-8")
    return path


def _first(raw: Raw, name: str) -> Any:
    """An entry of a product that both kinds of instructions ask for."""
    asin = next(a for a, asked in raw["human"].items() if asked[0]["instruction_attributes"])
    if name == "items":
        return next(item for item in raw["items"] if item["asin"] == asin)
    return raw[name][asin]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A catalogue of 30 products, to be spoilt."""
    return Path(shutil.copytree(world.generated(30, 0).folder, tmp_path / "copy"))


def _refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        Catalogue(folder)
    assert str(folder) in caught.value.message
    return caught.value.message


def test_every_field_of_every_product_comes_back() -> None:
    made = [listing.product for listing in listings(generate(60, 5))]
    opened = Catalogue(world.generated(60, 5).folder)
    assert list(opened) == made and len(opened) == 60
    for product, other in zip(opened, made, strict=True):
        assert list(product.options.items()) == list(other.options.items())
        assert vars(product).keys() >= vars(other).keys()
        assert product.searched_text == other.searched_text


def test_another_process_reads_the_same() -> None:
    catalogue = world.generated(60, 5)
    hits = [catalogue.search_index.search(query, 50) for query in ("table", "red", "zzz")]
    command = [sys.executable, "-c", OPEN, str(catalogue.folder)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    expected = digest([[asdict(product) for product in catalogue], hits])
    assert [reader.communicate(timeout=60)[0].strip() for reader in readers] == [expected] * 2


def test_places_slices_and_asins_lead_to_the_same_products() -> None:
    catalogue = world.generated(30, 0)
    products = list(catalogue)
    assert catalogue[-1] == products[-1] and catalogue[-30] == products[0]
    for part in (slice(3), slice(-4, None), slice(None, None, -7), slice(40, 50), slice(5, 2)):
        assert catalogue[part] == products[part]
    for place in (30, -31):
        with pytest.raises(IndexError):
            catalogue[place]
    for place, product in enumerate(products):
        assert catalogue.place(product.asin) == place
        assert catalogue.find(product.asin) == product
    for absent in ("", "A", "B", products[0].asin[:-1], products[0].asin.lower(), "ZZZZZZZZZZ"):
        with pytest.raises(KeyError):
            catalogue.find(absent)


def test_the_hash_is_of_the_content_and_not_of_how_it_is_written(tmp_path: Path) -> None:
    raw = _raw()
    plain = world.official(_folder(tmp_path / "plain", raw), None)
    assert world.official(_folder(tmp_path / "spread", raw, indent=4), None).hash == plain.hash
    ascii_ = _folder(tmp_path / "ascii", raw, ensure_ascii=False, separators=(",", ":"))
    assert world.official(ascii_, None).hash == plain.hash
    turned = {name: dict(reversed(raw[name].items())) for name in ("attributes", "human", "nouns")}
    items = [dict(reversed(item.items())) | {"brand": "unused"} for item in raw["items"]]
    other = world.official(_folder(tmp_path / "turned", turned | {"items": items}), None)
    assert other.hash == plain.hash and list(other) == list(plain)


def _option(item: Raw) -> list[Raw]:
    contents: list[Raw] = next(iter(item["customization_options"].values()))
    return contents


CHANGES: Mapping[str, Callable[[Raw], Any]] = {
    "title": lambda raw: _first(raw, "items").update(name="Another Title"),
    "description": lambda raw: _first(raw, "items").update(full_description="another"),
    "bullet": lambda raw: _first(raw, "items")["small_description"].append(""),
    "price": lambda raw: _first(raw, "items").update(pricing="$1.25"),
    "price range": lambda raw: _first(raw, "items").update(pricing="$1.00 - $1.25"),
    "category": lambda raw: _first(raw, "items").update(category="garden!"),
    "query": lambda raw: _first(raw, "items").update(query="another query"),
    "levels": lambda raw: _first(raw, "items").update(product_category="A › B"),
    "option": lambda raw: _option(_first(raw, "items"))[0].update(value="another"),
    "order of options": lambda raw: _option(_first(raw, "items")).reverse(),
    "attribute": lambda raw: _first(raw, "attributes")["attributes"].append("another"),
    "noun": lambda raw: raw["nouns"][_first(raw, "items")["name"]].append("another"),
    "no nouns": lambda raw: raw["nouns"].clear(),
    "instruction": lambda raw: _first(raw, "attributes").update(instruction="another"),
    "wish": lambda raw: _first(raw, "attributes")["instruction_attributes"].append("another"),
    "human instruction": lambda raw: _first(raw, "human")[0].update(instruction="another"),
    "human wish": lambda raw: _first(raw, "human")[0].update(instruction_attributes=["x"]),
    "human option": lambda raw: _first(raw, "human")[0].update(instruction_options=["x"]),
    "no request": lambda raw: _first(raw, "human").clear(),
    "product": lambda raw: raw["items"].pop(),
    "order": lambda raw: raw["items"].reverse(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_of_the_content_changes_the_hash(tmp_path: Path, what: str) -> None:
    raw = _raw()
    before = world.official(_folder(tmp_path / "before", raw), None)
    CHANGES[what](raw)
    after = world.official(_folder(tmp_path / "after", raw), None)
    assert after.hash != before.hash and after.folder != before.folder


def test_a_changed_file_is_noticed_in_the_same_folder(tmp_path: Path) -> None:
    raw = _raw()
    folder = _folder(tmp_path / "data", raw)
    before = world.official(folder, None)
    assert world.official(folder, None).folder == before.folder
    old, new = raw["items"][0]["name"], raw["items"][0]["name"][::-1]
    text = (folder / NAMES["items"]).read_text()
    (folder / NAMES["items"]).write_text(text.replace(old, new))
    assert world.official(folder, None)[0].title == new != before[0].title


def _mapped(folder: Path) -> dict[str, str]:
    """The files of a folder that this process has mapped, with their permissions."""
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    paths = [(row[1], row[5]) for row in rows if len(row) == 6 and row[5].startswith(str(folder))]
    return {path.removeprefix(f"{folder}/"): rights for rights, path in paths}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists its maps")
def test_files_are_mapped_and_not_written(copy: Path) -> None:
    before = {name: (copy / name).read_bytes() for name in FILES}
    catalogue = Catalogue(copy)
    assert set(_mapped(copy)) >= set(FILES) - {"catalogue.json"}
    assert all("w" not in rights for rights in _mapped(copy).values())
    list(catalogue)
    catalogue.search_index.search("red table", 50)
    assert {name: (copy / name).read_bytes() for name in FILES} == before


def test_opening_is_many_times_faster_than_building(tmp_path: Path) -> None:
    folder, times = _folder(tmp_path / "data", _raw(1000)), []
    for _ in range(4):
        began = time.perf_counter()
        world.official(folder, None)
        times.append(time.perf_counter() - began)
    assert min(times[1:]) < times[0] / 5


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_damaged_catalogue_is_refused_with_its_folder(copy: Path, name: str, damage: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).unlink()
    if damage != "missing":
        (copy / name).write_bytes(content[:-5] if damage == "cut" else b"")
    _refusal(copy)


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"n_products": 30}'])
def test_a_summary_of_another_shape_is_refused_with_its_folder(copy: Path, text: str) -> None:
    (copy / "catalogue.json").write_text(text)
    _refusal(copy)


@pytest.mark.parametrize("size", [30, 31])
@pytest.mark.parametrize("part", ["index", "products.arrow", "asins.npy"])
def test_parts_of_another_catalogue_are_refused(copy: Path, part: str, size: int) -> None:
    """A part of as many products is as wrong as one of more."""
    other = Path(shutil.copytree(world.generated(size, 1).folder, copy.parent / "other"))
    own = copy / part
    shutil.rmtree(own) if own.is_dir() else own.unlink()
    (other / part).rename(own)
    message = _refusal(copy)
    assert part in message and "does not match the rest" in message

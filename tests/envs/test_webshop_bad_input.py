"""Official data of any quality is played as WebShop would, or refused with the culprit's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.webshop import WebShopEnvironment
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.envs.webshop.session import WebShopSession
from prover_cli.errors import UsageError

FILES = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json", "title_nouns.json")
MODES = ("text", "text_rich")
ASIN = "B000000001"
Item = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A usable folder of 12 products, to be spoilt."""
    write(generate(12, 0), tmp_path / "data")
    return tmp_path / "data"


def _refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        WebShopEnvironment(data=str(folder), **options)
    return caught.value.message


def _edit(folder: Path, change: Callable[[list[Item]], object]) -> None:
    """Change the products of a folder."""
    items = json.loads((folder / FILES[0]).read_bytes())
    change(items)
    (folder / FILES[0]).write_text(json.dumps(items))


def _add(folder: Path, *options: str, **changes: Any) -> None:
    """Put a product in front that one person asks for, with the first of its options."""
    values = [{"value": value, "image": None} for value in options]
    item = {
        "asin": ASIN,
        "name": "Quux Kettle",
        "full_description": "",
        "small_description": ["Vegan Leather"],
        "pricing": "$5.00",
        "category": "garden",
        "query": "kettles",
        "product_category": "Home › Kettles",
        "customization_options": {"Color": values} if options else "",
        **changes,
    }
    _edit(folder, lambda items: items.insert(0, item))
    asked = {
        "instruction": "i want a quux kettle.",
        "instruction_attributes": ["vegan leather"],
        "instruction_options": [value.lower() for value in options[:1]],
    }
    human = json.loads((folder / FILES[2]).read_bytes()) | {ASIN: [asked]}
    (folder / FILES[2]).write_text(json.dumps(human))


def _on_the_page(folder: Path, mode: str = "text") -> WebShopSession:
    """A session on the page of the added product."""
    env = WebShopEnvironment(data=str(folder), observation=mode, nouns="words")
    task = next(t for t in env.tasks("all") if t.payload["asin"] == ASIN)
    session = env.start(task, 0)
    assert session.step("search[quux kettle]").valid
    assert session.step(f"click[{ASIN.lower()}]").valid
    return session


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.003, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_is_named(folder: Path, name: str, share: float) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(share * len(content))])
    message = _refusal(folder)
    assert str(folder / name) in message and "download" in message


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.decode().encode("utf-16"),
        lambda content: content.replace(b"e", b"\xff", 1),
        lambda content: content + b"]",
        lambda content: b"null",
        lambda content: b"<html>not found</html>",
    ],
    ids=["bom", "utf-16", "bad utf-8", "more", "null", "html"],
)
def test_a_file_that_is_no_json_of_its_kind_is_named(
    folder: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    assert str(folder / name) in _refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert str(folder / name) in _refusal(folder)


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_an_empty_list_of_products_is_refused(folder: Path, goals: str) -> None:
    (folder / FILES[0]).write_text("[]")
    assert "no " in _refusal(folder, goals=goals)


@pytest.mark.parametrize(
    "field", "name full_description small_description category query product_category".split()
)
def test_a_product_without_a_field_is_named_with_it(folder: Path, field: str) -> None:
    _edit(folder, lambda items: items[3].pop(field))
    message, asin = _refusal(folder), list(generate(12, 0).items)[3]["asin"]
    assert str(folder) in message and asin in message and repr(field) in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", None),
        ("name", 5),
        ("full_description", ["a"]),
        ("small_description", {"a": "b"}),
        ("small_description", ["a", 5]),
        ("small_description", 5),
        ("pricing", 5),
        ("pricing", ["$5"]),
        ("pricing", "$1.2.3"),
        ("pricing", "$" + "9" * 400),
        ("category", None),
        ("query", 5),
        ("product_category", []),
        ("customization_options", ["red"]),
        ("customization_options", {"color": "red"}),
        ("customization_options", {"color": ["red"]}),
        ("customization_options", {"color": [{"value": None}]}),
        ("customization_options", {"color": [{"image": None}]}),
    ],
)
def test_a_product_with_a_field_of_another_type_is_named(
    folder: Path, field: str, value: object
) -> None:
    _edit(folder, lambda items: items[3].update({field: value}))
    message = _refusal(folder)
    assert str(folder) in message and list(generate(12, 0).items)[3]["asin"] in message


@pytest.mark.parametrize("field", ["instruction", "instruction_attributes", "instruction_options"])
def test_a_human_instruction_without_a_field_is_named_with_it(folder: Path, field: str) -> None:
    _add(folder, "red")
    human = json.loads((folder / FILES[2]).read_bytes())
    human[ASIN][0].pop(field)
    (folder / FILES[2]).write_text(json.dumps(human))
    message = _refusal(folder)
    assert ASIN in message and repr(field) in message


@pytest.mark.parametrize("entry", [["red"], {"instruction": "x"}, {"attributes": "red"}, 5, "x"])
def test_an_attribute_entry_of_another_shape_is_named(folder: Path, entry: object) -> None:
    _add(folder)
    attributes = json.loads((folder / FILES[1]).read_bytes()) | {ASIN: entry}
    (folder / FILES[1]).write_text(json.dumps(attributes))
    assert ASIN in _refusal(folder)


def test_unusable_entries_are_counted_by_reason(folder: Path) -> None:
    unusable = [{"asin": "nan"}, {"asin": "B0000000012"}, {}]
    _edit(folder, lambda items: items.extend([*items[:2], *unusable]))
    env = WebShopEnvironment(data=str(folder))
    assert len(env.shop.catalogue) == 12
    for split in ("train", "all"):
        assert env.tasks(split).skipped == {
            "asin seen before": 2,
            "no asin": 2,
            "asin of more than 10 characters": 1,
        }


def test_a_product_without_attributes_is_played_to_its_end(folder: Path) -> None:
    _add(folder, "red")
    session = _on_the_page(folder)
    session.step("click[red]")
    result = session.step("click[buy now]")
    assert result.done and result.success
    env = WebShopEnvironment(data=str(folder), goals="synthetic")
    assert env.shop.product(ASIN).attributes == ("DUMMY_ATTR",)
    assert ASIN not in env.shop.goals.asins()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asin", ["b00lower01", "B 00", "B[0]", "椅子", "ß"])
def test_a_strange_asin_breaks_no_session(folder: Path, mode: str, asin: str) -> None:
    _add(folder, name="Quux Stool", asin=asin)
    env = WebShopEnvironment(data=str(folder), observation=mode)
    session = env.start(env.tasks("all")[0], 0)
    session.step("search[quux stool]")
    for action in (f"click[{asin}]", f"click[{asin.lower()}]", "click[back to search]"):
        assert not session.step(action).done
    assert session.step("search[table]").valid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("value", "label", "marked"),
    [
        ("Plain Red", "plain red", True),
        ("Crème Brûlée", "crème brûlée", False),
        ("椅子", "椅子", False),
        ("Größe Ä", "größe ä", False),
        ("Rust/Brown", "rust | brown", True),
        ('5" wide', '5" wide', False),
        ("a]b", "a]b", True),
        ("back\\slash", "back\\slash", False),
    ],
)
def test_option_values_of_any_letters_are_clicked_and_counted(
    folder: Path, mode: str, value: str, label: str, marked: bool
) -> None:
    _add(folder, value, "another")
    session = _on_the_page(folder, mode)
    before = session.observe()
    assert f"click[{label}]" in (before.admissible or ())
    result = session.step(f"click[{label}]")
    assert result.valid and session.state.options == {"color": label}
    text = result.observation.text
    assert (f"[clicked button] {label} [clicked button_]" in text) == (mode != "text" and marked)
    assert (f"You have clicked {label}." in text) == (mode != "text" and marked)
    if label == value.lower():
        bought = session.step("click[buy now]")
        assert bought.info["r_option"] == 1 and bought.success


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", ["size [xl]", "[x", "two\nlines", ""])
def test_a_value_that_no_action_can_name_is_shown_and_changes_nothing(
    folder: Path, mode: str, value: str
) -> None:
    _add(folder, "red", value)
    session = _on_the_page(folder, mode)
    before, snapshot = session.observe(), session.snapshot()
    assert value in before.text
    result = session.step(f"click[{value}]")
    assert not result.valid and result.observation == before and session.snapshot() == snapshot
    assert session.step("click[red]").valid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bullets", [[], [""], ["", "two"], "", None])
def test_empty_bullets_are_shown_as_they_are(folder: Path, mode: str, bullets: Any) -> None:
    _add(folder, small_description=bullets)
    session = _on_the_page(folder, mode)
    result = session.step("click[features]")
    assert result.valid and result.observation.page["texts"] == list(bullets or [])
    assert session.step("click[< prev]").valid


@pytest.mark.parametrize("mode", MODES)
def test_thousands_of_options_are_offered_and_clicked(folder: Path, mode: str) -> None:
    _add(folder, *map(str, range(3000)))
    session = _on_the_page(folder, mode)
    assert len(session.observe().admissible or ()) > 3000
    assert session.step("click[2999]").valid
    assert session.state.options == {"color": "2999"}


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        ("<r>", "r"),
        ("<a> vegan leather", "vegan leather"),
        ("<c> garden", "c garden"),
        ("<q> kettles", "q kettles"),
    ],
)
def test_special_searches_are_plain_text(folder: Path, query: str, plain: str) -> None:
    """They would tell products by their labels, or at random."""
    _add(folder)
    env = WebShopEnvironment(data=str(folder))
    task = env.tasks("all")[0]
    sessions = [env.start(task, 0) for _ in range(3)]
    one, again, other = (
        session.step(f"search[{words}]")
        for session, words in zip(sessions, (query, query, plain), strict=True)
    )
    assert one.valid and one == again and one.observation == other.observation
    assert one.observation.page["n_hits"] < 12
    assert sessions[0].step("search[quux kettle]").observation.page["n_hits"] > 0
    assert sessions[0].step(f"click[{ASIN.lower()}]").valid

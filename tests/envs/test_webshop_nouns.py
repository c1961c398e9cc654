"""Nouns of titles: tagged once by the model, kept with its version, and never silently replaced."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from prover_cli.envs.webshop import WebShopEnvironment, nouns
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.envs.webshop.nouns import SpacyTagger, WordTagger, choose
from prover_cli.errors import StorageError, UsageError

TITLES = (
    "Acme Canvas Tote Bag for Women, Large",
    "Red Wooden Coffee Table, Easy to Assemble",
    "Crème Brûlée Gift Box - 12 Pack",
    "",
)
TAG = """
import json, sys
from pathlib import Path
from prover_cli.envs.webshop.nouns import SpacyTagger
tagger = SpacyTagger(Path(sys.argv[1]))
print(json.dumps([tagger.nouns(title) for title in sys.argv[2:]]))
"""


@pytest.fixture
def spacy() -> None:
    """Skips where the extra is not installed."""
    pytest.importorskip("spacy", reason="the extra webshop-nlp is not installed")
    pytest.importorskip(nouns.MODEL, reason="the extra webshop-nlp is not installed")


@pytest.fixture
def without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""
    monkeypatch.setattr(nouns, "MODEL", "a_model_that_nobody_has_installed")


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Official data whose titles came without nouns."""
    write(generate(30, 0), tmp_path / "data")
    (tmp_path / "data" / "title_nouns.json").unlink()
    return str(tmp_path / "data")


def _note(environment: WebShopEnvironment) -> str:
    note = environment.tasks("train").note
    assert note is not None
    return note


@pytest.mark.reference
def test_nouns_are_those_of_the_official_tagger(
    spacy: None, reference: Path, tmp_path: Path
) -> None:
    recorded = json.loads((reference / "catalogue_300" / "title_nouns.json").read_bytes())
    tagger = SpacyTagger(tmp_path)
    for title in list(recorded)[::5][:60]:
        assert tagger.nouns(title) == recorded[title], title


def test_nouns_do_not_depend_on_what_is_tagged_together(spacy: None, tmp_path: Path) -> None:
    alone = SpacyTagger(tmp_path / "alone")
    together = SpacyTagger(tmp_path / "together").tag(TITLES)
    assert [list(alone.nouns(title)) for title in TITLES] == together
    assert together[0] and together[-1] == []
    assert all(noun == noun.lower() for found in together for noun in found)


def test_a_title_is_tagged_once(spacy: None, tmp_path: Path) -> None:
    first = SpacyTagger(tmp_path)
    expected = [first.nouns(title) for title in TITLES]
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()
    second = SpacyTagger(tmp_path)
    assert [second.nouns(title) for title in TITLES] == expected
    assert second._model is None
    assert list(second.missing([*TITLES, "new", "new", TITLES[0]])) == ["new"]
    assert file.read_bytes() == before


def test_titles_tagged_in_advance_need_no_model_later(spacy: None, tmp_path: Path) -> None:
    expected = SpacyTagger(tmp_path).tag(TITLES)
    later = SpacyTagger(tmp_path)
    assert [later.nouns(title) for title in TITLES] == expected
    assert later._model is None


def test_nouns_are_kept_under_the_version_of_the_model(spacy: None, tmp_path: Path) -> None:
    tagger = SpacyTagger(tmp_path)
    assert version(nouns.MODEL) in tagger.name and version("spacy") in tagger.name
    (file,) = tmp_path.iterdir()
    assert file.name == f"{tagger.name}.sqlite"


def test_processes_tag_the_same_titles_at_once(spacy: None, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAG, str(tmp_path), *TITLES]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    found = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    later = SpacyTagger(tmp_path)
    assert found == [[later.nouns(title) for title in TITLES]] * 2
    assert later._model is None


def test_a_folder_that_cannot_be_written_is_named(spacy: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageError) as caught:
        SpacyTagger(tmp_path / "file" / "nouns")
    assert str(tmp_path / "file") in caught.value.message
    assert caught.value.hint is not None and "PROVER_CACHE" in caught.value.hint


def test_a_damaged_file_of_nouns_is_named(spacy: None, tmp_path: Path) -> None:
    (tmp_path / f"{SpacyTagger(tmp_path).name}.sqlite").write_bytes(b"no database " * 100)
    with pytest.raises(StorageError) as caught:
        SpacyTagger(tmp_path)
    assert str(tmp_path) in caught.value.message


def test_data_without_nouns_is_tagged_and_says_by_what(spacy: None, data: str) -> None:
    env = WebShopEnvironment(data=data)
    assert env.fingerprint == WebShopEnvironment(data=data, nouns="spacy").fingerprint
    assert version(nouns.MODEL) in env.assets["title nouns"]
    assert "noun" not in _note(env)
    product = env.shop.catalogue[0]
    assert product.nouns is None
    assert set(env.shop.nouns(product)) <= set(WordTagger().nouns(product.title))


def test_words_as_nouns_are_said_aloud_and_are_another_shop(spacy: None, data: str) -> None:
    words, tagged = WebShopEnvironment(data=data, nouns="words"), WebShopEnvironment(data=data)
    assert words.fingerprint != tagged.fingerprint
    assert words.assets["title nouns"] == "all words"
    assert {key for key, value in words.assets.items() if tagged.assets[key] != value} == {
        "title nouns"
    }
    ids = {task.task_id for task in words.tasks("all")}
    assert ids.isdisjoint(task.task_id for task in tagged.tasks("all"))


@pytest.mark.parametrize("split", ["train", "valid", "test", "all"])
def test_every_split_warns_of_words_as_nouns(data: str, split: str) -> None:
    note = WebShopEnvironment(data=data, nouns="words").tasks(split).note
    assert note is not None and "nouns=words" in note and "r_type" in note
    assert nouns.INSTALL in note


def test_every_word_is_a_noun_without_the_tagger(without_model: None, data: str) -> None:
    env = WebShopEnvironment(data=data)
    assert env.assets["title nouns"] == "all words"
    assert "not installed" in _note(env) and nouns.INSTALL in _note(env)
    product = env.shop.catalogue[0]
    assert env.shop.nouns(product) == WordTagger().nouns(product.title)


def test_the_tagger_asked_for_in_vain_is_refused(without_model: None, data: str) -> None:
    with pytest.raises(UsageError, match="not installed") as caught:
        WebShopEnvironment(data=data, nouns="spacy")
    assert caught.value.hint == nouns.INSTALL


def test_nouns_that_came_with_the_titles_are_used_without_a_warning(without_model: None) -> None:
    env = WebShopEnvironment(products=30)
    assert env.assets["title nouns"] == "recorded with the titles"
    assert "noun" not in _note(env)
    for product in env.shop.catalogue:
        assert product.nouns is not None and env.shop.nouns(product) == product.nouns


def test_an_unknown_tagger_is_answered_with_the_known_ones(data: str) -> None:
    with pytest.raises(UsageError, match="auto, spacy or words, not 'nltk'"):
        WebShopEnvironment(data=data, nouns="nltk")


def test_words_are_lower_case_in_order_and_repeats_stay() -> None:
    tagger, warning = choose("words")
    assert warning is not None
    assert tagger.nouns("Oak Desk, oak-Crème 5x8") == ["oak", "desk", "oak", "crème", "5x8"]

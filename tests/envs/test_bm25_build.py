"""An index written in any number of blocks is the index built in memory; a damaged one is named."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover_cli.envs import bm25_build
from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.bm25_build import ARRAYS, MOST_COUNTED, TERMS, IndexBuilder
from prover_cli.errors import UsageError

FILES = (TERMS, *(f"{name}.npy" for name in ARRAYS))
WORDS = ("red", "blue", "oak", "table", "tables", "the", "crème", "椅子", "5x8", "zip", "'")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
DOCUMENTS = ("red oak table", "blue oak chair", "red red zip", "", "the", "crème table")
QUERIES = ("red", "oak table", "red red zip", "unknown", "", "the")
SEARCH = """
import json, sys
from pathlib import Path
from prover_cli.envs.bm25 import BM25Index
index = BM25Index.open(Path(sys.argv[1]))
print(json.dumps([index.scores(query).tolist() for query in sys.argv[2:]]))
"""


@contextmanager
def _blocks_of(words: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_build, "WORDS_PER_BLOCK", words)
        patch.setattr(bm25_build, "WORDS_REMEMBERED", words)
        yield


def _write(folder: Path, documents: Sequence[str]) -> BM25Index:
    folder.mkdir(parents=True, exist_ok=True)
    builder = IndexBuilder(folder)
    for text in documents:
        builder.add(text)
    builder.finish()
    return BM25Index.open(folder)


@settings(max_examples=25)
@given(documents=st.lists(TEXTS, max_size=25), queries=st.lists(TEXTS, min_size=1, max_size=4))
@pytest.mark.parametrize("words", [1, 3, 10, 10**6])
def test_the_index_in_a_folder_is_the_index_in_memory(
    documents: list[str], queries: list[str], words: int
) -> None:
    whole = BM25Index.of(documents)
    with tempfile.TemporaryDirectory() as folder, _blocks_of(words):
        written, in_blocks = _write(Path(folder), documents), BM25Index.of(documents)
        assert sorted(path.name for path in Path(folder).iterdir()) == sorted(FILES)
        for index in (written, in_blocks):
            assert len(index) == len(documents)
            for query in queries:
                np.testing.assert_array_equal(index.scores(query), whole.scores(query))
                assert index.search(query, 5) == whole.search(query, 5)


def test_the_files_do_not_depend_on_the_size_of_blocks(tmp_path: Path) -> None:
    for words in (1, 4, 1000):
        with _blocks_of(words):
            _write(tmp_path / str(words), DOCUMENTS * 5)
    for name in FILES:
        one, *others = ((tmp_path / n / name).read_bytes() for n in ("1", "4", "1000"))
        assert others == [one, one]


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    index = _write(tmp_path / "index", DOCUMENTS)
    command = [sys.executable, "-c", SEARCH, str(tmp_path / "index"), *QUERIES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [index.scores(query).tolist() for query in QUERIES]


@given(
    documents=st.lists(st.lists(st.sampled_from(WORDS[:4]), max_size=3).map(" ".join), max_size=40),
    query=TEXTS,
    k=st.integers(1, 12),
)
def test_ties_at_the_last_place_keep_the_order_of_insertion(
    documents: list[str], query: str, k: int
) -> None:
    index = BM25Index.of(documents)
    scores = index.scores(query)
    best = sorted(range(len(documents)), key=lambda place: (-scores[place], place))
    assert index.search(query, k) == [place for place in best if scores[place] > 0][:k]


@pytest.mark.parametrize("k", [1, 2, 49, 50, 51])
def test_of_many_equal_documents_the_first_are_found(k: int) -> None:
    index = BM25Index.of(["blue"] * 30 + ["red"] * 100 + ["red red"])
    assert index.search("red", k) == [130, *range(30, 130)][:k]


@pytest.mark.parametrize("documents", [[], [""], ["the", "-- !", ""]])
def test_an_index_without_terms_is_written_and_finds_nothing(
    tmp_path: Path, documents: list[str]
) -> None:
    index = _write(tmp_path, documents)
    assert len(index) == len(documents)
    for query in QUERIES:
        assert index.search(query, 10) == []
        assert index.scores(query).tolist() == [0.0] * len(documents)


@pytest.mark.parametrize("times", [MOST_COUNTED, MOST_COUNTED + 1, 70_000])
def test_a_count_above_the_highest_is_the_highest(tmp_path: Path, times: int) -> None:
    builder = IndexBuilder()
    for text in ("red " * times, "red blue"):
        builder.add(text)
    arrays = builder.finish()
    assert arrays.counts.tolist() == [1, MOST_COUNTED, 1]
    assert int(arrays.totals[0]) == times + 2
    assert _write(tmp_path, ["red " * times, "blue"]).search("red", 5) == [0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "another file"])
def test_a_damaged_index_is_refused_with_its_folder(tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "index"
    _write(folder, DOCUMENTS)
    content = (folder / name).read_bytes()
    if damage == "missing":
        (folder / name).unlink()
    else:
        spoilt = {"empty": b"", "cut": content[:-4], "another file": b'{"no": "array"}'}
        (folder / name).write_bytes(spoilt[damage])
    with pytest.raises(UsageError) as caught:
        BM25Index.open(folder)
    assert str(folder) in caught.value.message


@pytest.mark.parametrize("name", [name for name in FILES if name != "totals.npy"])
def test_parts_of_two_indices_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "index"
    _write(folder, DOCUMENTS)
    _write(tmp_path / "other", [*DOCUMENTS, "green oak stool"])
    (tmp_path / "other" / name).rename(folder / name)
    with pytest.raises(UsageError) as caught:
        BM25Index.open(folder)
    assert str(folder) in caught.value.message


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        BM25Index.open(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in caught.value.message


def test_searching_changes_no_file(tmp_path: Path) -> None:
    index = _write(tmp_path, DOCUMENTS)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for query in QUERIES:
        index.search(query, 3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

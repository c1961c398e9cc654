"""A corpus file is read in every packing, stored once, and refused with its line when damaged."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prover_cli.envs.searchqa.retrieval import corpus as corpora
from prover_cli.envs.searchqa.retrieval.bm25 import BM25Retriever
from prover_cli.envs.searchqa.retrieval.documents import document_of, passage_of
from prover_cli.envs.searchqa.types import Passage
from prover_cli.errors import UsageError
from tests.envs.searchqa_retrieval import PASSAGES


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return bytes(sink.getvalue().to_pybytes())


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "jsonl": bytes,
    "jsonl.gz": gzip.compress,
    "jsonl.xz": lzma.compress,
    "jsonl.zst": zstd,
}


def lines(*documents: Any) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def stored(tmp_path: Path, content: bytes, name: str = "corpus.jsonl") -> corpora.Corpus:
    path = tmp_path / name
    path.write_bytes(content)
    return corpora.from_file(path)


@pytest.mark.parametrize("ending", PACKINGS)
def test_every_packing_gives_the_same_corpus(tmp_path: Path, ending: str) -> None:
    plain = lines(*(document_of(passage) for passage in PASSAGES))
    # What is in the file decides, not what it is called.
    corpus = stored(tmp_path, PACKINGS[ending](plain), "corpus.jsonl")
    assert list(corpus) == PASSAGES
    assert corpus.hash == corpora.from_passages(PASSAGES).hash


@pytest.mark.parametrize("ending", PACKINGS)
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, ending: str) -> None:
    documents = ({"id": i, "contents": f'"{i}"\n{i * i} is a square'} for i in range(3000))
    packed = PACKINGS[ending](lines(*documents))
    with pytest.raises(UsageError) as error:
        stored(tmp_path, packed[: len(packed) // 2])
    assert "corpus.jsonl" in error.value.message
    assert "complete" in str(error.value.hint)
    assert not list(corpora.cache_home().glob("corpora/.*"))


@pytest.mark.parametrize(
    ("document", "passage"),
    [
        ({"id": 5, "contents": '"A "B" c"\nx\ny'}, Passage("5", 'A "B" c', "x\ny")),
        ({"id": "5", "contents": "A\nx"}, Passage("5", "A", "x")),
        ({"id": "5", "contents": "only a text"}, Passage("5", "", "only a text")),
        ({"id": "5", "contents": '""\nx'}, Passage("5", "", "x")),
        ({"id": "5", "title": '"Heroes"', "text": "x"}, Passage("5", '"Heroes"', "x")),
        ({"id": "5", "title": None, "text": "x"}, Passage("5", "", "x")),
        ({"id": "5", "title": "A", "text": "y", "contents": '"A"\nx'}, Passage("5", "A", "x")),
    ],
)
def test_both_shapes_of_documents_are_read(document: Any, passage: Passage) -> None:
    assert passage_of(document) == passage
    assert passage_of(document_of(passage)) == passage


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "1", "contents": "x', "not JSON"),
        (b'{"id": "1", "contents": "\xff"}', "not UTF-8"),
        (b"[1, 2]", "a list where"),
        (b'{"contents": "x"}', "no id"),
        (b'{"id": true, "contents": "x"}', "no id"),
        (b'{"id": "1", "body": "x"}', "neither contents nor text among its fields (body, id)"),
        (b'{"id": "1", "contents": 5}', "contents is a int"),
        (b'{"id": "1", "contents": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    good = lines(document_of(PASSAGES[0]))
    with pytest.raises(UsageError) as error:
        stored(tmp_path, good + b"\n" + line + b"\n" + good)
    assert "corpus.jsonl, line 3" in error.value.message
    assert reason in error.value.message


def test_an_endless_line_is_refused_without_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover_cli.envs.searchqa.retrieval.corpus_file.LONGEST_LINE", 1000)
    with pytest.raises(UsageError, match="line 1: longer than 1,000 bytes"):
        stored(tmp_path, b"x" * 5000)


def test_an_id_that_two_passages_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="passages 1 and 3 both have the id 'a'"):
        stored(tmp_path, lines(*({"id": i, "text": f"text {i}"} for i in "aba")))


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    documents = [
        {"id": "1", "contents": '"Title"\n  '},
        {"id": "2", "contents": "no title"},
        {"id": "3", "title": "T", "text": "x"},
    ]
    corpus = stored(tmp_path, lines(*documents) + b"\n   \n")
    assert [passage.passage_id for passage in corpus] == ["2", "3"]
    assert corpus.summary["counts"] == {"empty text": 1, "no title (kept)": 1}


@pytest.mark.parametrize("content", [b"", b"\n\n", lines({"id": "1", "text": ""})])
def test_a_corpus_without_passages_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError, match="holds no passage with a text"):
        stored(tmp_path, content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no corpus file"):
        corpora.from_file(tmp_path / "none.jsonl")


def test_a_large_file_is_prepared_by_a_command_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "LARGE", 10)
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(lines({"id": "large", "text": "never stored before"}))
    with pytest.raises(UsageError) as error:
        corpora.from_file(path)
    assert "prover tasks prepare searchqa" in str(error.value.hint)
    assert len(corpora.from_file(path, corpora.Silent())) == 1
    assert len(corpora.from_file(path)) == 1


def test_a_damaged_store_says_how_to_make_it_again(tmp_path: Path) -> None:
    corpus = stored(tmp_path, lines({"id": "d", "text": "to be damaged"}))
    BM25Retriever(corpus)
    index = next(corpus.folder.glob("bm25-*"))
    (index / "counts.npy").unlink()
    with pytest.raises(UsageError, match="damaged") as error:
        BM25Retriever(corpus)
    assert f"remove {index}" in str(error.value.hint)
    (corpus.folder / corpora.PASSAGES).write_bytes(b"")
    with pytest.raises(UsageError) as error:
        corpora.Corpus(corpus.folder)
    assert f"remove {corpus.folder}" in str(error.value.hint)

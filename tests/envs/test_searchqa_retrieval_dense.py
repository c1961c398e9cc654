"""Dense retrieval finds the nearest embeddings, and goes on with an interrupted build."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from prover_cli.envs.searchqa.retrieval import corpus as corpora
from prover_cli.envs.searchqa.retrieval import dense
from prover_cli.envs.searchqa.retrieval.dense import DenseRetriever
from prover_cli.envs.searchqa.retrieval.embedder import Embedder
from prover_cli.envs.searchqa.types import Passage
from prover_cli.errors import UsageError
from tests.envs.searchqa_retrieval import PASSAGES

WORDS = [f"w{number}" for number in range(50)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small random BERT that knows fifty words."""
    folder = tmp_path_factory.mktemp("model")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    names = {word: number for number, word in enumerate([*special, *WORDS, "query:", "passage:"])}
    tokenizer = Tokenizer(models.WordLevel(names, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def needs_faiss(request: pytest.FixtureRequest) -> None:
    if "without" not in request.node.name:
        pytest.importorskip("faiss", reason=f"faiss is not installed: {dense.INSTALL}")


def corpus_of(n: int, name: str) -> corpora.Corpus:
    return corpora.from_passages(
        [Passage(f"{name}{i}", WORDS[i % 50], f"{WORDS[i * 7 % 50]} {i}") for i in range(n)]
    )


def test_the_hits_are_the_nearest_embeddings(model: str) -> None:
    corpus = corpus_of(200, "near")
    retriever = DenseRetriever(corpus, model=model)
    embedder = Embedder(Path(model), pooling="mean", max_length=256, device="cpu")
    texts = [f"passage: {passage.title}\n{passage.text}" for passage in corpus]
    scores = embedder.embed(texts) @ embedder.embed(["query: w3 w14"])[0]
    hits = retriever.search("w3 w14", 5)
    expected = np.sort(scores)[::-1][:5]
    assert [hit.score for hit in hits] == pytest.approx(expected.tolist(), abs=1e-5)
    assert np.linalg.norm(embedder.embed(["w1", "w2 w3"]), axis=1) == pytest.approx([1, 1])


def test_other_prefixes_pooling_and_models_are_other_engines(model: str) -> None:
    corpus = corpus_of(20, "names")
    engines = [
        DenseRetriever(corpus, model=model),
        DenseRetriever(corpus, model=model, query_prefix=""),
        DenseRetriever(corpus, model=model, passage_prefix=""),
        DenseRetriever(corpus, model=model, pooling="cls"),
    ]
    assert len({engine.name for engine in engines}) == 4
    assert DenseRetriever(corpus, model=model).name == engines[0].name


def test_many_threads_get_what_one_gets(model: str) -> None:
    retriever = DenseRetriever(corpus_of(100, "threads"), model=model)
    queries = [" ".join(WORDS[i : i + 1 + i % 9]) for i in range(40)]
    alone = [retriever.search(query, 3) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 3), queries)) == alone


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 0), (3, 3), (100, 4)])
def test_there_are_at_most_as_many_hits_as_passages(model: str, k: int, n: int) -> None:
    assert len(DenseRetriever(corpora.from_passages(PASSAGES), model=model).search("x", k)) == n


def test_an_interrupted_build_goes_on_where_it_was(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "PASSAGES_PER_NOTE", 40)
    corpus, seen = corpus_of(200, "interrupted"), list[int]()

    def watched(self: Embedder, texts: list[str]) -> object:
        seen.append(len(texts))
        if sum(seen) == 96:
            raise KeyboardInterrupt
        return embed(self, texts)

    embed = Embedder.embed
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "embed", watched)
        with pytest.raises(KeyboardInterrupt):
            DenseRetriever(corpus, model=model, batch_size=8)
        seen[:] = [1]  # so that nothing is interrupted now
        resumed = DenseRetriever(corpus, model=model, batch_size=8)
    assert sum(seen) - 1 == 200 - 80
    twin = DenseRetriever(corpus_of(200, "interrupted "), model=model, batch_size=8)
    found, expected = (engine.search("w5 w6", 20) for engine in (resumed, twin))
    assert [hit.score for hit in found] == [hit.score for hit in expected]
    assert not list(corpus.folder.glob("*.partial"))


def test_damaged_embeddings_say_how_to_make_them_again(model: str) -> None:
    corpus = corpus_of(30, "damaged")
    DenseRetriever(corpus, model=model)
    (folder,) = corpus.folder.glob("dense-*")
    np.save(folder / dense.VECTORS, np.zeros((29, 16), dtype=np.float32))
    with pytest.raises(UsageError, match=r"float32 \(29, 16\), not float32 \(30, 16\)") as error:
        DenseRetriever(corpus, model=model)
    assert f"remove {folder}" in str(error.value.hint)


@pytest.mark.parametrize("content", [None, "{}", '{"model_type": "nothing"}'])
def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
        (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="embedding model"):
        DenseRetriever(corpora.from_passages(PASSAGES), model=str(tmp_path))


def test_without_faiss_the_command_that_installs_it_is_named(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError) as error:
        DenseRetriever(corpora.from_passages(PASSAGES), model=model)
    assert "pip install" in str(error.value.hint) and "searchqa-dense" in str(error.value.hint)

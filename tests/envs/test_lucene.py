"""Search as Lucene does it: tokens, stems, lengths and scores."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.bm25_build import stored_length
from prover_cli.envs.lucene import STOP_WORDS, stem, tokens

STEMS = dict(
    pair.split(":")
    for pair in """
    caresses:caress ponies:poni ties:ti caress:caress cats:cat feed:feed agreed:agre
    disabled:disabl matting:mat mating:mate meeting:meet milling:mill messing:mess
    plastered:plaster bled:bled motoring:motor sing:sing conflated:conflat troubled:troubl
    sized:size hopping:hop tanned:tan falling:fall hissing:hiss fizzed:fizz failing:fail
    filing:file happy:happi sky:sky relational:relat conditional:condit rational:ration
    valenci:valenc hesitanci:hesit digitizer:digit conformabli:conform radicalli:radic
    differentli:differ vileli:vile analogousli:analog vietnamization:vietnam
    predication:predic operator:oper feudalism:feudal decisiveness:decis hopefulness:hope
    callousness:callous formaliti:formal sensitiviti:sensit sensibiliti:sensibl
    triplicate:triplic formative:form formalize:formal electriciti:electr electrical:electr
    hopeful:hope goodness:good revival:reviv allowance:allow inference:infer airliner:airlin
    gyroscopic:gyroscop adjustable:adjust defensible:defens irritant:irrit replacement:replac
    adjustment:adjust dependent:depend adoption:adopt homologous:homolog communism:commun
    activate:activ angulariti:angular effective:effect bowdlerize:bowdler probate:probat
    rate:rate cease:ceas controll:control roll:roll generalizations:gener oscillators:oscil
    """.split()
)


@pytest.mark.parametrize(("word", "expected"), STEMS.items())
def test_porter_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("possibly", "possibl"),
        ("notably", "notabl"),
        ("apology", "apolog"),
        ("analogy", "analog"),
        ("technology", "technolog"),
    ],
)
def test_the_two_later_changes_of_the_stemmer(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize("word", ["", "s", "as", "es", "ed"])
def test_words_of_two_letters_are_not_stemmed(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("women's", ["women"]),
        ("women’s", ["women"]),
        ("WOMEN'S", ["women"]),
        ("women'", ["women"]),
        ("3.5 ft", ["3.5", "ft"]),
        ("1,299", ["1,299"]),
        ("v1.2", ["v1.2"]),
        ("3.x", ["3", "x"]),
        ("wi-fi", ["wi", "fi"]),
        ("a_b", ["a_b"]),
        ("o'neil u.s.a", ["o'neil", "u.s.a"]),
        ("red, green.", ["red", "green"]),
        ("rust | brown", ["rust", "brown"]),
        ("5x8", ["5x8"]),
        ("crème brûlée", ["crème", "brûlée"]),
        ("___ -- '", []),
        ("椅子", ["椅", "子"]),
        ("", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_stop_words_are_dropped_in_any_case() -> None:
    assert len(STOP_WORDS) == 33
    assert tokens(" ".join(STOP_WORDS)) == []
    assert tokens("The Table and THE chair") == ["tabl", "chair"]


def test_repeated_tokens_are_kept_in_order() -> None:
    assert tokens("red blue red") == ["red", "blue", "red"]


@pytest.mark.parametrize("n", range(24))
def test_short_lengths_are_stored_exactly(n: int) -> None:
    assert stored_length(n) == n


@pytest.mark.parametrize(
    ("n", "stored"),
    [
        (24, 24),
        (39, 39),
        (40, 40),
        (41, 40),
        (55, 54),
        (56, 56),
        (59, 56),
        (60, 60),
        (100, 96),
        (1000, 984),
    ],
)
def test_long_lengths_keep_four_bits_of_the_excess(n: int, stored: int) -> None:
    assert stored_length(n) == stored


@given(st.integers(0, 1_000_000), st.integers(0, 1000))
def test_stored_length_is_monotone_and_close(n: int, more: int) -> None:
    assert stored_length(n) <= stored_length(n + more)
    assert n - (n - 24) / 8 - 1 < stored_length(n) <= n if n >= 24 else stored_length(n) == n
    assert stored_length(stored_length(n)) == stored_length(n)


def _naive_scores(documents: list[str], query: str) -> list[float]:
    """The formula as the specification states it, in 64 bits."""
    split = [tokens(document) for document in documents]
    average = sum(map(len, split)) / len(split)
    result = []
    wanted = Counter(tokens(query))
    containing = {term: sum(term in other for other in split) for term in wanted}
    for terms in split:
        norm = 0.9 * (1 - 0.4 + 0.4 * stored_length(len(terms)) / average)
        total = 0.0
        for term, count in wanted.items():
            df, tf = containing[term], terms.count(term)
            if tf:
                idf = math.log(1 + (len(split) - df + 0.5) / (df + 0.5))
                total += count * idf * tf / (tf + norm)
        result.append(total)
    return result


@pytest.mark.parametrize("seed", range(5))
def test_scores_agree_with_the_formula(seed: int) -> None:
    generator = random.Random(seed)
    vocabulary = [f"word{chr(97 + i)}" for i in range(20)]
    weights = [1 / (i + 1) for i in range(20)]
    documents = [
        " ".join(generator.choices(vocabulary, weights, k=generator.randint(1, 120)))
        for _ in range(60)
    ]
    index = BM25Index.of(documents)
    for _ in range(15):
        query = " ".join(generator.choices(vocabulary, k=generator.randint(1, 6)))
        expected = _naive_scores(documents, query)
        np.testing.assert_allclose(index.scores(query), expected, rtol=1e-5, atol=1e-7)
        found = index.search(query, 10)
        assert len(found) == min(10, sum(score > 0 for score in expected))
        best = sorted(expected, reverse=True)[: len(found)]
        np.testing.assert_allclose([expected[i] for i in found], best, rtol=1e-5)


def test_equal_scores_keep_the_order_of_insertion() -> None:
    index = BM25Index.of(["blue chair", "red table", "red chair", "red sofa", "green sofa"])
    assert index.search("red", 10) == [1, 2, 3]
    assert index.search("red", 2) == [1, 2]


@pytest.mark.parametrize("query", ["", "the of and", "unknown", "-- !"])
def test_a_query_without_index_terms_finds_nothing(query: str) -> None:
    assert BM25Index.of(["a red table", "the blue chair"]).search(query, 10) == []


def test_an_empty_index_finds_nothing() -> None:
    assert BM25Index.of([]).search("table", 10) == []

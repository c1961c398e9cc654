"""Scores are those of SQuAD's evaluation, and answers come from the policy's turns alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.envs.searchqa.scoring import (
    answer_blocks,
    extract_answer,
    normalise,
    score,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        ("A man, a plan", "man plan"),
        ("U.S.A.", "usa"),
        ("Théâtre « l'Odéon", "théâtre « lodéon"),
        ("theatre another", "theatre another"),
        ("The", ""),
        ("", ""),
    ],
)
def test_normal_form_drops_case_punctuation_articles_and_blanks(text: str, normal: str) -> None:
    assert normalise(text) == normal


@given(st.text())
def test_normal_form_is_stable_under_case_and_blanks(text: str) -> None:
    assert normalise(f"  {text}\t") == normalise(text)


@given(st.text(), st.lists(st.text(), max_size=4))
def test_scores_are_ordered_and_within_bounds(prediction: str, answers: list[str]) -> None:
    scores = score(prediction, answers)
    assert 0 <= scores.em <= scores.sub_em <= 1
    assert scores.em <= scores.f1 <= 1


def test_scores_take_the_best_of_the_aliases() -> None:
    scores = score("the city of Oslo", ["Bergen", "Oslo, Norway", "oslo"])
    assert (scores.em, scores.sub_em) == (0.0, 1.0)
    assert scores.f1 == pytest.approx(2 * 1 / (3 + 1))
    assert score("Oslo.", ["Bergen", "oslo"]).em == 1.0


def test_f1_counts_repeated_words_once_each() -> None:
    assert score("york york", ["new york"]).f1 == pytest.approx(0.5)


def test_no_answer_scores_nothing_and_an_empty_one_matches_only_nothing() -> None:
    assert score(None, ["", "the"]).em == 0.0
    assert score("Oslo", ["the"]).sub_em == 0.0
    assert score("", ["Oslo"]).f1 == 0.0
    assert score("a", ["the"]).em == 1.0


def test_the_last_answer_of_the_last_turn_that_has_one_counts() -> None:
    turns = ["<answer>one</answer>", "<answer> two </answer><answer>\nthree </answer>", "none"]
    assert extract_answer(turns) == "three"
    assert extract_answer(["<answer>open", "shut</answer>"]) is None
    assert answer_blocks("<answer>a <answer>b</answer>") == ["a <answer>b"]


def test_extraction_is_linear_in_the_text() -> None:
    began = time.perf_counter()
    assert extract_answer(["<answer>" * 200_000]) is None
    assert time.perf_counter() - began < 2

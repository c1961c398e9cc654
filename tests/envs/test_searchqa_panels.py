"""A panel is the same mix of the same questions in every run."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from prover_cli.envs.searchqa.panels import PRESETS, choose, parse_mix
from prover_cli.envs.searchqa.sources import canonical_source
from prover_cli.envs.searchqa.types import Question
from prover_cli.errors import UsageError

POOL = [Question(str(i), f"q{i}?", ("x",), s) for s in PRESETS["paper"] for i in range(120)]


def test_the_paper_panel_has_400_questions_in_its_mix() -> None:
    chosen = choose(POOL, parse_mix("paper"), seed=0)
    assert len(chosen) == len(set(chosen)) == 400
    assert Counter(q.source for q in chosen) == dict(PRESETS["paper"])


def test_the_choice_depends_on_the_seed_and_not_on_the_order_of_rows() -> None:
    shuffled = random.Random(1).sample(POOL, len(POOL))
    assert choose(POOL, parse_mix("paper"), 0) == choose(shuffled, parse_mix("paper"), 0)
    assert choose(POOL, parse_mix("paper"), 0) != choose(POOL, parse_mix("paper"), 1)


def test_a_larger_panel_contains_the_smaller_one() -> None:
    assert set(choose(POOL, {"nq": 10}, 0)) < set(choose(POOL, {"nq": 20}, 0))


def test_the_data_set_that_has_too_few_is_named() -> None:
    few = [q for q in POOL if q.source != "musique"]
    with pytest.raises(UsageError, match="musique has 0 of 100"):
        choose(few, parse_mix("paper"), 0)


@pytest.mark.parametrize("text", ["", "nq", "nq:", "nq:0", "nq:-1", "nq:5,nq:6", "nq:5,,", "Paper"])
def test_what_is_no_mix_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="panel"):
        parse_mix(text)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("2wiki", "2wikimultihopqa"),
        ("chiayewken/bamboogle", "bamboogle"),
        ("NQ-Open", "nq"),
        ("natural_questions", "nq"),
        ("hotpot_qa", "hotpotqa"),
        ("trivia_qa", "triviaqa"),
        ("world-2hop", "world-2hop"),
    ],
)
def test_data_sets_are_known_by_all_their_names(name: str, source: str) -> None:
    assert canonical_source(name) == source
    assert parse_mix(f"{name}:3") == {source: 3}

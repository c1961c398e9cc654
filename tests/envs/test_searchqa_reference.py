"""Answers, actions and scores are those of recorded episodes of a Search-R1 checkpoint.

125 Bamboogle episodes with the scores of their own evaluation (EM, containment as `acc`, F1).
Differences: none in the scores. In 20 episodes the policy was cut off without an answer; the
recording has an empty prediction there and this module has none (None). Neither scores.
The recordings do not cover HotpotQA's rule for yes and no in F1, which is not SQuAD's and not ours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.searchqa.panels import PRESETS, choose
from prover_cli.envs.searchqa.questions import read, read_questions
from prover_cli.envs.searchqa.scoring import extract_answer, score
from prover_cli.envs.searchqa.tagged import first_block

pytestmark = pytest.mark.reference

_FEEDBACK = r"(\nMy previous action is invalid\..*?Let me try again\.\n)"
_RESULTS = r"(\n\n<information>.*?</information>\n\n)"
_BETWEEN = re.compile(f"{_FEEDBACK}|{_RESULTS}", re.DOTALL)


@pytest.fixture(scope="module")
def folder() -> Path:
    found = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "searchqa"
    if not found.is_dir():
        pytest.skip("the SearchQA reference data is not beside the repository")
    return found


@pytest.fixture(scope="module")
def episodes(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "search_r1_trajectories_bamboogle.json").read_text(encoding="utf-8")
    episodes: list[dict[str, Any]] = json.loads(text)
    return episodes


def turns_of(episode: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What the policy wrote, turn by turn, and what came after each: search or invalid."""
    turns, came, at = [], [], 0
    response = episode["output"]["final_response"]
    for between in _BETWEEN.finditer(response):
        turns.append(response[at : between.start()])
        came.append("invalid" if between.group(1) else "search")
        at = between.end()
    return [*turns, response[at:]], came


def test_scores_equal_the_recorded_ones(episodes: list[dict[str, Any]]) -> None:
    for episode in episodes:
        recorded = episode["output"]["metric_score"]
        turns, _ = turns_of(episode)
        scores = score(extract_answer(turns), episode["golden_answers"])
        assert (scores.em, scores.sub_em) == (recorded["em"], recorded["acc"])
        assert scores.f1 == pytest.approx(recorded["f1"])
    assert sum(e["output"]["metric_score"]["em"] for e in episodes) == 14


def test_answers_equal_the_recorded_ones_where_there_is_one(
    episodes: list[dict[str, Any]],
) -> None:
    kinds: Counter[str] = Counter()
    for episode in episodes:
        answer, recorded = extract_answer(turns_of(episode)[0]), episode["output"]["pred"]
        assert answer == recorded or (answer is None and recorded == "")
        kinds["answered" if answer is not None else "cut off"] += 1
    assert kinds == {"answered": 105, "cut off": 20}


def test_actions_are_those_that_were_executed(episodes: list[dict[str, Any]]) -> None:
    counts: Counter[str] = Counter()
    for episode in episodes:
        turns, came = turns_of(episode)
        for turn, what in zip(turns, [*came, ""], strict=True):
            found = first_block(turn)
            kind = found[0] if isinstance(found, tuple) else "invalid"
            expected = what or ("answer" if episode["output"]["pred"] else "invalid")
            assert kind == expected
            counts[kind] += 1
    assert counts == {"search": 110, "answer": 105, "invalid": 28}


def test_the_same_panel_reads_the_same_from_parquet_and_from_lines(folder: Path) -> None:
    lines, _ = read(folder / "panel_seven_sets_3197.jsonl")
    parquet, _ = read(folder / "panel_seven_sets.parquet")
    assert lines == parquet
    assert Counter(q.source for q in lines) == {
        "bamboogle": 125,
        **dict.fromkeys(("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique"), 512),
    }


def test_the_panel_of_the_paper_is_drawn_from_it(folder: Path) -> None:
    questions, _ = read(folder / "panel_seven_sets_3197.jsonl")
    chosen = choose(questions, PRESETS["paper"], seed=0)
    assert len({(q.source, q.question_id) for q in chosen}) == 400
    assert Counter(q.source for q in chosen) == dict(PRESETS["paper"])


def test_every_question_file_of_the_folder_is_read(folder: Path) -> None:
    questions = read_questions(str(folder))
    assert {name: len(part) for name, part in questions.by_split.items()} == {
        "train": 0,
        "valid": 3197,
        "test": 2463,
    }
    assert questions.skipped == {"repeated id": 3338}

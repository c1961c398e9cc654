"""Methods scored against sampled values: every number is worked out by hand."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from prover_cli.errors import NothingToDoError, ShardError, UsageError
from prover_cli.stages import compare_audit
from prover_cli.stages.compare_audit import Audit
from tests.views.compare_runs import values, whole


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = whole(tmp_path_factory.mktemp("hand"))
    values(path, "verify@part", ["ga"], seed=3)
    values(path, "verify@none", [], seed=3)
    values(path, "verify@same", ["ga", "gb"], seed=2)
    return path


def audit(run: Path, estimators: str = "grpo,prover", **changes: Any) -> dict[str, Any]:
    settings = {"reference": "vineppo", "knobs": {}, "reference_source": "verify@audit"}
    return compare_audit.run(run, Audit(estimators, draws=200, **{**settings, **changes}))


def test_signs_ranks_and_errors(run: Path) -> None:
    grpo, prover = audit(run)["estimators"]
    assert grpo["turns"] == 9 and grpo["coverage"] == 1
    assert grpo["sign_agreement"] == pytest.approx(5 / 6) and grpo["silent_share"] == 0
    assert grpo["rank_correlation"] == pytest.approx(29.25 / sqrt(45 * 57.5))
    assert grpo["factor"] == pytest.approx(1 / 2.25)
    assert grpo["scaled_rmse"] == pytest.approx(sqrt((1.25 - 1 / 2.25) / 9))
    assert grpo["rmse"] == pytest.approx(sqrt(1.5 / 9))
    assert prover["factor"] == pytest.approx(1.25 / 3)
    assert prover["scaled_rmse"] == pytest.approx(sqrt((1.25 - 1.25**2 / 3) / 9))
    assert prover["rmse"] == pytest.approx(sqrt(1.75 / 9))


def test_a_method_without_an_opinion_inside_a_trajectory_ranks_nothing_there(run: Path) -> None:
    grpo, prover = audit(run)["estimators"]
    assert grpo["trajectories"] == 4 and grpo["rank_correlation_within"] == 0
    assert grpo["ordered_share"] == 0 and prover["ordered_share"] == 0.25
    # ga.0: ranks 1.5, 3, 1.5 against 1, 3, 2.
    assert prover["rank_correlation_within"] == pytest.approx(1.5 / sqrt(1.5 * 2) / 4)
    assert prover["rank_correlation_ordered"] == pytest.approx(1.5 / sqrt(1.5 * 2))
    assert grpo["rank_correlation_ordered"] is None


def test_intervals_are_over_groups(run: Path) -> None:
    grpo = audit(run)["estimators"][0]
    # Both groups are drawn, or one of them twice: 3 of 3 signs in ga, 2 of 3 in gb.
    assert grpo["sign_agreement_interval"] == pytest.approx([2 / 3, 1])
    assert audit(run) == audit(run)
    assert audit(run, seed=1)["estimators"][0]["sign_agreement"] == grpo["sign_agreement"]


def test_tokens_are_those_that_a_method_needs(run: Path) -> None:
    found = audit(run)
    grpo, prover = found["estimators"]
    assert (grpo["judge_tokens"], grpo["verify_tokens"], grpo["token_share"]) == (0, 0, 0)
    assert (prover["judge_tokens"], prover["verify_tokens"]) == (20, 30)
    assert prover["token_share"] == pytest.approx(0.5)
    assert found["reference"]["token_share"] == pytest.approx(4)


def test_the_reference_says_how_noisy_it_is(run: Path) -> None:
    found = audit(run)["reference"]
    assert found["turns"] == 9 and found["zero_share"] == pytest.approx(3 / 9)
    assert found["rms"] == pytest.approx(sqrt(1.25 / 9))
    assert found["noise"] == pytest.approx(sqrt(102 / 144 / 9))
    assert found["decided_share"] == pytest.approx(4 / 9)


def test_undecided_turns_can_be_left_out(run: Path) -> None:
    found = audit(run, decided=True)
    assert found["reference"]["compared_turns"] == 4 and found["reference"]["turns"] == 9
    grpo = found["estimators"][0]
    assert grpo["turns"] == 4 and grpo["sign_agreement"] == 1
    with pytest.raises(UsageError, match="rloo has none"):
        audit(run, reference="rloo", decided=True)


def test_a_null_is_left_out_and_is_not_a_zero(run: Path) -> None:
    (part,) = audit(run, "vineppo:verify@part")["estimators"]
    assert part["coverage"] == pytest.approx(5 / 9)
    assert part["sign_agreement"] == 1 and part["rmse"] == 0 and part["silent_share"] == 0
    assert part["rank_correlation"] == pytest.approx(1)
    # One group is left, and nothing can be said about others.
    assert part["rmse_interval"] is None


def test_a_method_that_says_nothing_has_no_scores(run: Path) -> None:
    (none,) = audit(run, "vineppo:verify@none")["estimators"]
    assert none["coverage"] == 0
    scores = ("sign_agreement", "rank_correlation", "rank_correlation_within", "rmse", "factor")
    assert [none[name] for name in scores] == [None] * len(scores)


def test_a_reference_that_says_nothing_is_refused(run: Path) -> None:
    with pytest.raises(NothingToDoError, match="no advantage at any turn"):
        audit(run, reference_source="verify@none")
    with pytest.raises(ShardError, match="was not run"):
        audit(run, reference_source="verify@nowhere")


def test_shared_continuations_are_said_aloud(run: Path) -> None:
    assert audit(run)["warnings"] == []
    (same,) = audit(run, "vineppo:verify@audit")["warnings"]
    assert "both computed from verify@audit" in same
    (seed,) = audit(run, "grpo,vineppo:verify@same")["warnings"]
    assert "share continuations" in seed and "--seed" in seed


def test_any_method_can_be_the_reference(run: Path) -> None:
    found = audit(run, "prover", reference="grpo", reference_source="verify")
    assert found["reference"]["noise"] is None and found["reference"]["token_share"] == 0
    assert found["estimators"][0]["rmse"] == pytest.approx(sqrt(0.25 / 9))

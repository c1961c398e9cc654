"""Credit methods side by side: every number is worked out by hand (tables in `compare_runs`)."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from prover_cli.credit import CreditTables
from prover_cli.errors import ShardError, UsageError
from prover_cli.stages import compare_estimators
from prover_cli.stages.compare_sources import named, standard_errors
from prover_cli.stages.compare_statistics import Ranks, interval, pearson, spearman
from tests.stages.pipeline import credit, table
from tests.views.compare_runs import GROUPS, judge_rows, put, rollout_rows, verify_rows, whole


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("hand"))


def facts(run: Path, estimators: str, **changes: Any) -> dict[str, Any]:
    settings = {"knobs": {}, "source": "verify", "per_task": False, **changes}
    return compare_estimators.run(run, estimators, **settings)


def of(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["estimators"] if one["estimator"] == name)


def test_turns_are_counted_by_sign_and_nulls_are_not_zeros(run: Path) -> None:
    found = facts(run, "grpo,prover,vineppo:verify@audit")
    assert (found["turns"], found["trajectories"], found["groups"]) == (10, 5, 2)
    counts = ("assigned", "unassigned", "positive", "negative", "zero", "local")
    rows = {one["estimator"]: tuple(one[key] for key in counts) for one in found["estimators"]}
    assert rows == {
        "grpo": (9, 1, 5, 4, 0, 0),
        "prover": (9, 1, 5, 4, 0, 1),
        "vineppo:verify@audit": (9, 1, 3, 3, 3, 9),
    }
    assert of(found, "grpo")["mean_size"] == pytest.approx(0.5)
    assert of(found, "prover")["mean_size"] == pytest.approx(5 / 9)


def test_shares_of_credit_on_the_segment_and_by_place(run: Path) -> None:
    found = facts(run, "grpo,prover")
    assert found["segments_of"] == "judge" and found["segment_turn_share"] == pytest.approx(0.1)
    assert of(found, "grpo")["segment_credit_share"] == pytest.approx(0.5 / 4.5)
    assert of(found, "prover")["segment_credit_share"] == pytest.approx(1 / 5)
    assert found["position_turn_shares"] == pytest.approx([0.5, 0.1, 0.3, 0.1, 0])
    assert of(found, "prover")["position_credit_shares"] == pytest.approx([0.4, 0.2, 0.3, 0.1, 0])


def test_pairs_are_compared_where_both_say_something(run: Path) -> None:
    found = facts(run, "grpo,prover,vineppo:verify@audit")
    pairs = {tuple(pair["estimators"]): pair for pair in found["pairs"]}
    assert len(pairs) == 3
    pair = pairs["grpo", "vineppo:verify@audit"]
    assert (pair["turns"], pair["sign_flips"], pair["one_is_zero"]) == (9, 1, 3)
    assert pair["sign_flip_share"] == pytest.approx(1 / 9)
    assert pair["pearson"] == pytest.approx(35 / sqrt(80 * 44))
    assert pair["spearman"] == pytest.approx(29.25 / sqrt(45 * 57.5))


def test_the_turns_that_a_method_raises_are_named(run: Path) -> None:
    found = of(facts(run, "grpo,prover"), "prover")
    assert (found["raised"], found["lowered"]) == (1, 0)
    assert found["most_raised"] == [
        {"traj_id": "ga.0", "turn": 1, "advantage": 1.0, "first": pytest.approx(0.5)}
    ]


def test_every_task_has_its_own_row(run: Path) -> None:
    one, other = facts(run, "grpo,prover,vineppo:verify@audit", per_task=True)["tasks"]
    assert (one["task_id"], one["successes"], one["scored"], one["turns"]) == ("task-ga", 1, 2, 5)
    assert (other["successes"], other["scored"], other["turns"]) == (1, 2, 5)
    assert [m["credit"] for m in one["estimators"]] == pytest.approx([2.5, 3.0, 1.0])
    assert [m["segment_credit_share"] for m in one["estimators"]] == pytest.approx(
        [0.2, 1 / 3, 0.5]
    )
    assert [m["sign_flips"] for m in other["estimators"]] == [0, 0, 1]
    assert facts(run, "grpo")["tasks"] is None


def test_a_knob_goes_to_the_method_that_has_it(run: Path) -> None:
    found = facts(run, "grpo,prover", knobs={"lambda_": 2.0})
    assert of(found, "prover")["most_raised"][0]["advantage"] == pytest.approx(1.5)
    with pytest.raises(UsageError, match="no knob nothing"):
        facts(run, "grpo,prover", knobs={"nothing": 1})


def test_the_numbers_are_those_of_the_advantage_stage(verified: Path, tmp_path: Path) -> None:
    import shutil

    path = Path(shutil.copytree(verified, tmp_path / "run"))
    credit(path, "grpo", "prover", "gigpo", "ragen")
    rows = table(path, "advantages")
    for one in facts(path, "grpo,prover,gigpo,ragen")["estimators"]:
        own = rows.filter(estimator=one["estimator"])
        assert one["unassigned"] == own["advantage"].is_null().sum()
        assert one["local"] == own["local"].is_not_null().sum()
        assert one["mean_size"] == pytest.approx(own["advantage"].abs().mean(), abs=1e-8)


def test_a_method_that_lacks_data_names_the_stage(tmp_path: Path) -> None:
    put(tmp_path, "rollout", [rollout_rows("ga")])
    with pytest.raises(ShardError, match=r"estimates.*was not run") as caught:
        facts(tmp_path, "grpo,prover")
    assert f"prover verify {tmp_path}" in str(caught.value.hint)
    found = facts(tmp_path, "grpo")
    assert found["segments_of"] is None and of(found, "grpo")["segment_credit_share"] is None


def test_the_numbers_do_not_depend_on_shards(run: Path, tmp_path: Path) -> None:
    def together(rows: Any) -> list[dict[str, Any]]:
        parts = [rows(group) for group in GROUPS]
        return [{name: [r for part in parts for r in part[name]] for name in parts[0]}]

    put(tmp_path, "rollout", together(rollout_rows), action_tokens=100)
    put(tmp_path, "judge", together(judge_rows), ["rollout"])
    put(tmp_path, "verify", together(verify_rows), ["rollout", "judge"])
    names = "grpo,prover,gigpo,constant,reinforce++"
    one, other = (facts(path, names, per_task=True) for path in (run, tmp_path))
    assert one | {"run": ""} == other | {"run": ""}


def test_a_stale_stage_is_not_compared(tmp_path: Path) -> None:
    run = whole(tmp_path)
    for file in (run / "judge").iterdir():
        file.unlink()
    put(run, "judge", [{"proposals": []}, {"proposals": []}], ["rollout"])
    with pytest.raises(ShardError, match="stale"):
        facts(run, "grpo,prover")


def test_methods_are_named_once() -> None:
    assert [one.source for one in named("a, b:verify@x", "verify")] == ["verify", "verify@x"]
    assert len(named("a,a:verify@x", "verify")) == 2
    with pytest.raises(UsageError, match="a more than once"):
        named("a,b,a", "verify")


def test_ranks_of_a_weighted_column_are_those_of_the_repeated_one() -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 4, 30).astype(float)
    other = random.integers(0, 4, 30).astype(float)
    weights = random.integers(0, 4, 30).astype(float)
    times = weights.astype(int)
    one, two = (Ranks.of(x)(weights) for x in (values, other))
    plain = spearman(np.repeat(values, times), np.repeat(other, times))
    assert pearson(one, two, weights) == pytest.approx(plain)
    assert np.allclose(
        np.repeat(one, times), pl.Series(np.repeat(values, times)).rank("average").to_numpy()
    )


def test_correlations_with_a_constant_are_undefined() -> None:
    x = np.array([0.1, 0.2, 0.3])
    assert pearson(x, np.full(3, 0.1 + 0.2)) is None and spearman(x, np.ones(3)) is None
    assert pearson(x[:1], x[:1]) is None and spearman(x[:0], x[:0]) is None
    assert spearman(x, x**3) == pytest.approx(1) and pearson(x, -x) == pytest.approx(-1)


def test_an_interval_needs_two_groups_and_values() -> None:
    assert interval(lambda w: 1.0, 1, 10, 0) is None
    assert interval(lambda w: None, 5, 10, 0) is None
    found = interval(lambda w: float(w @ np.arange(100.0) / 100), 100, 500, 0)
    assert found is not None
    # The standard error of the mean of 0 .. 99 over 100 draws is 2.89.
    assert found[0] == pytest.approx(49.5 - 1.96 * 2.89, abs=1)
    assert found[1] == pytest.approx(49.5 + 1.96 * 2.89, abs=1)


def test_standard_errors_are_those_of_two_rates_and_of_a_known_end() -> None:
    turns = pl.DataFrame({"traj_id": ["a"] * 3, "turn": [0, 1, 2], "group_id": ["g"] * 3})
    values = pl.DataFrame(
        {"traj_id": ["a", "a"], "turn": [0, 1], "n_success": [1, 0], "n_scored": [4, 4]}
    )
    tables = CreditTables(pl.DataFrame(), turns, values=values)
    found = standard_errors(tables)["error"].to_list()
    assert found[0] == pytest.approx(sqrt(13) / 12)
    assert found[1:] == [None, None]
    only = CreditTables(pl.DataFrame(), turns[:2], values=values)
    assert standard_errors(only)["error"][1] == pytest.approx(sqrt(5) / 12)

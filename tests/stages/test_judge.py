"""One row per group, with a segment or with the reason why there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.run import Run, Stage
from tests.stages.pipeline import Rows, facts_of, judge, rewrite, rollout, same, table


def outcome(row: dict[str, object], success: bool | None) -> dict[str, object]:
    reward = None if success is None else float(success)
    reason = "void" if success is None else "done"
    return {**row, "success": success, "reward": reward, "stop_reason": reason}


def decided(run: Path) -> dict[str, str]:
    """Give four groups outcomes by hand; the reason why each is not eligible."""
    groups = sorted(table(run, "trajectories")["group_id"].unique())
    plans: list[list[bool | None]] = [
        [True] * 8,
        [False] * 8,
        [True, False] * 4,
        [None] * 7 + [True],
    ]

    def change(rows: Rows) -> Rows:
        return [outcome(r, plans[groups.index(r["group_id"])][r["sample"]]) for r in rows]

    rewrite(Stage(run, "rollout"), "trajectories", change)
    reasons = ("no_failure", "no_success", "too_many_successes", "too_few_scored")
    return dict(zip(groups, reasons, strict=True))


@pytest.mark.parametrize("name", ["contrast", "random", "uniform", "last"])
def test_a_group_that_is_not_eligible_is_a_row_with_the_reason(
    tmp_path: Path, policy: Path, name: str
) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    reasons = decided(run)
    summary = judge(run, judge=name, max_success=3)
    rows = table(run, "proposals")
    assert dict(rows.select("group_id", "status").iter_rows()) == reasons
    assert rows["traj_id"].is_null().all() and rows["start_turn"].is_null().all()
    assert len(summary.warnings) == 1 and "nothing to verify" in summary.warnings[0]
    assert summary.facts["groups"] == 4


@pytest.mark.parametrize("name", ["contrast", "random", "uniform", "last"])
def test_a_proposal_is_a_valid_segment_of_the_shortest_success(
    tmp_path: Path, policy: Path, name: str
) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 3}, tasks=8)
    judge(run, judge=name)
    turns, trajectories = table(run, "turns"), table(run, "trajectories")
    found = table(run, "proposals")
    assert set(found["group_id"]) == set(trajectories["group_id"]) and found.height == 8
    for row in found.filter(status="ok").iter_rows(named=True):
        group = trajectories.filter(group_id=row["group_id"])
        assert 0 < group["success"].sum() < 8
        best = group.filter(success=True).sort("n_turns", "sample").row(0, named=True)
        assert row["traj_id"] == best["traj_id"]
        assert 0 <= row["start_turn"] < row["end_turn"] < best["n_turns"]
        assert row["end_turn"] - row["start_turn"] <= 4
        inside = turns.filter(
            (turns["traj_id"] == row["traj_id"])
            & turns["turn"].is_between(row["start_turn"], row["end_turn"], closed="left")
        )
        assert inside["action_valid"].all()
    assert found.filter(status="ok").height > 0


@pytest.mark.parametrize("name", ["random", "uniform", "last"])
def test_a_judge_that_does_not_look_is_repeatable(tmp_path: Path, policy: Path, name: str) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=3, groups_per_shard=1)
    judge(run, judge=name)
    again = shutil.copytree(run, tmp_path / "again", ignore=lambda *_: ["judge"])
    judge(again, judge=name)
    assert same(run, again, "proposals")


def test_a_random_judge_draws_by_its_seed(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 3}, tasks=8)
    for seed in (0, 1):
        judge(run, judge="random", seed=seed, variant=f"s{seed}")
    first, second = (facts_of(run, "proposals", f"judge@s{seed}") for seed in (0, 1))
    assert first["status"].equals(second["status"])
    assert not first["start_turn"].equals(second["start_turn"])


def test_an_unknown_judge_names_the_known_ones(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    with pytest.raises(UsageError, match=r"oracle.*contrast.*last.*random.*uniform"):
        judge(tmp_path / "run", judge="oracle")
    assert not Run(tmp_path / "run").stage("judge").exists()


def test_a_judge_needs_a_rollout_and_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="does not exist") as caught:
        judge(tmp_path / "run")
    assert f"prover rollout --env webshop --out {tmp_path / 'run'}" in str(caught.value.hint)

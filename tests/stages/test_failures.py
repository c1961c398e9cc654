"""A full context ends an episode, a failed request voids one, a dead engine stops the stage."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from prover_cli.errors import EngineDeadError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages import verify as verify_stage
from tests.policies import behave, scripted_policy
from tests.stages.pipeline import (
    Listener,
    credit,
    judge,
    rollout,
    rollout_config,
    same,
    table,
    verify,
    verify_config,
)

ROLLOUT = ("tasks", "trajectories", "turns")
VERIFY = ("continuations", "values", "estimates")


def test_a_full_context_ends_one_episode_and_its_siblings_go_on(tmp_path: Path) -> None:
    small = scripted_policy(tmp_path / "small", ("go", "open"), max_len=330)
    large = scripted_policy(tmp_path / "large", ("go", "open"))
    summary = rollout(tmp_path / "run", small, tasks=2)
    found = table(tmp_path / "run", "trajectories")
    full = found.filter(stop_reason="context_overflow")
    assert set(found["stop_reason"]) == {"context_overflow", "done"} and found.height == 16
    assert (full["reward"] == 0.0).all() and not full["success"].any()
    assert (full["n_turns"] > 0).all() and full["error_type"].is_null().all()
    assert (full["n_prompt_tokens"] + full["n_action_tokens"] <= 330).all()
    assert summary.exit_code == 0
    rollout(tmp_path / "room", large, tasks=2)
    assert set(table(tmp_path / "room", "trajectories")["stop_reason"]) <= {"done", "max_turns"}


@pytest.mark.parametrize(("room", "tokens"), [(0, None), (1, 1), (2, 2), (3, 3)])
def test_a_reply_gets_the_room_that_is_left(
    tmp_path: Path, policy: Path, room: int, tokens: int | None
) -> None:
    rollout(tmp_path / "measure", policy, tasks=1, group_size=1, max_turns=1)
    prompt = table(tmp_path / "measure", "turns")["prompt_ids"].list.len().item()
    small = scripted_policy(tmp_path / "small", ("go",), max_len=prompt + room)
    rollout(tmp_path / "run", small, tasks=1, group_size=2)
    found, turns = table(tmp_path / "run", "trajectories"), table(tmp_path / "run", "turns")
    assert set(found["stop_reason"]) == {"context_overflow"}
    assert (found["reward"] == 0.0).all()
    assert turns["action_ids"].list.len().to_list() == ([] if tokens is None else [tokens] * 2)


def test_no_request_is_made_where_nothing_fits(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ("go",), max_len=8, fail_after=0)
    summary = rollout(tmp_path / "run", policy)
    assert table(tmp_path / "run", "turns").is_empty()
    assert any("100.0% of the trajectories ran out" in text for text in summary.warnings)
    assert judge(tmp_path / "run").facts["status"] == {"no_success": 4}
    assert verify(tmp_path / "run").exit_code == 4


def test_a_failed_request_voids_the_trajectory(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    behave(policy, fail_requests=0.1)
    summary = rollout(run, policy)
    rows = table(run, "trajectories")
    void = rows.filter(stop_reason="void")
    assert 0 < void.height < rows.height
    assert void["reward"].is_null().all() and void["success"].is_null().all()
    assert (void["error_type"] == "RequestFailed").all()
    assert void["error_message"].is_not_null().all()
    assert rows.filter(pl.col("stop_reason") != "void")["reward"].is_not_null().all()
    assert summary.facts["void"] == Run(run).stage("rollout").manifest().counters["void"]
    assert f"{void.height} trajectories are void: their rewards are unknown" in summary.warnings


def test_the_group_mean_excludes_void_trajectories(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    behave(policy, fail_requests=0.1)
    rollout(run, policy)
    credit(run, "grpo")
    rewards = table(run, "trajectories")
    scored = rewards.drop_nulls("reward")
    means = dict(scored.group_by("group_id").agg(pl.col("reward").mean()).iter_rows())
    assert any(0 < mean < 1 for mean in means.values())
    by_id = dict(rewards.select("traj_id", "reward").iter_rows())
    for row in table(run, "advantages").iter_rows(named=True):
        reward = by_id[row["traj_id"]]
        if reward is None:
            assert row["advantage"] is None and row["reason"] == "void"
        else:
            assert row["advantage"] == pytest.approx(reward - means[row["group_id"]])


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failed_trajectory_is_tried_as_often_as_asked(
    tmp_path: Path, policy: Path, retries: int
) -> None:
    behave(policy, fail_requests=1.0, fail_after=retries + 1)
    rollout(tmp_path / "run", policy, tasks=1, group_size=1, retries=retries)
    assert table(tmp_path / "run", "trajectories")["stop_reason"].to_list() == ["void"]
    behave(policy, fail_requests=1.0, fail_after=retries)
    with pytest.raises(EngineDeadError):
        rollout(tmp_path / "less", policy, tasks=1, group_size=1, retries=retries)


def test_a_fault_of_the_environment_voids_only_its_trajectory(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy, env="tests.stages.worlds:FaultyVault")
    rows = table(tmp_path / "run", "trajectories")
    odd = rows["env_seed"] % 2 == 1
    assert 0 < odd.sum() < rows.height
    assert ((rows["stop_reason"] == "void") == odd).all()
    assert set(rows.filter(odd)["error_type"]) == {"EnvironmentFault"}
    assert rows.filter(odd)["reward"].is_null().all()


def test_a_truncated_run_warns(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ("go",))
    warnings = "\n".join(rollout(tmp_path / "run", policy).warnings)
    assert "100.0% of the trajectories ran out of turns or context" in warnings
    assert "4 of 4 groups have equal rewards" in warnings


def test_a_healthy_run_does_not_warn(tmp_path: Path, policy: Path) -> None:
    assert rollout(tmp_path / "run", policy, max_turns=24).warnings == ()


def test_a_dead_engine_leaves_finished_shards_and_the_run_resumes(
    tmp_path: Path, policy: Path
) -> None:
    config = rollout_config(policy, groups_per_shard=1, concurrency=1)
    rollout_stage.run(config, tmp_path / "whole", Mode.REFUSE, Listener())
    run, requests = tmp_path / "run", table(tmp_path / "whole", "turns").height
    behave(policy, fail_after=requests // 2)
    with pytest.raises(EngineDeadError) as caught:
        rollout_stage.run(config, run, Mode.REFUSE, Listener())
    assert caught.value.exit_code == 3
    stage = Stage(run, "rollout")
    finished = list(stage.manifest().shards)
    assert 0 < len(finished) < 4 and stage.manifest().state == "running"
    assert stage.read("trajectories").height == 8 * len(finished)
    kept = {path: path.stat().st_mtime_ns for path in stage.files("turns")}
    behave(policy)
    rollout_stage.run(config, run, Mode.RESUME, Listener())
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert same(tmp_path / "whole", run, *ROLLOUT)


def test_an_engine_that_dies_in_a_verification_loses_nothing(tmp_path: Path, policy: Path) -> None:
    run, config = tmp_path / "run", verify_config(concurrency=1)
    rollout(run, policy, groups_per_shard=1)
    judge(run)
    verify(run, variant="whole")
    requests = table(run, "continuations", "verify@whole")["n_turns"].sum()
    behave(policy, fail_after=requests // 2)
    with pytest.raises(EngineDeadError):
        verify_stage.run(config, run, Mode.REFUSE, Listener())
    assert 0 < len(Stage(run, "verify").manifest().shards) < 4
    behave(policy)
    verify_stage.run(config, run, Mode.RESUME, Listener())
    for name in VERIFY:
        one, other = (table(run, name, s) for s in ("verify", "verify@whole"))
        assert one.drop("seconds", strict=False).equals(other.drop("seconds", strict=False))


def test_void_continuations_have_no_outcome_and_do_not_count(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    behave(policy, fail_requests=0.1)
    summary = verify(run, k=8)
    rows = table(run, "continuations")
    void = rows.filter(stop_reason="void")
    assert 0 < void.height == summary.facts["void"] and void["success"].is_null().all()
    scored = dict(rows.group_by("state_id").agg(pl.col("success").count()).iter_rows())
    for value in table(run, "values").iter_rows(named=True):
        assert value["n_requested"] == 8 and value["n_scored"] == scored[value["state_id"]]


def test_a_verification_without_outcomes_gives_no_estimate(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    behave(policy, fail_requests=1.0)
    summary = verify(run)
    assert (summary.facts["verified"], summary.exit_code) == (0, 0)
    made = table(run, "estimates").filter(pl.col("traj_id").is_not_null())
    assert set(made["status"]) == {"void"} and made["gain"].is_null().all()
    assert table(run, "values")["mean"].is_null().all()
    credit(run)
    assert "segment_without_estimate" in set(table(run, "advantages")["reason"])
    assert table(run, "advantages")["local"].is_null().all()

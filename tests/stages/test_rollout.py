"""A rollout holds whole groups, and what the policy got wrong is data."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from prover_cli.config import SamplingConfig
from prover_cli.errors import UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import STAGE_TABLES, TABLES
from prover_cli.shards.validate import faults
from prover_cli.stages import rollout as stage
from tests.policies import scripted_policy
from tests.stages.pipeline import (
    MAX_TURNS,
    Listener,
    episodes,
    rollout,
    rollout_config,
    same,
    table,
)

ROLLOUT = ("tasks", "trajectories", "turns")


def test_tables_are_as_declared(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    source = Stage(tmp_path / "run", "rollout")
    for name in STAGE_TABLES["rollout"]:
        for path in source.files(name):
            assert pq.read_schema(path).equals(TABLES[name].arrow())
    assert not list(faults(Run(tmp_path / "run")))


@pytest.mark.parametrize("groups_per_shard", [1, 3, 8])
def test_every_group_is_whole_and_in_one_shard(
    tmp_path: Path, policy: Path, groups_per_shard: int
) -> None:
    rollout(tmp_path / "run", policy, groups_per_shard=groups_per_shard)
    source, seen = Stage(tmp_path / "run", "rollout"), []
    for index in source.manifest().shards:
        trajectories, turns = source.read("trajectories", index), source.read("turns", index)
        for (group,), rows in trajectories.partition_by("group_id", as_dict=True).items():
            assert sorted(rows["sample"]) == list(range(8))
            assert rows["task_id"].n_unique() == rows["policy_id"].n_unique() == 1
            seen.append(group)
        assert set(turns["traj_id"]) <= set(trajectories["traj_id"])
        assert set(source.read("tasks", index)["task_id"]) == set(trajectories["task_id"])
    assert len(seen) == len(set(seen)) == 4


def test_a_group_belongs_to_its_task_policy_and_seed(tmp_path: Path, policy: Path) -> None:
    other = scripted_policy(tmp_path / "other", ("go", "open"))
    runs = {(p, seed): tmp_path / f"{p.name}{seed}" for p in (policy, other) for seed in (0, 1)}
    groups: list[str] = []
    for (path, seed), run in runs.items():
        rollout(run, path, tasks=5, seed=seed, group_size=1)
        found = table(run, "trajectories")
        assert found["group_id"].n_unique() == found["task_id"].n_unique() == 5
        groups += found["group_id"].to_list()
    assert len(set(groups)) == 20


def test_every_id_has_a_log_prob_and_counts_add_up(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    summary = rollout(run, policy)
    turns = table(run, "turns")
    assert (turns["action_ids"].list.len() == turns["logprobs"].list.len()).all()
    assert (turns["action_ids"].list.len() > 0).all()
    counted = turns.group_by("traj_id").agg(
        pl.len().cast(pl.Int32).alias("n_turns"),
        pl.col("prompt_ids").list.len().sum().cast(pl.Int32).alias("n_prompt_tokens"),
        pl.col("action_ids").list.len().sum().cast(pl.Int32).alias("n_action_tokens"),
    )
    recorded = table(run, "trajectories").select(counted.columns)
    assert recorded.equals(counted.sort("traj_id"))
    assert summary.facts["action_tokens"] == recorded["n_action_tokens"].sum()
    assert Stage(run, "rollout").manifest().counters["trajectories"] == 32


def test_rewards_and_outcomes_agree_with_the_turns(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3})
    rows = {r["traj_id"]: r for r in table(tmp_path / "run", "trajectories").to_dicts()}
    for turns in episodes(tmp_path / "run"):
        row = rows.pop(turns[0]["traj_id"])
        assert [turn["turn"] for turn in turns] == list(range(row["n_turns"]))
        assert row["reward"] == sum(turn["reward"] for turn in turns) == float(row["success"])
        assert not any(turn["done"] for turn in turns[:-1])
        assert row["stop_reason"] == ("done" if turns[-1]["done"] else "max_turns")
        assert turns[-1]["done"] or len(turns) == MAX_TURNS
    assert not rows


@pytest.mark.parametrize(("groups_per_shard", "concurrency"), [(1, 1), (1, 50), (3, 1)])
def test_shards_and_concurrency_change_nothing(
    tmp_path: Path, policy: Path, verified: Path, groups_per_shard: int, concurrency: int
) -> None:
    settings = {"groups_per_shard": groups_per_shard, "concurrency": concurrency}
    rollout(tmp_path / "run", policy, {"slip": 0.3}, **settings)
    assert same(tmp_path / "run", verified, *ROLLOUT)


def test_slices_make_the_run_that_one_process_makes(
    tmp_path: Path, policy: Path, sampled: Path
) -> None:
    config = rollout_config(policy, groups_per_shard=1)
    for slice_ in ("1/2", "0/2"):
        stage.run(config, tmp_path / "sliced", Mode.REFUSE, Listener(), slice_)
    Stage(tmp_path / "sliced", "rollout").require_complete()
    assert same(sampled, tmp_path / "sliced", *ROLLOUT)


def test_invalid_actions_are_rows(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ("fly away", "", "open"))
    summary = rollout(tmp_path / "run", policy)
    turns = table(tmp_path / "run", "turns")
    assert not turns["action_valid"].any()
    assert set(turns["action"]) == {"fly away", "", "open"}
    empty = turns.filter(pl.col("action") == "")
    assert empty["info_json"].str.contains("parse_error").all()
    assert (summary.facts["void"], summary.facts["success_rate"], summary.exit_code) == (0, 0.0, 0)


def test_a_reply_that_is_cut_is_kept_as_it_was_sampled(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ("go", "open the vault at once"))
    rollout(tmp_path / "run", policy, sampling=SamplingConfig(max_tokens=4))
    turns = table(tmp_path / "run", "turns")
    assert turns["action_ids"].list.len().max() == 4
    cut = turns.filter(pl.col("finish_reason") == "length")
    assert set(cut["action"]) == {"open"} and not cut["action_text"].is_in(["open the"]).any()
    assert set(turns["finish_reason"]) == {"stop", "length"}


def test_more_tasks_than_there_are_is_a_mistake(tmp_path: Path, policy: Path) -> None:
    with pytest.raises(UsageError, match="--tasks 13: split train of toy has only 12 tasks"):
        rollout(tmp_path / "run", policy, tasks=13)
    assert rollout(tmp_path / "all", policy, tasks=None, group_size=2).facts["groups"] == 12

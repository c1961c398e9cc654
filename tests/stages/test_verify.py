"""Continuations before and after a segment, and what they say about it."""

from __future__ import annotations

import json
import shutil
from itertools import chain
from math import sqrt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.errors import PolicyChangedError, ShardError, UsageError
from prover_cli.shards.run import Stage
from tests.policies import VAULT_REPLIES, behave, scripted_policy
from tests.stages.pipeline import (
    MAX_TURNS,
    Rows,
    credit,
    judge,
    rewrite,
    rollout,
    table,
    vault_value,
    verify,
)


def with_estimate(run: Path) -> pl.DataFrame:
    return table(run, "estimates").filter(status="ok")


def test_both_sides_get_the_same_k_and_the_turns_that_were_left(verified: Path) -> None:
    rows, estimates = table(verified, "continuations"), with_estimate(verified)
    assert estimates.height > 0
    assert ((estimates["n_before"] == 5) & (estimates["n_after"] == 5)).all()
    assert (rows["turns_left"] == MAX_TURNS - rows["turn"]).all()
    assert (rows["n_turns"] <= rows["turns_left"]).all()
    assert (rows["n_turns"] > 0).all() and rows["replay_ok"].all()
    unfinished = rows.filter(stop_reason="max_turns")
    assert unfinished.height > 0 and (unfinished["n_turns"] == unfinished["turns_left"]).all()
    per_state = rows.group_by("state_id").agg(pl.col("k").sort())
    assert all(ks == list(range(5)) for ks in per_state["k"].to_list())


def test_an_estimate_is_the_difference_of_its_sides(verified: Path) -> None:
    scored = table(verified, "continuations").group_by("state_id").agg(pl.col("success").sum())
    wins = dict(scored.iter_rows())
    for row in with_estimate(verified).iter_rows(named=True):
        before, after = wins[row["state_before"]], wins[row["state_after"]]
        assert (row["success_before"], row["success_after"]) == (before, after)
        assert row["gain"] == pytest.approx((after - before) / 5)
        assert row["ci_low"] <= row["gain"] <= row["ci_high"]


@pytest.mark.parametrize("history", ["full", "1"])
def test_values_equal_exact_enumeration(tmp_path: Path, policy: Path, history: str) -> None:
    run, k, slip = tmp_path / "run", 400, 0.25
    rollout(run, policy, {"slip": slip}, tasks=2, history=history, max_turns=7, seed=1)
    judge(run, judge="last")
    verify(run, k=k)
    seen = {(t["traj_id"], t["turn"]): t["observation"] for t in table(run, "turns").to_dicts()}
    group_task = dict(table(run, "trajectories").select("group_id", "task_id").iter_rows())
    payloads = dict(table(run, "tasks").select("task_id", "payload_json").iter_rows())
    values = table(run, "values").to_dicts()
    assert len(values) >= 2
    for row in values:
        payload = json.loads(payloads[group_task[row["group_id"]]])
        page = seen[row["traj_id"], row["turn"]]
        exact = vault_value(page, 7 - row["turn"], payload, 2, slip, VAULT_REPLIES)
        assert abs(row["mean"] - exact) <= 4 * sqrt(exact * (1 - exact) / k), page
    assert any(0.05 < row["mean"] < 0.95 for row in values)


@pytest.mark.parametrize("history", ["full", "1", "0"])
def test_equal_states_are_sampled_once(tmp_path: Path, policy: Path, history: str) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=2, history=history)
    summary = verify(run, k=1, proposer="all-turns")
    futures: dict[tuple[object, ...], set[str]] = {}
    values = {(v["traj_id"], v["turn"]): v for v in table(run, "values").to_dicts()}
    context: list[int] = []
    for turn in table(run, "turns").sort("traj_id", "turn").to_dicts():
        context = [] if turn["context_reset"] else context
        context += turn["prompt_ids"]
        now = (turn["group_id"], turn["state_key"], tuple(context), MAX_TURNS - turn["turn"])
        context += turn["action_ids"]
        state = values[turn["traj_id"], turn["turn"]]["state_id"]
        futures.setdefault(now, set()).add(state)
    assert all(len(states) == 1 for states in futures.values())
    assert len(set(chain.from_iterable(futures.values()))) == len(futures)
    assert summary.facts["continuations"] == len(futures) < len(values)
    sources = [row["source"] for row in values.values()]
    assert sources.count("sampled") == len(futures)


def test_values_of_equal_states_are_equal(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=2)
    verify(run, k=3, proposer="all-turns")
    values = table(run, "values")
    assert values.group_by("state_id").agg(pl.col("mean").n_unique())["mean"].max() == 1
    assert values.filter(turn=0)["state_id"].n_unique() == 2


def test_nothing_to_verify_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    run, policy = tmp_path / "run", scripted_policy(tmp_path / "policy", ("go",))
    rollout(run, policy)
    judge(run)
    behave(policy, fail_after=0)
    summary = verify(run)
    assert (summary.exit_code, summary.facts["verified"]) == (4, 0)
    assert "nothing to verify" in summary.warnings[0]
    assert set(table(run, "estimates")["status"]) == {"no_success"}
    Stage(run, "verify").require_complete()


def test_a_segment_that_ends_the_episode_takes_the_recorded_outcome(
    tmp_path: Path, policy: Path
) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    lengths = dict(table(run, "trajectories").select("traj_id", "n_turns").iter_rows())

    def to_the_end(rows: Rows) -> Rows:
        return [
            r if r["traj_id"] is None else r | {"end_turn": lengths[r["traj_id"]]} for r in rows
        ]

    rewrite(Stage(run, "judge"), "proposals", to_the_end)
    verify(run)
    estimates = with_estimate(run)
    assert estimates.height > 0
    assert (estimates["value_after"] == 1.0).all() and (estimates["n_after"] == 0).all()
    assert estimates["state_after"].is_null().all()
    assert (estimates["gain"] == 1.0 - estimates["value_before"]).all()
    assert set(table(run, "continuations")["state_id"]) == set(estimates["state_before"])


def test_all_turns_gives_every_turn_a_value(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    behave(policy, fail_requests=0.02)
    rollout(run, policy)
    behave(policy)
    verify(run, k=2, proposer="all-turns")
    credit(run, "vineppo")
    trajectories, values = table(run, "trajectories"), table(run, "values")
    outcomes = dict(trajectories.select("traj_id", "success").iter_rows())
    turns = table(run, "turns")
    scored = turns.filter(~turns["traj_id"].is_in([t for t, s in outcomes.items() if s is None]))
    assert 0 < scored.height < turns.height
    assert values.select("traj_id", "turn").equals(scored.select("traj_id", "turn"))
    assert table(run, "estimates").is_empty()
    start = dict(values.filter(turn=0).select("traj_id", "mean").iter_rows())
    sums = table(run, "advantages").group_by("traj_id").agg(pl.col("advantage").drop_nulls().sum())
    for traj_id, total in sums.iter_rows():
        success = outcomes[traj_id]
        assert total == pytest.approx(0.0 if success is None else success - start[traj_id])


def test_a_policy_that_changed_under_its_path_is_refused(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    scripted_policy(policy, ("go", "open"))
    with pytest.raises(PolicyChangedError, match="is not the policy that made these shards"):
        verify(run)
    scripted_policy(policy)
    assert verify(run).facts["verified"] > 0


def test_an_unknown_proposer_names_the_known_ones(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    with pytest.raises(
        UsageError, match=r"--proposer is one of judge, all-turns, every:N, .*, not 'turns'"
    ):
        verify(tmp_path / "run", proposer="turns")


@pytest.mark.parametrize("source", ["judge", "judge@other"])
def test_missing_proposals_name_the_command(tmp_path: Path, policy: Path, source: str) -> None:
    rollout(tmp_path / "run", policy)
    with pytest.raises(ShardError, match=f"{source} has no manifest") as caught:
        verify(tmp_path / "run", source=source)
    assert str(caught.value.hint).startswith(f"prover judge {tmp_path / 'run'}")


def test_a_judge_variant_is_verified_beside_the_first(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    judge(run, judge="last", variant="last")
    verify(run)
    verify(run, source="judge@last", variant="last")
    made = {s: set(table(run, "estimates", s)["proposal_id"]) for s in ("verify", "verify@last")}
    assert not made["verify"] & made["verify@last"]


@pytest.mark.parametrize(
    ("changes", "variant", "words"),
    [
        ({"k": 4}, None, ""),
        ({"k_before": 1, "k_after": 2}, None, " --estimator prover-chain"),
        ({"k_before": 4, "k_after": 3}, "few", " --from verify@few --estimator prover-chain"),
        ({"k": 4, "adaptive": True}, "rounds", " --from verify@rounds"),
    ],
)
def test_the_next_command_credits_what_was_verified(
    sampled: Path, tmp_path: Path, changes: dict[str, Any], variant: str | None, words: str
) -> None:
    run = Path(shutil.copytree(sampled, tmp_path / "run"))
    judge(run)
    summary = verify(run, **changes, variant=variant)
    assert summary.next_command == f"prover advantage {run}{words}"

"""What is verified without a judge."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from prover_cli.errors import UsageError
from prover_cli.stages.verify_proposers import Proposer, parse_proposer
from tests.stages.pipeline import rollout, table, verify


@pytest.fixture
def sampled_run(tmp_path: Path, policy: Path) -> Path:
    rollout(tmp_path / "run", policy, {"rooms": 3, "slip": 0.2}, tasks=2)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("text", "proposer"),
    [
        ("judge", Proposer("judge")),
        ("all-turns", Proposer("all-turns")),
        ("every:3", Proposer("every", 3)),
        ("every 3", Proposer("every", 3)),
        ("entropy", Proposer("entropy", 1)),
        ("random:2", Proposer("random", 2)),
    ],
)
def test_proposers_are_read(text: str, proposer: Proposer) -> None:
    assert parse_proposer(text) == proposer


@pytest.mark.parametrize(
    "text", ["", "turns", "every", "every:0", "random:", "random:x", "judge:2"]
)
def test_a_proposer_that_is_none_names_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match="entropy:N, random:N"):
        parse_proposer(text)


def test_every_nth_turn_has_a_value(sampled_run: Path) -> None:
    verify(sampled_run, k=1, proposer="every:3")
    turns = table(sampled_run, "turns").filter(pl.col("turn") % 3 == 0)
    assert (
        table(sampled_run, "values")
        .select("traj_id", "turn")
        .equals(turns.select("traj_id", "turn"))
    )
    assert table(sampled_run, "estimates").is_empty()


def test_random_turns_are_segments_that_never_end_a_trajectory(sampled_run: Path) -> None:
    verify(sampled_run, k=2, proposer="random:2")
    made = table(sampled_run, "estimates")
    lengths = dict(table(sampled_run, "trajectories").select("traj_id", "n_turns").iter_rows())
    per = made.group_by("traj_id").agg(pl.col("start_turn"), pl.col("end_turn"))
    assert set(per["traj_id"]) == {t for t, n in lengths.items() if n > 1}
    for traj_id, starts, ends in per.iter_rows():
        assert len(set(starts)) == len(starts) == min(2, lengths[traj_id] - 1)
        assert ends == [start + 1 for start in starts]
        assert max(ends) < lengths[traj_id]
    assert set(made["status"]) == {"ok"} and made["gain"].is_not_null().all()
    verify(sampled_run, k=2, proposer="random:2", variant="other", seed=1)
    other = table(sampled_run, "estimates", "verify@other")
    assert set(other["proposal_id"]) != set(made["proposal_id"])


def test_the_most_open_choices_come_first() -> None:
    """The entropy of a state is the mean surprise of the group's replies in it."""
    turns = pl.DataFrame(
        {
            "traj_id": ["a"] * 4 + ["b"] * 2,
            "turn": [0, 1, 2, 3, 0, 1],
            "group_id": ["g"] * 6,
            "state_key": ["s", "t", "u", "v", "s", "t"],
            "logprobs": [[-0.1], [-2.0, -0.5], [-1.0], [-9.0], [-0.1], [-0.1]],
        },
        schema_overrides={"logprobs": pl.List(pl.Float32)},
    )
    trajectories = pl.DataFrame(
        {"traj_id": ["a", "b", "c"], "group_id": ["g"] * 3, "n_turns": [4, 2, 0]}
    ).with_columns(pl.lit(1.0).alias("reward"))
    found = Proposer("entropy", 2).wanted(trajectories, turns, [], 0)
    chosen = [(row["traj_id"], row["start_turn"]) for row in found.segments]
    assert chosen == [("a", 1), ("a", 2), ("b", 0)]


def test_entropy_proposals_are_verified(sampled_run: Path) -> None:
    summary = verify(sampled_run, k=2, proposer="entropy:1")
    assert summary.facts["verified"] == summary.facts["proposals"] > 0


def test_the_cost_is_split_by_stage(sampled_run: Path) -> None:
    facts = verify(sampled_run, k=2, proposer="random:1").facts
    assert set(facts["cost"]) == {"rollout", "verify"}
    tokens = table(sampled_run, "trajectories")["n_action_tokens"].sum()
    assert facts["cost"]["rollout"]["tokens"] == tokens
    spent = table(sampled_run, "continuations")["n_action_tokens"].sum()
    assert facts["cost"]["verify"]["tokens"] == spent == facts["action_tokens"]
    assert facts["overhead_share"] == facts["share_of_rollout_tokens"] == spent / tokens
    assert facts["cost"]["verify"]["wall_seconds"] > 0 < facts["cost"]["verify"]["seconds"]
    assert facts["prefix_cached_share"] == 0.0

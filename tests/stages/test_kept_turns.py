"""Continuations as data: what `--keep-turns` stores, what it is worth, and training on it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from prover_cli.config import UpdateConfig
from prover_cli.credit.continuations import continuation_advantages
from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.shards.validate import faults
from prover_cli.stages import update
from tests.policies import tiny_model
from tests.stages.pipeline import (
    Listener,
    credit,
    judge,
    rollout,
    table,
    verify,
    verify_config,
)

DICE = "tests.stages.worlds:DiceVault"


def kept(run: Path, name: str, stage: str = "verify") -> pl.DataFrame:
    return Run(run).stage(stage).read(name)


@pytest.fixture
def judged(tmp_path: Path, policy: Path) -> Path:
    rollout(tmp_path / "run", policy, {"slip": 0.3})
    judge(tmp_path / "run")
    return tmp_path / "run"


def test_turns_are_those_of_the_continuations_and_change_nothing_else(judged: Path) -> None:
    verify(judged, variant="plain")
    verify(judged, keep_turns=True)
    for name in ("continuations", "values", "estimates"):
        plain = table(judged, name, "verify@plain").drop("seconds", strict=False)
        assert table(judged, name).drop("seconds", strict=False).equals(plain)
    turns = kept(judged, "continuation_turns")
    counted = turns.group_by("state_id", "k").agg(
        pl.len().alias("n"), pl.col("turn").min().alias("first"),
        pl.col("action_ids").list.len().sum().alias("tokens"), pl.col("reward").sum().alias("own"),
    )  # fmt: skip
    rows = table(judged, "continuations").join(counted, on=["state_id", "k"], how="left")
    assert rows.height == table(judged, "continuations").height > 0
    assert (rows["n"] == rows["n_turns"]).all() and (rows["first"] == rows["turn"]).all()
    assert (rows["tokens"] == rows["n_action_tokens"]).all() and (
        rows["own"] == rows["reward"]
    ).all()
    assert not list(faults(Run(judged)))
    assert "continuation_turns" in Run(judged).tables()
    assert Run(judged)["continuation_turns"].collect().height == turns.height


def test_tables_that_were_not_asked_for_are_not_there(judged: Path) -> None:
    verify(judged)
    assert "continuation_turns" not in Run(judged).tables()
    with pytest.raises(ShardError, match="was not asked for continuation_turns"):
        Run(judged)["continuation_turns"]
    with pytest.raises(ShardError, match="holds no turns of continuations"):
        credit(judged, "grpo", include_continuations=True)


def test_turns_cannot_come_from_a_cache(judged: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--value-cache exclude"):
        verify(judged, keep_turns=True, value_cache=str(tmp_path / "cache"))
    from prover_cli.stages import verify as stage

    with pytest.raises(UsageError, match="--top-up exclude"):
        config = verify_config(keep_turns=True)
        stage.run(config, judged, Mode.REFUSE, Listener(), top_up=True)


def test_a_continuation_is_worth_its_reward_less_the_mean_from_its_state() -> None:
    rewards = {"a": [1.0, 0.0, 0.0, None], "b": [1.0, None], "c": [0.5, 0.5]}
    rows = pl.DataFrame(
        [(state, k, "g", "t", 3, True, reward) for state, of in rewards.items()
         for k, reward in enumerate(of)] + [("d", 0, "g", "t", 4, False, None)],
        schema=["state_id", "k", "group_id", "traj_id", "turn", "replay_ok", "reward"],
        orient="row",
    )  # fmt: skip
    made = continuation_advantages(rows)
    found = {(r["state_id"], r["k"]): r["advantage"] for r in made.iter_rows(named=True)}
    assert found == {
        ("a", 0): pytest.approx(2 / 3), ("a", 1): pytest.approx(-1 / 3),
        ("a", 2): pytest.approx(-1 / 3), ("a", 3): None,
        ("b", 0): None, ("b", 1): None, ("c", 0): 0.0, ("c", 1): 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("history", ["full", "2"])
def test_training_sees_continuations_as_they_were_sampled(tmp_path: Path, history: str) -> None:
    """The trainer's log-probs are the engine's: contexts are whole and in order."""
    run, model = tmp_path / "run", tiny_model(tmp_path / "model", max_len=1024)
    rollout(run, model, env=DICE, engine="torch", history=history, max_turns=4, tasks=4)
    verify(run, k=4, engine="torch", keep_turns=True, proposer="every:2")
    credit(run, "grpo", variant="without")
    credit(run, "grpo", include_continuations=True)
    assert table(run, "advantages").equals(table(run, "advantages", "advantage@without"))
    worth = kept(run, "continuation_advantages", "advantage")
    trained = worth.filter(pl.col("advantage").fill_null(0.0) != 0.0)
    assert trained.height > 0
    turns = kept(run, "continuation_turns").join(trained, on=["state_id", "k"], how="semi")
    steps = []
    for source in ("advantage@without", "advantage"):
        config = UpdateConfig(lr=1e-3, device="cpu", source=source)
        name = None if source == "advantage" else "without"
        update.run(config, run, Mode.REFUSE, Listener(), name)
        folder = run / ("update" if name is None else f"update@{name}")
        steps.append(json.loads((folder / "metrics.jsonl").read_text()))
    more = turns["action_ids"].list.len().sum()
    assert steps[1]["n_policy_tokens"] == steps[0]["n_policy_tokens"] + more
    assert abs(steps[1]["logprob_gap"]) < 1e-4 and abs(steps[1]["ratio_max"] - 1) < 1e-3

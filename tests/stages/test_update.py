"""Training on the credited turns, and the loop from a policy to the next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prover_cli.config import SamplingConfig, UpdateConfig
from prover_cli.errors import (
    ConfigMismatchError,
    NothingToDoError,
    PolicyChangedError,
    ShardError,
    UsageError,
)
from prover_cli.ids import policy_id
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import evaluate, update
from prover_cli.stages.report import Summary
from tests.policies import scripted_policy, tiny_model
from tests.stages.pipeline import (
    Listener,
    credit,
    credit_everything,
    judge,
    rollout,
    rollout_config,
    table,
    verify,
)

DICE = "tests.stages.worlds:DiceVault"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "model")


def sample(run: Path, policy: Path, **changes: Any) -> None:
    settings = {"tasks": 4, "max_turns": 4, "engine": "torch", **changes}
    rollout(run, policy, env=DICE, **settings)


def train(run: Path, mode: Mode = Mode.REFUSE, **changes: Any) -> tuple[Summary, Listener]:
    config = UpdateConfig(**{"lr": 1e-3, "device": "cpu", **changes})
    listener = Listener()
    return update.run(config, run, mode, listener, changes.pop("variant", None)), listener


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A run from rollout to update."""
    run = tmp_path_factory.mktemp("loop") / "run"
    sample(run, model)
    judge(run)
    verify(run, k=2, engine="torch")
    credit(run, "prover")
    train(run)
    return run


def test_the_whole_loop_makes_another_policy(trained: Path, model: Path) -> None:
    assert table(trained, "estimates").filter(status="ok").height > 0
    made = trained / "update" / "policy"
    manifest = Run(trained).stage("update").require_complete()
    assert manifest.facts["policy_id"] == policy_id(made) != policy_id(model)
    assert manifest.policy is not None and manifest.policy.policy_id == policy_id(model)
    (step,) = map(json.loads, (trained / "update" / "metrics.jsonl").read_text().splitlines())
    assert step["estimator"] == "prover" and step["params_changed_fraction"] > 0.5
    assert abs(step["logprob_gap"]) < 1e-4
    summary = evaluate.run(
        rollout_config(evaluate.updated_policy(trained), env=DICE, engine="torch", max_turns=4),
        trained,
        Mode.REFUSE,
        Listener(),
    )
    assert summary.facts["policy_id"] == policy_id(made)
    assert table(trained, "trajectories", "evaluate").height == 32


def test_the_optimizer_is_carried_to_the_next_iteration(tmp_path: Path, trained: Path) -> None:
    run = tmp_path / "second"
    sample(run, trained / "update" / "policy", tasks=2, seed=1)
    credit_everything(run)
    _, listener = train(run)
    assert f"optimizer state carried over from {trained / 'update' / 'trainer_state'}" in (
        listener.notes
    )
    steps = [
        json.loads((path / "update" / "trainer_state" / "state.json").read_text())["steps"]
        for path in (trained, run)
    ]
    assert steps == [1, 2]


def test_a_policy_that_no_update_made_starts_fresh(tmp_path: Path, trained: Path) -> None:
    alone = tmp_path / "policy"
    shutil.copytree(trained / "update" / "policy", alone)
    sample(tmp_path / "run", alone, tasks=1)
    credit_everything(tmp_path / "run")
    _, listener = train(tmp_path / "run")
    assert "optimizer state starts fresh" in listener.notes


def test_a_finished_update_does_nothing_again(trained: Path) -> None:
    before = (trained / "update" / "metrics.jsonl").stat().st_mtime_ns
    summary, _ = train(trained, Mode.RESUME)
    assert summary.did_nothing
    assert (trained / "update" / "metrics.jsonl").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="exists already"):
        train(trained)
    with pytest.raises(ConfigMismatchError, match=r"lr: 0\.001 -> 0\.5"):
        train(trained, Mode.RESUME, lr=0.5)


def test_shards_of_another_policy_are_refused(tmp_path: Path) -> None:
    policy, run = scripted_policy(tmp_path / "policy"), tmp_path / "run"
    rollout(run, policy, tasks=1)
    credit_everything(run)
    scripted_policy(policy, ("go",))
    with pytest.raises(PolicyChangedError, match="is not the policy that made these shards"):
        train(run)


def test_there_is_nothing_to_learn_from_zeros(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=1)
    credit_everything(run, 0.0)
    with pytest.raises(NothingToDoError, match=r"every advantage of all in .* is zero") as caught:
        train(run)
    assert caught.value.exit_code == 4
    assert not (run / "update" / "policy").exists()


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        (SamplingConfig(top_p=0.9), "top_p=0.9, top_k=0: its log-probs are not those"),
        (SamplingConfig(top_k=5), "top_p=1.0, top_k=5: its log-probs are not those"),
        (SamplingConfig(temperature=0.0), "the rollout was greedy"),
    ],
)
def test_log_probs_of_another_distribution_are_not_trained_on(
    tmp_path: Path, policy: Path, sampling: SamplingConfig, message: str
) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=1, sampling=sampling)
    credit_everything(run)
    with pytest.raises(UsageError, match=message):
        train(run)
    assert not Run(run).stage("update").exists()


def test_a_missing_stage_names_its_command(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, tasks=1)
    with pytest.raises(ShardError, match="advantage has no manifest") as caught:
        train(run)
    assert caught.value.hint == f"prover advantage {run}"
    with pytest.raises(ShardError, match="holds no updated policy") as caught:
        evaluate.updated_policy(run)
    assert f"prover update {run}" in str(caught.value.hint)


def test_a_refused_update_can_be_repeated_as_its_hint_says(trained: Path, tmp_path: Path) -> None:
    """Two estimators and none chosen: nothing was begun, so nothing stands in the way."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    for name in ("advantage", "update"):
        shutil.rmtree(run / name)
    credit(run, "prover", "grpo")
    with pytest.raises(UsageError, match="holds the advantages of grpo, prover") as caught:
        train(run)
    assert caught.value.hint == f"prover update {run} --estimator NAME"
    summary, _ = train(run, estimator="grpo")
    assert summary.facts["estimator"] == "grpo"


def test_the_temperature_of_the_rollout_is_that_of_training(tmp_path: Path, model: Path) -> None:
    """The engine's log-probs at 0.6 are the trainer's."""
    run = tmp_path / "run"
    sample(run, model, tasks=1, sampling=SamplingConfig(temperature=0.6))
    credit_everything(run)
    summary, _ = train(run)
    step = summary.facts["last_step"]
    assert abs(step["logprob_gap"]) < 1e-4 and step["ratio_mean"] == pytest.approx(1.0, abs=1e-6)

"""Results of one rollout are never mixed with those of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover_cli.config import JudgeConfig, UpdateConfig
from prover_cli.errors import ConfigMismatchError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.stages import judge as judge_stage
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages import update
from prover_cli.stages import verify as verify_stage
from tests.stages.pipeline import (
    Listener,
    credit,
    credit_everything,
    judge,
    rollout,
    rollout_config,
    verify,
    verify_config,
)


def sample_again(run: Path, policy: Path, **changes: object) -> None:
    config = rollout_config(policy, **changes)  # type: ignore[arg-type]
    rollout_stage.run(config, run, Mode.OVERWRITE, Listener())


@pytest.mark.parametrize("changes", [{"seed": 1}, {"max_turns": 5}], ids=["seed", "max_turns"])
def test_proposals_of_an_earlier_rollout_are_not_verified(
    tmp_path: Path, policy: Path, changes: dict[str, int]
) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    sample_again(run, policy, **changes)
    with pytest.raises(UsageError, match="rollout"):
        verify(run)


def test_estimates_of_an_earlier_rollout_are_not_credited(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    verify(run)
    sample_again(run, policy, max_turns=5)
    with pytest.raises(UsageError, match="rollout"):
        credit(run)


def test_advantages_of_an_earlier_rollout_are_not_trained_on(tmp_path: Path, policy: Path) -> None:
    """The new episodes have the ids of the old ones, and other turns."""
    run = tmp_path / "run"
    rollout(run, policy)
    credit_everything(run)
    sample_again(run, policy, max_turns=5)
    with pytest.raises(UsageError, match="rollout"):
        update.run(UpdateConfig(device="cpu"), run, Mode.REFUSE, Listener())


def test_an_estimate_of_earlier_proposals_is_not_resumed(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    verify(run)
    changed = JudgeConfig("last", max_success=7)
    judge_stage.run(changed, run, Mode.OVERWRITE, Listener())
    with pytest.raises(ConfigMismatchError, match="inputs changed since: judge"):
        verify_stage.run(verify_config(), run, Mode.RESUME, Listener())

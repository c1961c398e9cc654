"""A fixed panel, alone or paired task by task."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prover_cli.config import EnvConfig
from prover_cli.errors import ConfigMismatchError, ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import evaluate
from prover_cli.stages.panel_stats import describe_panel, paired_difference
from prover_cli.stages.report import Summary
from tests.policies import scripted_policy
from tests.stages.pipeline import Listener, rollout, rollout_config, table


def measure(
    run: Path,
    policy: Path,
    variant: str | None = None,
    baseline: str | None = None,
    mode: Mode = Mode.REFUSE,
    **changes: Any,
) -> Summary:
    config = rollout_config(policy, **{"split": "test", "group_size": 8, "tasks": 6, **changes})
    return evaluate.run(config, run, mode, Listener(), variant, baseline)


def outcomes(*tasks: str) -> pl.DataFrame:
    """One task per argument, one sample per character: 1 success, 0 failure, x void."""
    rows = [
        {
            "task_id": f"task{number}",
            "reward": None if sample == "x" else float(sample),
            "success": None if sample == "x" else sample == "1",
            "n_turns": 3,
        }
        for number, samples in enumerate(tasks)
        for sample in samples
    ]
    return pl.DataFrame(rows)


def test_a_policy_paired_with_itself_differs_by_nothing(tmp_path: Path, policy: Path) -> None:
    measure(tmp_path, policy, "before")
    paired = measure(tmp_path, policy, "after", "before").facts["paired"]
    assert paired["tasks"] == 6
    assert paired["success_difference"] == paired["reward_difference"] == 0.0
    assert paired["success_difference_interval"] == (0.0, 0.0)
    assert paired["tasks_better"] == paired["tasks_worse"] == 0


@pytest.mark.parametrize("name", ["before", "evaluate@before", "{run}/evaluate@before"])
def test_a_baseline_is_a_variant_or_a_folder(tmp_path: Path, policy: Path, name: str) -> None:
    measure(tmp_path, policy, "before", seed=3)
    summary = measure(tmp_path, policy, "after", name.format(run=tmp_path))
    assert summary.facts["paired"]["tasks"] == 6
    assert summary.facts["baseline"]["tasks"] == 6


def test_a_worse_policy_is_measured_as_such(tmp_path: Path, policy: Path) -> None:
    helpless = scripted_policy(tmp_path / "helpless", ("open",))
    measure(tmp_path, policy, "before")
    facts = measure(tmp_path, helpless, "after", "before").facts
    assert facts["success_rate"] == 0.0 < facts["baseline"]["success_rate"]
    assert facts["paired"]["success_difference"] == -facts["baseline"]["success_rate"]
    assert facts["paired"]["tasks_worse"] > 0 == facts["paired"]["tasks_better"]


@pytest.mark.parametrize("changes", [{"tasks": 3}, {"split": "valid"}, {"options": {"slip": 0.1}}])
def test_another_panel_is_refused(tmp_path: Path, policy: Path, changes: dict[str, Any]) -> None:
    measure(tmp_path, policy, "before")
    with pytest.raises(UsageError, match="evaluated another panel"):
        measure(tmp_path, policy, "after", "before", **changes)
    assert not Run(tmp_path).stage("evaluate@after").exists()


def test_a_missing_baseline_names_the_command(tmp_path: Path, policy: Path) -> None:
    with pytest.raises(ShardError, match="there is no evaluation") as caught:
        measure(tmp_path, policy, "after", "before")
    assert str(caught.value.hint).startswith(f"make it first: prover evaluate {tmp_path}")


def test_the_panel_is_the_first_tasks_whatever_the_seed(tmp_path: Path, policy: Path) -> None:
    panels = [
        measure(tmp_path, policy, f"s{seed}", seed=seed, tasks=4).facts["panel_hash"]
        for seed in (0, 1)
    ]
    assert panels[0] == panels[1]
    first, second = (table(tmp_path, "trajectories", f"evaluate@s{s}") for s in (0, 1))
    assert set(first["task_id"]) == set(second["task_id"])
    assert not set(first["env_seed"]) & set(second["env_seed"])


def test_a_finished_evaluation_is_not_sampled_again(tmp_path: Path, policy: Path) -> None:
    facts = measure(tmp_path, policy).facts
    again = measure(tmp_path, policy, mode=Mode.RESUME)
    assert again.did_nothing and again.facts == facts
    with pytest.raises(ConfigMismatchError, match="group_size: 8 -> 4"):
        measure(tmp_path, policy, mode=Mode.RESUME, group_size=4)


def test_the_environment_is_that_of_the_rollout_unless_told(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path, policy, {"slip": 0.3}, history="2")
    given = EnvConfig("", {})
    found = evaluate.environment_for(tmp_path, given)
    assert (found.name, found.options) == ("toy", {"rooms": 2, "slip": 0.3})
    assert (found.history, found.max_turns) == ("2", 12)
    changed = evaluate.environment_for(tmp_path, replace(given, options={"slip": 0.1}))
    assert changed.options == {"rooms": 2, "slip": 0.1}
    other = EnvConfig("webshop", {})
    assert evaluate.environment_for(tmp_path, other) == other


def test_pass_at_k_is_the_share_of_draws_with_a_success() -> None:
    samples = ("1000", "1100", "0000", "1111")
    found = describe_panel(outcomes(*samples))
    for k in (1, 2, 4):
        draws = [list(combinations(sample, k)) for sample in samples]
        shares = [sum("1" in draw for draw in drawn) / len(drawn) for drawn in draws]
        assert found["pass_at_k"][str(k)] == pytest.approx(sum(shares) / 4)
    assert set(found["pass_at_k"]) == {"1", "2", "4"}
    assert found["success_rate"] == pytest.approx(7 / 16)


def test_tasks_weigh_the_same_however_many_samples_are_void() -> None:
    found = describe_panel(outcomes("1xxx", "0000", "xxxx"))
    assert (found["tasks"], found["samples_per_task"]) == (2, 1)
    assert found["success_rate"] == 0.5 and set(found["pass_at_k"]) == {"1"}


def test_a_panel_without_outcomes_has_no_rates() -> None:
    nothing = outcomes("xx", "xx").cast({"reward": pl.Float64, "success": pl.Boolean})
    assert describe_panel(nothing) == {"tasks": 0, "success_rate": None, "mean_reward": None}
    assert paired_difference(nothing, outcomes("10", "11"))["success_difference"] is None


def test_a_difference_is_over_the_tasks_that_both_scored() -> None:
    found = paired_difference(outcomes("11", "10", "xx"), outcomes("00", "10", "11"))
    assert (found["tasks"], found["success_difference"]) == (2, 0.5)
    assert (found["tasks_better"], found["tasks_worse"]) == (1, 0)
    assert found["success_difference_interval"] == (0.0, 1.0)

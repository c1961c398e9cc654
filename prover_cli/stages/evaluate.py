"""`evaluate`: a policy on a fixed panel, alone or paired with an earlier evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from prover_cli.config import EnvConfig, RolloutConfig
from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.stages.panel_stats import describe_panel, paired_difference
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.rollout import percent
from prover_cli.stages.sampling import sample_panel
from prover_cli.stages.world import resolve, rollout_config

DEFAULT_TASKS = 64
"""Tasks of an evaluation that names no number (or all, where there are fewer)."""
PANEL_SEED = 0
"""Chooses them, the same in every run: the order of some data sets is by kind of task."""


def run(
    config: RolloutConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    baseline: str | None = None,
) -> Summary:
    """Sample `config.group_size` episodes of each of `config.tasks` tasks of the split.

    `baseline` names an evaluation of the same panel to pair with: a variant of this run or the
    folder of an evaluation. Raises `UsageError` when its panel is another one.
    """
    config, world = resolve(config, DEFAULT_TASKS)
    panel = world.environment.tasks(config.split).draw(config.tasks, PANEL_SEED)
    stage = Stage(path, "evaluate" if variant is None else f"evaluate@{variant}")
    before = None if baseline is None else _baseline(path, baseline, panel.panel_hash)
    _, did_nothing = sample_panel(stage, config, world, panel, mode, reporter)
    trajectories = stage.read("trajectories")
    facts: dict[str, Any] = {
        "policy_id": stage.manifest().policy.policy_id,  # type: ignore[union-attr]
        "panel_hash": panel.panel_hash,
        "split": config.split,
        "panel_note": panel.note,
        **describe_panel(trajectories),
    }
    if before is not None:
        facts["baseline"] = describe_panel(before.read("trajectories"))
        facts["paired"] = paired_difference(trajectories, before.read("trajectories"))
    lines = _lines(facts) if panel.note is None else (*_lines(facts), panel.note)
    return Summary(folder=path, facts=facts, lines=lines, did_nothing=did_nothing)


def updated_policy(run: Path) -> Path:
    """The policy that the run's update wrote."""
    policy = run / "update" / "policy"
    if not policy.is_dir():
        raise ShardError(
            f"{run} holds no updated policy ({policy} does not exist)",
            hint=f"prover update {run} (or name another: --policy DIR)",
        )
    return policy


def environment_for(run: Path, given: EnvConfig) -> EnvConfig:
    """The environment of the run's rollout with what was `given` put over it.

    With another environment's name only what was given counts.
    """
    rollout = Stage(run, "rollout")
    if not rollout.exists():
        return given if given.name else replace(given, name=EnvConfig().name)
    recorded = rollout_config(rollout.manifest()).env
    if given.name not in ("", recorded.name):
        return given
    same_prompt = given.prompt in (None, recorded.prompt)
    return EnvConfig(
        recorded.name,
        {**recorded.options, **given.options},
        given.prompt or recorded.prompt,
        given.history or (recorded.history if same_prompt else None),
        given.max_turns or recorded.max_turns,
        given.thinking or recorded.thinking,
    )


def _baseline(path: Path, name: str, panel_hash: str) -> Stage:
    """The evaluation named by `--baseline`, checked to be of the same panel."""
    folder = Path(name)
    here = Stage(path, f"evaluate@{name.removeprefix('evaluate@')}")
    stage = here if here.exists() else Stage(folder.parent, folder.name)
    if not stage.exists():
        raise ShardError(
            f"there is no evaluation {here.folder} (nor a folder {folder})",
            hint=f"make it first: prover evaluate {path} --policy DIR --as {name}",
        )
    recorded = stage.require_complete().facts.get("panel_hash")
    if recorded != panel_hash:
        raise UsageError(
            f"{stage.folder} evaluated another panel ({recorded}) than this one ({panel_hash})",
            hint="use the same --split, --tasks and environment options for both",
        )
    return stage


def _lines(facts: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [_line("success", facts)]
    if facts["tasks"]:
        lines.append("pass@k " + ", ".join(f"{k}: {v:.1%}" for k, v in facts["pass_at_k"].items()))
    if "paired" in facts:
        paired = facts["paired"]
        lines.append(_line("baseline", facts["baseline"]))
        if paired["tasks"]:
            low, high = paired["success_difference_interval"]
            lines.append(
                f"difference {paired['success_difference']:+.1%} [{low:+.1%}, {high:+.1%}] "
                f"on {paired['tasks']} tasks: {paired['tasks_better']} better, "
                f"{paired['tasks_worse']} worse"
            )
    return tuple(lines)


def _line(label: str, facts: Mapping[str, Any]) -> str:
    if not facts["tasks"]:
        return f"{label}: no scored trajectory"
    low, high = facts["success_interval"]
    return (
        f"{label} {percent(facts['success_rate'])} [{low:.1%}, {high:.1%}], mean reward "
        f"{facts['mean_reward']:.3f}, {facts['tasks']} tasks x {facts['samples_per_task']}"
    )

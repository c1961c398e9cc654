"""`rollout`: groups of trajectories for tasks drawn from a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import RolloutConfig
from prover_cli.envs.panel import Panel
from prover_cli.errors import UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.sampling import sample_panel
from prover_cli.stages.verify_quarantine import quarantined
from prover_cli.stages.world import World, resolve

MOSTLY_TRUNCATED = 0.5
MOSTLY_WITHOUT_SIGNAL = 0.9


def run(
    config: RolloutConfig, out: Path, mode: Mode, reporter: Reporter, slice_: str = "0/1"
) -> Summary:
    """Sample the groups and write `out/rollout`.

    Raises `UsageError` for an unusable configuration, `EngineDeadError` when the engine fails;
    finished shards stay and `Mode.RESUME` goes on from them.
    """
    config, world = resolve(config)
    panel = _panel(config, world)
    stage = Stage(out, "rollout")
    _, did_nothing = sample_panel(stage, config, world, panel, mode, reporter, slice_)
    facts = describe(stage.read("trajectories"))
    return Summary(
        folder=out,
        facts={**facts, "panel_note": panel.note},
        lines=_lines(facts, panel.note),
        warnings=_warnings(facts),
        did_nothing=did_nothing,
        next_command=f"prover judge {out}",
    )


def _panel(config: RolloutConfig, world: World) -> Panel:
    """The tasks drawn, without those in quarantine."""
    offered = world.environment.tasks(config.split)
    if config.quarantine is None:
        return offered.draw(config.tasks, config.seed)
    panel = offered.draw(config.tasks, config.seed, quarantined(Path(config.quarantine)))
    if not panel or len(panel) < (config.tasks or 0):
        raise UsageError(
            f"{config.quarantine} leaves {len(panel)} tasks of {config.split}, and "
            f"{config.tasks or 'some'} are wanted",
            hint=f"--tasks {len(panel)}" if panel else "name another --split",
        )
    return panel


def describe(trajectories: pl.DataFrame) -> dict[str, Any]:
    """Success, mixed groups, truncation and tokens; shares are null where nothing was scored."""
    scored = trajectories.filter(pl.col("reward").is_not_null())
    groups = scored.group_by("group_id").agg(
        pl.col("success").sum().alias("successes"),
        pl.len().alias("n"),
        pl.col("reward").n_unique().alias("distinct"),
    )
    mixed = (pl.col("successes") > 0) & (pl.col("successes") < pl.col("n"))
    truncated = scored.select((pl.col("stop_reason") != "done").mean()).item()
    return {
        "groups": trajectories["group_id"].n_unique(),
        "trajectories": trajectories.height,
        "void": trajectories.height - scored.height,
        "success_rate": scored["success"].mean(),
        "mean_reward": scored["reward"].mean(),
        "mixed_groups": groups.filter(mixed).height,
        "eligible_groups": groups.filter(mixed & (pl.col("successes") <= 3)).height,
        "groups_without_signal": groups.filter(pl.col("distinct") == 1).height,
        "truncated_share": truncated,
        "mean_turns": scored["n_turns"].mean(),
        "prompt_tokens": trajectories["n_prompt_tokens"].sum(),
        "action_tokens": trajectories["n_action_tokens"].sum(),
    }


def percent(value: float | None) -> str:
    """A share for people; null is shown as such."""
    return "n/a" if value is None else f"{value:.1%}"


def _lines(facts: dict[str, Any], note: str | None) -> tuple[str, ...]:
    turns = facts["mean_turns"]
    lines = (
        f"{facts['groups']} groups, {facts['trajectories']} trajectories"
        + (f" ({facts['void']} void)" if facts["void"] else ""),
        f"success {percent(facts['success_rate'])}, mean reward "
        + ("n/a" if facts["mean_reward"] is None else f"{facts['mean_reward']:.3f}"),
        f"mixed groups {facts['mixed_groups']} of {facts['groups']}, "
        f"truncated {percent(facts['truncated_share'])}, "
        + ("" if turns is None else f"{turns:.1f} turns on average"),
        f"{facts['action_tokens']:,} tokens sampled, {facts['prompt_tokens']:,} tokens of prompts",
    )
    return (*lines, note) if note else lines


def _warnings(facts: dict[str, Any]) -> tuple[str, ...]:
    warnings = []
    if (facts["truncated_share"] or 0.0) > MOSTLY_TRUNCATED:
        warnings.append(
            f"{percent(facts['truncated_share'])} of the trajectories ran out of turns or context: "
            "raise --max-turns, or the policy learns from failures it could not avoid"
        )
    if facts["groups"] and facts["groups_without_signal"] / facts["groups"] > MOSTLY_WITHOUT_SIGNAL:
        warnings.append(
            f"{facts['groups_without_signal']} of {facts['groups']} groups have equal rewards "
            "throughout: there is next to nothing to learn from"
        )
    if facts["void"]:
        warnings.append(f"{facts['void']} trajectories are void: their rewards are unknown")
    return tuple(warnings)

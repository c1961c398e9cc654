"""Numbers per stage of a run, as plain JSON values: the content of `prover stats`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from prover_cli.shards.run import Run, Stage
from prover_cli.stages import advantage, rollout, score, verify_summary
from prover_cli.stages.panel_stats import describe_panel

Facts = dict[str, Any]


def run_facts(run: Run) -> dict[str, Facts]:
    """The facts of every stage and variant that has output, in the order of the pipeline.

    Null stands for what cannot be known, e.g. a rate of nothing; it is never zero.
    """
    return {stage.name: _DESCRIBE[stage.kind](run, stage) for stage in run.stages()}


def _rollout(run: Run, stage: Stage) -> Facts:
    trajectories = stage.read("trajectories")
    facts = rollout.describe(trajectories)
    scored = trajectories.filter(pl.col("reward").is_not_null())
    per_group = scored.group_by("group_id").agg(pl.col("success").sum().alias("successes"))
    return {
        **facts,
        "mixed_share": facts["mixed_groups"] / facts["groups"] if facts["groups"] else None,
        "successes_per_group": _counts(per_group, "successes"),
        "stop_reasons": _counts(trajectories, "stop_reason"),
    }


def _judge(run: Run, stage: Stage) -> Facts:
    proposals = stage.read("proposals")
    found = proposals.filter(pl.col("status") == "ok")
    length = pl.col("end_turn") - pl.col("start_turn")
    return {
        "groups": proposals.height,
        "proposals": found.height,
        "judge": ", ".join(sorted(proposals["judge"].unique())),
        "status": _counts(proposals, "status"),
        "mean_segment_turns": found.select(length.mean()).item(),
        "prompt_tokens": int(proposals["n_prompt_tokens"].sum()),
        "output_tokens": int(proposals["n_output_tokens"].sum()),
        "seconds": float(proposals["seconds"].sum()),
    }


def _verify(run: Run, stage: Stage) -> Facts:
    return verify_summary.describe(stage)


def _score(run: Run, stage: Stage) -> Facts:
    return score.describe(stage)


def _advantage(run: Run, stage: Stage) -> Facts:
    rows = advantage.describe(pl.scan_parquet(stage.files("advantages"))).to_dicts()
    return {"estimators": {row.pop("estimator"): row for row in rows}}


def _update(run: Run, stage: Stage) -> Facts:
    facts = stage.manifest().facts
    return {key: facts.get(key) for key in ("policy_id", "estimator", "last_step")}


def _evaluate(run: Run, stage: Stage) -> Facts:
    manifest, trajectories = stage.manifest(), stage.read("trajectories")
    policy = manifest.policy
    return {
        "policy_id": None if policy is None else policy.policy_id,
        "panel_hash": manifest.facts.get("panel_hash"),
        **describe_panel(trajectories),
        "void": trajectories["reward"].null_count(),
    }


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    """How often each value occurs, by value."""
    counts: Mapping[Any, int] = dict(frame[column].value_counts().iter_rows())
    return {str(value): counts[value] for value in sorted(counts)}


_DESCRIBE: Mapping[str, Callable[[Run, Stage], Facts]] = {
    "rollout": _rollout,
    "judge": _judge,
    "verify": _verify,
    "score": _score,
    "advantage": _advantage,
    "update": _update,
    "evaluate": _evaluate,
}

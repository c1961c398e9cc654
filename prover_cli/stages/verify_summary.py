"""What verification found: how many gains, how large, and how many chance alone would give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from prover_cli.credit.intervals import credited_by_chance
from prover_cli.shards.run import Stage
from prover_cli.stages.report import Summary
from prover_cli.stages.rollout import percent


def null_rate(estimates: pl.DataFrame) -> float | None:
    """Share of segments that would look positive without any effect: the mean over estimates of
    the chance at their pooled success rate (spec: never read a positive rate without it)."""
    counted = estimates.filter(pl.col("success_before").is_not_null())
    if counted.is_empty():
        return None
    chances = [
        credited_by_chance((k0 + k1) / (n0 + n1), n0, n1)
        for k0, n0, k1, n1 in counted.select(
            "success_before", "n_before", "success_after", "n_after"
        ).iter_rows()
    ]
    return sum(chances) / len(chances)


def describe(stage: Stage) -> dict[str, Any]:
    """Counts, shares and tokens of a verification; null where there was nothing to measure."""
    estimates, counters = stage.read("estimates"), stage.manifest().counters
    verified = estimates.filter(pl.col("gain").is_not_null())
    sampled = counters.get("action_tokens", 0)
    base = Stage(stage.run, "rollout").manifest().counters.get("action_tokens", 0)
    return {
        "proposals": estimates["traj_id"].is_not_null().sum(),
        "verified": verified.height,
        "status": dict(estimates["status"].value_counts(sort=True).iter_rows()),
        "positive_rate": verified.select((pl.col("gain") > 0).mean()).item(),
        "null_rate": null_rate(estimates),
        "mean_gain": verified["gain"].mean(),
        "values": stage.read("values").height,
        "continuations": int(counters.get("continuations", 0)),
        "void": int(counters.get("void", 0)),
        "diverged": int(counters.get("diverged", 0)),
        "action_tokens": int(sampled),
        "share_of_rollout_tokens": sampled / base if base else None,
    }


def summarise(stage: Stage, did_nothing: bool) -> Summary:
    """The summary of a verification; its exit code is 4 when there was nothing to verify."""
    facts = describe(stage)
    nothing = facts["continuations"] == 0 and facts["diverged"] == 0
    warnings = []
    if facts["diverged"]:
        warnings.append(f"{facts['diverged']} states could not be re-entered: no estimate for them")
    if nothing:
        warnings.append("no group has a proposed segment: nothing to verify")
    return Summary(
        folder=stage.run,
        facts=facts,
        lines=_lines(facts),
        warnings=tuple(warnings),
        did_nothing=did_nothing,
        exit_code=4 if nothing else 0,
        next_command=f"prover advantage {stage.run}",
    )


def _lines(facts: Mapping[str, Any]) -> tuple[str, ...]:
    gain = facts["mean_gain"]
    return (
        f"{facts['verified']} of {facts['proposals']} proposals verified by "
        f"{facts['continuations']} continuations ({facts['void']} void)",
        f"positive {percent(facts['positive_rate'])}, "
        f"by chance alone {percent(facts['null_rate'])}, mean gain "
        + ("n/a" if gain is None else f"{gain:+.3f}"),
        f"{facts['action_tokens']:,} tokens sampled, "
        f"{percent(facts['share_of_rollout_tokens'])} of the rollout's",
    )

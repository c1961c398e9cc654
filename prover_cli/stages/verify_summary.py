"""What verification found: how many gains, how large, how many chance alone would give, and what
it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from prover_cli.credit.intervals import credited_by_chance
from prover_cli.shards.manifest import Manifest
from prover_cli.shards.run import Stage
from prover_cli.stages.report import Summary
from prover_cli.stages.rollout import percent
from prover_cli.stages.verify_rule import Rule, endings
from prover_cli.stages.verify_tables import EstimateStatus

PAPER_OVERHEAD = {"alfworld": 0.024, "webshop": 0.116, "searchqa": 0.168}
"""Generated tokens of ProVer over GRPO in the paper (4B models), by environment."""
_DECIDED = 0.95
_FEW = 4
"""Counts of fewer continuations of a side say little by themselves (docs/verification.md)."""
Facts = dict[str, Any]


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


def describe(stage: Stage) -> Facts:
    """Counts, shares and cost of a verification; null where there was nothing to measure."""
    estimates, manifest = stage.read("estimates"), stage.manifest()
    counters = manifest.counters
    verified = estimates.filter(pl.col("gain").is_not_null())
    cost = costs(stage)
    return {
        "proposals": estimates["traj_id"].is_not_null().sum(),
        "verified": verified.height,
        "coverage_share": _share(verified["group_id"].n_unique(), _n_groups(stage)),
        "status": dict(estimates["status"].value_counts(sort=True).iter_rows()),
        "positive_rate": verified.select((pl.col("gain") > 0).mean()).item(),
        "null_rate": null_rate(estimates),
        "measured_null_rate": _share(
            counters.get("null_positive", 0), counters.get("null_segments", 0)
        ),
        "controls_null_rate": _share(
            counters.get("null_expected", 0), counters.get("null_segments", 0)
        ),
        "null_segments": int(counters.get("null_segments", 0)),
        "mean_gain": verified["gain"].mean(),
        "mean_gain_unbiased": verified["gain_unbiased"].mean(),
        "stopping_bias": _stopping_bias(manifest, verified),
        "mean_std_error": verified["std_error"].mean(),
        "mean_interval_width": verified.select(
            (pl.col("ci_high") - pl.col("ci_low")).mean()
        ).item(),
        "decided_share": _decided(verified),
        "values": stage.read("values").height,
        "continuations": int(counters.get("continuations", 0)),
        "cached_continuations": int(counters.get("cached_continuations", 0)),
        "void": int(counters.get("void", 0)),
        "diverged": int(counters.get("diverged", 0)),
        "skipped_groups": int(counters.get("skipped_groups", 0)),
        "action_tokens": int(counters.get("action_tokens", 0)),
        "cached_action_tokens": int(counters.get("cached_action_tokens", 0)),
        "share_of_rollout_tokens": _share(cost["verify"]["tokens"], cost["rollout"]["tokens"]),
        "prefix_cached_share": _share(
            counters.get("context_tokens_cached", 0), counters.get("context_tokens", 0)
        ),
        "cost": cost,
        **_overhead(cost, manifest),
    }


def costs(stage: Stage) -> dict[str, Facts]:
    """Generated tokens and seconds of the rollout, the judge and the verification.

    Seconds are those of the episodes and proposals, summed; what ran at once counts each time.
    `wall_seconds` is what the verification took on the clock.
    """
    counters = stage.manifest().counters
    rollout = Stage(stage.run, "rollout")
    found = {"rollout": _cost_of(rollout, "action_tokens", "trajectories")}
    judge = Stage(stage.run, _judge_of(stage) or "judge")
    if _judge_of(stage) is not None:
        found["judge"] = _cost_of(judge, "output_tokens", "proposals")
    rows = stage.read("continuations").filter(~pl.col("cached"))
    found["verify"] = {
        "tokens": int(counters.get("action_tokens", 0)),
        "seconds": round(float(rows["seconds"].sum()), 3),
        "wall_seconds": round(counters.get("wall_seconds", 0.0), 3),
    }
    return found


def _cost_of(stage: Stage, tokens: str, table: str) -> Facts:
    if not stage.exists():
        return {"tokens": 0, "seconds": 0.0}
    seconds = float(stage.read(table)["seconds"].sum())
    return {
        "tokens": int(stage.manifest().counters.get(tokens, 0)),
        "seconds": round(seconds, 3),
    }


def _judge_of(stage: Stage) -> str | None:
    """The stage whose proposals were verified; None where none was."""
    return next((n for n in stage.manifest().inputs if n.partition("@")[0] == "judge"), None)


def _overhead(cost: Mapping[str, Facts], manifest: Manifest) -> Facts:
    """Tokens of judge and verification over the rollout's, beside the paper's figure."""
    extra = sum(cost[name]["tokens"] for name in ("judge", "verify") if name in cost)
    environment = manifest.environment
    paper = PAPER_OVERHEAD.get(environment.name) if environment is not None else None
    return {
        "overhead_share": _share(extra, cost["rollout"]["tokens"]),
        "paper_overhead_share": paper,
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _n_groups(stage: Stage) -> int:
    rollout = Stage(stage.run, "rollout")
    return rollout.read("trajectories")["group_id"].n_unique() if rollout.exists() else 0


def _decided(verified: pl.DataFrame) -> float | None:
    """Share of estimates whose sign is known with a posterior probability of 95 %."""
    p = pl.col("p_positive")
    decided = (p > _DECIDED) | (p < 1 - _DECIDED)
    return verified.filter(p.is_not_null()).select(decided.mean()).item()  # type: ignore[no-any-return]


def _rule(manifest: Manifest) -> Rule | None:
    raw = manifest.facts.get("rule")
    return None if raw is None else Rule(**{**raw, "rounds": tuple(map(tuple, raw["rounds"]))})


def _stopping_bias(manifest: Manifest, verified: pl.DataFrame) -> float | None:
    """What stopping early adds to `mean_gain` on average, computed from the rule at the rates that
    the counts suggest (Beta(1, 1) means); 0 for the plain rule, null without estimates."""
    rule = _rule(manifest)
    counted = verified.filter(pl.col("success_before").is_not_null())
    if rule is None or counted.is_empty():
        return None
    if len(rule.rounds) == 1:
        return 0.0
    columns = ("success_before", "n_before", "success_after", "n_after")
    biases = [
        _bias(rule, (k0 + 1) / (n0 + 2), (k1 + 1) / (n1 + 2))
        for k0, n0, k1, n1 in counted.select(columns).iter_rows()
    ]
    return sum(biases) / len(biases)


def _bias(rule: Rule, p_before: float, p_after: float) -> float:
    gain = sum(
        ending.probability
        * (ending.counts[2] / ending.counts[3] - ending.counts[0] / ending.counts[1])
        for ending in endings(rule, p_before, p_after)
    )
    return gain - (p_after - p_before)


def summarise(stage: Stage, did_nothing: bool) -> Summary:
    """The summary of a verification; its exit code is 4 when there was nothing to verify."""
    facts = describe(stage)
    sampled = facts["continuations"] + facts["cached_continuations"]
    skipped = facts["skipped_groups"]
    nothing = sampled == 0 and facts["diverged"] == 0
    warnings = []
    if facts["diverged"]:
        warnings.append(f"{facts['diverged']} states could not be re-entered: no estimate for them")
    if skipped:
        warnings.append(f"{skipped} groups are left out: {_why_skipped(facts)}")
    if nothing and skipped:
        warnings.append("nothing was verified: no group is within the budget and quarantine")
    elif nothing:
        warnings.append("no group has a proposed segment: nothing to verify")
    return Summary(
        folder=stage.run,
        facts=facts,
        lines=_lines(facts),
        warnings=tuple(warnings),
        did_nothing=did_nothing,
        exit_code=4 if nothing else 0,
        next_command=_next_command(stage, facts),
    )


def _next_command(stage: Stage, facts: Facts) -> str:
    """Crediting what was verified; few continuations are left to the method that makes do."""
    rule = _rule(stage.manifest())
    few = facts["verified"] and rule is not None and min(rule.most) < _FEW
    return f"prover advantage {stage.as_source}" + (" --estimator prover-chain" if few else "")


def _why_skipped(facts: Facts) -> str:
    reasons = {
        str(EstimateStatus.BUDGET): "beyond the budget",
        str(EstimateStatus.QUARANTINED): "not reproduced by replay",
    }
    found = [
        f"{facts['status'][status]} {text}"
        for status, text in reasons.items()
        if status in facts["status"]
    ]
    return ", ".join(found) or "beyond the budget or not reproduced by replay"


def _lines(facts: Mapping[str, Any]) -> tuple[str, ...]:
    gain, cached = facts["mean_gain"], facts["cached_continuations"]
    null = (
        ""
        if facts["null_segments"] == 0
        else (
            f", measured on {facts['null_segments']} segments without effect "
            f"{percent(facts['measured_null_rate'])}"
        )
    )
    paper = facts["paper_overhead_share"]
    return (
        f"{facts['verified']} of {facts['proposals']} proposals verified by "
        f"{facts['continuations']} continuations ({facts['void']} void)"
        + (f" and {cached} from the cache" if cached else ""),
        f"positive {percent(facts['positive_rate'])}, "
        f"by chance alone {percent(facts['null_rate'])}{null}, mean gain "
        + ("n/a" if gain is None else f"{gain:+.3f}"),
        f"{facts['action_tokens']:,} tokens sampled, "
        f"{percent(facts['share_of_rollout_tokens'])} of the rollout's"
        + (
            ""
            if paper is None
            else f" (with the judge {percent(facts['overhead_share'])}, paper {percent(paper)})"
        ),
    )

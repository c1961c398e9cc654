"""`compare judges`: what several judges proposed for the same groups, and what it was worth.

Groups that were not eligible are no judge's answer. Agreement is over the groups where both judges
have a segment. Where a verification read a judge's proposals, its gains stand beside the share
that would look positive without any effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.errors import ShardError, UsageError
from prover_cli.judges.base import ProposalStatus
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.judge_summary import NOT_ASKED, UNANSWERED
from prover_cli.stages.verify_summary import null_rate

FIFTHS = 5
Facts = dict[str, Any]
Segment = tuple[str, int, int]


def run(path: Path, sources: Sequence[str]) -> Facts:
    """Facts about each judge stage, each pair of them, and the verifications of each.

    Raises `UsageError` for a stage that is no judge or is named twice, `ShardError` for one that
    was not finished, or that changed its rollout.
    """
    run_ = Run(path)
    stages = [_judge(run_, name) for name in sources]
    if repeated := sorted({name for name in sources if sources.count(name) > 1}):
        raise UsageError(f"--from names {', '.join(repeated)} more than once")
    proposals = {stage.name: stage.read("proposals") for stage in stages}
    lengths = _lengths(run_)
    verified, warnings = _verifications(run_, [stage.name for stage in stages])
    return {
        "run": str(path),
        "groups": len(set().union(*(set(rows["group_id"]) for rows in proposals.values()))),
        "judges": [
            {
                "judge": name,
                **describe(rows, lengths),
                "verified": [_worth(v, rows) for v in verified.get(name, [])],
            }
            for name, rows in proposals.items()
        ],
        "pairs": [
            {"judges": [one, other], **agreement(proposals[one], proposals[other])}
            for one, other in combinations(proposals, 2)
        ],
        "warnings": warnings,
    }


def _judge(run: Run, name: str) -> Stage:
    stage = run.stage(name)
    if stage.kind != "judge":
        raise UsageError(
            f"{name} is not a stage of a judge",
            hint=f"judge or judge@NAME; see prover status {run.path}",
        )
    stage.require_fresh()
    return stage


def describe(proposals: pl.DataFrame, lengths: Mapping[str, int]) -> Facts:
    """How often a judge answers, what its segments are like, and what it costs.

    `lengths` is the number of turns of each trajectory.
    """
    status = proposals["status"].value_counts(sort=True)
    asked = proposals.filter(~pl.col("status").is_in([str(s) for s in NOT_ASKED]))
    found = asked.filter(pl.col("status") == str(ProposalStatus.OK))
    answered = asked.filter(~pl.col("status").is_in([str(s) for s in UNANSWERED]))
    invalid = asked.filter(pl.col("status") == str(ProposalStatus.INVALID_REPLY)).height
    segments = list(_segments(found).values())
    sizes = [end - start for _, start, end in segments]
    read, written = _tokens(proposals)
    return {
        "models": sorted(proposals["judge_model"].drop_nulls().unique()),
        "asked": asked.height,
        "answered": answered.height,
        "segments": found.height,
        "status": dict(status.iter_rows()),
        "answer_rate": _share(answered.height, asked.height),
        "valid_rate": _share(answered.height - invalid, answered.height),
        "segment_rate": _share(found.height, asked.height),
        "mean_turns": _share(sum(sizes), len(sizes)),
        "turns_histogram": {str(n): sizes.count(n) for n in sorted(set(sizes))},
        "position_shares": _positions(segments, lengths),
        "position_shares_at_random": _at_random(segments, lengths),
        "mean_attempts": asked["attempts"].mean(),
        "mean_tool_calls": asked["tool_calls"].mean(),
        "prompt_tokens": read,
        "output_tokens": written,
        "tokens": read + written,
        "seconds": float(proposals["seconds"].sum()),
    }


def _segments(proposals: pl.DataFrame) -> dict[str, Segment]:
    """The segment of each group that has one."""
    rows = proposals.filter(pl.col("status") == str(ProposalStatus.OK)).sort("proposal_id")
    columns = ("group_id", "traj_id", "start_turn", "end_turn")
    return {group: (traj, a, b) for group, traj, a, b in rows.select(columns).iter_rows()}


def _positions(segments: Sequence[Segment], lengths: Mapping[str, int]) -> list[float] | None:
    """Share of segments that start in each fifth of the turns where one may start."""
    counts = [0.0] * FIFTHS
    for traj_id, start, _ in segments:
        counts[_fifth(start, lengths[traj_id])] += 1
    return [count / len(segments) for count in counts] if segments else None


def _at_random(segments: Sequence[Segment], lengths: Mapping[str, int]) -> list[float] | None:
    """The same if every start had been equally likely in these trajectories."""
    counts = [0.0] * FIFTHS
    for traj_id, _, _ in segments:
        n = lengths[traj_id]
        for start in range(n - 1):
            counts[_fifth(start, n)] += 1 / (n - 1)
    return [count / len(segments) for count in counts] if segments else None


def _fifth(start: int, n_turns: int) -> int:
    # The last turn is never in a segment.
    return start * FIFTHS // (n_turns - 1)


def agreement(one: pl.DataFrame, other: pl.DataFrame) -> Facts:
    """How far two judges agree, over the groups where both have a segment.

    The overlap of two segments is their common turns over the turns of either; 0 in different
    trajectories.
    """
    left, right = _segments(one), _segments(other)
    both = sorted(left.keys() & right.keys())
    overlaps = [overlap(left[group], right[group]) for group in both]
    return {
        "groups": len(both),
        "same_trajectory_rate": _share(sum(left[g][0] == right[g][0] for g in both), len(both)),
        "same_segment_rate": _share(sum(left[g] == right[g] for g in both), len(both)),
        "touching_rate": _share(sum(x > 0 for x in overlaps), len(both)),
        "mean_overlap": _share(sum(overlaps), len(both)),
    }


def overlap(one: Segment, other: Segment) -> float:
    """Common turns over the turns of either."""
    if one[0] != other[0]:
        return 0.0
    common = max(0, min(one[2], other[2]) - max(one[1], other[1]))
    return common / (one[2] - one[1] + other[2] - other[1] - common)


def _verifications(run: Run, judges: Sequence[str]) -> tuple[dict[str, list[Stage]], list[str]]:
    """The verifications of each judge, and which are left out because they cannot be read."""
    found: dict[str, list[Stage]] = {}
    warnings = []
    for stage in run.stages():
        read = [] if stage.kind != "verify" else stage.manifest().inputs
        names = [name for name in judges if name in read]
        try:
            if names:
                stage.require_fresh()
        except ShardError as error:
            warnings.append(f"{stage.name} is left out: {error.message}")
            continue
        for name in names:
            found.setdefault(name, []).append(stage)
    return found, warnings


def _worth(stage: Stage, proposals: pl.DataFrame) -> Facts:
    """What a verification says of a judge's proposals."""
    return {"stage": stage.name, **worth(stage.read("estimates"), sum(_tokens(proposals)))}


def _tokens(proposals: pl.DataFrame) -> tuple[int, int]:
    """Tokens that the judge read and wrote."""
    return int(proposals["n_prompt_tokens"].sum()), int(proposals["n_output_tokens"].sum())


def worth(estimates: pl.DataFrame, judge_tokens: int) -> Facts:
    """Rates and gains of estimates; `judge_tokens` are those that the judge read and wrote.

    `gain_per_1000_tokens` is the sum of all gains over the judge's tokens, in thousands; null for
    a judge without a model.
    """
    known = estimates.filter(pl.col("gain").is_not_null())
    total = float(known["gain"].sum())
    return {
        "verified": known.height,
        "positive_rate": known.select((pl.col("gain") > 0).mean()).item(),
        "null_rate": null_rate(known),
        "mean_gain": known["gain"].mean(),
        "mean_positive_gain": known.filter(pl.col("gain") > 0)["gain"].mean(),
        "gain_per_1000_tokens": _share(1000 * total, judge_tokens),
        "continuations": int(known.select((pl.col("n_before") + pl.col("n_after")).sum()).item()),
    }


def _lengths(run: Run) -> dict[str, int]:
    rollout = run.stage("rollout")
    rows = rollout.read("trajectories").select("traj_id", "n_turns")
    return dict(rows.iter_rows())


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

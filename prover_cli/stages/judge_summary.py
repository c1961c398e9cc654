"""What a judge did, in numbers: answers, validity, repairs, tokens, and where it picked."""

from __future__ import annotations

from typing import Any

import polars as pl

from prover_cli.judges.base import ProposalStatus
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.report import Summary

FIFTHS = 5
NOT_ASKED = frozenset(
    {
        ProposalStatus.TOO_FEW_SCORED,
        ProposalStatus.NO_SUCCESS,
        ProposalStatus.NO_FAILURE,
        ProposalStatus.TOO_FEW_SUCCESSES,
        ProposalStatus.TOO_MANY_SUCCESSES,
        ProposalStatus.NO_VALID_SEGMENT,
    }
)
"""The judge was not asked: the group was not eligible, or has nothing to choose from."""
UNANSWERED = frozenset({ProposalStatus.NO_REPLY, ProposalStatus.OVER_BUDGET})
UNAVAILABLE = 3


def summarise(stage: Stage, did_nothing: bool, prices: tuple[float, float] | None) -> Summary:
    """The summary of a stage; its exit code is 3 when a model was asked and never answered."""
    proposals = stage.read("proposals")
    lengths = Run(stage.run).stage("rollout").read("trajectories").select("traj_id", "n_turns")
    facts = describe(proposals, lengths, prices)
    unreached = facts["asked"] > 0 and facts["status"].get("no_reply", 0) == facts["asked"]
    return Summary(
        folder=stage.run,
        facts=facts,
        lines=_lines(facts),
        warnings=_warnings(proposals, facts),
        did_nothing=did_nothing,
        exit_code=UNAVAILABLE if unreached else 0,
        next_command=f"prover verify {stage.as_source} --k 8",
    )


def describe(
    proposals: pl.DataFrame, lengths: pl.DataFrame, prices: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Counts and shares; shares are null where nothing was asked.

    `positions` counts the segments by the fifth of the turns, from the first to the last but one,
    that their first turn lies in. `answer_rate` is the share of the groups asked about that have a
    reply to the end, `valid_rate` the share of those without an invalid end.
    """
    counts = dict(proposals["status"].value_counts(sort=True).iter_rows())
    found = proposals.filter(pl.col("status") == "ok")
    asked = proposals.filter(~pl.col("status").is_in([str(s) for s in NOT_ASKED]))
    answered = asked.filter(~pl.col("status").is_in([str(s) for s in UNANSWERED]))
    invalid = counts.get(str(ProposalStatus.INVALID_REPLY), 0)
    read, written = (int(proposals[f"n_{kind}_tokens"].sum()) for kind in ("prompt", "output"))
    modelled = asked.filter(pl.col("attempts") > 0)
    replies = int(modelled["attempts"].sum())
    return {
        "groups": proposals.height,
        "status": counts,
        "mean_segment_turns": found.select(
            (pl.col("end_turn") - pl.col("start_turn")).mean()
        ).item(),
        "positions": _positions(found, lengths),
        "asked": asked.height,
        "answer_rate": _share(answered.height, asked.height),
        "valid_rate": _share(answered.height - invalid, answered.height),
        "replies": replies,
        "tool_calls": int(asked["tool_calls"].sum()),
        "repairs": _repairs(modelled),
        "prompt_tokens": read,
        "output_tokens": written,
        "dollars": None if prices is None else (read * prices[0] + written * prices[1]) / 1e6,
    }


def _positions(found: pl.DataFrame, lengths: pl.DataFrame) -> list[int]:
    fifths = (
        found.join(lengths, on="traj_id")
        .select(pl.col("start_turn") * FIFTHS // (pl.col("n_turns") - 1))
        .to_series()
        .to_list()
    )
    return [fifths.count(fifth) for fifth in range(FIFTHS)]


def _repairs(asked: pl.DataFrame) -> int:
    """Replies that had to be given back: neither a tool call nor the last."""
    ends = [
        str(status)
        for status in (ProposalStatus.OK, ProposalStatus.ABSTAINED, ProposalStatus.INVALID_REPLY)
    ]
    ended = asked.filter(pl.col("status").is_in(ends)).height
    return max(int(asked["attempts"].sum()) - int(asked["tool_calls"].sum()) - ended, 0)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _lines(facts: dict[str, Any]) -> tuple[str, ...]:
    status, length = facts["status"], facts["mean_segment_turns"]
    lines = (
        f"{status.get('ok', 0)} proposals for {facts['groups']} groups: "
        + ", ".join(f"{n} {name}" for name, n in status.items()),
    )
    places = " ".join(str(n) for n in facts["positions"])
    segments = (
        "segments n/a"
        if length is None
        else f"segments of {length:.2f} turns on average; by fifth of the turns: {places}"
    )
    return (*lines, segments, *_cost_lines(facts))


def _cost_lines(facts: dict[str, Any]) -> tuple[str, ...]:
    if not facts["replies"]:
        return ()
    dollars = "" if facts["dollars"] is None else f", {facts['dollars']:.4f} dollars"
    return (
        f"answered {_percent(facts['answer_rate'])} of {facts['asked']}, valid "
        f"{_percent(facts['valid_rate'])}; {facts['replies']} replies, {facts['tool_calls']} tool "
        f"calls, {facts['repairs']} repairs",
        f"{facts['prompt_tokens']:,} tokens read, {facts['output_tokens']:,} written{dollars}",
    )


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0%}"


def _warnings(proposals: pl.DataFrame, facts: dict[str, Any]) -> tuple[str, ...]:
    warnings = []
    if not facts["status"].get("ok"):
        reasons = ", ".join(f"{n} {status}" for status, n in facts["status"].items())
        warnings.append(f"no group has a proposal ({reasons}): there will be nothing to verify")
    unreached = proposals.filter(pl.col("status") == str(ProposalStatus.NO_REPLY))
    if not unreached.is_empty():
        error = _error(unreached["labels_json"][0])
        warnings.append(f"{unreached.height} groups have no reply; the first: {error}")
    return tuple(warnings)


def _error(labels_json: str) -> str:
    import json

    return str(json.loads(labels_json).get("error", "unknown"))

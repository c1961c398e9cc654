"""What lies behind one advantage: proposals, estimates, continuations, siblings and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from prover_cli.shards.run import Stage

RAW_CHARACTERS = 800
"""Characters of a judge's raw replies that are kept unless all are asked for."""
Facts = dict[str, Any]

_PROPOSAL = (
    "proposal_id",
    "status",
    "traj_id",
    "start_turn",
    "end_turn",
    "judge",
    "judge_model",
    "failure_mode",
    "rationale",
    "attempts",
    "tool_calls",
    "labels_json",
)
_CONTINUATION = (
    "k",
    "success",
    "reward",
    "stop_reason",
    "error_type",
    "n_turns",
    "env_seed",
    "sampler_seed",
    "cached",
)


def proposals_of(
    judge: Stage | None, index: int, question: Any, trajectory: Mapping[str, Any]
) -> list[Facts]:
    """The group's proposals, with whether they hold the turn and the judge's raw replies."""
    if judge is None:
        return []
    rows = judge.read("proposals", index).filter(pl.col("group_id") == trajectory["group_id"])
    found = []
    for row in rows.iter_rows(named=True):
        inside = (
            row["traj_id"] == trajectory["traj_id"]
            and row["start_turn"] <= question.turn < row["end_turn"]
        )
        raw = row["raw_text"]
        cut = raw is not None and len(raw) > RAW_CHARACTERS and not question.full
        found.append(
            {key: row[key] for key in _PROPOSAL}
            | {"stage": judge.name, "holds_turn": inside}
            | {"raw_text": raw[:RAW_CHARACTERS] if cut else raw, "raw_text_is_cut": cut}
        )
    return found


def estimates_of(verified: Stage | None, index: int, group_id: str) -> list[Facts]:
    """What the verification says of the group's segments."""
    if verified is None:
        return []
    rows = verified.read("estimates", index).filter(pl.col("group_id") == group_id)
    return [{**row, "stage": verified.name} for row in rows.iter_rows(named=True)]


def states_of(
    verified: Stage | None, index: int, traj_id: str, turn: int, covering: list[Facts]
) -> list[Facts]:
    """The states that were continued from: before and after the segments that hold the turn, else
    before and after the turn itself, each with its continuations."""
    if verified is None:
        return []
    values = {
        row["turn"]: row
        for row in verified.read("values", index)
        .filter(pl.col("traj_id") == traj_id)
        .iter_rows(named=True)
    }
    wanted: dict[str, tuple[str, int, Facts | None]] = {}
    for estimate in covering:
        for side, at in (("before", "start_turn"), ("after", "end_turn")):
            if estimate[f"state_{side}"] is not None:
                place = estimate[at]
                wanted[estimate[f"state_{side}"]] = (
                    f"{side} the segment",
                    place,
                    values.get(place),
                )
    for side, place in () if covering else (("before", turn), ("after", turn + 1)):
        if place in values:
            wanted[values[place]["state_id"]] = (f"{side} the turn", place, values[place])
    rows = verified.read("continuations", index)
    return [
        _state(state_id, where, place, value, rows.filter(pl.col("state_id") == state_id))
        for state_id, (where, place, value) in wanted.items()
    ]


def _state(state_id: str, where: str, turn: int, value: Facts | None, rows: pl.DataFrame) -> Facts:
    """One state; continuations beyond the number asked for are controls and are not counted."""
    requested = None if value is None else value["n_requested"]
    continuations = [
        {key: row[key] for key in _CONTINUATION}
        | {"counted": requested is None or row["k"] < requested}
        for row in rows.sort("k").iter_rows(named=True)
    ]
    counted = [row for row in continuations if row["counted"]]
    scored = [row for row in counted if row["success"] is not None]
    return {
        "state_id": state_id,
        "where": where,
        "turn": turn,
        "successes": sum(row["success"] for row in scored),
        "scored": len(scored),
        "cached": sum(row["cached"] for row in counted),
        "turns_left": rows["turns_left"][0] if len(rows) else None,
        "stop_reasons": dict(sorted(Counter(row["stop_reason"] for row in counted).items())),
        "continuations": continuations,
    }


def siblings_of(
    rollout: Stage, index: int, turn: Mapping[str, Any], group: pl.DataFrame
) -> list[Facts]:
    """What was done in the same state elsewhere in the group, and how it ended."""
    columns = ("traj_id", "turn", "group_id", "state_key", "action", "action_valid")
    rows = rollout.read("turns", index, columns).filter(
        (pl.col("group_id") == turn["group_id"])
        & (pl.col("state_key") == turn["state_key"])
        & ~((pl.col("traj_id") == turn["traj_id"]) & (pl.col("turn") == turn["turn"]))
    )
    ends = {row["traj_id"]: row for row in group.iter_rows(named=True)}
    return [
        {key: row[key] for key in ("traj_id", "turn", "action", "action_valid")}
        | {key: ends[row["traj_id"]][key] for key in ("success", "reward")}
        for row in rows.iter_rows(named=True)
    ]


def files_of(sources: Mapping[str, Stage], judge: Stage | None, index: int) -> dict[str, str]:
    """The file of every table that was read, by table."""
    stages = dict(sources) | ({} if judge is None else {"judge": judge})
    found = {}
    for stage in stages.values():
        for table, file in stage.manifest().shards[index].files.items():
            found[table] = str(stage.folder / file.name)
    return dict(sorted(found.items()))

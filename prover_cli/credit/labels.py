"""What judges say of single turns: `labels_json` of a proposal, read as a table.

It is a JSON object `{kind: {traj_id: ...}}`; other keys are none of ours. The kinds:

    turns          a list with "good", "bad" or null per turn
    roles          a list with "D", "E", "N", "R" or null per turn
    first_error    the first wrong turn, or null when there is none
    contribution   a list with {"utility": 0..1, "validity": 0 or 1} or null per turn but the last
    confidence     a number from 0 to 1: how sure the judge is of the segment it proposed

A trajectory is labelled at most once per kind. Labels of another form are a `UsageError`: a label
that was not understood must not look like one that says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from prover_cli.credit.frames import require
from prover_cli.errors import UsageError


def turn_labels(proposals: pl.DataFrame | None, kind: str, allowed: str) -> pl.DataFrame:
    """`traj_id`, `turn`, `label` (null where the judge has no opinion) of labelled trajectories;
    `allowed` lists the labels, separated by blanks."""
    words = {*allowed.split(), None}
    traj_ids, lists = _collect(
        proposals, kind, lambda x: isinstance(x, list) and all(item in words for item in x)
    )
    return _long(pl.DataFrame({"traj_id": traj_ids, "label": lists}, _lists(pl.String)))


def contributions(proposals: pl.DataFrame | None) -> pl.DataFrame:
    """`traj_id`, `turn`, `label` (utility times validity, null where the judge has no opinion)."""
    traj_ids, lists = _collect(proposals, "contribution", _is_contribution)
    products = [
        [None if item is None else float(item["utility"]) * item["validity"] for item in one]
        for one in lists
    ]
    return _long(pl.DataFrame({"traj_id": traj_ids, "label": products}, _lists(pl.Float64)))


def first_errors(proposals: pl.DataFrame | None) -> pl.DataFrame:
    """`traj_id`, `label` (the first wrong turn, null when there is none)."""
    traj_ids, turns = _collect(
        proposals, "first_error", lambda x: x is None or (_is_number(x) and x == int(x) >= 0)
    )
    return pl.DataFrame(
        {"traj_id": traj_ids, "label": turns}, {"traj_id": pl.String, "label": pl.Int64}
    )


def confidences(proposals: pl.DataFrame | None) -> pl.DataFrame:
    """`traj_id`, `label` (0 to 1)."""
    traj_ids, numbers = _collect(proposals, "confidence", lambda x: _is_number(x) and 0 <= x <= 1)
    values = [float(number) for number in numbers]
    return pl.DataFrame(
        {"traj_id": traj_ids, "label": values}, {"traj_id": pl.String, "label": pl.Float64}
    )


def _collect(
    proposals: pl.DataFrame | None, kind: str, valid: Callable[[Any], bool]
) -> tuple[list[str], list[Any]]:
    """The labels of a kind, by trajectory."""
    found: dict[str, Any] = {}
    for proposal_id, traj_id, label in _labelled(proposals, kind):
        where = f"proposal {proposal_id}: label {kind} of {traj_id}"
        if not valid(label):
            raise UsageError(f"{where} is {json.dumps(label)}", hint="docs/credit.md has the form")
        if traj_id in found:
            raise UsageError(f"{where}: another proposal labels this trajectory too")
        found[traj_id] = label
    return list(found), list(found.values())


def _labelled(proposals: pl.DataFrame | None, kind: str) -> Iterator[tuple[str, str, Any]]:
    frame = require(proposals, "proposals", "proposal_id", "labels_json")
    for proposal_id, text in frame.select("proposal_id", "labels_json").iter_rows():
        try:
            labels = json.loads(text or "{}")
            items = labels.get(kind, {}).items()
        except (ValueError, AttributeError):
            raise UsageError(
                f"proposal {proposal_id}: labels_json is not an object with {kind} by trajectory"
            ) from None
        yield from ((proposal_id, traj_id, label) for traj_id, label in items)


def _long(lists: pl.DataFrame) -> pl.DataFrame:
    lengths = pl.col("label").list.len()
    return (
        lists.filter(lengths > 0)
        .with_columns(pl.int_ranges(0, lengths).alias("turn"))
        .explode("label", "turn")
        .select("traj_id", pl.col("turn").cast(pl.Int32), "label")
    )


def _lists(inner: type[pl.DataType]) -> dict[str, Any]:
    return {"traj_id": pl.String, "label": pl.List(inner)}


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _is_contribution(x: Any) -> bool:
    return isinstance(x, list) and all(
        item is None
        or (
            isinstance(item, dict)
            and _is_number(item.get("utility"))
            and 0 <= item["utility"] <= 1
            and item.get("validity") in (0, 1)
        )
        for item in x
    )

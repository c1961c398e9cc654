"""Random groups with everything that any credit method reads, as plain rows and as frames."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from prover_cli.credit.intervals import newcombe, p_positive

Row = dict[str, Any]

_LISTS = pl.List(pl.Float64)
SCHEMAS: dict[str, dict[str, Any]] = {
    "trajectories": {
        "traj_id": pl.String,
        "group_id": pl.String,
        "n_turns": pl.Int32,
        "n_action_tokens": pl.Int32,
        "reward": pl.Float64,
        "success": pl.Boolean,
        "stop_reason": pl.String,
        "parent_traj_id": pl.String,
        "parent_turn": pl.Int32,
    },
    "turns": {
        "traj_id": pl.String,
        "turn": pl.Int32,
        "group_id": pl.String,
        "observation": pl.String,
        "observation_hash": pl.String,
        "state_key": pl.String,
        "action_valid": pl.Boolean,
        "reward": pl.Float64,
        "logprobs": _LISTS,
    },
    "proposals": {
        "proposal_id": pl.String,
        "group_id": pl.String,
        "traj_id": pl.String,
        "start_turn": pl.Int32,
        "end_turn": pl.Int32,
        "labels_json": pl.String,
    },
    "estimates": {
        "proposal_id": pl.String,
        "group_id": pl.String,
        "traj_id": pl.String,
        "start_turn": pl.Int32,
        "end_turn": pl.Int32,
        "success_before": pl.Int32,
        "success_after": pl.Int32,
        "n_before": pl.Int32,
        "n_after": pl.Int32,
        "gain": pl.Float64,
        "ci_low": pl.Float64,
        "ci_high": pl.Float64,
        "p_positive": pl.Float64,
        "state_before": pl.String,
        "state_after": pl.String,
        "value_before": pl.Float64,
        "value_after": pl.Float64,
    },
    "continuations": {
        "state_id": pl.String,
        "k": pl.Int32,
        "group_id": pl.String,
        "traj_id": pl.String,
        "turn": pl.Int32,
        "success": pl.Boolean,
        "stop_reason": pl.String,
        "turns_left": pl.Int32,
        "state_keys": pl.List(pl.String),
    },
    "values": {"traj_id": pl.String, "turn": pl.Int32, "group_id": pl.String, "mean": pl.Float64},
    "scores": {
        "traj_id": pl.String,
        "turn": pl.Int32,
        "group_id": pl.String,
        "token_logprobs": _LISTS,
        "hindsight_logprobs": _LISTS,
        "entropy": pl.Float64,
        "value": pl.Float64,
    },
}


@dataclass
class World:
    """Rows of every table, of whole groups."""

    trajectories: list[Row] = field(default_factory=list)
    turns: list[Row] = field(default_factory=list)
    proposals: list[Row] = field(default_factory=list)
    estimates: list[Row] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    continuations: list[Row] = field(default_factory=list)

    def frames(self) -> dict[str, pl.DataFrame]:
        return {name: pl.DataFrame(getattr(self, name), SCHEMAS[name]) for name in SCHEMAS}

    def groups(self) -> list[str]:
        return sorted({row["group_id"] for row in self.trajectories})

    def only(self, group_id: str) -> World:
        keep = {
            name: [row for row in getattr(self, name) if row["group_id"] == group_id]
            for name in SCHEMAS
        }
        return World(**keep)

    def shuffled(self, seed: int) -> World:
        rng = random.Random(seed)
        mixed = {name: list(getattr(self, name)) for name in SCHEMAS}
        for rows in mixed.values():
            rng.shuffle(rows)
        return World(**mixed)

    def of(self, traj_id: str, table: str = "turns") -> list[Row]:
        rows = [row for row in getattr(self, table) if row["traj_id"] == traj_id]
        return sorted(rows, key=lambda row: row.get("turn", 0))


def world(seed: int, n_groups: int = 4) -> World:
    """Groups of every kind: mixed, all failed, all won, single, with voids and with gaps."""
    rng = random.Random(seed)
    made = World()
    for number in range(n_groups):
        _group(made, rng, f"g{number}")
    return made


def _group(made: World, rng: random.Random, group_id: str) -> None:
    kind = rng.choice(["mixed", "mixed", "mixed", "lost", "won"])
    size = rng.randint(1, 6)
    before: list[Row] = []
    for sample in range(size):
        row = _trajectory(made, rng, group_id, sample, kind)
        if before and rng.random() < 0.6:
            parent = rng.choice(before)
            row["parent_traj_id"] = parent["traj_id"]
            row["parent_turn"] = rng.randrange(min(parent["n_turns"], row["n_turns"]))
        before.append(row)
    _judged(made, rng, group_id, before)


def _trajectory(made: World, rng: random.Random, group_id: str, sample: int, kind: str) -> Row:
    traj_id, n_turns = f"{group_id}.{sample}", rng.randint(1, 6)
    void = rng.random() < 0.12
    won = {"mixed": rng.random() < 0.5, "lost": False, "won": True}[kind]
    paid = [0.0] * n_turns
    paid[-1] = 1.0 if won else 0.0
    if kind == "mixed" and rng.random() < 0.4:
        paid[rng.randrange(n_turns)] += 0.25
    n_tokens = 0
    for turn in range(n_turns):
        state = rng.choice("abcd")
        tokens = rng.randint(1, 4)
        n_tokens += tokens
        own = [-rng.random() * 2 for _ in range(tokens)]
        key = {"traj_id": traj_id, "turn": turn, "group_id": group_id}
        made.turns.append(
            key
            | {
                "observation": f"a long room with a thing called {state}",
                "observation_hash": state,
                "state_key": state + rng.choice("xy"),
                "action_valid": rng.random() < 0.8,
                "reward": paid[turn],
                "logprobs": own,
            }
        )
        if rng.random() < 0.9:
            made.values.append(key | {"mean": rng.randint(0, 8) / 8})
        if rng.random() < 0.93:
            shown = [x + rng.uniform(-0.5, 0.5) for x in own]
            made.scores.append(
                key
                | {
                    "token_logprobs": own,
                    "hindsight_logprobs": shown if rng.random() < 0.85 else None,
                    "entropy": rng.random() if rng.random() < 0.9 else None,
                    "value": rng.random() if rng.random() < 0.9 else None,
                }
            )
    row = {
        "traj_id": traj_id,
        "group_id": group_id,
        "n_turns": n_turns,
        "n_action_tokens": n_tokens,
        "reward": None if void else sum(paid),
        "success": None if void else won,
        "stop_reason": "void" if void else rng.choice(["done", "max_turns"]),
        "parent_traj_id": None,
        "parent_turn": None,
    }
    made.trajectories.append(row)
    return row


def _judged(made: World, rng: random.Random, group_id: str, rows: list[Row]) -> None:
    labels: dict[str, dict[str, Any]] = {}
    for row in rows:
        for kind, label in _labels(rng, row["n_turns"]).items():
            if rng.random() < 0.85:
                labels.setdefault(kind, {})[row["traj_id"]] = label
    for number in range(rng.randint(1, 3)):
        chosen = rng.choice(rows)
        start = rng.randrange(chosen["n_turns"])
        end = rng.randint(start + 1, chosen["n_turns"])
        segment: Row = {
            "proposal_id": f"{group_id}-{number}",
            "group_id": group_id,
            "traj_id": chosen["traj_id"],
            "start_turn": start,
            "end_turn": end,
        }
        if rng.random() < 0.1:
            segment |= {"traj_id": None, "start_turn": None, "end_turn": None}
        text = json.dumps(labels if number == 0 else {})
        made.proposals.append(segment | {"labels_json": text})
        estimate = segment | _estimate(rng, segment["traj_id"] is not None)
        made.estimates.append(estimate | _continued(made, rng, estimate, chosen))


def _labels(rng: random.Random, n_turns: int) -> dict[str, Any]:
    def contribution() -> Any:
        if rng.random() < 0.05:
            return None
        return {"utility": rng.randint(0, 4) / 4, "validity": rng.randint(0, 1)}

    return {
        "turns": [rng.choice(["good", "bad", None]) for _ in range(n_turns)],
        "roles": [rng.choice(["D", "E", "N", "R", None]) for _ in range(n_turns)],
        "first_error": rng.choice([None, *range(n_turns)]),
        "contribution": [contribution() for _ in range(n_turns - 1)],
        "confidence": rng.randint(0, 10) / 10,
    }


def _continued(made: World, rng: random.Random, estimate: Row, chosen: Row) -> Row:
    """Continuations from both ends of a segment, and what an estimate says of its ends."""
    ends: Row = {"state_before": None, "state_after": None}
    ends |= {"value_before": None, "value_after": None}
    if estimate["gain"] is None:
        return ends
    known = {row["state_id"] for row in made.continuations}
    for side, turn in (("before", estimate["start_turn"]), ("after", estimate["end_turn"])):
        ends[f"value_{side}"] = estimate[f"success_{side}"] / 8
        if turn < chosen["n_turns"]:
            ends[f"state_{side}"] = state = f"{chosen['traj_id']}@{turn}"
            if state not in known:
                _continue(made, rng, state, chosen, turn)
    return ends


def _continue(made: World, rng: random.Random, state: str, chosen: Row, turn: int) -> None:
    start = next(r["state_key"] for r in made.of(chosen["traj_id"]) if r["turn"] == turn)
    left = rng.randint(1, 7)
    for k in range(rng.randint(1, 3)):
        path = [start, *(rng.choice("abcd") + rng.choice("xy") for _ in range(left))]
        void = k > 0 and rng.random() < 0.1
        made.continuations.append(
            {
                "state_id": state,
                "k": k,
                "group_id": chosen["group_id"],
                "traj_id": chosen["traj_id"],
                "turn": turn,
                "success": None if void else rng.random() < 0.5,
                "stop_reason": "void" if void else rng.choice(["done", "max_turns"]),
                "turns_left": left,
                "state_keys": path[: rng.randint(0, left)],
            }
        )


def _estimate(rng: random.Random, known: bool) -> Row:
    k0, k1, n = rng.randint(0, 8), rng.randint(0, 8), 8
    low, high = newcombe(k0, n, k1, n)
    missing = not known or rng.random() < 0.15
    return {
        "success_before": None if missing else k0,
        "success_after": None if missing else k1,
        "n_before": 0 if missing else n,
        "n_after": 0 if missing else n,
        "gain": None if missing else (k1 - k0) / n,
        "ci_low": None if missing else low,
        "ci_high": None if missing else high,
        "p_positive": None if missing else p_positive(k0, n, k1, n),
    }

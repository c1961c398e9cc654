"""A run that is small enough to be worked out by hand.

    trajectory  outcome  turns  values (of 4)  differences of values
    ga.0        1        3      1, 1, 3        0, +.5, +.25
    ga.1        0        2      1, 0           -.25, 0
    gb.0        1        2      2, 1           -.25, +.75
    gb.1        0        2      2, 0           -.5, 0
    gb.2        void     1      none           none

Each group has a shard of its own. The judge proposes turn 1 of ga.0 and nothing in gb; the segment
is verified from 2 of 8 to 6 of 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prover_cli.shards.manifest import PolicyEntry
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.shards.schema import TABLES
from prover_cli.shards.writer import StagePlan, open_stage
from tests.shards.test_store import example

Row = dict[str, Any]
OUTCOMES = {"ga.0": (1, 3), "ga.1": (0, 2), "gb.0": (1, 2), "gb.1": (0, 2), "gb.2": (None, 1)}
VALUES = {"ga.0": (1, 1, 3), "ga.1": (1, 0), "gb.0": (2, 1), "gb.1": (2, 0)}
GROUPS = ("ga", "gb")


def put(
    run: Path,
    name: str,
    shards: Sequence[Mapping[str, Sequence[Mapping[str, Any]]]],
    inputs: Sequence[str] = (),
    seed: int = 0,
    **counters: float,
) -> None:
    """Write a finished stage; the counters are those of every shard."""
    digests = {other: Stage(run, other).manifest().output_digest for other in inputs}
    plan = StagePlan(
        Stage(run, name),
        {"seed": seed},
        {"seed": seed},
        len(shards),
        inputs=digests,
        policy=PolicyEntry(policy_id="pol1", path="policies/p"),
    )
    with open_stage(plan, Mode.REFUSE) as writer:
        for index, tables in enumerate(shards):
            writer.commit(index, tables, counters)
        writer.complete()


def whole(run: Path) -> Path:
    """Rollout, judge, verify of its segment, and verify@audit of every turn."""
    put(run, "rollout", [rollout_rows(group) for group in GROUPS], action_tokens=50)
    put(run, "judge", [judge_rows(group) for group in GROUPS], ["rollout"], output_tokens=10)
    put(
        run,
        "verify",
        [verify_rows(group) for group in GROUPS],
        ["rollout", "judge"],
        seed=1,
        action_tokens=15,
    )
    values(run, "verify@audit", GROUPS, seed=2)
    return run


def values(run: Path, name: str, groups: Sequence[str], seed: int) -> None:
    """A verification of every turn of some groups."""
    shards = [value_rows(group) if group in groups else value_rows("") for group in GROUPS]
    put(run, name, shards, ["rollout"], seed=seed, action_tokens=200)


def rollout_rows(group: str) -> Mapping[str, Sequence[Row]]:
    trajectories, turns = [], []
    for traj_id, (outcome, n_turns) in _of(group, OUTCOMES):
        place: Row = {"traj_id": traj_id, "group_id": group}
        trajectories.append(
            example(
                TABLES["trajectories"],
                **place,
                task_id=f"task-{group}",
                sample=int(traj_id[-1]),
                n_turns=n_turns,
                policy_id="pol1",
                env_seed=11,
                sampler_seed=12,
                reward=None if outcome is None else float(outcome),
                success=None if outcome is None else bool(outcome),
                stop_reason="void" if outcome is None else "done",
                parent_traj_id=None,
                parent_turn=None,
            )
        )
        turns += [
            example(
                TABLES["turns"],
                **place,
                turn=turn,
                state_key=f"{group}-{turn}",
                action=f"[b]act{turn}[/b] of {traj_id}",
            )
            for turn in range(n_turns)
        ]
    task = example(TABLES["tasks"], instruction=f"Do {group}.")
    return {
        "tasks": [{**task, "task_id": f"task-{group}"}],
        "trajectories": [{**row, "traj_id": f"{group}.{row['sample']}"} for row in trajectories],
        "turns": [{**row, "group_id": group} for row in turns],
    }


def proposal(group: str, segment: tuple[str, int, int] | None, **changes: Any) -> Row:
    traj_id, start, end = segment or (None, None, None)
    row = example(
        TABLES["proposals"],
        group_id=group,
        traj_id=traj_id,
        start_turn=start,
        end_turn=end,
        status="ok" if segment else "no_contrast",
        judge="contrast",
        judge_model=None,
        raw_text=None,
        labels_json="{}",
        n_prompt_tokens=0,
        n_output_tokens=0,
    )
    return row | {"proposal_id": f"p-{group}"} | changes


def judge_rows(group: str) -> Mapping[str, Sequence[Row]]:
    raw = "I looked. " * 200
    segment = ("ga.0", 1, 2) if group == "ga" else None
    return {"proposals": [proposal(group, segment, raw_text=raw, n_output_tokens=10)]}


def verify_rows(group: str) -> Mapping[str, Sequence[Row]]:
    segment: Row = {"traj_id": "ga.0", "start_turn": 1, "end_turn": 2}
    row = example(TABLES["estimates"], group_id=group, status="ok", **segment) | {
        "proposal_id": f"p-{group}",
        "state_before": "before",
        "state_after": "after",
        "value_before": 0.25,
        "value_after": 0.75,
        "n_before": 8,
        "n_after": 8,
        "success_before": 2,
        "success_after": 6,
        "gain": 0.5,
        "gain_unbiased": 0.5,
        "ci_low": 0.018,
        "ci_high": 0.752,
        "p_positive": 0.971,
    }
    if group != "ga":
        nothing = {c.name: None for c in TABLES["estimates"].columns if not c.required}
        row |= nothing | {"status": "no_contrast", "n_before": 0, "n_after": 0}
        return {"continuations": [], "values": [], "estimates": [row]}
    made = [
        continuation(state, turn, k, k < wins)
        for state, turn, wins in (("before", 1, 2), ("after", 2, 6))
        for k in range(8)
    ]
    return {"continuations": made, "values": [], "estimates": [row]}


def continuation(state: str, turn: int, k: int, success: bool) -> Row:
    row = example(
        TABLES["continuations"],
        k=k,
        group_id="ga",
        traj_id="ga.0",
        turn=turn,
        env_seed=100 + k,
        sampler_seed=200 + k,
        success=success,
        reward=float(success),
        stop_reason="done" if success else "max_turns",
        turns_left=5,
        cached=k == 7,
    )
    return row | {"state_id": state}


def value_rows(group: str) -> Mapping[str, Sequence[Row]]:
    rows = [
        example(
            TABLES["values"],
            traj_id=traj_id,
            turn=turn,
            state_id=f"{traj_id}:{turn}",
            group_id=group,
            n_requested=4,
            n_scored=4,
            n_success=n,
            mean=n / 4,
        )
        for traj_id, numbers in _of(group, VALUES)
        for turn, n in enumerate(numbers)
    ]
    return {
        "continuations": [],
        "values": [{**row, "traj_id": row["state_id"].partition(":")[0]} for row in rows],
        "estimates": [],
    }


def _of(group: str, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in table.items() if group and key.startswith(group)]

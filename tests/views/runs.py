"""Small run directories with texts that terminals and markup would obey."""

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

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

HOSTILE = (
    "click[buy now]",
    "[/INST]",
    "[bold]no markup[/bold]",
    "\\[x]",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    ":smile: [link=http://x]y[/link]",
)
GROUPS = ("abc1", "abd2")


def write_stage(run: Path, name: str, shards: Sequence[Rows], **counters: float) -> None:
    """Write a finished stage, one mapping of table rows per shard."""
    plan = StagePlan(
        Stage(run, name), {}, {}, len(shards), policy=PolicyEntry(policy_id="pol1", path="p")
    )
    with open_stage(plan, Mode.REFUSE) as writer:
        for index, tables in enumerate(shards):
            writer.commit(index, tables, counters)
        writer.complete()


def rollout_rows(group: str, n_turns: int = 7, n: int = 4) -> Rows:
    """Sample 1 succeeds, sample 3 is void, the others fail; turn t does HOSTILE[t]."""
    trajectories, turns = [], []
    for sample in range(n):
        traj_id, void = f"{group}.{sample}", sample == 3
        trajectories.append(
            example(
                TABLES["trajectories"],
                traj_id=traj_id,
                group_id=group,
                task_id=f"task-{group}",
                sample=sample,
                n_turns=n_turns,
                reward=None if void else float(sample == 1),
                success=None if void else sample == 1,
                stop_reason="void" if void else "done",
                n_action_tokens=10,
            )
        )
        turns += [
            example(
                TABLES["turns"],
                traj_id=traj_id,
                group_id=group,
                turn=turn,
                action=HOSTILE[turn % len(HOSTILE)],
                action_text=f"reply {HOSTILE[turn % len(HOSTILE)]}",
                observation=f"page one\n{HOSTILE[turn % len(HOSTILE)]}",
                action_valid=turn != 5,
                state_key=f"s{turn}",
            )
            for turn in range(n_turns)
        ]
    task = example(
        TABLES["tasks"], task_id=f"task-{group}", instruction="Buy [/INST] a \x1b[2Jred shirt."
    )
    return {"tasks": [task], "trajectories": trajectories, "turns": turns}


def proposal_rows(group: str, status: str = "ok") -> Rows:
    found = status == "ok"
    return {
        "proposals": [
            {
                **example(TABLES["proposals"], group_id=group, status=status, judge="contrast"),
                "proposal_id": f"p-{group}",
                "traj_id": f"{group}.1" if found else None,
                "start_turn": 2 if found else None,
                "end_turn": 4 if found else None,
                "failure_mode": "They [bold] leave\x1b[5m." if found else None,
                "rationale": None,
                "contrast_traj_ids": [f"{group}.0"],
            }
        ]
    }


def verify_rows(group: str, status: str = "ok") -> Rows:
    found = status == "ok"
    row = {
        **example(TABLES["estimates"], group_id=group, status=status),
        **{"proposal_id": f"p-{group}", "traj_id": f"{group}.1", "start_turn": 2, "end_turn": 4},
        **{"n_before": 8, "n_after": 8, "success_before": 2, "success_after": 6},
        **{"value_before": 0.25, "value_after": 0.75, "gain": 0.5, "p_positive": 0.971},
        **{"ci_low": 0.018, "ci_high": 0.752},
    }
    if not found:
        row |= dict.fromkeys(c.name for c in TABLES["estimates"].columns if not c.required)
    return {"continuations": [], "values": [], "estimates": [row]}


def advantage_rows(group: str) -> Rows:
    rows = []
    for turn in range(7):
        inside = 2 <= turn < 4
        rows.append(
            {
                **example(TABLES["advantages"], group_id=group, reason="base"),
                **{"estimator": "prover", "traj_id": f"{group}.1", "turn": turn},
                **{"base": 0.667, "local": 0.5 if inside else None},
                "advantage": 1.167 if inside else 0.667,
            }
        )
    return {"advantages": rows}


def whole_run(run: Path, n: int = 4) -> Path:
    """Two groups in two shards; the first is proposed and verified, the second is not."""
    first, second = GROUPS
    write_stage(
        run, "rollout", [rollout_rows(first, n=n), rollout_rows(second, n=n)], action_tokens=40
    )
    write_stage(run, "judge", [proposal_rows(first), proposal_rows(second, "no_contrast")])
    write_stage(
        run,
        "verify",
        [verify_rows(first), verify_rows(second, "no_contrast")],
        continuations=8,
        action_tokens=10,
    )
    write_stage(run, "advantage", [advantage_rows(first), {"advantages": []}])
    return run

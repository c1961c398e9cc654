"""How fast credit is: turns per second and peak memory of `prover advantage`, by the size of a run.

    python benchmarks/advantage.py [--turns 10000 100000 1000000 10000000] [--shard 100000]
                                   [--estimators grpo prover] [--folder DIR] [--repeat 1]

Runs of the real schema are made up (groups of 8, 5 to 15 turns, 8 action ids a turn, half of the
groups mixed and verified) and credited by the command itself in a process of its own, so that time
and memory include everything: start, reading, checks, writing and the summary. The disk takes about
130 bytes a turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from prover_cli.ids import text_hash
from prover_cli.shards.manifest import PolicyEntry
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.shards.schema import TABLES
from prover_cli.shards.writer import StagePlan, open_stage

GROUP, MEAN_TURNS, K = 8, 10, 8
TEXTS = [f"You stand in room {i} and see a door, a key and {i % 7} lamps." for i in range(500)]
POLICY = PolicyEntry(policy_id="0123456789abcdef", path="policy")


def groups_of(n_turns: int, shard: int) -> Iterator[int]:
    """The number of groups of every shard."""
    left, most = max(1, n_turns // (GROUP * MEAN_TURNS)), max(1, shard // (GROUP * MEAN_TURNS))
    while left > 0:
        yield min(left, most)
        left -= most


class Shard:
    """Random rows of one shard."""

    def __init__(self, number: int, groups: int) -> None:
        self.rng = np.random.default_rng(number)
        names = [f"{x:012x}" for x in self.rng.integers(0, 2**48, groups)]
        n = groups * GROUP
        mixed = self.rng.random(groups) < 0.5
        won = (self.rng.random(n) < 0.25) & np.repeat(mixed, GROUP)
        self.trajectories = pl.DataFrame({"group_id": np.repeat(np.array(names), GROUP)})
        self.trajectories = self.trajectories.with_columns(
            pl.Series("sample", np.tile(np.arange(GROUP), groups), dtype=pl.Int32),
            pl.Series("n_turns", self.rng.integers(5, 16, n), dtype=pl.Int32),
            pl.Series("success", won),
        ).with_columns(traj_id=pl.format("{}.{}", "group_id", "sample"))

    def rollout(self) -> dict[str, pl.DataFrame]:
        groups = self.trajectories.group_by("group_id", maintain_order=True).first()
        task = pl.format("task{}", "group_id").alias("task_id")
        trajectories = self.trajectories.with_columns(
            task,
            reward=pl.col("success").cast(pl.Float64),
            n_action_tokens=pl.col("n_turns") * 8,
            n_prompt_tokens=pl.col("n_turns") * 16,
        )
        return {
            "tasks": filled("tasks", groups.select(task)),
            "trajectories": filled("trajectories", trajectories),
            "turns": filled("turns", self.turns()),
        }

    def turns(self) -> pl.DataFrame:
        lengths = self.trajectories["n_turns"].to_numpy()
        rows = self.trajectories.select("traj_id", "group_id")[
            np.repeat(range(len(lengths)), lengths)
        ]
        n, start = rows.height, np.repeat(np.cumsum(lengths) - lengths, lengths)
        text = self.rng.integers(0, len(TEXTS), n)
        hashes = pl.Series([text_hash(text) for text in TEXTS])
        return rows.with_columns(
            pl.Series("turn", np.arange(n) - start, dtype=pl.Int32),
            pl.Series("observation", TEXTS).gather(text).alias("observation"),
            hashes.gather(text).alias("observation_hash"),
            hashes.gather(text).alias("state_key"),
            self.ids("prompt_ids", n, 16),
            self.ids("action_ids", n, 8),
            pl.Series("logprobs", -self.rng.random((n, 8), dtype=np.float32)).arr.to_list(),
        )

    def ids(self, name: str, n: int, width: int) -> pl.Series:
        values = self.rng.integers(0, 2000, (n, width), dtype=np.int32)
        return pl.Series(name, values).arr.to_list()

    def judged(self) -> pl.DataFrame:
        """One segment per mixed group, in its first success."""
        chosen = (
            self.trajectories.filter("success").group_by("group_id", maintain_order=True).first()
        )
        return chosen.select(
            "group_id",
            "traj_id",
            pl.format("p{}", "group_id").alias("proposal_id"),
            pl.lit(1, pl.Int32).alias("start_turn"),
            pl.lit(3, pl.Int32).alias("end_turn"),
            pl.lit("ok").alias("status"),
        )

    def verified(self) -> dict[str, pl.DataFrame]:
        segments = self.judged()
        n = segments.height
        before, after = self.rng.integers(0, K + 1, n), self.rng.integers(0, K + 1, n)
        states = pl.concat(
            segments.select(
                "group_id",
                "traj_id",
                pl.col(side).alias("turn"),
                pl.format("{}-{}", "traj_id", side).alias("state_id"),
            )
            for side in ("start_turn", "end_turn")
        )
        estimates = segments.with_columns(
            pl.Series("gain", (after - before) / K),
            pl.Series("success_before", before, dtype=pl.Int32),
            pl.Series("success_after", after, dtype=pl.Int32),
        )
        drawn = states.join(pl.DataFrame({"k": range(K)}).cast(pl.Int32), how="cross")
        return {
            "continuations": filled("continuations", drawn),
            "values": filled("values", states),
            "estimates": filled("estimates", estimates),
        }


def filled(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with plain values in the columns it lacks: nulls where they are legal."""
    plain: dict[str, object] = {"string": "x", "large_string": "x", "bool": False}
    missing = [column for column in TABLES[table].columns if column.name not in frame.columns]
    return frame.with_columns(
        (
            pl.lit(None)
            if not column.required
            else pl.lit([], pl.List(pl.String))
            if str(column.type).startswith("list")
            else pl.lit(plain.get(str(column.type), 1))
        ).alias(column.name)
        for column in missing
    ).select(TABLES[table].names)


def make(run: Path, n_turns: int, shard: int) -> int:
    """Write rollout, judge and verify of about `n_turns` turns; returns how many it has."""
    sizes = list(groups_of(n_turns, shard))
    made = 0
    inputs: dict[str, str] = {}
    for name in ("rollout", "judge", "verify"):
        stage = Stage(run, name)
        plan = StagePlan(stage, {}, {}, len(sizes), inputs=dict(inputs), policy=POLICY)
        with open_stage(plan, Mode.REFUSE) as writer:
            for index, groups in enumerate(sizes):
                rows = Shard(index, groups)
                made += rows.trajectories["n_turns"].sum() if name == "rollout" else 0
                tables = {
                    "rollout": rows.rollout,
                    "judge": lambda rows=rows: {"proposals": filled("proposals", rows.judged())},
                    "verify": rows.verified,
                }[name]()
                writer.commit(index, tables, {})
            writer.complete()
        inputs[name] = stage.manifest().output_digest
    return made


def credited(run: Path, estimator: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in GB of the command."""
    command = ["advantage", str(run), "--estimator", estimator, "--as", estimator, "--overwrite"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "prover_cli", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"prover {' '.join(command)} failed with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--shard", type=int, default=100_000)
    parser.add_argument("--estimators", nargs="+", default=["grpo", "prover"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, best of {arguments.repeat}")
    print(
        f"{'turns':>10} {'estimator':>12} {'seconds':>8} {'turns/s':>9} {'us/turn':>8} "
        f"{'CPU s':>7} {'GB':>5}"
    )
    for wanted in arguments.turns:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as home:
            made = make(Path(home) / "run", wanted, arguments.shard)
            for name in arguments.estimators:
                seconds, processor, memory = min(
                    credited(Path(home) / "run", name) for _ in range(arguments.repeat)
                )
                print(
                    f"{made:>10,} {name:>12} {seconds:>8.2f} {made / seconds:>9,.0f} "
                    f"{seconds / made * 1e6:>8.2f} {processor:>7.2f} {memory:>5.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

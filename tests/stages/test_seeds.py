"""Every draw has a seed of its own, and it depends on nothing but what is drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prover_cli.ids import derive_seed
from tests.stages.pipeline import MAX_TURNS, judge, rollout, same, table, verify

_TABLES = ("tasks", "trajectories", "turns", "proposals", "continuations", "values", "estimates")


def seeds(rows: list[dict[str, int]], turns: int) -> list[int]:
    """Those of the environment and of every turn's request."""
    return [row["env_seed"] for row in rows] + [
        derive_seed(row["sampler_seed"], turn) for row in rows for turn in range(turns)
    ]


def test_all_seeds_of_a_rollout_and_its_continuations_differ(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 3})
    judge(run)
    verify(run, k=8)
    trajectories = table(run, "trajectories").select("env_seed", "sampler_seed").to_dicts()
    continuations = table(run, "continuations")
    assert len(trajectories) == 32
    both = table(run, "estimates").filter(status="ok")
    assert both.height > 0
    for row in both.iter_rows(named=True):
        sides = continuations.filter(
            continuations["state_id"].is_in([row["state_before"], row["state_after"]])
        )
        assert sides["sampler_seed"].n_unique() == sides["env_seed"].n_unique() == 16
    drawn = continuations.select("env_seed", "sampler_seed").to_dicts()
    found = seeds(trajectories, MAX_TURNS) + seeds(drawn, MAX_TURNS)
    assert len(found) == len(set(found))
    assert all(0 <= seed < 2**31 for seed in found)


def test_another_run_seed_gives_other_draws(tmp_path: Path, policy: Path) -> None:
    found: list[int] = []
    for seed in (0, 1):
        rollout(tmp_path / str(seed), policy, {"slip": 0.3}, seed=seed)
        rows = table(tmp_path / str(seed), "trajectories").to_dicts()
        found += seeds([{k: row[k] for k in ("env_seed", "sampler_seed")} for row in rows], 4)
    assert len(found) == len(set(found))


def test_another_verification_seed_gives_other_continuations(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy)
    judge(run)
    verify(run)
    verify(run, variant="again", seed=1)
    first, second = (table(run, "continuations", s) for s in ("verify", "verify@again"))
    assert first["state_id"].equals(second["state_id"])
    assert not set(first["sampler_seed"]) & set(second["sampler_seed"])
    assert not set(first["env_seed"]) & set(second["env_seed"])


_PIPELINE = """
import sys
from pathlib import Path
from tests.stages.pipeline import judge, rollout, verify
run, policy = map(Path, sys.argv[1:])
rollout(run, policy, {"slip": 0.3})
judge(run)
verify(run)
"""


def test_no_draw_depends_on_the_process(tmp_path: Path, policy: Path) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", _PIPELINE, str(tmp_path / hash_seed), str(policy)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    assert [process.wait() for process in both] == [0, 0]
    assert same(tmp_path / "1", tmp_path / "2", *_TABLES)


def test_no_draw_depends_on_the_layout_of_shards(
    tmp_path: Path, policy: Path, verified: Path
) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"slip": 0.3}, groups_per_shard=1)
    judge(run)
    verify(run, k=5)
    assert same(run, verified, *_TABLES)

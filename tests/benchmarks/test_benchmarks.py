"""Every script in benchmarks/ runs: from its first line to its last result, on tiny arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Tiny:
    """The smallest arguments that take a script through all that it does."""

    arguments: str
    result: str
    """A pattern of the last result that the script prints."""


TINY = {
    # Two shards.
    "advantage.py": Tiny(
        "--turns 2000 --shard 1000 --estimators prover", r"^ +[\d,]+ +prover +[\d.]+ +[\d,]+ "
    ),
    "alfworld_sessions.py": Tiny("--level 1", r"^parse +[\d.]+ ms a game$"),
    "engine_throughput.py": Tiny("--requests 8 --rounds 1", r"^turns +[\d,]+ +[\d,]+ +[\d.]+$"),
    "retrieval.py": Tiny("--passages 300", r"over HTTP [\d.]+ ms$"),
    # verify needs a group of successes and failures: of this seed's task, even a short one is.
    # With 4 in flight there are two batches of episodes.
    "rollout.py": Tiny(
        "--engines torch --tasks 1 --concurrency 4 --turns 6 --seed 19",
        r"^  verify without reuse +[\d.]+ CPU s, [1-9]\d* continuations",
    ),
    "verify_cost.py": Tiny("--tasks 12", r"^a8 ranked, 15 % +[1-9]\d* "),
    "webshop.py": Tiny(
        "--products 20 --episodes 3 --sessions 100",
        r"^  memory +\d+ bytes for another session$",
    ),
    "webshop_prepare.py": Tiny("--products 300", r"^open: [\d.]+ s, search [\d.]+ ms$"),
}
SCRIPTS = {path.name for path in (ROOT / "benchmarks").glob("*.py")}


@pytest.mark.parametrize("script", sorted(SCRIPTS | TINY.keys()))
def test_every_benchmark_runs_to_its_last_result(script: str) -> None:
    assert script in SCRIPTS, f"benchmarks/{script} is gone: remove its entry from TINY"
    assert script in TINY, f"benchmarks/{script} has no tiny arguments: add an entry to TINY"
    tiny = TINY[script]
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}", *tiny.arguments.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    said = f"{script} {tiny.arguments}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, f"exit code {done.returncode}: {said}"
    assert re.search(tiny.result, done.stdout, re.MULTILINE), f"no result: {said}"

"""`tasks`: what an environment offers, and what it can prepare, generate or verify in advance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prover_cli.envs.base import assets_of
from prover_cli.envs.registry import load, run
from prover_cli.stages.report import Reporter


def show(env: str, options: Mapping[str, Any], split: str, n: int | None) -> dict[str, Any]:
    """A split as it is offered: its size, its hash, what is no task of it, and its first tasks."""
    environment = load(env, **options)
    panel = environment.tasks(split)
    return {
        "env": env,
        "split": split,
        "n_tasks": len(panel),
        "panel_hash": panel.panel_hash,
        "skipped": dict(panel.skipped),
        "note": panel.note,
        "fingerprint": environment.fingerprint,
        "assets": assets_of(environment),
        "tasks": [
            {"index": t.index, "task_id": t.task_id, "instruction": t.instruction}
            for t in panel.head(n)
        ],
    }


def work(env: str, ability: str, options: Mapping[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Let the environment prepare, generate or verify; what it found, and the seconds it took."""
    began = time.perf_counter()
    facts = run(env, ability, reporter, **options)
    return {**facts, "seconds": round(time.perf_counter() - began, 1)}

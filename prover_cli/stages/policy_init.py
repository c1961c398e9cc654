"""`policy init`: a starting policy from nothing, measured and described."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from prover_cli.ids import policy_id
from prover_cli.policies.demos import STYLE
from prover_cli.policies.recipe import Recipe, build, recipe_for
from prover_cli.stages.policy_folder import (
    Steps,
    claim,
    measure,
    measured_lines,
    measured_section,
)
from prover_cli.stages.report import Reporter, Summary

CARD_TASKS = 64
"""Training tasks the card's success is measured on, 8 episodes each."""


def run(
    env: str,
    out: Path,
    reporter: Reporter,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    card_tasks: int | None = None,
    overwrite: bool = False,
) -> Summary:
    """Train the environment's starting policy into `out` and write its card (README.md)."""
    recipe = replace(recipe_for(env), seed=seed)
    if steps is not None:
        recipe = replace(recipe, steps=steps)
    claim(out, overwrite)
    from prover_cli.training.checkpoint import replacing

    reporter.note("making demonstrations and the tokenizer")
    with replacing(out) as folder:
        taken = build(recipe, folder, minutes, Steps(reporter))
    recipe = replace(recipe, steps=taken)
    tasks = CARD_TASKS if card_tasks is None else card_tasks
    facts = measure(env, out, tasks, reporter)
    (out / "README.md").write_text(_card(recipe, facts), encoding="utf-8")
    return Summary(
        folder=out,
        facts={"policy_id": policy_id(out), "steps": taken, **facts},
        lines=(f"policy {policy_id(out)} after {taken} steps", *measured_lines(facts)),
        next_command=f"prover rollout --env {env} --prompt {STYLE} --policy {out}",
    )


def _card(recipe: Recipe, facts: dict[str, Any]) -> str:
    settings = json.dumps(recipe.as_json(), indent=1)
    size = recipe.size
    return f"""---
license: apache-2.0
library_name: transformers
tags: [agents, reinforcement-learning, {recipe.env}]
---
# Starting policy for {recipe.env}

A Qwen3-architecture model ({size.layers} layers of width {size.width}) with a byte-level BPE
tokenizer, both made from noisy expert episodes. It is meant to be improved by reinforcement
learning, not to be good. It reads the `{STYLE}` prompt style.

Made from nothing by

    prover policy init --env {recipe.env} --steps {recipe.steps} --seed {recipe.seed} --out DIR

{measured_section(recipe.env, facts)}

The demonstrations come from {recipe.worlds} worlds of their own; no task of the environment is \
among them.

```json
{settings}
```
"""

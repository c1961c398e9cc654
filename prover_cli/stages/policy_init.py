"""`policy init`: a starting policy from nothing, measured and described."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from prover_cli.config import EnvConfig, RolloutConfig, SamplingConfig
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.demos import STYLE
from prover_cli.policies.recipe import Recipe, build, recipe_for
from prover_cli.shards.mode import Mode
from prover_cli.shards.store import make_directory
from prover_cli.stages import rollout
from prover_cli.stages.report import Reporter, SilentReporter, Summary

CARD_TASKS = 64
"""Training tasks the card's success is measured on, 8 episodes each."""
CARD_SEED = 233


def run(
    env: str,
    out: Path,
    reporter: Reporter,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Summary:
    """Train the environment's starting policy into `out` and write its card (README.md)."""
    recipe = replace(recipe_for(env), seed=seed)
    if steps is not None:
        recipe = replace(recipe, steps=steps)
    if out.exists() and any(out.iterdir()) and not overwrite:
        raise UsageError(f"{out} is not empty", hint="add --overwrite, or name another --out")
    make_directory(out)
    reporter.note("making demonstrations and the tokenizer")
    started = False

    def on_step(step: int, total: int, loss: float) -> None:
        nonlocal started
        if not started:
            reporter.start("training", total, "steps")
            started = True
        reporter.advance(1, f"loss {loss:.3f}")

    taken = build(recipe, out, minutes, on_step)
    recipe = replace(recipe, steps=taken)
    facts = _measure(env, out)
    (out / "README.md").write_text(_card(recipe, facts), encoding="utf-8")
    return Summary(
        folder=out,
        facts={"policy_id": policy_id(out), "steps": taken, **facts},
        lines=(
            f"policy {policy_id(out)} after {taken} steps",
            f"sampled success {facts['success_rate']:.1%}, mean reward {facts['mean_reward']:.3f}, "
            f"mixed groups {facts['mixed_groups']:.1%}",
        ),
        next_command=f"prover rollout --env {env} --prompt {STYLE} --policy {out}",
    )


def _measure(env: str, policy: Path) -> dict[str, Any]:
    """Success on training tasks, sampled at temperature 1 as a rollout does."""
    config = RolloutConfig(
        EnvConfig(env, prompt=STYLE),
        SamplingConfig(),
        str(policy),
        tasks=CARD_TASKS,
        seed=CARD_SEED,
    )
    with tempfile.TemporaryDirectory() as folder:
        summary = rollout.run(config, Path(folder) / "run", Mode.REFUSE, SilentReporter())
    shares = {
        key: summary.facts[key] / summary.facts["groups"]
        for key in ("mixed_groups", "eligible_groups")
    }
    keys = ("success_rate", "mean_reward", "mean_turns")
    return {key: summary.facts[key] for key in keys} | shares


def _card(recipe: Recipe, facts: dict[str, Any]) -> str:
    settings = json.dumps(recipe.as_json(), indent=1)
    measured = "\n".join(f"- {key}: {value:.3f}" for key, value in facts.items())
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

Measured on {CARD_TASKS} training tasks x 8 episodes at temperature 1 (`prover rollout --env \
{recipe.env} --prompt {STYLE} --tasks {CARD_TASKS} --seed {CARD_SEED}`):

{measured}

The demonstrations come from {recipe.worlds} worlds of their own; no task of the environment is \
among them.

```json
{settings}
```
"""

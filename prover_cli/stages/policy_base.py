"""`policy init --base`: a pretrained checkpoint that was shown how an expert plays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.adapters import base_of, is_adapter
from prover_cli.policies.demos import STYLE, play
from prover_cli.policies.recipe import Recipe, recipe_for
from prover_cli.stages.policy_folder import (
    Steps,
    claim,
    measure,
    measured_lines,
    measured_section,
)
from prover_cli.stages.report import Reporter, Summary
from prover_cli.tokens.render import ChatRenderer

if TYPE_CHECKING:
    from prover_cli.policies.fine_tune import FineTune

STEPS = 200
FULL_LR = 2e-5
LORA_LR = 2e-4
CARD_TASKS = 8
"""Training tasks the card's success is measured on, 8 episodes each."""
DEMOS_PER_ROW = 4
"""Demonstrations to choose from for every row that is trained; the worlds have many more."""


@dataclass(frozen=True)
class BaseConfig:
    """What decides the policy. None takes the default that is said in the command's help."""

    base: Path
    env: str
    lora_rank: int | None = None
    """None trains all weights."""
    steps: int | None = None
    minutes: float | None = None
    """As many steps as fit, by the speed of a few; instead of `steps`."""
    rows_per_step: int | None = None
    lr: float | None = None
    seed: int = 0
    device: str = "auto"
    card_tasks: int | None = None


def run(config: BaseConfig, out: Path, reporter: Reporter, *, overwrite: bool = False) -> Summary:
    """Fine-tune `config.base` on the environment's demonstrations; write `out` and its card.

    With `lora_rank` `out` is an adapter of the base, else a checkpoint like it. Raises `UsageError`
    when the base cannot be used.
    """
    recipe = recipe_for(config.env)
    base_id = _check_base(config.base, out)
    claim(out, overwrite)
    from prover_cli.training.checkpoint import save_as_adapter, save_policy

    thinking = _thinking(config.base)
    model, settings = _train(config, recipe, thinking, reporter)
    if config.lora_rank is None:
        identity = save_policy(model, out, config.base)
    else:
        identity = save_as_adapter(model, out, config.base)
    del model
    tasks = CARD_TASKS if config.card_tasks is None else config.card_tasks
    facts = measure(config.env, out, tasks, reporter, config.device, thinking)
    card = _card(config, base_id, settings, thinking, facts)
    (out / "README.md").write_text(card, encoding="utf-8")
    return Summary(
        folder=out,
        facts={"policy_id": identity, "base_policy_id": base_id, "steps": settings.steps, **facts},
        lines=(f"policy {identity} after {settings.steps} steps", *measured_lines(facts)),
        next_command=f"prover rollout --env {config.env} --prompt {STYLE} --policy {out}"
        + ("" if thinking is None else f" --thinking {thinking}"),
    )


def _thinking(base: Path) -> str | None:
    """`off` for a base whose prompts open a block of thinking: demonstrations have none."""
    return "off" if ChatRenderer.load(base).opens_thinking else None


def _check_base(base: Path, out: Path) -> str:
    if is_adapter(base):
        raise UsageError(
            f"{base} is an adapter; a new one needs a whole checkpoint",
            hint=f"--base {base_of(base)}",
        )
    if base.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"--out {out} would replace the base {base}", hint="name another --out")
    return policy_id(base)


def _train(
    config: BaseConfig, recipe: Recipe, thinking: str | None, reporter: Reporter
) -> tuple[Any, FineTune]:
    import torch

    from prover_cli.policies import fine_tune
    from prover_cli.policies.adapters import new_adapter
    from prover_cli.training.checkpoint import load_model
    from prover_cli.training.settings import resolve_device

    full = config.lora_rank is None
    settings = fine_tune.FineTune(
        shares=recipe.rows_per_step,
        rows_per_step=config.rows_per_step or sum(recipe.rows_per_step.values()),
        steps=config.steps or STEPS,
        lr=config.lr or (FULL_LR if full else LORA_LR),
        seed=config.seed,
    )
    reporter.note("loading the base and making demonstrations")
    model = load_model(config.base, resolve_device(config.device))
    torch.manual_seed(config.seed)
    if config.lora_rank is not None:
        model = new_adapter(model, config.lora_rank)
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    needed = DEMOS_PER_ROW * settings.rows_per_step * settings.steps
    demos = play(recipe.demos, recipe.worlds, config.seed)
    rows, left_out = fine_tune.rows_of(
        demos if config.minutes is not None else islice(demos, needed),
        ChatRenderer.load(config.base, thinking or "keep"),
        longest,
    )
    if left_out:
        reporter.note(f"{left_out} demonstrations are too long for the base and were left out")
    if config.minutes is not None:
        speed = fine_tune.seconds_per_step(model, rows, settings)
        settings = replace(settings, steps=max(1, int(config.minutes * 60 / speed)))
    show = Steps(reporter)
    fine_tune.train(model, rows, settings, lambda step, loss: show(step, settings.steps, loss))
    return model, settings


def _card(
    config: BaseConfig,
    base_id: str,
    settings: FineTune,
    thinking: str | None,
    facts: Mapping[str, Any],
) -> str:
    lora = [] if config.lora_rank is None else [f"--lora-rank {config.lora_rank}"]
    flags = [
        *lora,
        f"--steps {settings.steps}",
        f"--rows-per-step {settings.rows_per_step}",
        f"--lr {settings.lr:g}",
        f"--seed {settings.seed}",
    ]
    kind = "An adapter of" if lora else "A checkpoint fine-tuned from"
    used = {**vars(settings), "shares": dict(settings.shares), "lora_rank": config.lora_rank}
    return f"""---
library_name: {"peft" if lora else "transformers"}
tags: [agents, reinforcement-learning, {config.env}]
---
# {config.base.resolve().name} for {config.env}

{kind} policy `{base_id}`, trained on noisy expert episodes. It is meant to be improved by
reinforcement learning. It reads the `{STYLE}` prompt style.

Made by

    prover policy init --base BASE --env {config.env} {" ".join(flags)} --out DIR

{measured_section(config.env, facts, thinking)}

The demonstrations come from worlds of their own; no task of the environment is among them.

```json
{json.dumps(used, indent=1)}
```
"""

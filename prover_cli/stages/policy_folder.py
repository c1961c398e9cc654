"""What commands that make a policy do with its folder: claim it, measure it, describe it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prover_cli.config import EngineConfig, EnvConfig, RolloutConfig, SamplingConfig
from prover_cli.errors import UsageError
from prover_cli.ids import ADAPTER_CONFIG
from prover_cli.policies.demos import STYLE
from prover_cli.shards.mode import Mode
from prover_cli.shards.store import make_directory
from prover_cli.stages import rollout
from prover_cli.stages.report import Reporter
from prover_cli.stages.world import open_world

CARD_SEED = 233


def claim(out: Path, overwrite: bool) -> None:
    """Refuse to write `out` where something would be lost that was not meant to be."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file", hint="name a folder: --out DIR")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise UsageError(f"{out} is not empty", hint="add --overwrite, or name another --out")
        if not any((out / name).is_file() for name in ("config.json", ADAPTER_CONFIG)):
            raise UsageError(
                f"{out} is not empty and holds no policy: --overwrite would discard other things",
                hint="name another --out",
            )
    make_directory(out)


def measure(
    env: str,
    policy: Path,
    tasks: int,
    reporter: Reporter,
    device: str = "auto",
    thinking: str | None = None,
) -> dict[str, float]:
    """Success on training tasks, 8 episodes each, sampled at temperature 1 as a rollout does.

    `tasks` are drawn, or all where there are fewer; nothing is measured with 0.
    """
    if tasks == 0:
        return {}
    at = EnvConfig(env, prompt=STYLE, thinking=thinking)
    tasks = min(tasks, len(open_world(at).environment.tasks("train")))
    config = RolloutConfig(
        at,
        SamplingConfig(),
        str(policy),
        tasks=tasks,
        seed=CARD_SEED,
        engine=EngineConfig(device=device),
    )
    reporter.note(f"measuring the policy on {tasks} training tasks")
    with tempfile.TemporaryDirectory() as folder:
        facts = rollout.run(config, Path(folder) / "run", Mode.REFUSE, reporter).facts
    if facts["success_rate"] is None:
        raise UsageError(f"{policy} is written, but every episode that was to measure it failed")
    shares = {key: facts[key] / facts["groups"] for key in ("mixed_groups", "eligible_groups")}
    kept = {key: facts[key] for key in ("success_rate", "mean_reward", "mean_turns")}
    return {"measured_tasks": tasks, **kept, **shares}


def measured_lines(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What was measured, for people."""
    if not facts:
        return ()
    return (
        f"sampled success {facts['success_rate']:.1%}, mean reward {facts['mean_reward']:.3f}, "
        f"mixed groups {facts['mixed_groups']:.1%}",
    )


def measured_section(env: str, facts: Mapping[str, Any], thinking: str | None = None) -> str:
    """The paragraph of a card that says what was measured, and the command that measures it."""
    if not facts:
        return "Its success was not measured."
    tasks = facts["measured_tasks"]
    values = "\n".join(
        f"- {key}: {value:.3f}" for key, value in facts.items() if key != "measured_tasks"
    )
    flags = f"--prompt {STYLE}" + ("" if thinking is None else f" --thinking {thinking}")
    command = f"prover rollout --env {env} {flags} --tasks {tasks} --seed {CARD_SEED}"
    return f"""Measured on {tasks} training tasks x 8 episodes at temperature 1 (`{command}`):

{values}"""


class Steps:
    """Reports training steps; the bar starts with the first one, when their number is known."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._started = False

    def __call__(self, step: int, total: int, loss: float) -> None:
        if not self._started:
            self._reporter.start("training", total, "steps")
            self._started = True
        self._reporter.advance(1, f"loss {loss:.3f}")

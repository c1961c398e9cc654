"""The stages on the toy vault with a scripted policy, and how their tables are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import (
    AdvantageConfig,
    EngineConfig,
    EnvConfig,
    JudgeConfig,
    RolloutConfig,
    SamplingConfig,
    VerifyConfig,
)
from prover_cli.ids import file_hash
from prover_cli.shards.manifest import load_manifest
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import STAGE_TABLES, TABLES
from prover_cli.shards.store import write_table
from prover_cli.shards.writer import StagePlan, open_stage
from prover_cli.stages import advantage as advantage_stage
from prover_cli.stages import judge as judge_stage
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages import verify as verify_stage
from prover_cli.stages.report import SilentReporter, Summary

Rows = list[dict[str, Any]]

MAX_TURNS = 12


class Stopped(Exception):
    """Raised by a reporter to stop a stage in the middle of its work."""


class Listener(SilentReporter):
    """Keeps what it is told; raises `Stopped` at the given number of advances."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.notes: list[str] = []
        self.advances = 0
        self.stop_at = stop_at

    def advance(self, n: int = 1, facts: str = "") -> None:
        self.advances += n
        if self.advances == self.stop_at:
            raise Stopped

    def note(self, text: str) -> None:
        self.notes.append(text)


def rollout_config(
    policy: Path,
    options: Mapping[str, Any] | None = None,
    *,
    env: str = "toy",
    history: str | None = None,
    max_turns: int = MAX_TURNS,
    sampling: SamplingConfig | None = None,
    engine: str = "scripted",
    concurrency: int = 16,
    **changes: Any,
) -> RolloutConfig:
    """Four groups of eight on vaults of two rooms, two groups in a shard."""
    settings = {"tasks": 4, "group_size": 8, "groups_per_shard": 2, **changes}
    return RolloutConfig(
        EnvConfig(env, {"rooms": 2, **(options or {})}, history=history, max_turns=max_turns),
        sampling or SamplingConfig(),
        str(policy),
        engine=EngineConfig(engine, device="cpu", concurrency=concurrency),
        **settings,
    )


def rollout(
    run: Path, policy: Path, options: Mapping[str, Any] | None = None, **changes: Any
) -> Summary:
    """A new rollout."""
    config = rollout_config(policy, options, **changes)
    return rollout_stage.run(config, run, Mode.REFUSE, Listener())


def judge(run: Path, **changes: Any) -> Summary:
    variant = changes.pop("variant", None)
    config = JudgeConfig(**{"judge": "random", "max_success": 7, **changes})
    return judge_stage.run(config, run, Mode.REFUSE, Listener(), variant)


def verify_config(
    k: int = 4, engine: str = "scripted", concurrency: int = 16, **changes: Any
) -> VerifyConfig:
    return VerifyConfig(k, engine=EngineConfig(engine, "cpu", concurrency=concurrency), **changes)


def verify(run: Path, k: int = 4, variant: str | None = None, **changes: Any) -> Summary:
    return verify_stage.run(verify_config(k, **changes), run, Mode.REFUSE, Listener(), variant)


def credit(run: Path, *estimators: str, variant: str | None = None, **changes: Any) -> Summary:
    config = AdvantageConfig(estimators or ("prover",), **changes)
    return advantage_stage.run(config, run, Mode.REFUSE, Listener(), variant)


def table(run: Path, name: str, stage: str | None = None) -> pl.DataFrame:
    """All rows of a table."""
    kind = next(kind for kind, names in STAGE_TABLES.items() if name in names)
    return Run(run).stage(stage or kind).read(name)


def facts_of(run: Path, name: str, stage: str | None = None) -> pl.DataFrame:
    """All rows of a table but for how long they took."""
    return table(run, name, stage).drop("seconds", strict=False)


def same(one: Path, other: Path, *names: str) -> bool:
    """Whether tables of two runs hold the same facts."""
    return all(facts_of(one, name).equals(facts_of(other, name)) for name in names)


def episodes(run: Path) -> list[Rows]:
    """The turns of every trajectory, in order."""
    parts = table(run, "turns").partition_by("traj_id", maintain_order=True)
    return [part.sort("turn").to_dicts() for part in parts]


def rewrite(stage: Stage, name: str, change: Callable[[Rows], Rows]) -> None:
    """Replace the rows of a table in every shard and list the new files in the manifest."""
    path = stage.folder / "manifest.json"
    manifest = load_manifest(path)
    for index, entry in manifest.shards.items():
        rows = change(stage.read(name, index).to_dicts())
        file = entry.files[name]
        file.rows = write_table(stage.folder / file.name, TABLES[name], rows, {})
        file.sha256 = file_hash(stage.folder / file.name)
    manifest.save(path)


def credit_everything(run: Path, value: float = 1.0) -> None:
    """An `advantage` stage that gives every turn of a rollout the same advantage."""
    source = Run(run).stage("rollout")
    rollout = source.require_complete()
    plan = StagePlan(
        Stage(run, "advantage"),
        {},
        {},
        rollout.n_shards,
        inputs={"rollout": rollout.output_digest},
        policy=rollout.policy,
    )
    with open_stage(plan, Mode.REFUSE) as writer:
        for index in writer.owed:
            rows = [
                {
                    **{name: turn[name] for name in ("traj_id", "turn", "group_id")},
                    **{"estimator": "all", "base": value, "local": None, "advantage": value},
                    **{"token_advantages": None, "reason": "base"},
                }
                for turn in source.read("turns", index).iter_rows(named=True)
            ]
            writer.commit(index, {"advantages": rows}, {})
        writer.complete()


def vault_value(
    observation: str,
    turns_left: int,
    payload: Mapping[str, Any],
    rooms: int,
    slip: float,
    replies: Sequence[str],
) -> float:
    """Success rate from a vault's observation of a policy that draws replies uniformly; exact."""
    found = re.fullmatch(r"You are in (.+)\. Keys here: .*\. You hold: (\w+)\.", observation)
    assert found is not None
    place, held = found.groups()
    last, key_room, colour = rooms - 1, payload["key_room"], payload["colour"]

    @cache
    def value(room: int, holds: str, left: int) -> float:
        if left == 0:
            return 0.0
        return sum(after(reply, room, holds, left) for reply in replies) / len(replies)

    def after(reply: str, room: int, holds: str, left: int) -> float:
        if reply == "open" and room == last:
            return float(holds == colour)
        if reply == "go" and room < last:
            return slip * value(room, holds, left - 1) + (1 - slip) * value(
                room + 1, holds, left - 1
            )
        if reply.startswith("take ") and room == key_room != last:
            return value(room, reply.removeprefix("take "), left - 1)
        return value(room, holds, left - 1)

    return value(last if place == "the vault" else int(place.split()[1]), held, turns_left)

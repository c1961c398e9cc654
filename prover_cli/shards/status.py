"""What is complete, owed or stale in a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prover_cli.shards.run import Run, Stage


@dataclass(frozen=True)
class StageStatus:
    """One stage. `stale` names the inputs that changed since it was written, or are stale."""

    name: str
    state: str
    shards_done: int
    shards_wanted: int
    stale: tuple[str, ...]
    damaged: tuple[str, ...]
    void: int
    policy_id: str | None
    next_command: str | None

    @property
    def owed(self) -> int:
        return self.shards_wanted - self.shards_done

    def as_json(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "state": self.state,
            "shards": self.shards_done,
            "shards_wanted": self.shards_wanted,
            "owed": self.owed,
            "stale": list(self.stale),
            "damaged": list(self.damaged),
            "void": self.void,
            "policy_id": self.policy_id,
            "next": self.next_command,
        }


def run_status(run: Run) -> list[StageStatus]:
    """The status of every stage that was started, in pipeline order.

    Raises `ShardError` for a manifest that cannot be read.
    """
    stages = run.stages()
    fresh: dict[str, str] = {}
    result = []
    for stage in stages:
        status = _status(stage, fresh)
        if not status.stale:
            fresh[stage.name] = stage.manifest().output_digest
        result.append(status)
    return result


def _status(stage: Stage, fresh: Mapping[str, str]) -> StageStatus:
    """`fresh` holds the output digests of the earlier stages that are not stale themselves."""
    manifest = stage.manifest()
    stale = tuple(name for name, digest in manifest.inputs.items() if fresh.get(name) != digest)
    damaged = stage.damaged()
    done = len(manifest.shards) - len(damaged)
    if stale:
        following: str | None = f"{stage.command} --overwrite"
    elif manifest.state != "complete" or damaged:
        following = f"{stage.command} --resume"
    else:
        following = None
    return StageStatus(
        name=stage.name,
        state="stale" if stale else "damaged" if damaged else manifest.state,
        shards_done=done,
        shards_wanted=manifest.n_shards,
        stale=stale,
        damaged=tuple(damaged.values()),
        void=int(manifest.counters.get("void", 0)),
        policy_id=manifest.policy.policy_id if manifest.policy else None,
        next_command=following,
    )

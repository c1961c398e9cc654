"""Writing a stage shard by shard, so that it can be stopped anywhere and resumed.

The life of a stage: `open_stage` takes the lock, compares what is asked with what is there and
yields a `StageWriter`; the stage computes `owed` shards and commits each; `complete` closes it. A
kill loses only the shards in flight. Owed shards are counted from files that
are listed and intact, never assumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prover_cli.errors import ConfigMismatchError, UsageError
from prover_cli.ids import digest, file_hash
from prover_cli.shards.lock import stage_lock
from prover_cli.shards.manifest import (
    EnvironmentEntry,
    FileEntry,
    Manifest,
    PolicyEntry,
    ShardEntry,
    load_manifest,
    manifest_name,
)
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Stage
from prover_cli.shards.schema import OPTIONAL_TABLES, STAGE_TABLES, TABLES
from prover_cli.shards.store import Rows, remove_leftovers, write_table


@dataclass(frozen=True)
class StagePlan:
    """What a stage is about to write. `identity` is the part of `config` that decides results."""

    stage: Stage
    config: Mapping[str, Any]
    identity: Mapping[str, Any]
    n_shards: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    policy: PolicyEntry | None = None
    environment: EnvironmentEntry | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    slice_: str = "0/1"

    def shard_numbers(self) -> list[int]:
        """The shards of this slice."""
        number, of = (int(part) for part in self.slice_.split("/"))
        return [index for index in range(self.n_shards) if index % of == number]

    def full_identity(self) -> dict[str, Any]:
        """Everything that must be equal for two processes to write the same stage."""
        return {
            **self.identity,
            "n_shards": self.n_shards,
            "policy_id": self.policy.policy_id if self.policy else None,
            "env_fingerprint": self.environment.fingerprint if self.environment else None,
        }


class StageWriter:
    """An open stage. Made by `open_stage`."""

    def __init__(self, plan: StagePlan, manifest: Manifest, notes: list[str]) -> None:
        self.plan = plan
        self.manifest = manifest
        self.notes = notes
        """What a user should hear about the state found, one sentence each."""

    @property
    def folder(self) -> Path:
        return self.plan.stage.folder

    @property
    def already_complete(self) -> bool:
        return self.manifest.state == "complete"

    @property
    def owed(self) -> list[int]:
        """Shards of this slice that are not on the disk."""
        return [i for i in self.plan.shard_numbers() if i not in self.manifest.shards]

    def commit(self, index: int, tables: Mapping[str, Rows], counters: Mapping[str, float]) -> None:
        """Write all tables of one shard, then list it. Frames are written as they are, without a
        Python object per row."""
        kind = self.plan.stage.kind
        expected, optional = STAGE_TABLES[kind], OPTIONAL_TABLES.get(kind, ())
        if not {*expected} <= set(tables) <= {*expected, *optional}:
            raise ValueError(f"a shard of {kind} has tables {expected}")
        metadata = {
            "policy_id": self.plan.policy.policy_id if self.plan.policy else None,
            "config_digest": self.manifest.config_digest,
        }
        files = {}
        for name in (name for name in (*expected, *optional) if name in tables):
            path = self.folder / f"{name}-{index:05d}.parquet"
            rows = write_table(path, TABLES[name], tables[name], metadata)
            files[name] = FileEntry(name=path.name, rows=rows, sha256=file_hash(path))
        self.manifest.shards[index] = ShardEntry(files=files, counters=dict(counters))
        self._save()

    def complete(self, facts: Mapping[str, Any] | None = None) -> None:
        """Mark the slice as finished, with what was found out."""
        if self.owed:
            raise ValueError(f"shards {self.owed} are owed")
        self.manifest.facts.update(facts or {})
        self.manifest.state = "complete"
        self._save()

    def _save(self) -> None:
        self.manifest.save(self.folder / manifest_name(self.plan.slice_))


@contextmanager
def open_stage(plan: StagePlan, mode: Mode) -> Iterator[StageWriter]:
    """Lock a stage and yield its writer.

    Raises `UsageError` when the stage exists and `mode` is refuse, `ConfigMismatchError` (naming
    the keys) when it was written with another configuration or from other inputs, `LockedError`
    when another process writes it.
    """
    stage = plan.stage
    with stage_lock(stage.folder, plan.slice_):
        notes = [
            f"removed {name}, left by a writer that was killed"
            for name in remove_leftovers(stage.folder, _own_files(plan))
        ]
        if mode is Mode.OVERWRITE:
            _clear(stage, plan.slice_)
        path = stage.folder / manifest_name(plan.slice_)
        _forget_if_empty(path)
        if path.exists() and mode is Mode.REFUSE:
            raise UsageError(
                f"{stage.folder} exists already ({stage.manifest().state})",
                hint=f"{stage.command} --resume (or --overwrite)",
            )
        if stage.exists():
            _check_same(plan, stage)
        manifest = _existing(stage, plan.slice_, notes) if path.exists() else _fresh(plan)
        manifest.save(path)
        yield StageWriter(plan, manifest, notes)


def _own_files(plan: StagePlan) -> tuple[str, ...]:
    """Endings of the files that nobody else may be writing now: all, or those of the slice."""
    if plan.slice_.endswith("/1"):
        return ("",)
    shards = (f"-{index:05d}.parquet" for index in plan.shard_numbers())
    return (manifest_name(plan.slice_), *shards)


def _forget_if_empty(path: Path) -> None:
    """Remove the manifest of an attempt that wrote nothing: a refused command may be corrected."""
    if path.exists() and not _begun(load_manifest(path)):
        path.unlink()


def _begun(manifest: Manifest) -> bool:
    return manifest.state == "complete" or bool(manifest.shards)


def _fresh(plan: StagePlan) -> Manifest:
    return Manifest(
        stage=plan.stage.kind,
        variant=plan.stage.name.partition("@")[2] or None,
        slice=plan.slice_,
        n_shards=plan.n_shards,
        config=dict(plan.config),
        config_digest=digest(plan.full_identity()),
        inputs=dict(plan.inputs),
        policy=plan.policy,
        environment=plan.environment,
        facts={**plan.facts, "identity": plan.full_identity()},
    )


def _existing(stage: Stage, slice_: str, notes: list[str]) -> Manifest:
    """The slice's manifest with damaged shards struck off, so that they are owed again."""
    manifest = next(part for part in stage.manifests() if part.slice == slice_)
    for index, fault in stage.damaged().items():
        if manifest.shards.pop(index, None):
            notes.append(f"shard {index} will be written again: {fault}")
            manifest.state = "running"
    return manifest


def _check_same(plan: StagePlan, stage: Stage) -> None:
    for existing in filter(_begun, stage.manifests()):
        recorded = existing.facts.get("identity", {})
        wanted = plan.full_identity()
        different = [
            f"{key}: {recorded.get(key)!r} -> {wanted.get(key)!r}"
            for key in sorted({*recorded, *wanted})
            if recorded.get(key) != wanted.get(key)
        ]
        if existing.slice.partition("/")[2] != plan.slice_.partition("/")[2]:
            different.append(f"shard: {existing.slice} -> {plan.slice_}")
        if dict(existing.inputs) != dict(plan.inputs):
            changed = sorted(k for k in plan.inputs if existing.inputs.get(k) != plan.inputs[k])
            different.append(f"inputs changed since: {', '.join(changed)}")
        if different:
            raise ConfigMismatchError(
                f"{stage.folder} was written differently: {'; '.join(different)}",
                hint=f"repeat it as recorded, or start over: {stage.command} "
                "--overwrite (or keep both: --as NAME)",
            )


def _clear(stage: Stage, slice_: str) -> None:
    """Delete a stage's output; a slice deletes only its own."""
    if slice_.endswith("/1"):
        manifests_first = sorted(stage.folder.iterdir(), key=lambda p: p.suffix != ".json")
        for path in manifests_first:
            if path.is_dir():
                shutil.rmtree(path)
            elif not path.name.startswith(".lock"):
                path.unlink()
    else:
        own = stage.folder / manifest_name(slice_)
        own.unlink(missing_ok=True)

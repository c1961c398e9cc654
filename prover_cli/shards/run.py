"""Reading a run directory: stages, their manifests and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from prover_cli.errors import ShardError, UsageError
from prover_cli.ids import file_hash
from prover_cli.shards.manifest import Manifest, load_manifest
from prover_cli.shards.schema import STAGE_TABLES, TABLES, stages_with
from prover_cli.shards.store import read_table

STAGES = ("rollout", "judge", "verify", "score", "advantage", "update", "evaluate")
_NEXT_COMMAND = {
    "rollout": "prover rollout --env webshop --out {run}",
    "judge": "prover judge {run}",
    "verify": "prover verify {run} --k 8",
    "score": "prover score {run}",
    "advantage": "prover advantage {run}",
    "update": "prover update {run}",
    "evaluate": "prover evaluate {run}",
}


def command_for(stage: str, run: Path) -> str:
    """The command that makes a stage (or `stage@variant`) of a run."""
    kind, _, variant = stage.partition("@")
    return _NEXT_COMMAND[kind].format(run=run) + (f" --as {variant}" if variant else "")


@dataclass(frozen=True)
class Stage:
    """One stage directory of a run; `name` is the stage or `stage@variant`."""

    run: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.run / self.name

    @property
    def kind(self) -> str:
        return self.name.partition("@")[0]

    @property
    def command(self) -> str:
        """The command that makes this stage."""
        return command_for(self.name, self.run)

    @property
    def as_source(self) -> str:
        """The arguments by which the next stage's command reads this one."""
        return f"{self.run} --from {self.name}" if self.name != self.kind else str(self.run)

    def manifests(self) -> list[Manifest]:
        """The manifests of all slices; empty when the stage was never started."""
        return [load_manifest(path) for path in sorted(self.folder.glob("manifest*.json"))]

    def exists(self) -> bool:
        return any(self.folder.glob("manifest*.json"))

    def manifest(self) -> Manifest:
        """The stage's manifest, slices merged; `ShardError` when there is none."""
        parts = self.manifests()
        if not parts:
            raise ShardError(
                f"{self.folder} has no manifest: this stage was not run",
                hint=self.command,
            )
        merged = parts[0].model_copy(deep=True)
        for part in parts[1:]:
            if part.config_digest != merged.config_digest or part.n_shards != merged.n_shards:
                raise ShardError(f"{self.folder} holds slices of different configurations")
            merged.shards.update(part.shards)
        done = len(merged.shards) == merged.n_shards
        whole = all(part.state == "complete" for part in parts)
        merged.state = "complete" if done and whole else "running"
        merged.slice = "0/1"
        return merged

    def require_complete(self) -> Manifest:
        """The manifest of a finished stage; `ShardError` says what is owed otherwise."""
        manifest = self.manifest()
        if manifest.state != "complete":
            raise ShardError(
                f"{self.folder} is not complete: {len(manifest.shards)} of "
                f"{manifest.n_shards} shards",
                hint=f"finish it: {self.command} --resume",
            )
        return manifest

    def require_fresh(self) -> Manifest:
        """The manifest of a finished stage whose inputs are what they were when it read them.

        Raises `ShardError` naming the stage that changed.
        """
        manifest = self.require_complete()
        for name, digest in manifest.inputs.items():
            source = Stage(self.run, name)
            if not source.exists() or source.require_fresh().output_digest != digest:
                raise ShardError(
                    f"{self.folder} is stale: {name} changed since",
                    hint=f"{self.command} --overwrite",
                )
        return manifest

    def tables(self) -> tuple[str, ...]:
        """Names of the tables that its shards have."""
        entries = self.manifest().shards.values()
        return next((tuple(entry.files) for entry in entries), STAGE_TABLES[self.kind])

    def files(self, table: str) -> list[Path]:
        """The finished files of a table, in shard order."""
        shards = sorted(self.manifest().shards.items())
        return [self.folder / entry.files[table].name for _, entry in shards]

    def read(
        self,
        table: str,
        shard: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        ordered: bool = True,
    ) -> pl.DataFrame:
        """A table's rows: all finished shards, or one; all columns, or those named.

        Sorted by the table's key, whose columns must then be among those read, or as they stand.
        """
        paths = self.files(table)
        if shard is not None:
            numbers = sorted(self.manifest().shards)
            if shard not in numbers:
                raise ShardError(f"{self.folder} has no shard {shard}")
            paths = [paths[numbers.index(shard)]]
        return read_table(paths, table, columns, ordered=ordered)

    def damaged(self) -> dict[int, str]:
        """Listed shards whose files are missing or changed since, with what is wrong."""
        faults: dict[int, str] = {}
        for index, entry in self.manifest().shards.items():
            for file in entry.files.values():
                path = self.folder / file.name
                if not path.is_file():
                    faults[index] = f"{path} is missing"
                elif file_hash(path) != file.sha256:
                    faults[index] = f"{path} is not the file that was written"
        return faults


class Run:
    """A run directory. `run["turns"]` is the lazy frame of a table, wherever its stage wrote it."""

    def __init__(self, path: str | Path) -> None:
        if "://" in str(path):
            raise UsageError(f"{path}: run directories are local folders; copy or mount it first")
        self.path = Path(path)
        if not self.path.is_dir():
            raise ShardError(
                f"{self.path} is not a run directory: it does not exist",
                hint=f"prover rollout --env webshop --out {self.path}",
            )

    def stages(self) -> list[Stage]:
        """The stages that were started, in the order of the pipeline."""
        names = [path.name for path in self.path.iterdir() if path.is_dir()]
        found = [Stage(self.path, name) for name in names if name.partition("@")[0] in STAGES]
        started = [stage for stage in found if stage.exists()]
        return sorted(started, key=lambda stage: (STAGES.index(stage.kind), stage.name))

    def stage(self, name: str) -> Stage:
        """A stage by name or `stage@variant`; it need not exist."""
        if name.partition("@")[0] not in STAGES:
            raise UsageError(f"there is no stage {name!r}; stages: {', '.join(STAGES)}")
        return Stage(self.path, name)

    def tables(self) -> list[str]:
        """Names of the tables that have files, those of `rollout` before those of `evaluate`."""
        names = [table for stage in self.stages() for table in stage.tables()]
        return list(dict.fromkeys(names))

    def __getitem__(self, table: str) -> pl.LazyFrame:
        """A table of its default stage; read another variant with `stage(name).read(table)`."""
        if table not in TABLES:
            raise UsageError(f"there is no table {table!r}; tables: {', '.join(TABLES)}")
        stage = self.stage(stages_with(table)[0])
        if stage.exists() and table not in stage.tables():
            raise ShardError(f"{stage.folder} was not asked for {table}")
        files = stage.files(table)
        return pl.scan_parquet(files) if files else read_table([], table).lazy()

"""The manifest of a stage: what was asked, what it was made from, and what is on the disk.

It is replaced after each shard, so a shard exists for readers from the moment it is listed here
and not before. With `--shard i/n` every slice keeps a manifest of its own; together they are the
stage's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from prover_cli import __version__
from prover_cli.errors import ShardError
from prover_cli.ids import digest
from prover_cli.shards.schema import SCHEMA_VERSION
from prover_cli.shards.store import write_json


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FileEntry(_Model):
    name: str
    rows: int
    sha256: str


class ShardEntry(_Model):
    """One finished shard: its file per table, and what it took."""

    files: dict[str, FileEntry]
    counters: dict[str, float]


class PolicyEntry(_Model):
    """The policy a stage acted with or trained. `path` says where it was, `policy_id` what."""

    policy_id: str
    path: str


class EnvironmentEntry(_Model):
    name: str
    options: dict[str, Any]
    fingerprint: str
    assets: dict[str, str] = {}
    """What the fingerprint is made of, by name."""


class Manifest(_Model):
    schema_version: int = SCHEMA_VERSION
    tool_version: str = __version__
    stage: str
    variant: str | None = None
    slice: str = "0/1"
    state: Literal["running", "complete"] = "running"
    n_shards: int
    config: dict[str, Any]
    """The resolved configuration, nested as its dataclass."""
    config_digest: str
    """Digest of the part of it that decides results; see `config.identity`."""
    inputs: dict[str, str]
    """Digest of every stage this one read, when it read it."""
    policy: PolicyEntry | None = None
    environment: EnvironmentEntry | None = None
    facts: dict[str, Any] = {}
    """What the stage found out and a reader should know: panel hash, notes, results."""
    shards: dict[int, ShardEntry] = {}

    @property
    def counters(self) -> dict[str, float]:
        """Counters summed over the finished shards."""
        totals: dict[str, float] = {}
        for entry in self.shards.values():
            for name, value in entry.counters.items():
                totals[name] = totals.get(name, 0) + value
        return totals

    @property
    def output_digest(self) -> str:
        """Identity of the stage's output: changes when any file of it does."""
        files = {
            str(index): {table: file.sha256 for table, file in entry.files.items()}
            for index, entry in self.shards.items()
        }
        return digest([self.config_digest, files, self.facts])

    def save(self, path: Path) -> None:
        write_json(path, {**self.model_dump(mode="json"), "counters": self.counters})


def manifest_name(slice_: str) -> str:
    """`manifest.json`, or the name of one slice's manifest."""
    number, of = slice_.split("/")
    return "manifest.json" if of == "1" else f"manifest-{number}-of-{of}.json"


def load_manifest(path: Path) -> Manifest:
    """Read one manifest; `ShardError` when it is damaged or of another schema version."""
    try:
        raw: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ShardError(f"{path} is damaged: {error}") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise ShardError(
            f"{path} has schema version {version}, this tool reads {SCHEMA_VERSION} "
            f"(written by prover {raw.get('tool_version') if isinstance(raw, dict) else '?'})",
            hint="read it with that version, or write a new run: prover rollout --out DIR",
        )
    try:
        return Manifest.model_validate({k: v for k, v in raw.items() if k != "counters"})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ShardError(f"{path} is damaged: {where}: {first['msg']}") from error

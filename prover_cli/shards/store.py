"""Reading and writing the files of a run directory.

A file appears under its final name only when it is whole: it is written to a temporary name in the
same directory, flushed to the disk and renamed. A reader therefore sees the old content or the new
one, whatever was killed in between.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prover_cli.errors import ShardError, StorageError
from prover_cli.shards.schema import SCHEMA_VERSION, TABLES, Table

ROW_GROUP_BYTES = 64 * 1024 * 1024
TEMPORARY_PREFIX = ".tmp-"
_METADATA_KEY = b"prover"
_STORAGE_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file size limit is reached",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a parent of it is a file",
    errno.EEXIST: "a file of that name is in the way",
    errno.EISDIR: "a directory of that name is in the way",
    errno.EIO: "the device failed",
}


def storage_error(error: OSError, path: Path) -> StorageError:
    """The same failure as a message a user can act on."""
    why = _STORAGE_ERRORS.get(error.errno or 0, error.strerror or str(error))
    return StorageError(
        f"cannot write {path}: {why}",
        hint="nothing that was reported as saved is lost; free the path, then repeat with --resume",
    )


def make_directory(path: Path) -> None:
    """Create a directory and its parents; `StorageError` when it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path) from error


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary path beside `path`, flush it to the disk and rename it."""
    temporary = path.with_name(
        f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-{path.name}"
    )
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically; NaN is refused."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda temporary: _write_text(temporary, text))


def remove_leftovers(folder: Path) -> list[str]:
    """Delete temporary files of killed writers; returns their names."""
    names = []
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        path.unlink(missing_ok=True)
        names.append(path.name)
    return names


def to_arrow(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table of exactly the declared schema.

    Raises `ValueError` for a missing or unknown column, a null in a required one, or a NaN.
    """
    rows = list(rows)
    names = set(table.names)
    for number, row in enumerate(rows):
        if row.keys() != names:
            odd = sorted(row.keys() ^ names)
            raise ValueError(f"{table.name} row {number}: missing or unknown columns {odd}")
    arrow = pa.Table.from_pylist(rows, schema=table.arrow())
    check_content(table, arrow)
    return arrow


def check_content(table: Table, arrow: pa.Table) -> None:
    """Raise `ValueError` for a null in a required column, a NaN, or a duplicated key."""
    for name in table.required:
        if arrow.column(name).null_count:
            raise ValueError(f"{table.name}.{name} is null in a row; it may never be")
    for column in table.columns:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(arrow[column.name])).as_py():
            raise ValueError(f"{table.name}.{column.name} holds NaN")
    keys = arrow.select(table.key)
    n_distinct = keys.group_by(list(table.key)).aggregate([]).num_rows if len(keys) else 0
    if n_distinct != len(keys):
        raise ValueError(f"{table.name}: {len(keys) - n_distinct} duplicated keys {table.key}")


def write_table(
    path: Path, table: Table, rows: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any]
) -> int:
    """Write one shard file atomically, with `metadata` in its footer; returns the row count."""
    arrow = to_arrow(table, rows)
    footer = json.dumps({"schema_version": SCHEMA_VERSION, "table": table.name, **metadata})
    arrow = arrow.replace_schema_metadata({_METADATA_KEY: footer.encode()})
    per_row = arrow.nbytes / max(1, arrow.num_rows)
    row_group = max(1, math.floor(ROW_GROUP_BYTES / max(1.0, per_row)))
    write_atomic(
        path,
        lambda temporary: pq.write_table(
            arrow, temporary, compression="zstd", row_group_size=row_group
        ),
    )
    return int(arrow.num_rows)


def read_arrow(path: Path, table: Table) -> pa.Table:
    """One shard file, cast to the declared schema.

    Raises `ShardError` when the file is missing, damaged, or of another schema version.
    """
    try:
        with pq.ParquetFile(path) as file:
            arrow = file.read()
    except FileNotFoundError as error:
        raise ShardError(
            f"{path} is missing", hint=f"prover status {path.parent.parent}"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
        raise ShardError(
            f"{path} is damaged: {error}", hint=f"prover validate {path.parent.parent}"
        ) from error
    version = json.loads((arrow.schema.metadata or {}).get(_METADATA_KEY, b"{}")).get(
        "schema_version"
    )
    if version != SCHEMA_VERSION:
        raise ShardError(
            f"{path} has schema version {version}, this tool reads {SCHEMA_VERSION}",
            hint="use the tool version in the manifest beside it, or repeat the stage: --overwrite",
        )
    missing = [name for name in table.names if name not in arrow.schema.names]
    if missing:
        raise ShardError(f"{path} lacks the columns {', '.join(missing)}")
    return arrow.select(list(table.names)).cast(table.arrow())


def read_table(paths: Sequence[Path], name: str) -> pl.DataFrame:
    """The rows of several shard files as one frame, sorted by the table's key."""
    table = TABLES[name]
    parts = [read_arrow(path, table) for path in paths] or [table.arrow().empty_table()]
    frame = pl.from_arrow(pa.concat_tables(parts))
    assert isinstance(frame, pl.DataFrame)
    return frame.sort(table.key)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

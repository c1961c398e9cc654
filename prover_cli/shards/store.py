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
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prover_cli.errors import ShardError, StorageError
from prover_cli.order import in_order, n_duplicates
from prover_cli.shards.schema import SCHEMA_VERSION, TABLES, Table
from prover_cli.temporary import PREFIX, beside

ROW_GROUP_BYTES = 64 * 1024 * 1024
Rows: TypeAlias = pl.DataFrame | Iterable[Mapping[str, Any]]
"""What can be written: a frame with exactly the columns of a table, or a mapping per row."""
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
    temporary = beside(path)
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
    """Write JSON atomically, an object's entries and theirs on lines of their own; NaN is refused.

    Deeper values stay on one line: a manifest of thousands of shards is written after each of them.
    """
    text = _json_lines(value, 2) + "\n"
    write_atomic(path, lambda temporary: _write_text(temporary, text))


def _json_lines(value: Any, levels: int, indent: str = "\n") -> str:
    if not (levels and isinstance(value, dict) and value):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = indent + " "
    entries = (
        deeper + json.dumps(str(key)) + ": " + _json_lines(inner, levels - 1, deeper)
        for key, inner in value.items()
    )
    return "{" + ",".join(entries) + indent + "}"


def remove_leftovers(folder: Path, of: tuple[str, ...] = ("",)) -> list[str]:
    """Delete what killed writers of files with these endings left behind; returns its names."""
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.endswith(of)]
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return [path.name for path in found]


def to_arrow(table: Table, rows: Rows) -> pa.Table:
    """Rows as an Arrow table of exactly the declared schema.

    Raises `ValueError` for a missing or unknown column, a null in a required one, a NaN, or a
    duplicated key.
    """
    if isinstance(rows, pl.DataFrame):
        return _frame_to_arrow(table, rows)
    rows = list(rows)
    names = set(table.names)
    for number, row in enumerate(rows):
        if row.keys() != names:
            odd = sorted(row.keys() ^ names)
            raise ValueError(f"{table.name} row {number}: missing or unknown columns {odd}")
    arrow = pa.Table.from_pylist(rows, schema=table.arrow())
    check_content(table, arrow)
    return arrow


def _frame_to_arrow(table: Table, frame: pl.DataFrame) -> pa.Table:
    if odd := sorted(set(frame.columns) ^ set(table.names)):
        raise ValueError(f"{table.name}: missing or unknown columns {odd}")
    arrow = frame.select(table.names).to_arrow(compat_level=pl.CompatLevel.oldest())
    # Nulls are looked for after the cast, so that the message is the same as for rows.
    arrow = arrow.cast(pa.schema([field.with_nullable(True) for field in table.arrow()]))
    check_content(table, arrow)
    return pa.Table.from_arrays(arrow.columns, schema=table.arrow())


def check_content(table: Table, arrow: pa.Table) -> None:
    """Raise `ValueError` for a null in a required column, a NaN, or a duplicated key."""
    for name in table.required:
        if arrow.column(name).null_count:
            raise ValueError(f"{table.name}.{name} is null in a row; it may never be")
    for column in table.columns:
        if _holds_nan(arrow[column.name]):
            raise ValueError(f"{table.name}.{column.name} holds NaN")
    keys = pl.from_arrow(arrow.select(table.key))
    assert isinstance(keys, pl.DataFrame)
    if duplicates := n_duplicates(keys, table.key):
        raise ValueError(f"{table.name}: {duplicates} duplicated keys {table.key}")


def _holds_nan(values: pa.ChunkedArray) -> bool:
    if pa.types.is_list(values.type):
        values = pc.list_flatten(values)
    if not pa.types.is_floating(values.type):
        return False
    return bool(pc.any(pc.is_nan(values)).as_py())


def write_table(path: Path, table: Table, rows: Rows, metadata: Mapping[str, Any]) -> int:
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


def read_arrow(path: Path, table: Table, columns: Sequence[str] | None = None) -> pa.Table:
    """One shard file, cast to the declared schema; only `columns` where they are given.

    Raises `ShardError` when the file is missing, damaged, or of another schema version.
    """
    names = list(table.names if columns is None else columns)
    try:
        with pq.ParquetFile(path) as file:
            _check_version(path, table, names, file.schema_arrow)
            arrow = file.read(columns=names)
    except FileNotFoundError as error:
        raise ShardError(
            f"{path} is missing", hint=f"prover status {path.parent.parent}"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
        raise ShardError(
            f"{path} is damaged: {error}", hint=f"prover validate {path.parent.parent}"
        ) from error
    return arrow.select(names).cast(pa.schema([table.arrow().field(name) for name in names]))


def _check_version(path: Path, table: Table, names: Sequence[str], schema: pa.Schema) -> None:
    version = json.loads((schema.metadata or {}).get(_METADATA_KEY, b"{}")).get("schema_version")
    if version != SCHEMA_VERSION:
        raise ShardError(
            f"{path} has schema version {version}, this tool reads {SCHEMA_VERSION}",
            hint="use the tool version in the manifest beside it, or repeat the stage: --overwrite",
        )
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise ShardError(f"{path} lacks the columns {', '.join(missing)}")


def read_table(
    paths: Sequence[Path], name: str, columns: Sequence[str] | None = None, *, ordered: bool = True
) -> pl.DataFrame:
    """The rows of several shard files as one frame.

    `columns` are the ones to read, None all; `ordered` sorts by the table's key, whose columns
    must then be among them.
    """
    table = TABLES[name]
    parts = [read_arrow(path, table, columns) for path in paths]
    if not parts:
        empty = table.arrow().empty_table()
        parts = [empty if columns is None else empty.select(list(columns))]
    frame = pl.from_arrow(pa.concat_tables(parts))
    assert isinstance(frame, pl.DataFrame)
    return in_order(frame, table.key) if ordered else frame


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

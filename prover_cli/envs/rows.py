"""Tables of rows that are written once, in order, and then read at random from mapped memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from prover_cli.errors import UsageError
from prover_cli.ids import canonical_json

ROWS_PER_BATCH = 4096


class RowWriter:
    """Writes rows to an Arrow file and hashes their content on the way."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_file(str(path), schema)
        self._pending: list[Mapping[str, Any]] = []
        self._hash = hashlib.sha256()
        self.n_rows = 0

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, row: Mapping[str, Any]) -> None:
        self._hash.update(canonical_json(row).encode() + b"\n")
        self._pending.append(row)
        self.n_rows += 1
        if len(self._pending) == ROWS_PER_BATCH:
            self._flush()

    @property
    def content_hash(self) -> str:
        """Hash of all rows so far, in order."""
        return self._hash.hexdigest()[:16]

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._pending, self._schema))
            self._pending = []


class Rows(Sequence[dict[str, Any]]):
    """The rows of a file that a `RowWriter` wrote; only what is asked for is read.

    Raises `UsageError` for a file that is not whole.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        except (OSError, pa.ArrowInvalid) as error:
            raise UsageError(f"{path} is damaged: {error}") from error
        n = int(self._file.num_record_batches)
        last = int(self._file.get_batch(n - 1).num_rows) if n else 0
        self._length = max(n - 1, 0) * ROWS_PER_BATCH + last

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._length:
            raise IndexError(index)
        batch = self._file.get_batch(index // ROWS_PER_BATCH)
        (row,) = batch.slice(index % ROWS_PER_BATCH, 1).to_pylist()
        return row

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The chosen columns of all rows, in order."""
        for number in range(self._file.num_record_batches):
            yield self._file.get_batch(number).select(columns)

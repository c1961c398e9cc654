"""The rows of a file of questions: parquet, JSON, JSON lines, tab or comma separated."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import ijson
import pyarrow as pa
import pyarrow.parquet as pq

from prover_cli.errors import UsageError

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".tsv", ".csv")
DAMAGED = "not JSON"
_LISTS = ("Data.item", "data.item")
"""Where a JSON object that is a whole file keeps its rows."""
_LONGEST_CELL = 1 << 24


class Damaged:
    """A line that cannot be read."""


def rows(path: Path) -> Iterator[Any]:
    """The rows of a file in order, a `Damaged` in place of each line that is not JSON.

    The form is recognised by the content. Raises `UsageError` for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
            file.seek(0)
            yield from _rows(path, file, head)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not a file of questions: neither parquet nor text in UTF-8",
            hint="unpack it first, if it is packed",
        ) from error
    except (ijson.JSONError, csv.Error, pa.ArrowInvalid) as error:
        reason = str(error).split("\n")[0]
        raise UsageError(
            f"{path} is damaged: {reason}", hint="is the download complete?"
        ) from error


def _rows(path: Path, file: IO[bytes], head: bytes) -> Iterator[Any]:
    if head[:4] == b"PAR1":
        return _parquet(path)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"[":
        return iter(ijson.items(file, "item", use_float=True))
    if start[:1] == b"{":
        return _json_lines(file) if _is_object(file) else _json_object(path, file)
    return _table(file, path.suffix)


def _parquet(path: Path) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=2048):
            yield from batch.to_pylist()


def _is_object(file: IO[bytes]) -> bool:
    """Whether the first line is a JSON object by itself."""
    line = next((line for line in file if line.strip()), b"")
    file.seek(0)
    try:
        return isinstance(json.loads(line.decode("utf-8-sig")), dict) and not _wraps(line)
    except ValueError:
        return False


def _wraps(line: bytes) -> bool:
    """Whether a line is a whole file with the rows inside."""
    content = json.loads(line.decode("utf-8-sig"))
    return any(isinstance(content.get(place.split(".")[0]), list) for place in _LISTS)


def _json_lines(file: IO[bytes]) -> Iterator[Any]:
    for line in file:
        if not line.strip():
            continue
        try:
            yield json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            yield Damaged()


def _json_object(path: Path, file: IO[bytes]) -> Iterator[Any]:
    """The rows in a JSON object, TriviaQA's form."""
    for place in _LISTS:
        file.seek(0)
        found = iter(ijson.items(file, place, use_float=True))
        first = next(found, None)
        if first is not None:
            return chain([first], found)
    raise UsageError(
        f"{path} is one JSON object without a list Data, and its first line is not a row"
    )


def _table(file: IO[bytes], suffix: str) -> Iterator[Any]:
    csv.field_size_limit(_LONGEST_CELL)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    header = text.readline()
    text.seek(0)
    tabs = suffix == ".tsv" or "\t" in header
    return iter(csv.DictReader(text, delimiter="\t" if tabs else ","))

"""The rows of a file of questions: parquet, JSON, JSON lines, tab or comma separated; texts may be
compressed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import ijson
import pyarrow.parquet as pq

from prover_cli.envs.searchqa.packed import DAMAGED as DAMAGED_FILE
from prover_cli.envs.searchqa.packed import bare, opened
from prover_cli.errors import UsageError

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".tsv", ".csv")
DAMAGED = "not JSON"
_LISTS = ("Data.item", "data.item")
"""Where a JSON object that is a whole file keeps its rows."""
_LONGEST_CELL = 1 << 24


def is_data(path: Path) -> bool:
    """Whether a file's name is one of rows."""
    return bare(path).suffix in SUFFIXES and path.is_file()


class Damaged:
    """A line that cannot be read."""


def rows(path: Path) -> Iterator[Any]:
    """The rows of a file in order, a `Damaged` in place of each line that is not JSON.

    The form is recognised by the content. Raises `UsageError` for a file that cannot be read.
    """
    try:
        yield from _rows(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not a file of questions: neither parquet nor text in UTF-8",
            hint="texts may be packed as .xz, .gz or .zst, and as nothing else",
        ) from error
    except (ijson.JSONError, csv.Error, *DAMAGED_FILE) as error:
        reason = str(error).split("\n")[0]
        raise UsageError(
            f"{path} is damaged: {reason}", hint="is the download complete?"
        ) from error


def _rows(path: Path) -> Iterator[Any]:
    with opened(path) as file:
        head = file.read(4096)
    if head[:4] == b"PAR1":
        return _parquet(path)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"[":
        return _items(path, "item")
    if start[:1] == b"{":
        return _json_lines(path) if _starts_with_row(path) else _json_object(path)
    return _table(path)


def _parquet(path: Path) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=2048):
            yield from batch.to_pylist()


def _items(path: Path, place: str) -> Iterator[Any]:
    with opened(path) as file:
        yield from ijson.items(file, place, use_float=True)


def _starts_with_row(path: Path) -> bool:
    """Whether the first line is a JSON object by itself, and not the whole file."""
    with opened(path) as file:
        line = next((line for line in file if line.strip()), b"")
    try:
        return isinstance(json.loads(line.decode("utf-8-sig")), dict) and not _wraps(line)
    except ValueError:
        return False


def _wraps(line: bytes) -> bool:
    """Whether a line is a whole file with the rows inside."""
    content = json.loads(line.decode("utf-8-sig"))
    return any(isinstance(content.get(place.split(".")[0]), list) for place in _LISTS)


def _json_lines(path: Path) -> Iterator[Any]:
    with opened(path) as file:
        for line in file:
            if not line.strip():
                continue
            try:
                yield json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                yield Damaged()


def _json_object(path: Path) -> Iterator[Any]:
    """The rows in a JSON object, TriviaQA's form."""
    for place in _LISTS:
        found = _items(path, place)
        first = next(found, None)
        if first is not None:
            return chain([first], found)
    raise UsageError(
        f"{path} is one JSON object without a list Data, and its first line is not a row"
    )


def _table(path: Path) -> Iterator[Any]:
    csv.field_size_limit(_LONGEST_CELL)
    with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        header = text.readline()
        tabs = bare(path).suffix == ".tsv" or "\t" in header
        lines = chain([header], text)
        yield from csv.DictReader(lines, delimiter="\t" if tabs else ",")

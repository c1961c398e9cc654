"""Files that may be compressed: as .xz, .gz or .zst."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

SUFFIXES = (".xz", ".gz", ".zst")
DAMAGED = (EOFError, lzma.LZMAError, zlib.error, pa.ArrowException)
"""What reading a damaged file raises, besides `OSError`."""


def unpacked(raw: IO[bytes]) -> IO[bytes]:
    """The content of a file that may be compressed, which its first bytes tell."""
    start = raw.read(6)
    raw.seek(0)
    opened: Any = raw
    if start.startswith(b"\xfd7zXZ\x00"):
        opened = lzma.LZMAFile(raw)  # noqa: SIM115 (closed with the buffer around it)
    elif start.startswith(b"\x1f\x8b"):
        opened = gzip.GzipFile(fileobj=raw)
    elif start.startswith(b"\x28\xb5\x2f\xfd"):
        opened = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
    return io.BufferedReader(opened, 1 << 20) if opened is not raw else raw


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file's content, unpacked, from its beginning."""
    with path.open("rb") as raw, unpacked(raw) as file:
        yield file


def bare(path: Path) -> Path:
    """A path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path

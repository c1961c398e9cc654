"""Where environments keep what they derive from their data once and read many times.

Entries are folders named after the content they were made from, so they are never stale: other
content has another name. An entry appears in one step, complete, and is read-only from then on; a
list of its parts tells, when it is opened, whether it is still what was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prover_cli.errors import StorageError, UsageError
from prover_cli.ids import file_hash, text_hash

PARTS = "parts.json"
_LOOKED_AT = 1 << 16


def cache_home() -> Path:
    """`$PROVER_CACHE`, else `prover` in the user's cache folder. It may not exist yet."""
    chosen = os.environ.get("PROVER_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "prover"


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A private folder to fill, which becomes `folder` at the end, or vanishes on an error.

    Where two processes build the same entry, the first to finish wins; both have the same content.
    Raises `StorageError` where the cache cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield private
        _seal(private)
        private.chmod(0o755)
        try:
            private.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    except OSError as error:
        # Writing to an open file names no file when it fails; what names another file is not ours.
        ours = error.filename is None or str(error.filename).startswith((str(private), str(folder)))
        if isinstance(error, StorageError) or not ours:
            raise
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _seal(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    parts = {path.relative_to(folder).as_posix(): _look(path) for path in files}
    (folder / PARTS).write_text(json.dumps(parts, indent=1), encoding="utf-8")


def _look(path: Path) -> list[int | str]:
    """The size of a file and a hash of its beginning and end: quick, whatever its size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(_LOOKED_AT)
        file.seek(max(size - _LOOKED_AT, 0))
        ends += file.read(_LOOKED_AT)
    return [size, hashlib.sha256(ends).hexdigest()[:16]]


def check(folder: Path) -> None:
    """`UsageError` unless every part of an entry is the one that was written with the others."""
    hint = f"remove {folder}; it is made again when it is needed"
    try:
        parts = json.loads((folder / PARTS).read_bytes())
        for name, written in parts.items():
            if (found := _look(folder / name)) != written:
                raise UsageError(
                    f"{name} in {folder} does not match the rest: {found[0]} bytes with the hash "
                    f"{found[1]}, where {written[0]} bytes with {written[1]} were written",
                    hint=hint,
                )
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{folder} is damaged: {error}", hint=hint) from error


def mapped_array(path: Path) -> NDArray[Any]:
    """A NumPy file mapped into memory; `UsageError` when it is damaged."""
    try:
        content: NDArray[Any] = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    return content


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the cache entry {folder} cannot be written: {error.strerror or error}",
        hint="name a folder with room: export PROVER_CACHE=DIR",
    )


def remembered_hash(path: Path) -> str:
    """SHA-256 of a file, computed once per version of the file.

    A version is its path, inode, size and times of change; the content is read again when any of
    them differs.
    """
    stat = path.stat()
    version = [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    note = cache_home() / "hashes" / f"{text_hash(str(path.resolve()))}.json"
    try:
        known = json.loads(note.read_bytes())
        if known["version"] == version:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or written by something else: read the file
    result = file_hash(path)
    _write_note(note, {"version": version, "sha256": result})
    return result


def _write_note(note: Path, content: object) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=note.parent, delete=False) as file:
            json.dump(content, file)
        Path(file.name).rename(note)
    except OSError as error:
        raise _unwritable(note, error) from error

"""Where environments keep what they derive from their data once and read many times.

Entries are folders named after the content they were made from, so they are never stale: other
content has another name. An entry appears in one step, complete, and is read-only from then on.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prover_cli.errors import StorageError
from prover_cli.ids import file_hash, text_hash


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
        private.chmod(0o755)
        try:
            private.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    except OSError as error:
        if isinstance(error, StorageError) or error.filename is None:
            raise
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the cache entry {folder} cannot be written: {error.strerror or error}",
        hint="name a folder with room: export PROVER_CACHE=DIR",
    )


def remembered_hash(path: Path) -> str:
    """SHA-256 of a file, computed once per version of the file.

    A version is its path, inode, size and time of change; the content is read again when any of
    them differs.
    """
    stat = path.stat()
    version = [stat.st_ino, stat.st_size, stat.st_mtime_ns]
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

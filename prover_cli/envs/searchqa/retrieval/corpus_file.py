"""Corpus files: one JSON object a line, plain or compressed (.xz, .gz, .zst), read as a stream.

What cannot be used is an error that names the line: a corpus is written by machines, so a damaged
line means a damaged file, and results on what is left would be comparable with nobody's. A passage
without a title is kept; one without text has nothing to be found by and is counted and left out, as
are blank lines without being counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from prover_cli.envs.searchqa.packed import DAMAGED, unpacked
from prover_cli.envs.searchqa.retrieval.documents import NoPassage, passage_of
from prover_cli.envs.searchqa.types import Passage
from prover_cli.errors import UsageError

LONGEST_LINE = 16 * 2**20
LINES_PER_REPORT = 4096
EMPTY, UNTITLED = "empty text", "no title (kept)"
Advance = Callable[[int], None]
"""Told how many more bytes of the file were read."""


def passages(path: Path, counts: Counter[str], advance: Advance) -> Iterator[Passage]:
    """The passages of a corpus file in order; `counts` collects what was found wrong with some.

    Raises `UsageError` for a file that cannot be read and for a line that is no passage.
    """
    for number, line in _lines(path, advance):
        try:
            passage = passage_of(json.loads(line))
        except (NoPassage, ValueError, RecursionError) as error:
            raise UsageError(
                f"{path}, line {number}: {_reason(line, error)}", hint=_what_helps(line)
            ) from error
        if not passage.text.strip():
            counts[EMPTY] += 1
            continue
        counts[UNTITLED] += not passage.title
        yield passage


def _reason(line: bytes, error: Exception) -> str:
    if isinstance(error, NoPassage):
        return str(error)
    start = line[:60].decode(errors="replace")
    kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
    return f"not {kind} ({str(error)[:100]}): {start!r}"


def _what_helps(line: bytes) -> str:
    if line.startswith(b"["):
        return "a corpus has one object a line, as `jq -c '.[]'` makes of a JSON list"
    return 'is the download complete? A line is {"id": "1", "contents": "\\"Title\\"\\nText"}'


def _lines(path: Path, advance: Advance) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        with path.open("rb") as raw, unpacked(raw) as stream:
            number, told = 0, 0
            while line := stream.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise UsageError(f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes")
                if number % LINES_PER_REPORT == 0:
                    advance(raw.tell() - told)
                    told = raw.tell()
                if line.strip():
                    yield number, line
            advance(raw.tell() - told)
    except (OSError, *DAMAGED) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="is the download complete?"
        ) from error

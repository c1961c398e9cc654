"""Question files: one, several, or a folder of them, with their splits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prover_cli.envs.searchqa.formats import EXPECTED, ReadRow, read_row, split_of
from prover_cli.envs.searchqa.packed import bare
from prover_cli.envs.searchqa.rows import DAMAGED, SUFFIXES, Damaged, is_data, rows
from prover_cli.envs.searchqa.sources import known_source
from prover_cli.envs.searchqa.types import Question
from prover_cli.errors import UsageError

REPEATED = "repeated id"
SPLIT_NAMES = ("train", "valid", "test")
UNNAMED = "test"
"""The split of questions whose file and row name none: they are for evaluation, never trained on
unless somebody says so."""
_GIVEN_UP = 100
"""Rows at the head of a file in a folder without one question, after which it is something else."""


@dataclass(frozen=True)
class Questions:
    """Questions by split, which rows were left out, and which files hold no questions."""

    by_split: Mapping[str, Sequence[Question]]
    skipped: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def of(self, split: str) -> list[Question]:
        """The questions of train, valid, test or all.

        A data set without a test split is tested on its valid (dev) split, as usual.
        """
        if split == "all":
            return [q for name in SPLIT_NAMES for q in self.by_split.get(name, ())]
        own = list(self.by_split.get(split, ()))
        if split == "test":
            tested = {question.source for question in own}
            own += [q for q in self.by_split.get("valid", ()) if q.source not in tested]
        return own


def read(path: Path, source: str | None = None) -> tuple[list[Question], Counter[str]]:
    """The questions of a file in file order, and how many rows were left out, by reason.

    `source` names the data set for every row; None: what the rows or the file's name say. Raises
    `UsageError` for a file that cannot be read or that holds no question.
    """
    skipped: Counter[str] = Counter()
    questions = [row.question for row in _unique(_read_file(path, source, skipped), skipped)]
    if not questions:
        raise _nothing(path, skipped)
    return questions, skipped


def read_questions(data: str) -> Questions:
    """All questions of `data`: a file, several with commas between them, or a folder.

    Of a folder, every file with one of `SUFFIXES` (packed or not) is read, also in folders below
    it; those that hold something else (a corpus, say) are ignored and named. A question belongs to
    the split that its file's name contains (train, valid or dev, test), else to the one that its
    row names, else to test. Raises `UsageError` where there is no question at all.
    """
    skipped: Counter[str] = Counter()
    by_split: dict[str, list[Question]] = {name: [] for name in SPLIT_NAMES}
    ignored: list[str] = []
    found = (row for path in _paths(data, ignored) for row in _read_in_split(path, skipped))
    for row in _unique(found, skipped):
        by_split[row.split or UNNAMED].append(row.question)
    if not any(by_split.values()):
        raise _nothing(Path(data), skipped)
    return Questions(by_split, dict(skipped), tuple(ignored))


def _paths(data: str, ignored: list[str]) -> Iterator[Path]:
    whole = Path(data).expanduser()
    places = [whole] if whole.exists() else [Path(p.strip()).expanduser() for p in data.split(",")]
    for place in places:
        if not place.exists():
            raise UsageError(f"there is no file or folder {place} with questions")
        if not place.is_dir():
            yield place
            continue
        files = sorted(filter(is_data, place.rglob("*")))
        if not files:
            raise UsageError(f"the folder {place} holds no file named *{', *'.join(SUFFIXES)}")
        for file in files:
            if _has_questions(file):
                yield file
            else:
                ignored.append(file.name)


def _has_questions(path: Path) -> bool:
    """Whether one of the first rows is a question."""
    try:
        head = (row for row, _ in zip(rows(path), range(_GIVEN_UP), strict=False))
        return any(isinstance(read_row(row, None, _source_in(path)), ReadRow) for row in head)
    except UsageError:
        return False


def _read_file(path: Path, source: str | None, skipped: Counter[str]) -> Iterator[ReadRow]:
    fallback = _source_in(path)
    for row in rows(path):
        found = DAMAGED if isinstance(row, Damaged) else read_row(row, source, fallback)
        if isinstance(found, str):
            skipped[found] += 1
        else:
            yield found


def _read_in_split(path: Path, skipped: Counter[str]) -> Iterator[ReadRow]:
    named = _split_in(path)
    for row in _read_file(path, None, skipped):
        yield ReadRow(row.question, named or row.split)


def _split_in(path: Path) -> str | None:
    """The split in a file's name, else the one that its folder is named after."""
    words = re.findall(r"[a-z]+", bare(path).stem.lower())
    return next((s for word in words if (s := split_of(word))), split_of(path.parent.name))


def _source_in(path: Path) -> str:
    """The data set in a file's name or its folder's, else what the name says beside the split."""
    stem = bare(path).stem
    own = [word for word in re.findall(r"[a-z0-9]+", stem.lower()) if not split_of(word)]
    folder = path.resolve().parent.name
    return known_source(stem) or known_source(folder) or "_".join(own) or folder.lower()


def _unique(found: Iterator[ReadRow], skipped: Counter[str]) -> Iterator[ReadRow]:
    """Each id of a data set once."""
    seen: set[tuple[str, str]] = set()
    for row in found:
        key = (row.question.source, row.question.question_id)
        if key in seen:
            skipped[REPEATED] += 1
        else:
            seen.add(key)
            yield row


def _nothing(path: Path, skipped: Counter[str]) -> UsageError:
    counts = ", ".join(f"{n} rows: {reason}" for reason, n in skipped.items())
    return UsageError(
        f"{path} holds no question ({counts or 'it has no rows'}); row 1 should be {EXPECTED}",
        hint="see the section on question files in docs/searchqa.md",
    )

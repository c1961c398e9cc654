"""What is made before anything is asked: a search index, or files of a generated world."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prover_cli.envs.base import Progress
from prover_cli.envs.searchqa.questions import SPLIT_NAMES, read_questions
from prover_cli.envs.searchqa.types import Question
from prover_cli.errors import StorageError, UsageError

CORPUS_FILE = "corpus.jsonl"


def prepare(
    progress: Progress,
    *,
    corpus: str | None = None,
    data: str | None = None,
    retriever: str = "bm25",
    **engine: Any,
) -> dict[str, Any]:
    """Index a corpus for a search engine, count the questions of `data`, or both."""
    if corpus is None and data is None:
        raise UsageError("searchqa prepares a corpus, questions, or both", hint="--corpus FILE")
    facts: dict[str, Any] = {}
    if data is not None:
        questions = read_questions(data)
        facts["questions"] = {name: len(questions.by_split[name]) for name in SPLIT_NAMES}
        facts["skipped"] = dict(questions.skipped)
        facts["files without questions"] = ", ".join(questions.ignored) or "none"
    if corpus is not None:
        from prover_cli.envs.searchqa.retrieval.open import open_retriever

        opened = open_retriever(retriever, corpus=corpus, progress=progress, **engine)
        facts |= {"retriever": opened.name, "corpus": opened.corpus_hash}
        opened.close()
    return facts


def generate_files(
    progress: Progress, *, out: str, size: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """Write a generated world: its questions by split and its corpus, for `--data` and servers."""
    from prover_cli.envs.searchqa.world.build import SIZE, build

    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="name a new folder: --out DIR")
    size = SIZE if size is None else size
    progress.note(f"generating {size:,} passages")
    world = build(seed, size)
    passages = ({"id": p.passage_id, "contents": f'"{p.title}"\n{p.text}'} for p in world.passages)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / CORPUS_FILE, passages)
        for split, questions in world.questions.items():
            _write(folder / f"{split}.jsonl", map(_row, questions))
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    counts = {split: len(questions) for split, questions in world.questions.items()}
    return {"folder": str(folder), "passages": len(world.passages), "questions": counts}


def _row(question: Question) -> dict[str, Any]:
    return {
        "id": question.question_id,
        "question": question.text,
        "golden_answers": list(question.answers),
        "data_source": question.source,
        "hops": question.hops,
        "gold": list(question.gold),
        "chain": list(question.chain),
    }


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

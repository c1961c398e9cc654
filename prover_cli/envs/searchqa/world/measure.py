"""How hard a generated world is for its search engine."""

from __future__ import annotations

from collections.abc import Sequence

from prover_cli.envs.bm25 import BM25Index
from prover_cli.envs.searchqa.scoring import normalise
from prover_cli.envs.searchqa.types import Question
from prover_cli.envs.searchqa.world.build import World
from prover_cli.envs.searchqa.world.facts import says


def report(world: World, k: int = 3, limit: int | None = None) -> dict[str, dict[str, float]]:
    """Shares of questions by number of hops, over all splits (`limit` of each at most).

    `raw`: one of the `k` best passages for the question itself holds the answer. `chain`: one for
    the last query of the chain does. `steps`: every query of the chain finds its gold passage.
    """
    index = BM25Index.of(f"{passage.title}\n{passage.text}" for passage in world.passages)
    texts = [normalise(f"{passage.title} {passage.text}") for passage in world.passages]
    titles = [passage.title for passage in world.passages]
    asked = [q for questions in world.questions.values() for q in questions[:limit]]
    figures: dict[str, dict[str, float]] = {}
    for hops in sorted({question.hops or 0 for question in asked}):
        chosen = [question for question in asked if question.hops == hops]
        raw = chain = steps = 0
        for question in chosen:
            found = [index.search(query, k) for query in question.chain]
            raw += _answered(question, index.search(question.text, k), texts)
            chain += _answered(question, found[-1], texts)
            pairs = zip(found, question.gold, strict=True)
            steps += all(gold in [titles[i] for i in hits] for hits, gold in pairs)
        n = len(chosen)
        shares = {"raw": raw / n, "chain": chain / n, "steps": steps / n}
        figures[f"world-{hops}hop"] = {"questions": n, **shares}
    return figures


def _answered(question: Question, hits: Sequence[int], texts: Sequence[str]) -> bool:
    return any(says(texts[i], question.answers) for i in hits)

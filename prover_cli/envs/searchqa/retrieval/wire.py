"""What goes to a search server and what comes back, in both dialects that servers speak.

Search-R1 asks `{"queries": [...]}`, verl-agent asks `{"query": ...}`; each ignores the other's
field, so both are sent. Both answer `{"result": [[{"document": ..., "score": ...}, ...]]}`, one
list a query, when scores are asked for.
"""

from __future__ import annotations

import json
import math
from typing import Any

from prover_cli.envs.searchqa.retrieval.documents import NoPassage, passage_of
from prover_cli.envs.searchqa.types import Hit

SHOWN = 120
"""Characters of a wrong answer that an error quotes."""


class WrongAnswer(ValueError):
    """A body that is no answer to a search; the message says what it is instead."""


def request(query: str, k: int) -> dict[str, Any]:
    """The body that asks either kind of server for `k` passages with scores."""
    return {"queries": [query], "query": query, "topk": k, "return_scores": True}


def hits_of(body: bytes, k: int) -> list[Hit]:
    """The first `k` hits of an answer to one query, in the server's order.

    Servers of web search give documents without ids or scores: such a document is known by a hash
    of its content, and its score is 0. Raises `WrongAnswer`.
    """
    found = _result_of(_json(body))
    hits = []
    for rank, entry in enumerate(found[:k], start=1):
        try:
            hits.append(_hit(entry))
        except NoPassage as error:
            raise WrongAnswer(f"hit {rank} is not a passage: {error}") from error
    return hits


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        kind = "HTML" if body.lstrip()[:1] == b"<" else "not JSON"
        raise WrongAnswer(f"the answer is {kind}: {shown(body)}") from error


def _result_of(content: Any) -> list[Any]:
    result = content.get("result") if isinstance(content, dict) else None
    if not (isinstance(result, list) and len(result) == 1 and isinstance(result[0], list)):
        text = json.dumps(content, ensure_ascii=False)[:SHOWN]
        raise WrongAnswer(f"the answer has no `result` with one list of hits: {text!r}")
    return result[0]


def _hit(entry: Any) -> Hit:
    if not (isinstance(entry, dict) and "document" in entry):
        return Hit(passage_of(entry, needs_id=False), 0.0)
    score = entry.get("score")
    if score is None:
        score = 0.0
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise NoPassage(f"its score is {score!r}")
    return Hit(passage_of(entry["document"], needs_id=False), float(score))


def shown(body: bytes | bytearray) -> str:
    """The start of a body, for an error."""
    return repr(body[:SHOWN].decode(errors="replace"))

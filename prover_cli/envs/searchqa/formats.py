"""One row of a question file, in any of the published forms, as a question.

A row is recognised by what is in it and not by the name of its file: verl's parquet (`prompt`,
`reward_model`, `extra_info`, verl-agent's `env_kwargs`), FlashRAG (`golden_answers`), HotpotQA and
2WikiMultiHopQA (`supporting_facts`), MuSiQue (`answer_aliases`, `paragraphs`), PopQA
(`possible_answers`), TriviaQA (`Answer` with `Aliases`) and plain `question`, `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from prover_cli.envs.searchqa.sources import canonical_source
from prover_cli.envs.searchqa.types import Question
from prover_cli.ids import text_hash

EXPECTED = (
    "a question and its answers, as in Search-R1's, verl-agent's or FlashRAG's files, HotpotQA, "
    "2WikiMultiHopQA, MuSiQue, PopQA, TriviaQA, NQ or Bamboogle"
)
NO_QUESTION, NO_ANSWER, NOT_A_ROW = "no question", "no answer", "not a JSON object"
ANSWER_SPLIT = "<|answer_split|>"
"""What IGPO joins several accepted answers with."""
_SPLITS = {
    "train": "train", "training": "train",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid", "eval": "valid",
    "test": "test", "testing": "test",
}  # fmt: skip
_EMPTY: Mapping[str, Any] = MappingProxyType({})
_QUESTION_KEYS = ("question", "Question", "query")
_ID_KEYS = ("id", "_id", "qid", "question_id", "QuestionId")
_ANSWER_KEYS = ("golden_answers", "answers", "Answer", "possible_answers", "answer")


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A question and the split that its row names, if it names one."""

    question: Question
    split: str | None


def split_of(name: str | None) -> str | None:
    """train, valid or test for the names that data sets give to these."""
    return None if name is None else _SPLITS.get(str(name).strip().lower())


def read_row(row: Any, source: str | None, fallback: str) -> ReadRow | str:
    """A row as a question, or why it is none.

    `source` names its data set; None: what the row says, else what its form says, else `fallback`.
    """
    if not isinstance(row, dict):
        return NOT_A_ROW
    text = sound(_question_text(row))
    if not text:
        return NO_QUESTION
    answers = tuple(dict.fromkeys(sound(answer) for answer in _answers(row)))
    if not answers:
        return NO_ANSWER
    extra = _mapping(row.get("extra_info"))
    split = split_of(extra.get("split") or row.get("split"))
    name = source or _source(row, fallback)
    number = sound(_id(row, extra, split) or text_hash(text))
    question = Question(
        number,
        with_mark(text),
        answers,
        sound(name),
        _hops(row, number),
        tuple(map(sound, _gold(row))),
        tuple(map(sound, _list(row.get("chain")))),
    )
    return ReadRow(question, split)


def sound(text: str) -> str:
    """Without lone surrogates, which JSON can spell and UTF-8 cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def with_mark(text: str) -> str:
    """Stripped, and with a question mark at the end if it has none."""
    text = text.strip()
    return text if text.endswith("?") else f"{text}?"


def _list(value: Any) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list | tuple) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _EMPTY


def _question_text(row: Mapping[str, Any]) -> str:
    places = (_mapping(row.get("env_kwargs")), row, _mapping(row.get("extra_info")))
    for place in places:
        for key in _QUESTION_KEYS:
            if isinstance(value := place.get(key), str) and value.strip():
                return value.strip()
    return _from_prompt(row.get("prompt"))


def _from_prompt(prompt: Any) -> str:
    """The question in the last user message: what follows the last `Question:`, if that occurs."""
    if isinstance(prompt, str):
        return prompt.rpartition("Question:")[2].strip()
    messages = prompt if isinstance(prompt, list) else ()
    users = [m for m in map(_mapping, messages) if m.get("role") == "user"]
    content = users[-1].get("content") if users else None
    return content.rpartition("Question:")[2].strip() if isinstance(content, str) else ""


def _answers(row: Mapping[str, Any]) -> Iterator[str]:
    """All accepted answers, from the first place that has any, and the aliases beside it."""
    reward = _mapping(row.get("reward_model"))
    places = [
        _mapping(row.get("env_kwargs")).get("ground_truth"),
        *(row.get(key) for key in _ANSWER_KEYS),
        reward.get("ground_truth"),
        _mapping(row.get("extra_info")).get("answer"),
    ]
    for place in places:
        if found := list(_texts(place)):
            yield from found
            yield from _texts(row.get("answer_aliases"))
            return


def _texts(value: Any) -> Iterator[str]:
    """The non-empty texts in an answer: a text, a list, or a mapping with targets or aliases."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, str):
        yield from _texts_of_string(value)
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for key in ("target", "Value", "value", "Aliases", "aliases"):
            yield from _texts(value.get(key))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _texts_of_string(value: str) -> Iterator[str]:
    if value.lstrip().startswith('["') and value.rstrip().endswith("]"):  # PopQA's lists in a cell
        try:
            yield from _texts(json.loads(value))
            return
        except ValueError:
            pass
    yield from (part.strip() for part in value.split(ANSWER_SPLIT) if part.strip())


def _source(row: Mapping[str, Any], fallback: str) -> str:
    told = _mapping(row.get("env_kwargs")).get("data_source") or row.get("data_source")
    if isinstance(told, str) and told.strip():
        return canonical_source(told)
    if "possible_answers" in row:
        return "popqa"
    if isinstance(row.get("Answer"), dict) or "question_source" in row:
        return "triviaqa"
    if "question_decomposition" in row or "answer_aliases" in row:
        return "musique"
    if "supporting_facts" in row:
        return "2wikimultihopqa" if "evidences" in row else "hotpotqa"
    return fallback


def _id(row: Mapping[str, Any], extra: Mapping[str, Any], split: str | None) -> str | None:
    for key in _ID_KEYS:
        if (value := row.get(key)) not in (None, ""):
            return str(value)
    index = extra.get("index")
    if index in (None, ""):
        return None
    return index if isinstance(index, str) else f"{split or 'row'}_{index}"


def _hops(row: Mapping[str, Any], number: str) -> int | None:
    """MuSiQue tells: in its ids (`3hop1__...`) and by its decomposition."""
    steps = row.get("question_decomposition")
    if isinstance(steps, list) and steps:
        return len(steps)
    hops = row.get("hops")
    if isinstance(hops, int) and not isinstance(hops, bool):
        return hops
    return int(number[0]) if number[:1].isdecimal() and number[1:4] == "hop" else None


def _gold(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Titles of the supporting passages, each once; ids where only those are given."""
    for found in (_from_facts(row), _from_paragraphs(row)):
        if found:
            return tuple(dict.fromkeys(found))
    for key in ("gold", "supporting_titles", "titles", "support"):
        if found := _list(row.get(key)):
            return tuple(dict.fromkeys(found))
    return ()


def _from_facts(row: Mapping[str, Any]) -> list[str]:
    facts = row.get("supporting_facts")
    if facts is None:
        facts = _mapping(row.get("metadata")).get("supporting_facts")
    if isinstance(facts, dict):
        return [str(title) for title in facts.get("title") or ()]
    if not isinstance(facts, list):
        return []
    return [str(f[0]) for f in facts if isinstance(f, list) and f]


def _from_paragraphs(row: Mapping[str, Any]) -> list[str]:
    """MuSiQue's supporting paragraphs, in the order of the steps where that is told."""
    paragraphs = row.get("paragraphs")
    if not isinstance(paragraphs, list):
        return []
    supporting = {
        p.get("idx", place): str(p.get("title", ""))
        for place, p in enumerate(map(_mapping, paragraphs))
        if p.get("is_supporting")
    }
    steps = row.get("question_decomposition")
    order = [
        _mapping(step).get("paragraph_support_idx")
        for step in (steps if isinstance(steps, list) else ())
    ]
    told = [supporting[place] for place in order if place in supporting]
    return told + [title for title in supporting.values() if title not in told]

"""Every published form of question file is read, and what is left out is counted by reason."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prover_cli.envs.searchqa.formats import read_row
from prover_cli.envs.searchqa.questions import read, read_questions
from prover_cli.envs.searchqa.types import Question
from prover_cli.errors import UsageError
from tests.envs.searchqa_helpers import write_jsonl

TEMPLATE = "Do this and that, e.g. <answer> Beijing </answer>. Question: Who wrote Emma?\n"
PROMPT = [{"role": "user", "content": TEMPLATE}]


def verl(truth: Any, **more: Any) -> dict[str, Any]:
    return {
        "data_source": "nq",
        "prompt": PROMPT,
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": 7},
        **more,
    }


@pytest.mark.parametrize(
    ("truth", "answers"),
    [
        ({"target": ["Jane Austen", "Austen"]}, ("Jane Austen", "Austen")),
        ({"target": "Jane Austen"}, ("Jane Austen",)),
        (["Jane Austen", "Jane Austen"], ("Jane Austen",)),
        ("Jane Austen", ("Jane Austen",)),
        ("Jane Austen<|answer_split|>Austen", ("Jane Austen", "Austen")),
    ],
)
def test_verl_rows_hold_the_answers_in_any_shape(truth: Any, answers: tuple[str, ...]) -> None:
    row = read_row(verl(truth), None, "file")
    assert not isinstance(row, str)
    assert row.question == Question("train_7", "Who wrote Emma?", answers, "nq")
    assert row.split == "train"


def test_verl_agent_rows_are_read_from_env_kwargs() -> None:
    kwargs = {
        "ground_truth": {"target": ["Austen"]},
        "question": "who wrote Emma",
        "data_source": "popqa",
    }
    row = read_row(verl("other", env_kwargs=kwargs), None, "file")
    assert not isinstance(row, str)
    assert (row.question.text, row.question.answers) == ("who wrote Emma?", ("Austen",))
    assert row.question.source == "popqa"


ROWS: dict[str, tuple[dict[str, Any], Question]] = {
    "flashrag": (
        {
            "id": "test_0",
            "question": " who is it ",
            "golden_answers": ["a", "b"],
            "metadata": {"supporting_facts": {"title": ["T", "U", "T"], "sent_id": [0, 1, 2]}},
        },
        Question("test_0", "who is it?", ("a", "b"), "file", None, ("T", "U")),
    ),
    "hotpotqa": (
        {
            "_id": "5a",
            "question": "Q?",
            "answer": "yes",
            "supporting_facts": [["T", 0], ["T", 1], ["U", 0]],
            "context": [["T", ["s"]], ["U", ["s"]], ["V", ["s"]]],
            "level": "hard",
        },
        Question("5a", "Q?", ("yes",), "hotpotqa", None, ("T", "U")),
    ),
    "2wikimultihopqa": (
        {
            "_id": "61",
            "question": "Q?",
            "answer": "x",
            "supporting_facts": [["U", 0], ["T", 0]],
            "evidences": [["U", "director", "T"]],
        },
        Question("61", "Q?", ("x",), "2wikimultihopqa", None, ("U", "T")),
    ),
    "musique": (
        {
            "id": "3hop1__1_2_3",
            "question": "Q?",
            "answer": "x",
            "answer_aliases": ["y", "x"],
            "paragraphs": [
                {"idx": 0, "title": "T", "paragraph_text": "t", "is_supporting": True},
                {"idx": 1, "title": "N", "paragraph_text": "t", "is_supporting": False},
                {"idx": 2, "title": "U", "paragraph_text": "t", "is_supporting": True},
            ],
            "question_decomposition": [
                {"id": 1, "paragraph_support_idx": 2},
                {"id": 2, "paragraph_support_idx": 0},
            ],
        },
        Question("3hop1__1_2_3", "Q?", ("x", "y"), "musique", 2, ("U", "T")),
    ),
    "popqa": (
        {"id": 42, "question": "Q?", "possible_answers": '["a", "b"]', "obj": "a"},
        Question("42", "Q?", ("a", "b"), "popqa"),
    ),
    "triviaqa": (
        {
            "QuestionId": "tc_1",
            "Question": "Q?",
            "Answer": {"Value": "V", "Aliases": ["A", "V"], "NormalizedAliases": ["a"]},
        },
        Question("tc_1", "Q?", ("V", "A"), "triviaqa"),
    ),
    "bamboogle of agentic-rag": (
        {
            "data_source": "chiayewken/bamboogle",
            "prompt": [{"role": "user", "content": "Q?"}],
            "extra_info": {"answer": "x", "index": 0, "question": "Q?", "split": "test"},
        },
        Question("test_0", "Q?", ("x",), "bamboogle"),
    ),
    "nq open": ({"question": "q", "answer": ["a", "b"]}, Question("", "q?", ("a", "b"), "file")),
    "a number": (
        {"id": "n", "question": "q", "answer": 1862},
        Question("n", "q?", ("1862",), "file"),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_published_form_is_recognised_by_content(name: str) -> None:
    row, expected = ROWS[name]
    found = read_row(row, None, "file")
    assert not isinstance(found, str)
    got = found.question
    if not expected.question_id:
        assert len(got.question_id) == 16
        got = Question("", got.text, got.answers, got.source)
    assert got == expected


def test_all_file_types_give_the_same_questions(tmp_path: Path) -> None:
    rows = [{"id": f"a{i}", "question": f"q{i}", "golden_answers": ["x"]} for i in range(3)]
    write_jsonl(tmp_path / "nq_lines.jsonl", rows)
    (tmp_path / "nq_list.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "nq_object.json").write_text(json.dumps({"Version": 1, "Data": rows}))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "nq.parquet")
    cells = "\n".join(f'a{i}\tq{i}\t"[""x""]"' for i in range(3))
    (tmp_path / "nq.tsv").write_text(f"id\tquestion\tpossible_answers\n{cells}\n")
    expected = [Question(f"a{i}", f"q{i}?", ("x",), "nq") for i in range(3)]
    for path in sorted(tmp_path.iterdir()):
        source = "nq" if path.suffix == ".tsv" else None
        assert read(path, source) == (expected, {}), path


@pytest.mark.parametrize("packing", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".tsv"])
def test_packed_files_give_the_questions_of_plain_ones(
    tmp_path: Path, suffix: str, packing: str
) -> None:
    rows = [{"id": str(i), "question": f"q{i}?", "golden_answers": ["a"]} for i in range(3)]
    text = {
        ".jsonl": "\n".join(map(json.dumps, rows)),
        ".json": json.dumps(rows),
        ".tsv": "id\tquestion\tpossible_answers\n"
        + "".join(f'{i}\tq{i}?\t["a"]\n' for i in range(3)),
    }[suffix]
    plain = tmp_path / f"nq_train{suffix}"
    plain.write_text(text)
    folder = tmp_path / "packed"
    folder.mkdir()
    packed = folder / f"{plain.name}{packing}"
    packed.write_bytes(pack(text.encode(), packing))
    found = read_questions(str(folder))
    assert found == read_questions(str(plain))
    assert [q.text for q in found.of("train")] == ["q0?", "q1?", "q2?"]
    packed.write_bytes(pack(text.encode() * 50, packing)[:-12])
    with pytest.raises(UsageError, match=r"nq_train.*(damaged|cannot be read)"):
        read(packed)


def pack(content: bytes, packing: str) -> bytes:
    if packing == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()
    return gzip.compress(content) if packing == ".gz" else lzma.compress(content)


def test_bamboogle_as_it_was_published_is_read(tmp_path: Path) -> None:
    path = tmp_path / "Bamboogle Prerelease.csv"
    path.write_text('\ufeffQuestion,Answer\n"Who, then?",he\nWhat\n', encoding="utf-8")
    questions, skipped = read(path)
    assert [(q.text, q.answers, q.source) for q in questions] == [
        ("Who, then?", ("he",), "bamboogle")
    ]
    assert skipped == {"no answer": 1}


def test_rows_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "nq_dev.jsonl"
    good = {"id": "1", "question": "q", "golden_answers": ["x"]}
    rows = [good, {**good, "question": " "}, {**good, "golden_answers": [" ", None]}, good, [1]]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"id": "cut')
    questions, skipped = read(path)
    assert len(questions) == 1
    assert skipped == {
        "no question": 1,
        "no answer": 1,
        "repeated id": 1,
        "not a JSON object": 1,
        "not JSON": 1,
    }


def test_text_that_utf8_cannot_spell_is_made_sound(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"question": "a\\ud800b", "answer": "\\udfffx", "id": "\\ud800"}\n')
    (question,), _ = read(path)
    assert (question.text, question.answers, question.question_id) == ("a?b?", ("?x",), "?")


def test_splits_come_from_file_names_then_rows_then_are_test(tmp_path: Path) -> None:
    def row(i: str, **more: Any) -> dict[str, Any]:
        return {"id": i, "question": "q", "golden_answers": ["x"], "data_source": "nq", **more}

    write_jsonl(tmp_path / "nq-train.jsonl", [row("1", split="test")])
    write_jsonl(tmp_path / "hotpot_dev_v1.jsonl", [row("2", data_source="hotpotqa")])
    write_jsonl(tmp_path / "mixed.jsonl", [row("3", split="dev"), row("4")])
    (tmp_path / "test").mkdir()
    write_jsonl(tmp_path / "test" / "more.jsonl", [row("5")])
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "p", "contents": '"T"\ntext'}])
    questions = read_questions(str(tmp_path))
    assert questions.ignored == ("corpus.jsonl",)
    ids = {name: [q.question_id for q in part] for name, part in questions.by_split.items()}
    assert ids == {"train": ["1"], "valid": ["2", "3"], "test": ["4", "5"]}
    # NQ has a test split of its own, HotpotQA has not.
    assert [q.question_id for q in questions.of("test")] == ["4", "5", "2"]
    assert [q.question_id for q in questions.of("all")] == ["1", "2", "3", "4", "5"]


def test_several_files_can_be_named(tmp_path: Path) -> None:
    a = write_jsonl(tmp_path / "a.jsonl", [{"question": "q", "answer": "x"}])
    b = write_jsonl(tmp_path / "b.jsonl", [{"question": "r", "answer": "x"}])
    assert len(read_questions(f"{a},{b}").of("all")) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"id": "1", "contents": "t"}\n', "no question"),
        ("b.json", b'{"a":\n[1]}', "a list Data"),
        ("c.json", b'[{"question": "q"', "damaged"),
        ("d.parquet", b"PAR1 and no more", "damaged"),
        ("e.jsonl", b"", "no rows"),
        ("f.jsonl", b"\xff\xfe\x00\x01", "UTF-8"),
        ("g.txt", b"just some words\nmore\n", "no question"),
    ],
)
def test_a_file_without_questions_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as error:
        read(tmp_path / name)
    assert name in error.value.message
    assert words in error.value.message


def test_a_place_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        read_questions(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="holds no file"):
        read_questions(str(tmp_path))

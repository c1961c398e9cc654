"""A model is asked about answers that are not accepted as they stand, and about nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.envs.searchqa_helpers import environment, task_of


def test_a_model_is_asked_only_where_exact_match_says_no(tmp_path: Path) -> None:
    env = environment(tmp_path)
    task = task_of(env)
    right = env.start(task, 0).step("answer[oslo]")
    empty = env.start(task, 0).step("answer[]")
    near = env.start(task, 0).step("answer[the city of Oslo]")
    assert env.grading(task, right.info) is None
    assert env.grading(task, empty.info) is None
    messages = env.grading(task, near.info)
    assert messages is not None
    for part in (task.instruction, "Oslo; Oslo, Norway", "the city of Oslo"):
        assert part in messages[0].content


def test_endless_answers_and_alias_lists_are_cut(tmp_path: Path) -> None:
    env = environment(tmp_path)
    task = task_of(env)
    task.payload["answers"][:] = [f"alias {i}" for i in range(500)]  # type: ignore[index]
    messages = env.grading(task, {"answer": "{x}\n" * 100_000, "em": 0.0})
    assert messages is not None
    assert len(messages[0].content) < 2500


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("Yes.", True),
        ("no", False),
        ("<think>yes, yes</think>\nNo", False),
        ("It says no such thing, so: yes", True),
        ("<think>yes", None),
        ("nothing known", None),
        ("", None),
    ],
)
def test_the_last_word_after_thinking_decides(
    tmp_path: Path, reply: str, right: bool | None
) -> None:
    assert environment(tmp_path).verdict(reply) is right

"""The context that shows a sibling: recorded ids behind it, one BOS, nothing retokenised."""

from __future__ import annotations

from typing import Any

import polars as pl

from prover_cli.envs.base import Message
from prover_cli.stages.score_context import demonstration, recorded, with_sibling
from prover_cli.tokens.model_files import ChatFiles
from prover_cli.tokens.render import ChatRenderer
from prover_cli.tokens.templates import CHATML
from tests.policies import byte_tokenizer

BOS = "<s>"


def renderer(bos: bool = False) -> ChatRenderer:
    tokenizer = byte_tokenizer()
    if not bos:
        return ChatRenderer(tokenizer, "bytes")
    tokenizer.add_special_tokens([BOS])
    files = ChatFiles("{{ bos_token }}" + CHATML, {"bos_token": BOS})
    return ChatRenderer(tokenizer, "bytes", files)


def turn(traj_id: str, number: int, prompt: list[int], reset: bool | None = None) -> dict[str, Any]:
    return {
        "traj_id": traj_id,
        "turn": number,
        "group_id": "g",
        "observation": f"page {number}",
        "action": f"do {number}",
        "context_reset": number == 0 if reset is None else reset,
        "prompt_ids": prompt,
        "action_ids": [65, 66],
        "logprobs": [-1.0, -2.0],
    }


def group(first: list[int]) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    """A failure of three turns and a success of two."""
    turns = [turn("g.0", i, first if i == 0 else [67, 68, 69]) for i in range(3)]
    turns += [turn("g.1", i, first if i == 0 else [67]) for i in range(2)]
    trajectories = pl.DataFrame(
        {
            "traj_id": ["g.0", "g.1"],
            "group_id": ["g", "g"],
            "sample": [0, 1],
            "n_turns": [3, 2],
            "success": [False, True],
        }
    )
    return turns, trajectories


def test_messages_told_are_the_prompt_without_its_opening() -> None:
    for one in (renderer(), renderer(bos=True)):
        messages = [Message("user", "look <|im_end|>"), Message("assistant", "no")]
        told, prompt = one.told(messages), one.prompt(messages)
        assert prompt[: len(told)] == told and len(told) < len(prompt)
        assert one.encode("no")[-1] in told[-4:]


def test_recorded_ids_stand_untouched_behind_the_sibling() -> None:
    turns, trajectories = group([70, 71, 72])
    own = recorded(turns)
    (shown,) = with_sibling(own, turns, trajectories, renderer(), None)
    prefix = renderer().told([Message("user", demonstration(turns[3:], 400))])
    assert shown.sequence.ids == prefix + own[0].sequence.ids
    assert shown.sequence.mask == [False] * len(prefix) + own[0].sequence.mask
    assert (list(shown.rows), shown.shown) == ([0, 1, 2], "g.1")


def test_a_context_has_one_bos() -> None:
    told = renderer(bos=True)
    bos = told.bos_id
    assert bos is not None
    turns, trajectories = group([bos, 70, 71])
    (shown,) = with_sibling(recorded(turns), turns, trajectories, told, None)
    assert shown.sequence.ids[0] == bos and shown.sequence.ids.count(bos) == 1
    assert shown.sequence.ids[-len([70, 71]) - 12 :][:2] == [70, 71]


def test_a_window_is_a_sequence_per_turn() -> None:
    turns, trajectories = group([70])
    anew = [row | {"context_reset": True} for row in turns]
    shown = with_sibling(recorded(anew), anew, trajectories, renderer(), None)
    assert [list(one.rows) for one in shown] == [[0], [1], [2]]


def test_observations_shrink_before_turns_are_given_up() -> None:
    turns, trajectories = group([70])
    long = [row | {"observation": "x" * 1000} for row in turns]
    own = recorded(long)

    def shown(longest: int) -> list[Any]:
        return with_sibling(own, long, trajectories, renderer(), longest)

    lengths = {
        cut: len(renderer().told([Message("user", demonstration(long[3:], cut))]))
        for cut in (400, 200, 100, 50, 0)
    }
    n = len(own[0].sequence.ids)
    for cut, length in lengths.items():
        (one,) = shown(length + n)
        assert len(one.sequence.ids) == length + n, cut
        assert len(one.rows) == 3
    (one,) = shown(lengths[0] + n - 1)
    assert list(one.rows) == [0, 1]
    assert one.sequence.ids[lengths[0] :] == own[0].sequence.ids[:-5]
    assert shown(lengths[0] + 2) == []

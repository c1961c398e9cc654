"""What was sampled is what the next prompt extends and what is trained on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from prover_cli.shards.run import Run
from prover_cli.stages.update import training_batch
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.tokens.render import ChatRenderer
from tests.policies import scripted_policy, tiny_model
from tests.stages.pipeline import credit_everything, episodes, rollout, table

OPEN_REPLY = "<|im_start|>assistant\n"


def batch_of(run: Path) -> list[TrainingSequence]:
    """The training sequences of a rollout of one shard, in the order of its trajectories."""
    credit_everything(run)
    source = Run(run)
    return training_batch(source.stage("rollout"), source.stage("advantage"), "all")


def test_a_prompt_adds_to_the_context_what_the_environment_said(
    tmp_path: Path, policy: Path
) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3, "slip": 0.3})
    tokenizer = Tokenizer.from_file(str(policy / "tokenizer.json"))
    groups = dict(table(tmp_path / "run", "trajectories").select("group_id", "task_id").iter_rows())
    instructions = dict(
        table(tmp_path / "run", "tasks").select("task_id", "instruction").iter_rows()
    )
    for turns in episodes(tmp_path / "run"):
        for turn in turns:
            text = f"<|im_start|>user\n{turn['observation']}<|im_end|>\n{OPEN_REPLY}"
            if turn["turn"] == 0:
                asked = instructions[groups[turn["group_id"]]]
                text = text.replace("user\n", f"user\n{asked}\n", 1)
            expected = text if turn["turn"] == 0 else f"\n{text}"
            assert turn["prompt_ids"] == tokenizer.encode(expected).ids
            assert turn["context_reset"] == (turn["turn"] == 0)


def test_a_cut_reply_is_closed_by_the_next_prompt_and_not_by_the_policy(tmp_path: Path) -> None:
    policy = scripted_policy(tmp_path / "policy", ("go on and on and on", "go"))
    rollout(tmp_path / "run", policy)
    end = ChatRenderer.load(policy).im_end_id
    cut = 0
    for turns in episodes(tmp_path / "run"):
        for before, after in pairwise(turns):
            closed = before["finish_reason"] == "stop"
            cut += not closed
            assert before["action_ids"].count(end) == int(closed)
            assert (after["prompt_ids"][0] == end) == (not closed)
    assert cut


def test_the_context_of_a_turn_is_a_prefix_of_the_next(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3})
    by_context: dict[tuple[int, ...], tuple[str, str]] = {}
    for turns in episodes(tmp_path / "run"):
        context: list[int] = []
        for turn in turns:
            context += turn["prompt_ids"]
            place = (turn["observation"], turn["state_key"])
            assert by_context.setdefault(tuple(context), place) == place
            context += turn["action_ids"]


@pytest.mark.parametrize("history", [0, 1, 2])
def test_a_windowed_prompt_starts_afresh_and_quotes_the_last_turns(
    tmp_path: Path, policy: Path, history: int
) -> None:
    rollout(tmp_path / "run", policy, {"rooms": 3}, history=str(history))
    renderer = ChatRenderer.load(policy)
    for turns in episodes(tmp_path / "run"):
        assert all(turn["context_reset"] for turn in turns)
        for turn in turns:
            text = renderer.decode(turn["prompt_ids"])
            quoted = turns[max(0, turn["turn"] - history) : turn["turn"]]
            lines = [f"{past['observation']} > {past['action_text']}" for past in quoted]
            assert "\n".join([*lines, turn["observation"]]) in text
            assert text.count("You are in") == len(quoted) + 1


def test_sampled_ids_are_trained_on_byte_for_byte(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, {"rooms": 3}, groups_per_shard=4)
    batch, recorded = batch_of(run), episodes(run)
    assert len(batch) == len(recorded) == 32
    assert max(map(len, recorded)) >= 3
    for sequence, turns in zip(batch, recorded, strict=True):
        assert sequence.ids == [i for t in turns for i in (*t["prompt_ids"], *t["action_ids"])]
        trained = [
            i for i, policy_made in zip(sequence.ids, sequence.mask, strict=True) if policy_made
        ]
        assert trained == [i for t in turns for i in t["action_ids"]]
        kept = [x for x, m in zip(sequence.logprobs, sequence.mask, strict=True) if m]
        assert kept == [x for t in turns for x in t["logprobs"]]


def test_a_windowed_episode_is_one_training_sequence_per_turn(tmp_path: Path, policy: Path) -> None:
    run = tmp_path / "run"
    rollout(run, policy, history="1", groups_per_shard=4)
    turns = [turn for part in episodes(run) for turn in part]
    for sequence, turn in zip(batch_of(run), turns, strict=True):
        assert sequence.ids == [*turn["prompt_ids"], *turn["action_ids"]]
        assert sequence.mask == [False] * len(turn["prompt_ids"]) + [True] * len(turn["action_ids"])


def test_ids_that_no_text_would_encode_to_survive(tmp_path: Path) -> None:
    """A random model samples bytes that are no text: decoding and encoding them changes them."""
    run, model = tmp_path / "run", tiny_model(tmp_path / "model", max_len=1024)
    rollout(run, model, engine="torch", tasks=1, group_size=3, max_turns=3)
    renderer = ChatRenderer.load(model)
    recorded = episodes(run)
    assert [len(turns) for turns in recorded] == [3, 3, 3]
    odd = [
        turn
        for turns in recorded
        for turn in turns
        if renderer.encode(turn["action_text"]) not in (turn["action_ids"], turn["action_ids"][:-1])
    ]
    assert odd
    for sequence, turns in zip(batch_of(run), recorded, strict=True):
        assert sequence.ids == [i for t in turns for i in (*t["prompt_ids"], *t["action_ids"])]

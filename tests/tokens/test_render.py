"""Prompts are built from ids; sampled ids are never encoded again; masks come from structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from prover_cli.engines.base import Sampling
from prover_cli.envs.base import Message, Observation, ParsedAction, PastTurn, Task
from prover_cli.errors import UsageError
from prover_cli.stages.agent import Agent, Context
from prover_cli.tokens.mask import TrainingSequence, TurnTokens, sequences
from prover_cli.tokens.render import IM_END, IM_START, ChatRenderer

ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def byte_tokenizer() -> Tokenizer:
    """A byte-level tokenizer with one merge, so that `he` has two spellings."""
    symbols = sorted(ALPHABET)
    vocabulary = {symbol: i for i, symbol in enumerate(symbols)} | {"he": len(symbols)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("h", "e")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    from tokenizers.decoders import ByteLevel

    tokenizer.decoder = ByteLevel()
    tokenizer.add_special_tokens([IM_START, IM_END])
    return tokenizer


def renderer() -> ChatRenderer:
    return ChatRenderer(byte_tokenizer(), "test tokenizer")


class Echo:
    """Messages are the observations, actions the replies."""

    name = "echo"
    history: int | None = None
    max_new_tokens = 8

    def opening(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("system", "act"), Message("user", observation.text)]

    def following(self, task: Task, observation: Observation) -> list[Message]:
        return [Message("user", observation.text)]

    def window(self, task: Task, past: list[PastTurn], observation: Observation) -> list[Message]:
        quoted = " ".join(turn.action for turn in past)
        return [Message("user", f"{quoted}|{observation.text}")]

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        return ParsedAction(reply, True)


TASK = Task("t", "toy", "train", 0, "act", {})


def play(history: int | None, replies: list[list[int]]) -> list[TurnTokens]:
    agent = Agent(renderer(), Echo(), history, Sampling(8, ()))
    context, turns = Context(), []
    for number, reply in enumerate(replies):
        observation = Observation(f"page {number}", "")
        prompt = agent.prompt(TASK, context, observation)
        assert context.with_prompt(prompt)[-len(prompt.ids) :] == prompt.ids
        text, parsed = agent.parse(reply, observation)
        context.record(prompt, reply, observation, text, parsed.action)
        turns.append(
            TurnTokens(prompt.reset, prompt.ids, reply, [-0.5] * len(reply), [1.0] * len(reply))
        )
    return turns


def test_a_non_canonical_split_of_a_reply_is_kept_for_three_turns() -> None:
    chat = renderer()
    h, e, stop = *chat.encode("h"), *chat.encode("e"), chat.im_end_id
    reply = [h, e, stop]
    assert chat.decode(reply) == "he" and len(chat.encode("he")) == 1
    (sequence,) = sequences(play(None, [reply] * 3))
    sampled = [i for i, mine in zip(sequence.ids, sequence.mask, strict=True) if mine]
    assert sampled == reply * 3


@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=6), min_size=1, max_size=4))
def test_append_only_prompts_extend_each_other(replies: list[list[int]]) -> None:
    turns = play(None, replies)
    assert [turn.context_reset for turn in turns] == [True] + [False] * (len(turns) - 1)
    (sequence,) = sequences(turns)
    expected = [i for turn in turns for i in (*turn.prompt_ids, *turn.action_ids)]
    assert sequence.ids == expected
    assert sequence.n_policy == sum(len(reply) for reply in replies)


@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=6), min_size=1, max_size=4))
def test_windowed_prompts_are_rows_of_their_own(replies: list[list[int]]) -> None:
    turns = play(2, replies)
    rows = list(sequences(turns))
    assert len(rows) == len(turns)
    for row, turn in zip(rows, turns, strict=True):
        assert row.ids == [*turn.prompt_ids, *turn.action_ids]
        assert row.mask == [False] * len(turn.prompt_ids) + [True] * len(turn.action_ids)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(1, 5)), max_size=6))
def test_the_mask_is_true_exactly_for_sampled_ids(shape: list[tuple[bool, int, int]]) -> None:
    turns = [
        TurnTokens(reset, [7] * n_env, [1000] * n_policy, [-1.0] * n_policy, [0.5] * n_policy)
        for reset, n_env, n_policy in shape
    ]
    for sequence in sequences(turns):
        assert sequence.mask == [i >= 1000 for i in sequence.ids]
        assert [a != 0 for a in sequence.advantages] == sequence.mask


def test_a_sampled_stop_is_trained_and_the_template_s_is_not() -> None:
    chat = renderer()
    stop = chat.im_end_id
    complete, cut = [*chat.encode("a"), stop], chat.encode("ab")
    (sequence,) = sequences(play(None, [complete, cut, complete]))
    after = [(i, mine) for i, mine in zip(sequence.ids, sequence.mask, strict=True) if i == stop]
    # system, page 0, [complete], page 1, closed cut, page 2, [complete]
    assert [mine for _, mine in after] == [False, False, True, False, False, False, True]


def test_a_turn_without_an_advantage_is_context_only() -> None:
    turns = [
        TurnTokens(True, [1], [1000], [-1.0], None),
        TurnTokens(False, [2], [1001], [-1.0], [0.5]),
    ]
    (sequence,) = sequences(turns)
    assert sequence.ids == [1, 1000, 2, 1001]
    assert sequence.mask == [False, False, False, True]


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 action ids but 1 log-probs"):
        TrainingSequence().append(TurnTokens(True, [1], [2, 3], [-1.0], [1.0, 1.0]))


@given(st.text(max_size=20), st.sampled_from([IM_START, IM_END]))
def test_control_strings_in_texts_never_become_control_ids(text: str, control: str) -> None:
    chat = renderer()
    ids = chat.prompt([Message("user", f"{text}{control}assistant\n{text}")])
    controls = [i for i in ids if i in (chat.im_start_id, chat.im_end_id)]
    assert controls == [chat.im_start_id, chat.im_end_id, chat.im_start_id]
    assert chat.decode(chat.encode(text + control)) == text + control


def test_a_prompt_is_chatml() -> None:
    chat = renderer()
    ids = chat.prompt([Message("system", "s"), Message("user", "u")])
    text = byte_tokenizer().decode(ids, skip_special_tokens=False)
    assert text == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_tokenizer_without_control_tokens_is_refused() -> None:
    bare = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    with pytest.raises(UsageError, match=r"has no <\|im_start\|> token"):
        ChatRenderer(bare, "somewhere/tokenizer.json")

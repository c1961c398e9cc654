"""The gradient of a step: whose tokens it comes from, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from prover_cli.training import Trainer
from prover_cli.training.batch import micro_batches
from prover_cli.training.scoring import has_plain_head, policy_logits
from tests.training.helpers import batch, gradient, sequence, settings, trained, update, weights

CPU = torch.device("cpu")


def test_gradient_is_that_of_a_loop_over_single_sequences(policy: Path) -> None:
    data = batch()
    trainer = Trainer.load(policy, None, settings(temperature=0.7))
    total = torch.zeros(())
    for item in data:
        logits = trainer.model(torch.tensor([item.ids])).logits[0]
        logp = (logits / 0.7).log_softmax(-1)
        for t, policy_token in enumerate(item.mask):
            if policy_token:
                total = total - logp[t - 1, item.ids[t]] * item.advantages[t]
    (total / sum(item.n_policy for item in data)).backward()
    expected = gradient(trainer)
    update(trainer, data)
    assert_close(gradient(trainer), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_gradient_is_the_same_for_every_micro_batch_size(policy: Path, kl_coef: float) -> None:
    data = batch(8)
    longest = max(len(item.ids) for item in data)
    single, *others = [
        trained(policy, data, tokens_per_microbatch=rows * longest, kl_coef=kl_coef, epochs=2)
        for rows in (1 / longest, 2, 4, len(data))
    ]
    for other in others:
        assert (gradient(single) - gradient(other)).abs().max() < 1e-6


def test_tokens_of_the_environment_carry_no_weight(policy: Path) -> None:
    plain, perturbed = batch(), batch()
    for item in perturbed:
        item.advantages = [
            a if m else 100.0 for a, m in zip(item.advantages, item.mask, strict=True)
        ]
        item.logprobs = [p if m else -50.0 for p, m in zip(item.logprobs, item.mask, strict=True)]
    assert torch.equal(weights(trained(policy, plain)), weights(trained(policy, perturbed)))


def test_only_positions_before_a_policy_token_receive_a_gradient(policy: Path) -> None:
    item = sequence(3, n_turns=3)
    trainer = Trainer.load(policy, None, settings())
    seen: list[Any] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        output.last_hidden_state.retain_grad()
        seen.append(output.last_hidden_state)

    trainer.model.base_model.register_forward_hook(keep)
    update(trainer, [item])
    reached = (seen[0].grad[0] != 0).any(dim=-1).tolist()
    assert reached == [*item.mask[1:], False]


def test_a_row_has_the_same_logits_alone_and_in_a_padded_batch(policy: Path) -> None:
    model = Trainer.load(policy, None, settings()).model
    data = [sequence(1, n_turns=1), sequence(2, n_turns=4)]
    (alone,) = micro_batches(data, [0], 8192, CPU)
    (padded,) = micro_batches(data, [0, 1], 8192, CPU)
    with torch.no_grad():
        expected = policy_logits(model, alone, True)
        found = policy_logits(model, padded, True)[: data[0].n_policy]
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_what_stands_in_the_padding_does_not_matter(policy: Path) -> None:
    model = Trainer.load(policy, None, settings()).model
    data = [sequence(1, n_turns=1), sequence(2, n_turns=4)]
    (micro,) = micro_batches(data, [0, 1], 8192, CPU)
    filled = replace(micro, ids_BT=torch.where(micro.attention_BT == 1, micro.ids_BT, 63))
    with torch.no_grad():
        assert torch.equal(policy_logits(model, micro, True), policy_logits(model, filled, True))


def test_logits_at_gathered_positions_equal_those_of_the_whole_model(policy: Path) -> None:
    model = Trainer.load(policy, None, settings()).model
    assert has_plain_head(model, CPU)
    (micro,) = micro_batches(batch(), range(6), 8192, CPU)
    with torch.no_grad():
        gathered, whole = (policy_logits(model, micro, plain) for plain in (True, False))
    assert_close(gathered, whole, rtol=1e-5, atol=1e-5)


def test_a_model_that_rescales_its_logits_is_asked_for_all_of_them(qwen: Path) -> None:
    trainer = Trainer.load(qwen, None, settings())
    original = trainer.model.forward

    def halved(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        output.logits = output.logits / 2
        return output

    trainer.model.forward = halved
    assert not has_plain_head(trainer.model, CPU)


def test_equal_sequences_share_a_row_and_keep_their_own_weights(qwen: Path) -> None:
    data = batch()
    (micro,) = micro_batches(data, range(len(data)), 8192, CPU)
    assert len(micro.ids_BT) == len(data) - 1
    assert micro.advantage_N.numel() == sum(item.n_policy for item in data)
    weight_of = dict(zip(micro.members, micro.advantage_N.split(list(micro.n_policy)), strict=True))
    for number, item in enumerate(data):
        own = [a for a, m in zip(item.advantages, item.mask, strict=True) if m]
        assert_close(weight_of[number], torch.tensor(own))


def test_micro_batches_keep_to_their_budget_and_lose_no_sequence() -> None:
    data = [sequence(seed, n_turns=1 + seed % 4) for seed in range(20)]
    parts = list(micro_batches(data, range(20), 60, CPU))
    assert sorted(member for part in parts for member in part.members) == list(range(20))
    assert all(part.ids_BT.numel() <= 60 or len(part.ids_BT) == 1 for part in parts)


def test_order_of_the_batch_changes_nothing(qwen: Path) -> None:
    data = batch(9)
    options = {"minibatches": 3, "epochs": 2, "tokens_per_microbatch": 40}
    forward = trained(qwen, data, **options)
    backward = trained(qwen, data[::-1], **options)
    assert (weights(forward) - weights(backward)).abs().max() < 1e-6

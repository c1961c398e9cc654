"""An update: its ratios, its probabilities, what it reports and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from prover_cli.errors import UsageError
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.training import StepMetrics, Trainer
from prover_cli.training.batch import split
from prover_cli.training.loss import clipped_surrogate, entropy, is_clipped, kl_k3, token_logprobs
from tests.training.helpers import batch, sequence, settings, update, weights


@pytest.mark.parametrize("options", [{}, {"epochs": 2}, {"minibatches": 2}])
def test_first_step_has_ratio_one_and_clips_nothing(policy: Path, options: dict[str, int]) -> None:
    trainer = Trainer.load(policy, None, settings(lr=1e-2, tokens_per_microbatch=50, **options))
    first, *later = update(trainer, batch(12))
    assert (first.ratio_mean, first.ratio_max, first.clip_fraction, first.kl) == (1.0, 1.0, 0.0, 0)
    assert all(step.ratio_max != 1.0 and step.kl > 0.0 for step in later)


def test_a_second_epoch_sees_the_policy_that_the_first_one_moved(qwen: Path) -> None:
    steps = update(Trainer.load(qwen, None, settings(lr=3e-2, epochs=3)), batch())
    assert [step.epoch for step in steps] == [0, 1, 2]
    assert steps[-1].clip_fraction > 0.0


def test_an_update_raises_what_earned_and_lowers_what_lost(policy: Path) -> None:
    for weight in (1.0, -1.0):
        trainer = Trainer.load(policy, None, settings(epochs=2, clip_high=9.0))
        last = update(trainer, [sequence(5, weight=weight)])[-1]
        assert (last.ratio_mean - 1.0) * weight > 0.0


def test_a_kl_term_keeps_the_policy_closer(qwen: Path) -> None:
    free, held = (
        update(Trainer.load(qwen, None, settings(epochs=8, kl_coef=kl, clip_high=9.0)), batch())
        for kl in (0.0, 5.0)
    )
    assert held[-1].kl < free[-1].kl


def test_log_probs_at_a_temperature_equal_a_softmax_by_hand() -> None:
    logits = [1.0, -0.5, 2.0]
    powers = [math.exp(x / 0.6) for x in logits]
    found = token_logprobs(torch.tensor([logits]), torch.tensor([2]), 0.6)
    assert_close(found, torch.tensor([math.log(powers[2] / sum(powers))]))
    shares = [power / sum(powers) for power in powers]
    by_hand = -sum(p * math.log(p) for p in shares)
    assert_close(entropy(torch.tensor([logits]), 0.6), torch.tensor([by_hand]))


def test_log_prob_gap_is_zero_for_an_engine_at_the_same_temperature(policy: Path) -> None:
    data = batch()
    model = Trainer.load(policy, None, settings()).model
    for item in data:
        with torch.no_grad():
            logp = (model(torch.tensor([item.ids])).logits[0] / 0.6).log_softmax(-1)
        item.logprobs = [
            logp[t - 1, item.ids[t]].item() if m else 0.0 for t, m in enumerate(item.mask)
        ]
    gaps = [
        update(Trainer.load(policy, None, settings(temperature=t)), data)[0].logprob_gap
        for t in (0.6, 1.0)
    ]
    assert gaps[0] < 1e-5 < 1e-2 < gaps[1]


def test_clip_takes_the_gain_beyond_its_bounds_and_never_the_loss() -> None:
    ratio, weight = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert_close(clipped_surrogate(ratio, weight, 0.2, 0.3), torch.tensor([1.3, -1.5, 0.5, -0.8]))
    assert is_clipped(ratio, weight, 0.2, 0.3).tolist() == [True, False, False, True]


def test_kl_estimate_is_zero_at_the_reference_and_positive_elsewhere() -> None:
    reference = torch.tensor([-1.0, -1.0, -1.0])
    found = kl_k3(torch.tensor([-1.0, -2.0, -0.5]), reference)
    assert_close(found, torch.tensor([0.0, math.e - 2.0, math.exp(-0.5) - 0.5]))


def test_metrics_count_the_batch_and_survive_json(qwen: Path) -> None:
    data, called = batch(), list[StepMetrics]()
    trainer = Trainer.load(qwen, None, settings(minibatches=2))
    steps = trainer.update(data, called.append)
    assert called == steps and [step.step for step in steps] == [0, 1]
    assert sum(step.n_policy_tokens for step in steps) == sum(item.n_policy for item in data)
    assert sum(step.n_tokens for step in steps) == sum(len(item.ids) for item in data)
    assert sum(step.n_sequences for step in steps) == len(data)
    assert 0.0 < steps[0].entropy < math.log(64) and steps[0].grad_norm > 0.0
    plain = steps[0].as_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_gradient_norm_is_reported_before_it_is_limited(qwen: Path) -> None:
    free, held = (Trainer.load(qwen, None, settings(max_grad_norm=m)) for m in (0.0, 0.01))
    norms = [update(trainer, batch())[0].grad_norm for trainer in (free, held)]
    assert norms[0] == norms[1] > 0.01
    left = torch.stack([tensor.grad.norm() for tensor in held.master.values()]).norm()
    assert_close(left, torch.tensor(0.01), rtol=1e-3, atol=0.0)


def test_mini_batches_are_a_seeded_partition() -> None:
    parts = split(11, 3, seed=4)
    assert sorted(number for part in parts for number in part) == list(range(11))
    assert sorted(map(len, parts)) == [3, 4, 4]
    assert parts == split(11, 3, seed=4) != split(11, 3, seed=5)


def _without_prompt(item: TrainingSequence) -> None:
    item.mask[0] = True


def _not_finite(item: TrainingSequence) -> None:
    item.advantages[item.mask.index(True)] = math.nan


def _foreign_id(item: TrainingSequence) -> None:
    item.ids[0] = 64


def _too_long(item: TrainingSequence) -> None:
    for name, value in (("ids", 1), ("mask", False), ("logprobs", 0.0), ("advantages", 0.0)):
        setattr(item, name, getattr(item, name) + [value] * 128)


@pytest.mark.parametrize("damage", [_without_prompt, _not_finite, _foreign_id, _too_long])
def test_an_unusable_batch_is_refused_before_a_step(qwen: Path, damage: Any) -> None:
    trainer = Trainer.load(qwen, None, settings())
    before, data = weights(trainer), batch()
    damage(data[2])
    with pytest.raises(UsageError, match="training sequence 2"):
        update(trainer, data)
    assert torch.equal(before, weights(trainer))


def test_fewer_sequences_than_mini_batches_are_refused(qwen: Path) -> None:
    with pytest.raises(UsageError, match="mini-batches"):
        update(Trainer.load(qwen, None, settings(minibatches=7)), batch(6))


def test_a_step_that_is_not_finite_leaves_the_weights_alone(qwen: Path) -> None:
    trainer = Trainer.load(qwen, None, settings())
    data = batch()
    data[0].advantages = [1e38 if m else 0.0 for m in data[0].mask]
    data[1].advantages = [-1e38 if m else 0.0 for m in data[1].mask]
    before = weights(trainer)
    with pytest.raises(UsageError, match="not finite"):
        update(trainer, data)
    assert torch.equal(before, weights(trainer))


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"temperature": 0.0}, {"lr": math.nan}])
def test_settings_without_a_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        settings(**wrong)

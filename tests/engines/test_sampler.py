"""Draws follow the stated distribution and depend on seed and position only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.engines.base import Sampling
from prover_cli.engines.sampler import sample, uniforms

SEEDS = st.integers(0, 2**31 - 1)


@given(st.lists(SEEDS, min_size=1, max_size=8))
def test_uniforms_depend_on_their_own_seed_and_position_only(seeds: list[int]) -> None:
    together = uniforms(seeds, list(range(len(seeds))))
    alone = [uniforms([seed], [n])[0] for n, seed in enumerate(seeds)]
    assert together.tolist() == alone
    assert ((together >= 0) & (together < 1)).all()


def test_uniforms_are_uniform_along_seeds_and_positions() -> None:
    for draws in (uniforms(range(20_000), [0] * 20_000), uniforms([5] * 20_000, range(20_000))):
        counts, _ = np.histogram(draws, bins=20, range=(0, 1))
        chi2 = ((counts - 1000) ** 2 / 1000).sum()
        assert chi2 < 50, chi2
        assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(1, ()), {0, 1, 2, 3}),
        (Sampling(1, (), top_k=2), {0, 1}),
        (Sampling(1, (), top_p=0.7), {0, 1}),
        (Sampling(1, (), top_p=0.45), {0}),
        (Sampling(1, (), top_p=0.0), {0}),
        (Sampling(1, (), top_p=0.85, top_k=3), {0, 1, 2}),
    ],
)
def test_truncation_keeps_the_right_tokens_in_the_right_shares(
    sampling: Sampling, kept: set[int]
) -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    n = 4000
    ids, logprobs = sample(probabilities.log().expand(n, 4), [sampling] * n, range(n), [0] * n)
    assert set(ids) == kept
    total = sum(probabilities[i].item() for i in kept)
    for token in kept:
        share = probabilities[token].item() / total
        assert ids.count(token) / n == pytest.approx(share, abs=4 * (share / n) ** 0.5)
        assert logprobs[ids.index(token)] == pytest.approx(np.log(share), abs=1e-5)


def test_temperature_divides_the_logits() -> None:
    logits = torch.tensor([[2.0, 1.0, -1.0]])
    (token,), (logprob,) = sample(logits, [Sampling(1, (), 0.6)], [3], [0])
    assert logprob == pytest.approx(torch.log_softmax(logits[0] / 0.6, -1)[token].item(), abs=1e-6)


def test_a_tail_of_rare_tokens_is_reached_in_a_large_vocabulary() -> None:
    n, vocabulary = 2000, 50_000
    logits = torch.zeros(vocabulary)
    logits[0] = 9.0
    ids, _ = sample(logits.expand(n, vocabulary), [Sampling(1, ())] * n, range(n), [0] * n)
    tail = sum(i > vocabulary // 2 for i in ids) / n
    expected = (vocabulary / 2) / (vocabulary - 1 + float(np.exp(9)))
    assert tail == pytest.approx(expected, abs=0.05)

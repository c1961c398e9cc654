"""Log-probs and entropies of sampled ids under a policy: forward passes without a gradient.

The distribution is the one that acted, at the temperature of the rollout, and the arithmetic is the
trainer's: float32 log-probs, whatever the model computes in. The vocabulary-sized product is taken
in pieces, so memory does not grow with the number of ids in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prover_cli.errors import UsageError
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.training.batch import MicroBatch, micro_batches
from prover_cli.training.checkpoint import load_model
from prover_cli.training.loss import entropy, token_logprobs
from prover_cli.training.scoring import has_plain_head
from prover_cli.training.settings import resolve_device

_LOGITS = 1 << 24
"""Logits held at once: 64 MiB in float32."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """One number per policy token of a sequence."""

    logprobs: list[float]
    entropies: list[float]


class Scorer:
    """A policy that scores what was sampled."""

    def __init__(self, model: Any, temperature: float, tokens: int) -> None:
        """`temperature` 0 scores the greedy policy as the engines do, at 1; `tokens` bounds the ids
        of one pass, padding included."""
        self._model = model
        self._temperature = temperature or 1.0
        self._tokens = tokens
        self._device: torch.device = next(model.parameters()).device
        self._head_is_plain = has_plain_head(model, self._device)
        config = model.config.get_text_config()
        self.vocabulary: int = config.vocab_size
        self.longest: int | None = getattr(config, "max_position_embeddings", None)
        """Most ids of a sequence; None where the model does not say."""

    @classmethod
    def load(cls, policy: Path, device: str, dtype: str, temperature: float, tokens: int) -> Scorer:
        """`dtype` is the name of torch's. Raises `UsageError` for an unknown device, or a folder
        that cannot be loaded."""
        model = load_model(policy, resolve_device(device)).to(getattr(torch, dtype))
        return cls(model, temperature, tokens)

    @torch.no_grad()
    def score(self, batch: Sequence[TrainingSequence]) -> list[TokenScores]:
        """The scores of every sequence's policy tokens, in the order of the batch.

        Raises `UsageError` for ids that the policy does not know and for sequences that are too
        long.
        """
        self._check(batch)
        scores: dict[int, TokenScores] = {}
        for micro in micro_batches(batch, range(len(batch)), self._tokens, self._device):
            logp_N, entropy_N = (x_P[micro.source_N].tolist() for x_P in self._forward(micro))
            start = 0
            for member, n in zip(micro.members, micro.n_policy, strict=True):
                end = start + n
                scores[member] = TokenScores(logp_N[start:end], entropy_N[start:end])
                start = end
        return [scores[number] for number in range(len(batch))]

    def _check(self, batch: Sequence[TrainingSequence]) -> None:
        for sequence in batch:
            n = len(sequence.ids)
            if sequence.mask[0]:
                raise UsageError("a turn has no prompt: its first id cannot be scored")
            if not 0 <= min(sequence.ids) <= max(sequence.ids) < self.vocabulary:
                raise UsageError(f"a turn has ids outside the vocabulary of {self.vocabulary}")
            if self.longest is not None and n > self.longest:
                raise UsageError(f"a context has {n} ids; the policy takes {self.longest}")

    def _forward(self, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        """`logp_P` and `entropy_P`."""
        logp, entropies, start = [], [], 0
        for logits_PV in self._logits(micro):
            end = start + len(logits_PV)
            logp.append(token_logprobs(logits_PV, micro.target_P[start:end], self._temperature))
            entropies.append(entropy(logits_PV, self._temperature))
            start = end
        return torch.cat(logp), torch.cat(entropies)

    def _logits(self, micro: MicroBatch) -> Iterator[Tensor]:
        """`logits_PV` in pieces of P."""
        inputs = {
            "input_ids": micro.ids_BT,
            "attention_mask": micro.attention_BT,
            "position_ids": micro.positions_BT,
            "use_cache": False,
        }
        rows = max(1, _LOGITS // self.vocabulary)
        if self._head_is_plain:
            hidden_BTD: Tensor = self._model.base_model(**inputs).last_hidden_state
            head = self._model.get_output_embeddings()
            for hidden_PD in torch.split(hidden_BTD.flatten(0, 1)[micro.predictor_P], rows):
                yield head(hidden_PD)
        else:
            logits_BTV: Tensor = self._model(**inputs).logits
            yield from torch.split(logits_BTV.flatten(0, 1)[micro.predictor_P], rows)

"""The trainer: a policy's float32 master weights, its optimizer, and the update."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prover_cli.errors import UsageError
from prover_cli.ids import derive_seed
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.training.batch import (
    MicroBatch,
    canonical_order,
    check_batch,
    micro_batches,
    split,
)
from prover_cli.training.checkpoint import load_model, save_policy
from prover_cli.training.loss import entropy, objective, token_logprobs
from prover_cli.training.metrics import StepMetrics, Tally, changed_fraction
from prover_cli.training.scoring import has_plain_head, policy_logits
from prover_cli.training.settings import TrainConfig, resolve_device
from prover_cli.training.state import restore_state, save_state


class Trainer:
    """Updates one policy. Weights and moments are float32, whatever the checkpoint stores."""

    def __init__(self, model: Any, settings: TrainConfig) -> None:
        self.model = model
        self.settings = settings
        self.device: torch.device = next(model.parameters()).device
        self.master: dict[str, Tensor] = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        """The weights that are trained: all of them, or those of the adapter."""
        self.optimizer = _optimizer(self.master, settings, self.device)
        self.steps = 0
        """Optimizer steps behind these weights, over all updates."""
        self._head_is_plain = has_plain_head(model, self.device)

    @classmethod
    def load(cls, source: Path, state: Path | None, settings: TrainConfig) -> Trainer:
        """A trainer for the checkpoint `source`, going on from `state` where there is one.

        Raises `UsageError` when `source` cannot be loaded or `state` is not that policy's.
        """
        trainer = cls(load_model(source, resolve_device(settings.device)), settings)
        if state is not None:
            trainer.steps = restore_state(trainer.master, trainer.optimizer, state, source)
        return trainer

    def save(self, policy_out: Path, state_out: Path, source: Path) -> str:
        """Write the policy (in the precision of `source`) and the state; returns the policy id."""
        policy = save_policy(self.model, policy_out, source)
        save_state(self.master, self.optimizer, self.steps, policy, state_out)
        return policy

    def update(
        self, batch: Sequence[TrainingSequence], on_step: Callable[[StepMetrics], None]
    ) -> list[StepMetrics]:
        """`epochs * minibatches` optimizer steps; the order of `batch` does not matter.

        The policy that ratios refer to is this one at the start, as the trainer itself computes it:
        an engine's kernels round differently, which would look like a policy that has moved.
        Raises `UsageError` for an unusable batch, and when a step is not finite.
        """
        settings = self.settings
        text_config = self.model.config.get_text_config()
        longest = getattr(text_config, "max_position_embeddings", None)
        check_batch(batch, settings.minibatches, text_config.vocab_size, longest)
        ordered = canonical_order(batch)
        before = [weight.detach().clone() for weight in self.master.values()]
        old = self._score(ordered) if settings.n_steps > 1 else {}
        metrics: list[StepMetrics] = []
        for epoch in range(settings.epochs):
            seed = derive_seed("minibatches", settings.seed, self.steps)
            for numbers in split(len(ordered), settings.minibatches, seed):
                metrics.append(self._step(ordered, numbers, old, before, epoch, metrics))
                on_step(metrics[-1])
        return metrics

    @torch.no_grad()
    def _score(self, batch: Sequence[TrainingSequence]) -> dict[int, Tensor]:
        """Log-probs of every sequence's policy tokens under the current weights, by number."""
        scores: dict[int, Tensor] = {}
        for micro in self._micro_batches(batch, range(len(batch))):
            logp_N, _ = self._forward(micro)
            parts = torch.split(logp_N, list(micro.n_policy))
            scores.update(zip(micro.members, parts, strict=True))
        return scores

    def _micro_batches(
        self, batch: Sequence[TrainingSequence], numbers: Sequence[int]
    ) -> Iterator[MicroBatch]:
        budget = self.settings.tokens_per_microbatch
        return micro_batches(batch, numbers, budget, self.device)

    def _forward(self, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        """`logp_N` and `entropy_N`; log-probs carry a gradient unless it is off."""
        temperature = self.settings.temperature
        logits_PV = policy_logits(self.model, micro, self._head_is_plain)
        logp_P = token_logprobs(logits_PV, micro.target_P, temperature)
        entropy_P = entropy(logits_PV, temperature)
        return logp_P[micro.source_N], entropy_P[micro.source_N]

    def _accumulate(
        self, batch: Sequence[TrainingSequence], numbers: Sequence[int], old: dict[int, Tensor]
    ) -> Tally:
        """Leave the gradient of an optimizer step in the weights.

        Without `old` log-probs the current ones stand in for them: the ratio is then exactly 1.
        """
        self.optimizer.zero_grad(set_to_none=True)
        denominator = sum(batch[number].n_policy for number in numbers)
        tally = Tally(self.device)
        for micro in self._micro_batches(batch, numbers):
            logp_N, entropy_N = self._forward(micro)
            old_N = torch.cat([old[m] for m in micro.members]) if old else logp_N.detach()
            part = objective(logp_N, old_N, micro.advantage_N, denominator, self.settings)
            part.loss.backward()  # type: ignore[no-untyped-call]
            tally.add(micro, part, logp_N, entropy_N, self.settings)
        return tally

    def _step(
        self,
        batch: Sequence[TrainingSequence],
        numbers: Sequence[int],
        old: dict[int, Tensor],
        before: list[Tensor],
        epoch: int,
        earlier: Sequence[StepMetrics],
    ) -> StepMetrics:
        started = time.perf_counter()
        tally = self._accumulate(batch, numbers, old if earlier else {})
        grad_norm = self._apply(tally, len(earlier))
        n_policy = sum(batch[number].n_policy for number in numbers)
        n_tokens = sum(len(batch[number].ids) for number in numbers)
        changed = changed_fraction(before, list(self.master.values()))
        seconds = time.perf_counter() - started
        return StepMetrics(
            epoch=epoch,
            step=len(earlier),
            loss=tally.loss.item(),
            policy_loss=tally.policy_loss.item(),
            kl=tally.kl.item(),
            ratio_mean=tally.ratio.item() / n_policy,
            ratio_max=tally.ratio_max.item(),
            clip_fraction=tally.clipped.item() / n_policy,
            entropy=tally.entropy.item() / n_policy,
            grad_norm=grad_norm,
            n_sequences=len(numbers),
            n_policy_tokens=n_policy,
            n_tokens=n_tokens,
            params_changed_fraction=changed,
            tokens_per_second=n_tokens / max(seconds, 1e-9),
            seconds=seconds,
            lr=self.settings.lr,
            logprob_gap=earlier[0].logprob_gap if earlier else tally.gap.item() / n_policy,
        )

    def _apply(self, tally: Tally, step: int) -> float:
        """Take the optimizer step and return the gradient norm; refuse what would break weights."""
        gradients = [weight.grad for weight in self.master.values() if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not (torch.isfinite(tally.loss) and torch.isfinite(norm)):
            raise UsageError(
                f"step {step} is not finite (loss {tally.loss.item()}, gradient norm "
                f"{norm.item()}): no policy was written",
                hint="lower the learning rate, or check the policy for weights that are not finite",
            )
        if self.settings.max_grad_norm > 0.0:
            torch.nn.utils.clip_grads_with_norm_(
                self.master.values(), self.settings.max_grad_norm, norm
            )
        self.optimizer.step()
        self.steps += 1
        return norm.item()


def _optimizer(
    master: dict[str, Tensor], settings: TrainConfig, device: torch.device
) -> torch.optim.AdamW:
    """AdamW in float32; only matrices decay, since norms and biases are not capacity."""
    matrices = [weight for weight in master.values() if weight.ndim >= 2]
    vectors = [weight for weight in master.values() if weight.ndim < 2]
    groups = [
        {"params": params, "weight_decay": decay}
        for params, decay in ((matrices, settings.weight_decay), (vectors, 0.0))
        if params
    ]
    fused = device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.999), eps=1e-8, fused=fused)

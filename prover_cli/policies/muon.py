"""Muon (Jordan et al. 2024) in 32-bit arithmetic: momentum steps with orthogonalised directions.

torch's own Muon orthogonalises in bfloat16, which is many times slower on CPUs without bfloat16
units, where starting policies are made. Matrices of one shape are orthogonalised in one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon:
    """Optimizer of matrices; `lr` may be changed between steps."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        self.lr, self._momentum = lr, momentum
        groups: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in matrices:
            groups[matrix.shape].append(matrix)
        self._groups = list(groups.values())
        self._moments = [torch.zeros(len(g), *g[0].shape) for g in self._groups]

    @torch.no_grad()
    def step(self) -> None:
        """Apply one step of the gradients (Nesterov momentum) and clear them."""
        for group, moment in zip(self._groups, self._moments, strict=True):
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            moment.lerp_(gradient, 1 - self._momentum)
            direction = orthogonalise(gradient.lerp(moment, self._momentum))
            scale = max(1.0, direction.shape[1] / direction.shape[2]) ** 0.5
            for matrix, update in zip(group, direction, strict=True):
                matrix.add_(update, alpha=-self.lr * scale)
                matrix.grad = None


def orthogonalise(matrices_NAB: Tensor) -> Tensor:
    """Push the singular values of each matrix towards 1 (quintic Newton-Schulz iteration)."""
    tall = matrices_NAB.shape[1] > matrices_NAB.shape[2]
    x = matrices_NAB.mT if tall else matrices_NAB
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x.mT if tall else x
    return result

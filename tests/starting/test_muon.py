"""The optimizer of the warm start."""

from __future__ import annotations

import pytest
import torch

from prover_cli.policies.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 16, 4), (1, 4, 16)])
def test_orthogonalised_matrices_have_singular_values_near_one(
    shape: tuple[int, int, int],
) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert ((values > 0.5) & (values < 1.4)).all()


def test_muon_minimises_a_quadratic() -> None:
    target = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    weight = torch.zeros(6, 4, requires_grad=True)
    optimizer = Muon([weight], lr=0.05)
    losses = []
    for step in range(200):
        optimizer.lr = 0.05 * (1 - step / 200)
        loss = ((weight - target) ** 2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]

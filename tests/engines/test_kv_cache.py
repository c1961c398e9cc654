"""The table of keys and values can be used between model calls, whenever it grew."""

from __future__ import annotations

import pytest
import torch

from prover_cli.engines.kv_cache import KVShape, SlotTable

SHAPE = KVShape(layers=2, heads=1, head_size=4, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("inside", [False, True])
def test_rows_are_loaded_and_moved_after_growing_inside_a_model_call(inside: bool) -> None:
    table = SlotTable(SHAPE)
    table.reserve(1, 4)
    prefix = torch.arange(2 * 2 * 1 * 3 * 4, dtype=torch.float32).reshape(2, 2, 1, 3, 4)
    table.load(0, prefix)
    with torch.inference_mode(inside):
        table.reserve(2, 33)
    table.move(0, 1, 3)
    table.load(0, prefix + 1)
    assert torch.equal(table.save(1, 3), prefix)
    assert torch.equal(table.save(0, 3), prefix + 1)

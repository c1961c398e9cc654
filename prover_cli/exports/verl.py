"""`verl`: the tensors of the `DataProto` that verl's actor is updated with.

Keys, shapes and types are those of its rollouts and of its `ppo_loss`: prompts are padded on the
left, responses on the right, `input_ids` are both, `position_ids` count ids from 0, and
`response_mask` leaves out what the environment said.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prover_cli.exports.padded import padded, save
from prover_cli.exports.samples import Facts, Form, Sample


def write(path: Path, samples: Sequence[Sample], facts: Facts) -> None:
    x = padded(samples, facts)
    attention = np.concatenate([x.prompt_mask_BP, x.completion_mask_BC], axis=1)
    arrays = {
        "prompts": x.prompt_BP,
        "responses": x.completion_BC,
        "input_ids": np.concatenate([x.prompt_BP, x.completion_BC], axis=1),
        "attention_mask": attention,
        "position_ids": np.maximum(attention.cumsum(axis=1) - 1, 0),
        "response_mask": x.trained_BC,
        "old_log_probs": x.logprobs_BC,
        "advantages": x.advantages_BC,
    }
    save(path, arrays, samples, facts)


VERL = Form("verl", write, "batch-{index:05d}.safetensors")

"""`trl`: the inputs that TRL's `GRPOTrainer` computes its loss from.

`completion_mask` is attention: 1 for every id that is not padding. `tool_mask` takes what the
environment said, and turns without an advantage, out of the loss; padding is 1 there, as in TRL.
`advantages` are per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prover_cli.exports.padded import padded, save
from prover_cli.exports.samples import Facts, Form, Sample


def write(path: Path, samples: Sequence[Sample], facts: Facts) -> None:
    x = padded(samples, facts)
    arrays = {
        "prompt_ids": x.prompt_BP,
        "prompt_mask": x.prompt_mask_BP,
        "completion_ids": x.completion_BC,
        "completion_mask": x.completion_mask_BC,
        "tool_mask": np.where(x.completion_mask_BC == 1, x.trained_BC, 1),
        "advantages": x.advantages_BC,
        "old_per_token_logps": x.logprobs_BC,
    }
    save(path, arrays, samples, facts)


TRL = Form("trl", write, "batch-{index:05d}.safetensors")

"""Sequences as rectangles: prompts padded on the left, completions on the right.

Suffixes: B sequences, P the longest prompt of the export, C its longest completion. All files of an
export have the same P and C, so their rows can be mixed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from prover_cli.exports.samples import Facts, Sample

Ints = NDArray[np.int64]
Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Padded:
    """Masks are 1 for an id that is there; `trained_BC` is 1 for an id to train on."""

    prompt_BP: Ints
    prompt_mask_BP: Ints
    completion_BC: Ints
    completion_mask_BC: Ints
    trained_BC: Ints
    advantages_BC: Reals
    logprobs_BC: Reals


def padded(samples: Sequence[Sample], facts: Facts) -> Padded:
    """The samples as arrays."""
    n, p, c = len(samples), facts.prompt_width, facts.completion_width
    made = Padded(
        np.full((n, p), facts.pad_id, np.int64),
        np.zeros((n, p), np.int64),
        np.full((n, c), facts.pad_id, np.int64),
        np.zeros((n, c), np.int64),
        np.zeros((n, c), np.int64),
        np.zeros((n, c), np.float32),
        np.zeros((n, c), np.float32),
    )
    for row, sample in enumerate(samples):
        start, length = sample.n_prompt, sample.n_completion
        made.prompt_BP[row, p - start :] = sample.ids[:start]
        made.prompt_mask_BP[row, p - start :] = 1
        made.completion_BC[row, :length] = sample.ids[start:]
        made.completion_mask_BC[row, :length] = 1
        made.trained_BC[row, :length] = sample.mask[start:]
        made.advantages_BC[row, :length] = sample.advantages[start:]
        made.logprobs_BC[row, :length] = sample.logprobs[start:]
    return made


def save(
    path: Path, arrays: Mapping[str, NDArray[np.generic]], samples: Sequence[Sample], facts: Facts
) -> None:
    """Write arrays as safetensors; who the rows are stands in the metadata, as JSON texts."""
    who = {
        "traj_id": [sample.traj_id for sample in samples],
        "group_id": [sample.group_id for sample in samples],
        "first_turn": [sample.first_turn for sample in samples],
        "reward": [sample.reward for sample in samples],
    }
    metadata = {name: json.dumps(values) for name, values in who.items()} | {
        "format": "pt",
        "estimator": facts.estimator,
        "policy_id": facts.policy_id,
        "temperature": str(facts.temperature),
    }
    save_file({name: np.ascontiguousarray(x) for name, x in arrays.items()}, path, metadata)

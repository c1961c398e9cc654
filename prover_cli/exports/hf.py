"""`hf`: Parquet files that `datasets.load_dataset("parquet", data_dir=...)` reads.

Every row is a sequence; all lists have one entry per id of `input_ids`, and the first
`prompt_length` ids are the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from prover_cli.exports.samples import Facts, Form, Sample

SCHEMA = pa.schema(
    [
        ("traj_id", pa.string()),
        ("group_id", pa.string()),
        ("task_id", pa.string()),
        ("first_turn", pa.int32()),
        ("end_turn", pa.int32()),
        ("reward", pa.float64()),
        ("estimator", pa.string()),
        ("policy_id", pa.string()),
        ("temperature", pa.float64()),
        ("input_ids", pa.list_(pa.int32())),
        ("prompt_length", pa.int32()),
        ("loss_mask", pa.list_(pa.int8())),
        ("advantages", pa.list_(pa.float32())),
        ("old_logprobs", pa.list_(pa.float32())),
    ]
)


def write(path: Path, samples: Sequence[Sample], facts: Facts) -> None:
    rows = [
        {
            "traj_id": sample.traj_id,
            "group_id": sample.group_id,
            "task_id": sample.task_id,
            "first_turn": sample.first_turn,
            "end_turn": sample.end_turn,
            "reward": sample.reward,
            "estimator": facts.estimator,
            "policy_id": facts.policy_id,
            "temperature": facts.temperature,
            "input_ids": sample.ids,
            "prompt_length": sample.n_prompt,
            "loss_mask": [int(trained) for trained in sample.mask],
            "advantages": sample.advantages,
            "old_logprobs": sample.logprobs,
        }
        for sample in samples
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, compression="zstd")


HF = Form("hf", write, "train-{index:05d}-of-{n:05d}.parquet")

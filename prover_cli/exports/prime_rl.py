"""`prime-rl`: the fields of prime-rl's `TrainingSample` (src/prime_rl/transport/types.py).

A sample is one flat sequence whose lists all have the length of `token_ids`: `mask` marks what is
trained, `logprobs` are the inference engine's, `advantages` are per token. Fields have the names
and types of the struct, so a row is its keyword arguments. The optional fields that are not written
keep the defaults of the struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from prover_cli.exports.samples import Facts, Form, Sample

SCHEMA = pa.schema(
    [
        ("token_ids", pa.list_(pa.int64())),
        ("mask", pa.list_(pa.bool_())),
        ("logprobs", pa.list_(pa.float64())),
        ("temperatures", pa.list_(pa.float64())),
        ("env_name", pa.string()),
        ("reward", pa.float64()),
        ("advantages", pa.list_(pa.float64())),
    ]
)


def write(path: Path, samples: Sequence[Sample], facts: Facts) -> None:
    rows = [
        {
            "token_ids": sample.ids,
            "mask": sample.mask,
            "logprobs": sample.logprobs,
            "temperatures": [facts.temperature] * len(sample.ids),
            "env_name": facts.env,
            "reward": sample.reward,
            "advantages": sample.advantages,
        }
        for sample in samples
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, compression="zstd")


PRIME_RL = Form("prime-rl", write, "samples-{index:05d}.parquet")

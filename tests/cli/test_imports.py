"""Asking for help is quick and loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.cli.run import environment, prover

HEAVY = ("torch", "transformers", "vllm", "polars", "pyarrow", "numpy", "tokenizers", "pydantic_ai")
VERBS = ("rollout judge verify advantage update evaluate status validate show stats policy").split()


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from prover_cli.app import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]; "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_help_takes_less_than_half_a_second() -> None:
    def seconds() -> float:
        began = time.perf_counter()
        assert prover("--help").returncode == 0
        return time.perf_counter() - began

    assert min(seconds() for _ in range(5)) < 0.5


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    result = prover(verb, "--help")
    assert result.returncode == 0
    assert "Usage: prover" in result.stdout and result.stderr == ""

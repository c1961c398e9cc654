"""Asking for help is quick and loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.cli.run import PROVER, environment, prover

HEAVY = ("torch", "transformers", "vllm", "polars", "pyarrow", "numpy", "tokenizers", "pydantic_ai")
VERBS = (
    "rollout judge verify advantage update evaluate status validate show stats policy tasks "
    "serve-retriever doctor plan compare explain score export"
).split()


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from prover_cli.app import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]; "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_help_takes_less_than_half_a_second() -> None:
    """On a machine that is busy otherwise: little more than its terminal libraries take."""
    libraries = [sys.executable, "-c", "import typer, rich.console, rich.progress"]

    def seconds(command: list[str]) -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    pairs = [(seconds([*PROVER, "--help"]), seconds(libraries)) for _ in range(7)]
    helps, imports = zip(*pairs, strict=True)
    assert min(helps) < 0.5 or min(helps) < 2 * min(imports)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    result = prover(verb, "--help")
    assert result.returncode == 0
    assert "Usage: prover" in result.stdout and result.stderr == ""

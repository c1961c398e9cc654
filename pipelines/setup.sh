# Sourced by the other scripts: a virtual environment in .venv with the package in it, on PATH.
#
#   source pipelines/setup.sh [EXTRA]      EXTRA is an optional dependency group, such as dev
#
# Runs pip only when pyproject.toml or the constraints changed since the last time. To install
# other versions (a CUDA build of torch, say): PROVER_CONSTRAINTS=/path/to/constraints.txt.

prover_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

source "$prover_root/pipelines/find_python.sh"

prover_setup() {
    local extra="${1:-}" venv="$prover_root/.venv"
    local constraints="${PROVER_CONSTRAINTS:-$prover_root/pipelines/constraints.txt}"
    local wanted stamp="$venv/.installed${extra:+-$extra}"
    wanted="$(cat "$prover_root/pyproject.toml" "$constraints" | cksum)"
    if [ ! -x "$venv/bin/python" ]; then
        echo "making a virtual environment in .venv" >&2
        "$(find_python)" -m venv "$venv"
    fi
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        echo "installing the package and what it needs" >&2
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            --constraint "$constraints" --editable "$prover_root${extra:+[$extra]}" 1>&2
        echo "$wanted" >"$stamp"
    fi
    export PATH="$venv/bin:$PATH"
}

prover_setup "$@"

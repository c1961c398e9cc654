#!/usr/bin/env bash
# Iterations of ProVer: rollout, judge, verify, advantage, update, each from the policy before.
#
#   pipelines/iterate.sh --env webshop --iterations 3 --out runs/demo
#
# Options: --policy DIR (default: the environment's starting policy), --config FILE (more than once:
# later files win; default: PROVER_CONFIG, or pipelines/small.toml), --judge NAME, --estimator NAME,
# --k N, --engine NAME (each beats the files), --seed N.
# Stop it whenever you like; started again with the same options it goes on where it was.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
env=webshop iterations=3 out=runs/demo policy="" seed=0 config=""

while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help)
        sed -n '2,9s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    esac
    [ $# -ge 2 ] || { echo "error: $1 needs a value (see $0 --help)" >&2; exit 2; }
    case "$1" in
    --env | --iterations | --out | --policy | --seed)
        declare "${1#--}=$2"
        ;;
    --config)
        config="${config:+$config:}$2"
        ;;
    --judge | --estimator | --k | --engine)
        # The variable of a flag beats the files, and every stage that has the flag reads it.
        export "PROVER_$(echo "${1#--}" | tr a-z A-Z)=$2"
        ;;
    *)
        echo "error: unknown option $1 (see $0 --help)" >&2
        exit 2
        ;;
    esac
    shift 2
done

export PROVER_CONFIG="${config:-${PROVER_CONFIG:-$here/small.toml}}"
command -v prover >/dev/null || source "$here/setup.sh"
[ -n "$policy" ] || policy="$(prover policy path --env "$env")"
start="$policy"

# Exit code 4 says that there is nothing to verify or to learn from: no reason to stop iterating.
unless_empty() {
    local code=0
    "$@" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
    return "$code"
}

for ((i = 0; i < iterations; i++)); do
    run="$out/iteration-$(printf '%03d' "$i")"
    echo "== iteration $i: $run" >&2
    prover rollout --env "$env" --policy "$policy" --seed "$((seed + i))" --out "$run" --resume \
        >/dev/null
    prover judge "$run" --resume >/dev/null
    unless_empty prover verify "$run" --resume >/dev/null || true
    prover advantage "$run" --resume >/dev/null
    if unless_empty prover update "$run" --resume >/dev/null; then
        policy="$run/update/policy"
    fi
done

echo "== the policy before and after, on the same panel" >&2
prover evaluate "$out" --env "$env" --policy "$start" --as before --resume >/dev/null
prover evaluate "$out" --env "$env" --policy "$policy" --as "after-$iterations" --baseline before \
    --resume

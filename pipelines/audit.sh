#!/usr/bin/env bash
# How close do credit methods come to the values of the turns? A fidelity benchmark.
#
#   pipelines/audit.sh --env webshop --out runs/audit-webshop
#
# Samples groups, proposes segments (contrast and random), verifies them, values every turn with few
# continuations and with many, and scores each method against the many.
# Options: --policy DIR (default: the environment's starting policy), --tasks N (16), --group-size N
# (8), --k N (8: of the methods), --audit-k N (64: of the reference), --estimator LIST, --seed N (0),
# --config FILE (default: PROVER_CONFIG, or pipelines/small.toml), --engine NAME, --plots DIR.
# Stop it whenever you like; started again with the same options it goes on where it was.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
env=webshop out="" policy="" tasks=16 group_size=8 k=8 audit_k=64 seed=0 plots=""
estimator="grpo,grpo-std,gigpo,graphgpo@paper,prover,prover:verify@random,constant"
estimator="$estimator,vineppo:verify@turns"

while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help)
        sed -n '2,11s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    esac
    [ $# -ge 2 ] || { echo "error: $1 needs a value (see $0 --help)" >&2; exit 2; }
    case "$1" in
    --env | --out | --policy | --tasks | --k | --estimator | --seed | --plots)
        declare "${1#--}=$2"
        ;;
    --group-size)
        group_size="$2"
        ;;
    --audit-k)
        audit_k="$2"
        ;;
    --config | --engine)
        export "PROVER_$(echo "${1#--}" | tr a-z A-Z)=$2"
        ;;
    *)
        echo "error: unknown option $1 (see $0 --help)" >&2
        exit 2
        ;;
    esac
    shift 2
done

export PROVER_CONFIG="${PROVER_CONFIG:-$here/small.toml}"
command -v prover >/dev/null || source "$here/setup.sh"
run="${out:-runs/audit-$env}"
[ -n "$policy" ] || policy="$(prover policy path --env "$env")"

step() {
    echo "== prover $*" >&2
    prover "$@" >/dev/null
}

# The reference and every verification draw from seeds of their own: continuations that a method
# shares with the reference would make it look better than it is.
step rollout --env "$env" --policy "$policy" --tasks "$tasks" --group-size "$group_size" \
    --seed "$seed" --out "$run" --resume
step judge "$run" --resume
step judge "$run" --judge random --as random --resume
step verify "$run" --k "$k" --seed "$((seed + 1))" --resume
step verify "$run" --from judge@random --as random --k "$k" --seed "$((seed + 2))" --resume
step verify "$run" --proposer all-turns --as turns --k "$k" --seed "$((seed + 3))" --resume
step verify "$run" --proposer all-turns --as audit --k "$audit_k" --seed "$((seed + 4))" --resume

draw() {
    [ -z "$plots" ] || echo "--plot $plots/$1-$env.svg"
}
[ -z "$plots" ] || mkdir -p "$plots"
methods=(--estimator "$estimator" --outcome success)
reference=(--reference vineppo --reference-from verify@audit)

echo "== what the methods say" >&2
prover compare estimators "$run" "${methods[@]}" $(draw estimators)
echo "== how close they come to the values, at every turn" >&2
prover compare estimators "$run" "${methods[@]}" "${reference[@]}" $(draw audit)
echo "== the same, where the values are beyond their standard error" >&2
prover compare estimators "$run" "${methods[@]}" "${reference[@]}" --decided
echo "== what the judges proposed" >&2
prover compare judges "$run" --from judge,judge@random $(draw judges)

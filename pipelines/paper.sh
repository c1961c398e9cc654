#!/usr/bin/env bash
# ProVer with the paper's settings: 100 iterations, then the policy before and after, 3 runs each.
#
#   pipelines/paper.sh --env alfworld --model 2b --gpus 1 [--out RUN] [--dry-run]
#
# --env alfworld, webshop or searchqa; --model 2b or 4b; --gpus 1 or 8. Options: --policy DIR
# (default: models/Qwen3.5-2B or -4B), --iterations N, --config FILE (a file of your own; it wins
# over the preset), --dry-run (print what every stage would do, and stop).
# Stop it whenever you like; started again with the same options it goes on where it was.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
env="" model="" gpus="" out="" policy="" iterations=100 own="" dry_run=""

while [ $# -gt 0 ]; do
    case "$1" in
    --env | --model | --gpus | --out | --policy | --iterations)
        [ $# -ge 2 ] || { echo "error: $1 needs a value" >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    --config)
        [ $# -ge 2 ] || { echo "error: $1 needs a value" >&2; exit 2; }
        own="$own:$2"
        shift 2
        ;;
    --dry-run)
        dry_run=yes
        shift
        ;;
    -h | --help)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "error: unknown option $1 (see $0 --help)" >&2
        exit 2
        ;;
    esac
done

case "$gpus" in 1) machine=1gpu ;; *) machine="${gpus}gpus" ;; esac
PROVER_CONFIG="$here/paper-method.toml"
for part in "$env" "qwen3.5-$model" "$machine"; do
    file="$here/paper-$part.toml"
    [ -f "$file" ] || { echo "error: there is no $file (see $0 --help)" >&2; exit 2; }
    PROVER_CONFIG="$PROVER_CONFIG:$file"
done
export PROVER_CONFIG="$PROVER_CONFIG$own"
out="${out:-runs/paper-$env-$model}"
policy="${policy:-models/Qwen3.5-$(echo "$model" | tr b B)}"
command -v prover >/dev/null || source "$here/setup.sh"

if [ -n "$dry_run" ]; then
    prover rollout --policy "$policy" --out "$out" --dry-run
    for stage in judge verify advantage update; do
        prover "$stage" "$out" --dry-run
    done
    prover evaluate "$out" --policy "$policy" --dry-run
    exit
fi

# What the evaluation needs is looked at first: it would be missed after 100 iterations only.
prover evaluate "$out" --policy "$policy" --dry-run >/dev/null
exec "$here/iterate.sh" --env "$env" --policy "$policy" --iterations "$iterations" --out "$out"

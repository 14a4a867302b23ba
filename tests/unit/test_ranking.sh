#!/bin/bash
# Chips of one family rank as their data sheets do, as long as nobody measured one of them:
# test_ranking.sh PLAN
set -eu
plan=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0

# The fastest step of a run with that accelerator in its cluster's nodes.
step() { # RUN ACCELERATOR SETTING...
    local run=$1 chip=$2
    shift 2
    "$plan" search "$run" --json --top 1 --prefer time \
        --set "cluster.accelerator=configs/accelerators/$chip.yaml" "$@" >"$out/json" 2>"$out/errors" ||
        { cat "$out/errors" >&2; return 1; }
    python3 -c 'import json, sys; c = json.load(sys.stdin)["fastest"]; print(c["profile"], c["step_seconds"])' \
        <"$out/json"
}

rank() { # RUN SETTINGS CHIP...: each at least as fast as the one before, the first two not alike
    local run=$1 settings=$2 chip profile seconds before='' name=''
    shift 2
    for chip in "$@"; do
        # shellcheck disable=SC2086 # several settings, or none
        read -r profile seconds <<<"$(step "$run" "$chip" $settings)"
        [ "$profile" = default ] || { echo "$run on $chip: profile $profile" >&2; failed=1; }
        if [ -n "$before" ] && ! awk "BEGIN { exit !($seconds <= $before * 1.0001) }"; then
            echo "$run $settings: $chip takes $seconds s, $name $before s" >&2
            failed=1
        fi
        before=$seconds name=$chip
    done
}

long="--set sequence_length=1048576 --set global_batch_size=64 --set model.max_position_embeddings=1048576"
for run in llama-8b-64 llama-70b-512 qwen3-8b-64 llama-3.1-8b-64; do
    rank configs/runs/$run.yaml '' h100-pcie-80gb h100-sxm-80gb h200-sxm-141gb b200-sxm-180gb
    rank configs/runs/$run.yaml '' a100-sxm-80gb h100-sxm-80gb gb200-186gb
    rank configs/runs/$run.yaml '' mi300x-192gb mi355x-288gb
done
rank configs/runs/llama-8b-64.yaml '' a100-sxm-40gb a100-sxm-80gb h100-pcie-80gb
rank configs/runs/llama-8b-64.yaml "$long" h100-pcie-80gb h100-sxm-80gb h200-sxm-141gb b200-sxm-180gb
exit $failed

#!/usr/bin/env bash
# What a checkpoint in the background costs training: the quickstart on 8 ranks and a model of 124M
# parameters on 2, with a save at every 20th step and, alternating in the same session, without.
#
#   tests/bench/bench_checkpoint.sh BUILD [--case quickstart|124m]... [--saves 4] [--rounds 2]
#       [-o FILE] [--keep DIR]
#
# Calibrates first, so that `explain` knows this machine; measures memcpy with as many processes as
# there are ranks, and cp and sync of as many bytes as a checkpoint has. --saves: in each run with saves, the
# first of which is not counted. Prints tables, and writes them to FILE. --keep: the metrics stay in
# DIR. About three minutes for the quickstart, ten for 124M; needs 8 GB of memory and 5 of disk.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

cases=() saves=4 rounds=2 output='' keep='' every=20
if [ $# -eq 0 ]; then
    echo "usage: bench_checkpoint.sh BUILD [--case C]... [--saves N] [--rounds N] [-o FILE] [--keep DIR]" >&2
    exit 2
fi
build=$(cd "$1" && pwd) || exit 2
shift
while [ $# -gt 0 ]; do
    case $1 in
        --case) cases+=("${2:-}") && shift ;;
        --saves) saves=${2:-} && shift ;;
        --rounds) rounds=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        --keep) keep=${2:-} && shift ;;
        *)
            echo "bench_checkpoint: unknown option '$1'" >&2
            exit 2
            ;;
    esac
    shift
done
[ ${#cases[@]} -gt 0 ] || cases=(quickstart 124m)

export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail() {
    echo "bench_checkpoint: $*" >&2
    exit 3
}

work=$(mktemp -d "$build/bench-checkpoint.XXXXXX") || exit 3
trap 'rm -rf "$work"' EXIT
trap 'exit 3' INT TERM
bash examples/make_text.sh || fail "no text to train on"
figures=$PWD/tests/bench/checkpoint_figures.py

# Seconds that the cores had work, and those of this script's children.
busy() { awk -v tick="$(getconf CLK_TCK)" '/^cpu / {print ($2 + $3 + $4 + $7 + $8) / tick}' /proc/stat; }
own() {
    awk 'function s(t) {split(t, a, "m"); return a[1] * 60 + a[2]}
        {sum += s($1) + s($2)} END {print sum}'
}

# Trains a plan and leaves its metrics, each line with the time at which it came.
train() { # RANKS PLAN FOLDER STAMPED OTHERS
    local before own_before begin=$SECONDS
    before=$(busy) && times >"$work/times" && own_before=$(own <"$work/times")
    : >"$3/metrics.jsonl"
    mpirun -np "$1" "$build/runner" train "$2" --resume none --overwrite >"$3/train.log" 2>&1 </dev/null &
    local job=$!
    tail -q -n +1 -s 0.2 --pid=$job -F "$3/metrics.jsonl" 2>/dev/null | python3 "$figures" stamp >"$4"
    wait $job || {
        tail -n 5 "$3/train.log" >&2
        fail "training failed"
    }
    times >"$work/times"
    awk -v all="$(busy)" -v before="$before" -v own="$(own <"$work/times")" -v own_before="$own_before" \
        -v wall=$((SECONDS - begin)) -v cores="$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
        'BEGIN {print (all - before - own + own_before) / wall / cores}' >>"$5"
    rm -rf "$3/checkpoints"
}

run_case() { # NAME TITLE MODEL RANKS MESH BATCH SEQUENCE SKIP
    local name=$1 ranks=$4 folder=$work/$1 load round with=() without=()
    load=$(cut -d' ' -f1-3 /proc/loadavg)
    mkdir "$folder" "$folder/with" "$folder/without"
    echo "$name: calibrate" >&2
    mpirun -np "$ranks" "$build/runner" calibrate --quick -o "$folder/cluster.profile.yaml" \
        --cluster "$folder/cluster.yaml" >"$folder/calibrate.log" 2>&1 </dev/null ||
        fail "calibrate: $(tail -n 1 "$folder/calibrate.log")"
    cat >"$folder/run.yaml" <<YAML
name: $name
model: $3
cluster: cluster.yaml
sequence_length: $7
global_batch_size: $6
mesh_dim: '$5'
precision: {compute: fp32, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-4, total_steps: $(((saves + 1) * every)), warmup_steps: 10}
data: {path: $PWD/examples/data/text.txt, format: bytes, seed: 1}
YAML
    local saving=(--set checkpoint.every_steps="$every" --set checkpoint.keep=1)
    "$build/plan" explain "$folder/run.yaml" --json "${saving[@]}" >"$folder/explain.json" || fail "explain"
    for round in with without; do
        local more=()
        [ $round = without ] || more=("${saving[@]}")
        "$build/plan" emit "$folder/run.yaml" -o "$folder/$round" --set directory="$folder/$round" \
            "${more[@]}" >"$folder/emit.log" 2>&1 || fail "emit: $(tail -n 1 "$folder/emit.log")"
    done
    local bytes rank_bytes copies=() disks=() i
    bytes=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["checkpoint"]["bytes"])' "$folder/explain.json")
    rank_bytes=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["checkpoint"]["most_bytes_of_a_rank"])' "$folder/explain.json")
    for ((round = 0; round < rounds; round++)); do
        for i in with without; do
            echo "$name: round $((round + 1)) of $rounds, $i saves" >&2
            train "$ranks" "$folder/$i/$name.plan.yaml" "$folder/$i" "$folder/$i.$round.jsonl" "$folder/others"
        done
        with+=("$folder/with.$round.jsonl") without+=("$folder/without.$round.jsonl")
        copies+=("$("$build/bench/bench_copy" "$rank_bytes" "$ranks")")
        head -c "$bytes" /dev/urandom >"$folder/source"
        for i in 1 2; do
            sync "$folder/source"
            disks+=("$({ TIMEFORMAT=%R && time { cp --reflink=never "$folder/source" "$folder/copy" && sync "$folder/copy"; }; } 2>&1)")
            rm -f "$folder/copy"
        done
        rm -f "$folder/source"
    done
    python3 - "$folder/case.json" <<PYTHON
import json, statistics, sys
numbers = lambda text: statistics.median(map(float, text.split()))
json.dump({"name": "$2", "ranks": $ranks, "mesh": "$5", "every": $every, "skip": $8,
           "explain": "$folder/explain.json", "with": "${with[*]}".split(),
           "without": "${without[*]}".split(), "copy_rate": numbers("${copies[*]}"),
           "cp_seconds": numbers("${disks[*]}"),
           "load": "$load", "others": [float(x) for x in open("$folder/others")]},
          open(sys.argv[1], "w"))
PYTHON
    python3 "$figures" report "$folder/case.json" | tee -a "$work/report.md"
    if [ -n "$keep" ]; then
        mkdir -p "$keep" && cp -r "$folder" "$keep/"
    fi
}

for name in "${cases[@]}"; do
    case $name in
        quickstart)
            run_case quickstart "Quickstart" "$PWD/configs/models/quickstart.yaml" 8 1,2,2,2 8 256 20
            ;;
        124m)
            run_case 124m "124M parameters" "$PWD/configs/models/gpt2-size.yaml" 2 1,2,1,1 2 128 20
            ;;
        *) fail "no case '$name'" ;;
    esac
done
if [ -n "$output" ]; then
    {
        echo "# What a checkpoint in the background costs training"
        echo
        echo "Command: \`tests/bench/bench_checkpoint.sh BUILD --saves $saves --rounds $rounds\`," \
            "$(date -u +%Y-%m-%d), $("$build/runner" --version | head -n 1), $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) cores for all ranks" \
            "($(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'))."
        cat "$work/report.md"
    } >"$output"
fi

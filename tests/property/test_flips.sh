#!/usr/bin/env bash
# A bit that is not what was written, anywhere in a checkpoint, is found before the first step: one
# line, exit code 2, on one rank and on two in turn. Half of the places are any bit of any file, as
# likely as every other; half are a file first, so that small ones get their share.
#
#   tests/property/test_flips.sh [BUILD-FOLDER [COUNT [SEED [FOLDER]]]]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
count=${2:-40}
seed=${3:-$RANDOM}
# shellcheck source=tests/support/scratch.sh
. tests/support/scratch.sh
out=$(scratch_in "${4:-$build/tests/flips}") || exit 2

fail() {
    echo "FAIL (seed $seed): $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

prepare() { # RANKS
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$1" --mesh_dim "1,$1,1,1" \
        --set name=tiny --set directory="$out/run$1" --set cluster.accelerators_per_node="$1" \
        --set model.hidden_size=32 --set model.intermediate_size=64 \
        --set model.num_hidden_layers=1 --set sequence_length=32 --set global_batch_size=4 \
        --set optimizer.total_steps=4 --set optimizer.warmup_steps=1 --set data.holdout=0 \
        >"$out/log" 2>&1 || fail "plan emit"
}

train() { # RANKS ARGUMENTS...
    local ranks=$1
    shift
    if [ "$ranks" -eq 1 ]; then
        timeout 120 "$build/runner" train "$out/plan1/tiny.plan.yaml" "$@" >"$out/log" 2>&1 </dev/null
    else
        timeout 120 mpirun -q -np "$ranks" "$build/runner" train "$out/plan$ranks/tiny.plan.yaml" \
            "$@" >"$out/log" 2>&1 </dev/null
    fi
}

# Below 2^30, from two of bash's.
random() { echo $(((RANDOM << 15 | RANDOM) % $1)); }

flip() { # FILE BYTE BIT
    local was
    was=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\x$(printf %x $((was ^ 1 << $3)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc status=none || fail "cannot change $1"
}

bash examples/make_text.sh || fail "no text to learn"
prepare 1
prepare 2
train 2 --steps 2 || fail "no checkpoint"
mv "$out/run2/checkpoints" "$out/from"
checkpoint=$out/from/step-000002
rm -rf "$out/run2"
mapfile -t files < <(cd "$checkpoint" && find . -type f -printf '%P\n' | sort)
sizes=()
all=0
for file in "${files[@]}"; do
    sizes+=("$(stat -c %s "$checkpoint/$file")")
    all=$((all + sizes[-1]))
done
for file in config.json manifest.json model.safetensors.index.json; do
    [ -f "$checkpoint/$file" ] || fail "the checkpoint has no $file"
done

RANDOM=$seed
echo "seed $seed, $count places in ${#files[@]} files of $all bytes"
for ((i = 0; i < count; i++)); do
    if ((i / 2 % 2 == 0)); then
        f=$(random ${#files[@]})
        byte=$(random "${sizes[f]}")
    else
        byte=$(random "$all")
        for ((f = 0; byte >= sizes[f]; f++)); do byte=$((byte - sizes[f])); done
    fi
    bit=$((RANDOM % 8))
    ranks=$((1 + i % 2))
    file=${files[f]}
    flip "$checkpoint/$file" "$byte" "$bit"
    train $ranks --resume "$checkpoint"
    status=$?
    flip "$checkpoint/$file" "$byte" "$bit"
    place="bit $bit of byte $byte of $file, $ranks ranks"
    [ $status -eq 2 ] || fail "$place: exit code $status"
    [ "$(grep -ac 'error:' "$out/log")" -eq 1 ] || fail "$place: not one line"
    [ ! -e "$out/run$ranks/metrics.jsonl" ] || fail "$place: training began"
done
for ranks in 1 2; do # it was all right but for these bits
    train $ranks --resume "$checkpoint" || fail "the checkpoint itself is not loaded on $ranks ranks"
done
echo "$count changed bits, each found before the first step"

#!/usr/bin/env bash
# Loading a large tensor, on two ranks and on one: every byte of the checkpoint is read once by the
# whole job, in pieces of at least 1 MiB on average, and no rank's resident memory grows by more than
# 64 MB. A tensor is 4 * VOCABULARY * HIDDEN bytes: 1 GB with 131072 and 2048, for which this machine
# needs 10 GB of memory and as much of disk.
#
#   tests/property/test_loading.sh [BUILD-FOLDER [VOCABULARY [HIDDEN]]]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
vocabulary=${2:-32768}
hidden=${3:-2048}
out=$build/tests/loading

fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

train() { # RANKS STEPS
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$1" --mesh_dim "1,$1,1,1" \
        --set name=big --set directory="$out/run" --set cluster.accelerators_per_node="$1" \
        --set cluster.accelerator.memory='12 GB' --set checkpoint.keep=1 \
        --set model.vocab_size="$vocabulary" --set model.hidden_size="$hidden" \
        --set model.intermediate_size=256 --set model.num_hidden_layers=1 \
        --set model.num_attention_heads=8 --set model.num_key_value_heads=1 \
        --set model.tie_word_embeddings=true --set sequence_length=16 --set global_batch_size=2 \
        --set optimizer.total_steps=3 --set optimizer.warmup_steps=0 --set data.holdout=0 --set data.format=bytes \
        >"$out/log" 2>&1 || fail "plan emit"
    if [ "$1" -eq 1 ]; then
        "$build/runner" train "$out/plan1/big.plan.yaml" --steps "$2" >"$out/log" 2>&1 </dev/null
    else
        mpirun -q -np "$1" "$build/runner" train "$out/plan$1/big.plan.yaml" --steps "$2" \
            >"$out/log" 2>&1 </dev/null
    fi || fail "training on $1 ranks"
}

loaded() { sed -nE "s/.*\"loaded\":.*\"$1\":([0-9]+).*/\1/p" "$out/run/metrics.jsonl" | tail -n 1; }

check() { # RANKS
    [ "$(loaded bytes)" -eq "$all" ] || fail "$1 ranks: $(loaded bytes) bytes were read of $all"
    [ $(($(loaded bytes) / $(loaded reads))) -ge 1048576 ] || fail "$1 ranks: $(loaded reads) reads"
    [ "$(loaded resident_growth_bytes)" -gt 0 ] || fail "$1 ranks: the growth is not known"
    [ "$(loaded resident_growth_bytes)" -le 64000000 ] ||
        fail "$1 ranks: grew by $(loaded resident_growth_bytes) bytes"
    echo "$1 ranks: $all bytes in $(loaded reads) reads, grew by $(loaded resident_growth_bytes) bytes"
}

rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || fail "no text to learn"
train 2 1
# everything behind the headers, which are 4096 bytes each here
all=$(find "$out/run/checkpoints/step-000001" -name '*.safetensors' -printf '%s\n' |
    awk '{ sum += $1 - 4096 } END { printf "%d", sum }')
[ "$all" -ge $((4 * vocabulary * hidden * 3)) ] || fail "the checkpoint has $all bytes"
train 2 2
check 2
train 1 3
check 1
rm -rf "$out"

#!/usr/bin/env bash
# A training step and a decoded token on this machine's processors, ours beside what others run here, in turns in one run.
#
#   tests/bench/ladder.sh [BUILD] [--python PYTHON] [--llama LLAMA_BUILD] [--model FILE] [--sequence N] [--threads N]
#       [--rounds N] [--steps N] [-o FILE] [PART...]
#
# PART: `train`, a step of one text in fp32 and in bf16 beside PyTorch compiled, which PYTHON (python3) has; `attention`, that of one
# layer alone, forward and backward, beside PyTorch's SDPA, by the processor time of one thread of each; `decode`, a token of one
# text and of each of eight beside llama.cpp
# (decode_peer.sh), built in LLAMA_BUILD. All of them unless told; a part whose peer is not here is left
# out, in one line. FILE is a model.yaml of ours (configs/models/gpt2-size.yaml, 124M).
# In each round ours and the peer run STEPS steps each, in turn the first; a second before each nothing of either runs, and what
# the processors do then is others' work. Prints medians, their spread and ratios, with date, machine and versions, and writes
# them to -o. Exit status 1: others had more than 10 % of the processors, so that the figures are none; 77: no peer is here.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
. tests/bench/quiet.sh
build=build python=python3 llama='' model=$PWD/configs/models/gpt2-size.yaml sequence=1024 rounds=3 steps=5 output=''
threads=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) parts=()
[ "${1:-}" = '' ] || [ ! -d "$1" ] || { build=$1 && shift; }
while [ $# -gt 0 ]; do
    case $1 in
        --python) python=${2:-} && shift ;;
        --llama) llama=${2:-} && shift ;;
        --model) model=$(realpath "${2:-}") && shift ;;
        --sequence) sequence=${2:-} && shift ;;
        --threads) threads=${2:-} && shift ;;
        --rounds) rounds=${2:-} && shift ;;
        --steps) steps=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        train | attention | decode) parts+=("$1") ;;
        *)
            echo "ladder: unknown option or part '$1'" >&2
            exit 2
            ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=(train attention decode)
build=$(cd "$build" && pwd) || exit 2
fail() {
    echo "ladder: $*" >&2
    exit 3
}
for program in plan runner; do [ -x "$build/$program" ] || fail "no program '$build/$program'"; done
work=$(mktemp -d "$build/ladder.XXXXXX") || exit 3
trap 'rm -rf "$work"' EXIT
trap 'exit 3' INT TERM
: >"$work/others"
: >"$work/report"

# ours COMPUTE: seconds of its steps, a line each; the first is not counted
ours() {
    OMP_NUM_THREADS=$threads "$build/runner" train "$work/$1/ladder.plan.yaml" --resume none --overwrite --quiet \
        >"$work/log" 2>&1 </dev/null || fail "training: $(tail -n 1 "$work/log")"
    sed -n 's/.*"step_seconds":\([0-9.e-]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n +2 >>"$work/$1/ours"
    rm -rf "$work/$1/checkpoints"
}

# a plan of one rank with that many threads, as if each were a core of one accelerator
make_plan() { # COMPUTE
    mkdir "$work/$1"
    cat >"$work/$1/run.yaml" <<END
name: ladder
model: $model
cluster:
  name: here
  nodes: 1
  accelerators_per_node: 1
  accelerator: $PWD/configs/accelerators/cpu-core.yaml
  launcher: mpirun
sequence_length: $sequence
global_batch_size: 1
mesh_dim: '1,1,1,1'
recompute: none
precision: {compute: $1, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-4, total_steps: $((steps + 1)), warmup_steps: 1, grad_clip: 1.0}
data: {path: $PWD/examples/data/text.txt, format: bytes, seed: 1}
END
    "$build/plan" emit "$work/$1/run.yaml" -o "$work/$1" --set directory="$work/$1" \
        --set "cluster.accelerator.memory=$(awk '/^MemAvailable/ {print int($2 / 1048576) " GB"}' /proc/meminfo)" \
        >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log" | head -n 1)"
}

# What PyTorch's model needs to know, as JSON.
shape() {
    awk -F': *' '{sub(/ *#.*/, "", $2); v[$1] = $2} END {
        heads = v["num_attention_heads"]; kv = v["num_key_value_heads"] != "" ? v["num_key_value_heads"] : heads
        dim = v["head_dim"] != "" ? v["head_dim"] : v["hidden_size"] / heads
        theta = v["rope_theta"] != "" ? v["rope_theta"] : 10000
        printf "{\"vocab\": %d, \"hidden\": %d, \"intermediate\": %d, \"layers\": %d, \"heads\": %d, \"kv_heads\": %d, " \
            "\"head_dim\": %d, \"theta\": %s, \"tied\": %s}\n", v["vocab_size"], v["hidden_size"], v["intermediate_size"],
            v["num_hidden_layers"], heads, kv, dim, theta, v["tie_word_embeddings"] == "true" ? "true" : "false"
    }' "$model"
}

# report WHAT OURS PEER NAME: files of seconds, a line each
report() {
    python3 - "$@" <<'END' | tee -a "$work/report" >&2
import statistics
import sys

what, ours, peer, name = sys.argv[1:]
read = lambda path: sorted(float(line) for line in open(path))
a, b = read(ours), read(peer)
spread = lambda x: f"{statistics.median(x) * 1e3:.1f} ms ({x[0] * 1e3:.1f} to {x[-1] * 1e3:.1f})"
print(f"| {what} | {spread(a)} | {name}: {spread(b)} | {statistics.median(b) / statistics.median(a):.2f} |")
END
}

measured=0
# beside_torch FOLDER COMPUTE THREADS OURS [OPTION...]: rounds of the command OURS, which writes seconds to FOLDER/ours, and of
# PyTorch with these options, in turn the first
beside_torch() {
    local folder=$1 compute=$2 count=$3 ours=$4 round turn seconds
    coproc PEER { OMP_NUM_THREADS=$count exec "$python" tests/bench/ladder_torch.py --model "$(shape)" "${@:5}" \
        --sequence "$sequence" --threads "$count" --compute "$compute" 2>"$work/peer.log"; }
    local peer=$PEER_PID from=${PEER[0]} to=${PEER[1]}
    read -r seconds <&"$from" || fail "PyTorch: $(tail -n 1 "$work/peer.log")"
    for ((round = 0; round < rounds; round++)); do
        for turn in 0 1; do
            look_around "$work/others"
            if [ $(((round + turn) % 2)) -eq 0 ]; then
                "$ours" "$compute"
            else
                echo "$steps" >&"$to"
                read -r seconds <&"$from" || fail "PyTorch: $(tail -n 1 "$work/peer.log")"
                tr -d '[] ' <<<"$seconds" | tr , '\n' >>"$folder/peer"
            fi
        done
    done
    kill "$peer" 2>/dev/null
    wait "$peer" 2>/dev/null
    measured=1
}
about_torch() { # PART
    "$python" tests/bench/ladder_torch.py --about 2>/dev/null || {
        echo "left out: $1, '$python' has no torch" >&2
        return 1
    }
}

train() {
    local about compute
    about=$(about_torch train) || return
    bash examples/make_text.sh || fail "no text to train on"
    for compute in fp32 bf16; do
        make_plan "$compute"
        beside_torch "$work/$compute" "$compute" "$threads" ours
        report "a step, $compute" "$work/$compute/ours" "$work/$compute/peer" "$about"
    done
}

our_attention() { # COMPUTE
    local shape
    shape=$(shape | sed -E 's/.*"heads": ([0-9]+), "kv_heads": ([0-9]+), "head_dim": ([0-9]+).*/\1 \2 \3/')
    # shellcheck disable=SC2086 # three numbers
    "$build/bench/bench_cpu_attention" "$1" "$sequence" $shape 1 "$steps" >"$work/log" 2>&1 ||
        fail "attention: $(tail -n 1 "$work/log")"
    awk 'NF == 2 {print $1 + $2}' "$work/log" >>"$work/attention-$1/ours"
}

attention() {
    local about compute
    about=$(about_torch attention) || return
    [ -x "$build/bench/bench_cpu_attention" ] || fail "no program '$build/bench/bench_cpu_attention'"
    for compute in fp32 bf16; do
        mkdir "$work/attention-$compute"
        beside_torch "$work/attention-$compute" "$compute" 1 our_attention --attention
        report "attention, $compute, processor time" "$work/attention-$compute/ours" "$work/attention-$compute/peer" \
            "SDPA of $about"
    done
}

decode() {
    local status
    if [ -z "$llama" ] || [ ! -x "$llama/bin/llama-bench" ]; then
        echo "left out: decode, no llama.cpp (--llama FOLDER with bin/llama-bench)" >&2
        return
    fi
    [ -x "$llama/bin/llama-batched-bench" ] || echo "left out: decode of 8 texts, no '$llama/bin/llama-batched-bench'" >&2
    bash tests/bench/decode_peer.sh "$llama" "$build" "$threads" 16 "$rounds" >"$work/decode"
    status=$?
    [ $status -le 1 ] || exit 3
    # its last line is what others had
    sed -n '$s/.*up to \([0-9]*\) %.*/\1/p' "$work/decode" | awk '{print $1 / 100}' >>"$work/others"
    sed -i '$d' "$work/decode"
    measured=1
}

for part in "${parts[@]}"; do "$part"; done
if [ $measured -eq 0 ]; then
    echo "SKIP: ladder: no peer is here"
    exit 77
fi
quiet=$(what_others_had "$work/others")
was_quiet=$?
{
    echo "$(date -u +%Y-%m-%d), $(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'), $threads threads," \
        "$("$build/runner" --version | sed -n '1p; s/^ *devices: //p' | paste -sd ' '), $(basename "$model")," \
        "$rounds rounds of $steps steps; $quiet"
    if [ -s "$work/report" ]; then
        echo
        echo "| | ours, median (least to most) | beside it | times as fast |"
        echo "| --- | --- | --- | --- |"
        cat "$work/report"
    fi
    [ ! -s "$work/decode" ] || { echo && cat "$work/decode"; }
} >"$work/all"
cat "$work/all"
[ -z "$output" ] || cp "$work/all" "$output"
[ $was_quiet -eq 0 ]

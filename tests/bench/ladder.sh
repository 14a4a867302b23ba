#!/usr/bin/env bash
# A training step, a prompt and a decoded token on this machine's processors, ours beside what others run here, in turns in one run.
#
#   tests/bench/ladder.sh [BUILD] [--python PYTHON] [--jax PYTHON] [--llama LLAMA_BUILD] [--model FILE] [--sequence N] [--threads N]
#       [--rounds N] [--steps N] [-o FILE] [PART...]
#
# PART: `train`, a step of one text in fp32 and in bf16 beside PyTorch compiled, which PYTHON (python3) has; `attention`, that of one
# layer alone, forward and backward, beside PyTorch's SDPA, by the processor time of one thread of each; `ring`, a step of one layer
# with a narrow MLP and a vocabulary of bytes, the text split over two ranks of a thread each, beside the package ringattention on
# two of JAX's devices, which --jax (PYTHON) has; `prefill`, a prompt beside Hugging Face's transformers, which PYTHON has, both with
# the same weights; `decode`, a token of one text and of each of eight beside llama.cpp (decode_peer.sh), built in LLAMA_BUILD. All
# of them unless told; a part whose peer is not here is left out, in one line. FILE is a model.yaml of ours
# (configs/models/gpt2-size.yaml, 124M); N tokens are 1,024 of `train` and `attention`, 2,048 of `prefill`, 8,192 of `ring`.
# In each round ours and the peer run STEPS steps each, in turn the first; a second before each nothing of either runs, and what
# the processors do then is others' work. That a peer computes the same is shown first: `ring` compares the first step's loss and
# norm of the gradient, `prefill` the log-probabilities behind a prompt. Prints medians, their spread and ratios, with date, machine
# and versions, and writes them to -o. Exit status 1: others had more than 10 % of the processors, so that the figures are none;
# 77: no peer is here.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
. tests/bench/quiet.sh
build=build python=python3 jax='' llama='' model=$PWD/configs/models/gpt2-size.yaml sequence='' rounds=3 steps=5 output=''
threads=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) parts=()
[ "${1:-}" = '' ] || [ ! -d "$1" ] || { build=$1 && shift; }
while [ $# -gt 0 ]; do
    case $1 in
        --python) python=${2:-} && shift ;;
        --jax) jax=${2:-} && shift ;;
        --llama) llama=${2:-} && shift ;;
        --model) model=$(realpath "${2:-}") && shift ;;
        --sequence) sequence=${2:-} && shift ;;
        --threads) threads=${2:-} && shift ;;
        --rounds) rounds=${2:-} && shift ;;
        --steps) steps=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        train | attention | ring | prefill | decode) parts+=("$1") ;;
        *)
            echo "ladder: unknown option or part '$1'" >&2
            exit 2
            ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=(train attention ring prefill decode)
jax=${jax:-$python}
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

# our_steps FOLDER RANKS: seconds of its steps, a line each in FOLDER/ours; the first is not counted
our_steps() {
    local start=()
    [ "$2" -eq 1 ] || start=(mpirun -q -np "$2")
    OMP_NUM_THREADS=$((threads > $2 ? threads / $2 : 1)) "${start[@]}" "$build/runner" train "$1/ladder.plan.yaml" --resume none --overwrite --quiet \
        >"$work/log" 2>&1 </dev/null || fail "training: $(tail -n 1 "$work/log")"
    sed -n 's/.*"step_seconds":\([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl" | tail -n +2 >>"$1/ours"
    rm -rf "$1/checkpoints"
}
our_step() { our_steps "$work/$1" 1; }
our_ring() { our_steps "$work/ring-$1" 2; }

# make_plan FOLDER COMPUTE MODEL TOKENS RANKS TEXT [LINE...]: a plan of ranks with their share of the threads, as if each thread were
# a core of their accelerator, in FOLDER; LINEs are more of the run's; `memory`, in GB: what is free here unless set
make_plan() {
    local memory=${memory:-$(awk -v ranks="$5" '/^MemAvailable/ {print int($2 / 1048576 / ranks)}' /proc/meminfo)}
    mkdir -p "$1"
    cat >"$1/run.yaml" <<END
name: ladder
model: $3
cluster:
  name: here
  nodes: 1
  accelerators_per_node: $5
  accelerator: $PWD/configs/accelerators/cpu-core.yaml
  launcher: mpirun
  links: [{name: memory, spans: node, bandwidth: 10 GB/s, latency: 1 us}]
sequence_length: $4
global_batch_size: 1
mesh_dim: '1,1,1,$5'
recompute: none
precision: {compute: $2, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-4, total_steps: $((steps + 1)), warmup_steps: 1, grad_clip: 1.0}
data: {path: $6, format: bytes, seed: 1}
END
    printf '%s\n' "${@:7}" >>"$1/run.yaml"
    "$build/plan" emit "$1/run.yaml" -o "$1" --set directory="$1" --set "cluster.accelerator.memory=$memory GB" \
        >"$work/log" 2>&1 || fail "plan emit: $(grep -m 1 error: "$work/log")"
}

# What a peer's model needs to know, as JSON.
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
# beside FOLDER COMPUTE OURS PEER...: rounds of the function OURS, given COMPUTE, which writes seconds to FOLDER/ours, and of the
# program PEER, which says a line once it is ready and then, for each line with a number of steps, their seconds as JSON; in turn
# the first. What it says first is left in FOLDER/said.
beside() {
    local folder=$1 compute=$2 ours=$3 round turn seconds
    coproc PEER { exec "${@:4}" 2>"$work/peer.log"; }
    local peer=$PEER_PID from=${PEER[0]} to=${PEER[1]}
    read -r seconds <&"$from" || fail "the peer: $(tail -n 1 "$work/peer.log")"
    printf '%s\n' "$seconds" >"$folder/said"
    for ((round = 0; round < rounds; round++)); do
        for turn in 0 1; do
            look_around "$work/others"
            if [ $(((round + turn) % 2)) -eq 0 ]; then
                "$ours" "$compute"
            else
                echo "$steps" >&"$to"
                read -r seconds <&"$from" || fail "the peer: $(tail -n 1 "$work/peer.log")"
                tr -d '[] ' <<<"$seconds" | tr , '\n' >>"$folder/peer"
            fi
        done
    done
    kill "$peer" 2>/dev/null
    wait "$peer" 2>/dev/null
    measured=1
}
# about PART PYTHON FILE: the peer's versions; status 1, and why in one line, where they are not here
about() {
    local said
    said=$("$2" "tests/bench/$3" --about 2>&1) || {
        echo "left out: $1: $(tail -n 1 <<<"$said" | sed "s|^SKIP|'$2'|")" >&2
        return 1
    }
    echo "$said"
}

train() {
    local about compute tokens=${sequence:-1024}
    about=$(about train "$python" ladder_torch.py) || return
    bash examples/make_text.sh || fail "no text to train on"
    for compute in fp32 bf16; do
        make_plan "$work/$compute" "$compute" "$model" "$tokens" 1 "$PWD/examples/data/text.txt"
        beside "$work/$compute" "$compute" our_step env OMP_NUM_THREADS="$threads" "$python" tests/bench/ladder_torch.py \
            --model "$(shape)" --sequence "$tokens" --threads "$threads" --compute "$compute"
        report "a step of $tokens tokens, $compute" "$work/$compute/ours" "$work/$compute/peer" "$about, compiled"
    done
}

our_attention() { # COMPUTE
    local shape
    shape=$(shape | sed -E 's/.*"heads": ([0-9]+), "kv_heads": ([0-9]+), "head_dim": ([0-9]+).*/\1 \2 \3/')
    # shellcheck disable=SC2086 # three numbers
    "$build/bench/bench_cpu_attention" "$1" "${sequence:-1024}" $shape 1 "$steps" >"$work/log" 2>&1 ||
        fail "attention: $(tail -n 1 "$work/log")"
    awk 'NF == 2 {print $1 + $2}' "$work/log" >>"$work/attention-$1/ours"
}

attention() {
    local about compute tokens=${sequence:-1024}
    about=$(about attention "$python" ladder_torch.py) || return
    [ -x "$build/bench/bench_cpu_attention" ] || fail "no program '$build/bench/bench_cpu_attention'"
    for compute in fp32 bf16; do
        mkdir "$work/attention-$compute"
        beside "$work/attention-$compute" "$compute" our_attention env OMP_NUM_THREADS=1 "$python" tests/bench/ladder_torch.py \
            --attention --model "$(shape)" --sequence "$tokens" --compute "$compute"
        report "attention of $tokens tokens, $compute, processor time" "$work/attention-$compute/ours" \
            "$work/attention-$compute/peer" "SDPA of $about"
    done
}

# Bytes are tokens, and the text is as long as one sequence, so that both have the same.
ring() {
    local about compute tokens=${sequence:-8192} layer
    about=$(about ring "$jax" ladder_jax.py) || return
    layer=$(shape | sed -E 's/"(vocab|intermediate)": [0-9]+/"\1": 256/g; s/"layers": [0-9]+/"layers": 1/')
    "$jax" tests/bench/ladder_weights.py "$layer" "$work/layer" "$tokens" 2>"$work/log" || fail "$(tail -n 1 "$work/log")"
    bash examples/make_text.sh || fail "no text to train on"
    head -c $((tokens + 1)) examples/data/text.txt >"$work/text"
    for compute in fp32 bf16; do
        make_plan "$work/ring-$compute" "$compute" "$work/layer/config.json" "$tokens" 2 "$work/text" "init: {from: $work/layer}"
        beside "$work/ring-$compute" "$compute" our_ring "$jax" tests/bench/ladder_jax.py --model "$layer" --text "$work/text" \
            --compute "$compute"
        python3 - "$work/ring-$compute" "$compute" <<'END' || fail "ring: ours and the peer's first steps are not the same"
import json
import sys

folder, compute = sys.argv[1:]
ours = next(step for step in map(json.loads, open(f"{folder}/metrics.jsonl")) if "loss" in step)
theirs = json.load(open(f"{folder}/said"))
far = max(abs(ours[key] / theirs[key] - 1) for key in ("loss", "grad_norm"))
print(f"ring, {compute}: loss {ours['loss']:.6f} and {theirs['loss']:.6f}, norm of the gradient {ours['grad_norm']:.6f} and "
      f"{theirs['grad_norm']:.6f}, chunks of {theirs['chunk']}", file=sys.stderr)
# fp32: sums of a text's terms in another order; bf16: a rounding of what is summed
sys.exit(far > {"fp32": 1e-4, "bf16": 2**-8}[compute])
END
        report "a step of a layer, $tokens tokens over a ring of two, $compute" "$work/ring-$compute/ours" \
            "$work/ring-$compute/peer" "$about"
    done
}

generate() { # COMPUTE [OPTION...]
    OMP_NUM_THREADS=$threads "$build/runner" generate "$work/prefill-$1/ladder.plan.yaml" --checkpoint "$work/model" \
        --prompts "$work/prompts.jsonl" --max-new-tokens 1 -o "$work/texts.jsonl" "${@:2}" >"$work/log" 2>&1 </dev/null ||
        fail "generate: $(tail -n 1 "$work/log")"
}
our_prefill() { # COMPUTE: a prompt's seconds, the mean of these
    generate "$1"
    sed -n 's|.* prompt tokens, \([0-9]*\) tokens/s;.*|\1|p' "$work/log" |
        awk -v tokens="${sequence:-2048}" '{print tokens / $1}' >>"$work/prefill-$1/ours"
}

# STEPS prompts whose first tokens differ, so that none finds another's beginning in the cache.
prefill() {
    local about compute tokens=${sequence:-2048}
    about=$(about prefill "$python" ladder_hf.py) || return
    "$python" tests/bench/ladder_weights.py "$(shape)" "$work/model" $((tokens + 128)) 2>"$work/log" ||
        fail "$(tail -n 1 "$work/log")"
    awk -v prompts="$steps" -v tokens="$tokens" 'BEGIN {
        for (p = 0; p < prompts; p++) {
            printf "{\"tokens\": [%d", p + 33
            for (i = 1; i < tokens; i++)
                printf ", %d", 7 * i * i % 251
            print "]}"
        }
    }' >"$work/prompts.jsonl"
    for compute in fp32 bf16; do
        # the plan is of a training, too, which nobody runs and which need not fit
        memory=1000 make_plan "$work/prefill-$compute" "$compute" "$work/model/config.json" "$tokens" 1 "$work/prompts.jsonl" \
            "serve: {max_batch: 1, max_tokens: $((tokens + 128)), prompt_tokens: $tokens}"
        generate "$compute" --top-logprobs 20
        cp "$work/texts.jsonl" "$work/prefill-$compute/texts.jsonl"
        beside "$work/prefill-$compute" "$compute" our_prefill env OMP_NUM_THREADS="$threads" "$python" tests/bench/ladder_hf.py \
            --folder "$work/model" --prompts "$work/prompts.jsonl" --threads "$threads" --compute "$compute"
        python3 - "$work" "$compute" <<'END' || fail "prefill: ours and the peer do not compute the same"
import json
import sys

work, compute = sys.argv[1:]
ours = json.loads(open(f"{work}/prefill-{compute}/texts.jsonl").readline())["top_logprobs"][0]
theirs, exact = (json.load(open(f"{work}/prefill-{of}/said")) for of in (compute, "fp32"))
tokens = [top["token"] for top in ours]
far = max(abs(top["logprob"] - exact[top["token"]]) for top in ours)
theirs_far = max(abs(theirs[token] - exact[token]) for token in tokens)
print(f"prefill, {compute}: log-probabilities of the {len(ours)} likeliest tokens are within {far:.2g} of the peer's in fp32" +
      (f", the peer's in {compute} within {theirs_far:.2g}" if compute != "fp32" else ""), file=sys.stderr)
# fp32: sums in another order; bf16: what its roundings cost the peer, and as much again, for ours are others
sys.exit(far > (1e-3 if compute == "fp32" else 2 * theirs_far))
END
        report "a prompt of $tokens tokens, $compute" "$work/prefill-$compute/ours" "$work/prefill-$compute/peer" "$about"
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

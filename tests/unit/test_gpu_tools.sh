#!/usr/bin/env bash
# gpu.sh's own programs on the emulator:
#   test_gpu_tools.sh PLAN OP_TIMES NCCL_ONE CEILINGS CACHE [KERNEL_TIMES]
set -uo pipefail
plan=$1 op_times=$2 nccl_one=$3 ceilings=$4 cache=$5 kernel_times=${6:-}
out=$(mktemp -d) || exit 3
trap 'rm -rf "$out"' EXIT
wrong=0

run() { # CODE COMMAND...: output in $out/said
    local wanted=$1 code
    shift
    "$@" >"$out/said" 2>&1
    code=$?
    [ "$code" -eq "$wanted" ] && return
    echo "FAIL: $*: exit code $code, not $wanted"
    sed 's/^/    /' "$out/said"
    wrong=1
}
expect() { # PATTERN
    grep -qE -- "$1" "$out/said" && return
    echo "FAIL: '$1' is not in:"
    sed 's/^/    /' "$out/said"
    wrong=1
}

emit() { # NAME MESH RANKS
    head -c 2000 /dev/zero | sed 's/\x00/\x01\x00/g' >"$out/text.bin"
    cat >"$out/$1.yaml" <<YAML
name: $1
model: {vocab_size: 64, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2,
        num_attention_heads: 2, num_key_value_heads: 1, head_dim: 8, tie_word_embeddings: true}
cluster:
  name: here
  nodes: 1
  accelerators_per_node: $3
  accelerator: {name: gpu, device: cuda, memory: 8 GiB, peak: {fp32: 1 TFLOP/s, bf16: 2 TFLOP/s}, memory_bandwidth: 1 TB/s}
  links: [{name: none, spans: $3, bandwidth: 1 GB/s, latency: 1 us}]
  launcher: mpirun
sequence_length: 32
global_batch_size: 4
micro_batch_size: 2
mesh_dim: '$2'
data: {path: $out/text.bin}
directory: $out/run
YAML
    "$plan" emit "$out/$1.yaml" -o "$out" >"$out/emitted" 2>&1 || {
        cat "$out/emitted"
        wrong=1
    }
}

# One step: 2 micro-steps of 2 layers with 7 weights and one head; times of a clock that ticks a
# microsecond for whatever is queued. A product that adds gradients leaves two ops that accumulate:
# those of norms, of the embedding's rows, and of the loss.
emit one 1,1,1,1 1
run 0 "$op_times" "$out/one.plan.yaml" 2
expect '^attention: own kernels'
expect '^\| linear_dw \| 28 \| 0\.[0-9]+ \| 0\.[0-9]+ \| [0-9.]+ \|$'
expect '^\| attention_grad \| 4 \| '
expect '^\| lm_head_grad \| 2 \| '
expect '^\| adamw \| '
expect '^\| all \| [0-9]+ \| 0\.[0-9]*[1-9][0-9]* \| '
emit two 1,2,1,1 2
run 2 "$op_times" "$out/two.plan.yaml"
expect "^op_times: error: the plan is for 2 ranks; this times one$"
run 2 "$op_times" "$out/none.yaml"
run 2 "$op_times"

run 0 "$nccl_one"
for kind in all_reduce all_gather reduce_scatter all_to_all shift transfer; do
    expect "^- ok: $kind, eager$"
done
expect '^- ok: every kind of call is taken into a recording$'
expect '^- ok: replay 3,'
expect '^- ok: a wait for an earlier call spoils a recording'
expect '^- ok: calls go on after a spoiled recording$'
expect '^\| split 3, resources shared \| '
expect '^- ok: the arena is a symmetric window$'
expect '^- ok: the arena is let go$'

run 0 "$ceilings" 32 1
expect '^\| product of 32\^3 in bf16 \| [0-9.]+ \| [0-9]+ TFLOP/s \|$'
expect '^\| copy of 1 MiB, read and written \| [0-9.]+ \| [0-9]+ GB/s \|$'
run 2 "$ceilings" 0

run 0 "$cache" 2 40 3
expect '^\| 2 \| 40 \| 3 \| 0 \| [0-9.]+ \| [0-9]+ \| [0-9]+ \| [0-9.]+ \|$'
run 2 "$cache" 2

# Of four seconds with kernels nine tenths, whatever was copied before and behind them.
if [ -n "$kernel_times" ]; then
    run 0 env -u SW_KERNEL_REPORT SW_KERNEL_WINDOW=4 "$kernel_times"
    expect '^window_s 4\.000000 busy_s 3\.600000 busy_share 0\.9000 records 6 lost 0$'
    expect '^\| 0\.9000 \| 4 \| 900000\.0 \| .swiglu_kernel. \|$'
    expect '^\| 0\.0000 \| \| \| copies \|$'
fi

# A benchmark is not run on attention that is not cuDNN's.
cat >"$out/fake" <<'SH'
#!/bin/sh
echo "rank 0 uses a GPU; attention: $1" >&2
[ "$2" = 0 ] || exec sleep "$2"
echo done
SH
chmod +x "$out/fake"
gate=tests/bench/gpu/only_cudnn.sh
run 0 "$gate" "$out/fake" 'cuDNN 9.19.0 in bf16, own kernels in f32' 0
expect '^done$'
begun=$SECONDS
run 1 "$gate" "$out/fake" 'own kernels (built without cuDNN)' 30
expect "^attention is not cuDNN's, but own kernels \(built without cuDNN\); not measured"
[ $((SECONDS - begun)) -lt 20 ] || { echo "FAIL: it was waited for" && wrong=1; }
run 5 "$gate" sh -c 'exit 5'
[ "$wrong" -eq 0 ] && echo 'test_gpu_tools: all as it should be'
exit "$wrong"

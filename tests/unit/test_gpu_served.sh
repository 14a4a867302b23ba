#!/usr/bin/env bash
# gpu.sh's times of a served model, on the CPU: random weights that `runner serve` takes, and a table
# whose columns are filled: test_gpu_served.sh PLAN RUNNER
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
plan=$1 runner=$2
out=$(mktemp -d) || exit 3
server=
leave() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    rm -rf "$out"
}
trap leave EXIT
fail() {
    echo "FAIL: $*"
    cat "$out/server" "$out/said" 2>/dev/null
    exit 1
}
report=(python3 tests/bench/gpu/report.py)
"${report[@]}" tokens "$out/tokens.bin" 512 4000 || fail "no tokens"
"${report[@]}" model "$out/weights" 32 48 2 4 2 8 512 false || fail "no weights"
cat >"$out/small.yaml" <<YAML
name: small
model: {vocab_size: 512, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2,
        num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8, rope_theta: 500000.0}
cluster:
  name: here
  nodes: 1
  accelerators_per_node: 1
  accelerator: {name: cpu, device: cpu, memory: 1 GiB, peak: {fp32: 1 TFLOP/s, bf16: 1 TFLOP/s}, memory_bandwidth: 1 GB/s}
  links: [{name: none, spans: 1, bandwidth: 1 GB/s, latency: 1 us}]
  launcher: mpirun
sequence_length: 64
global_batch_size: 4
mesh_dim: '1,1,1,1'
precision: {compute: bf16}
data: {path: $out/tokens.bin}
directory: $out/run
serve: {max_batch: 3, max_tokens: 512, prompt_tokens: 40}
YAML
"$plan" emit "$out/small.yaml" -o "$out" >"$out/said" 2>&1 || fail "plan emit"
"$plan" explain "$out/small.yaml" --json >"$out/explained.json" 2>"$out/said" || fail "plan explain"
port=$((20000 + RANDOM % 20000))
"$runner" serve "$out/small.plan.yaml" --checkpoint "$out/weights" --model served \
    --listen "127.0.0.1:$port" >"$out/server" 2>&1 </dev/null &
server=$!
timeout 60 python3 tests/bench/gpu/served.py served "$port" "$out/explained.json" 3 40 400 >"$out/said" 2>&1 ||
    fail "served.py"
for how in greedy 'top_p 0\.9'; do
    grep -qE "^\| served \| 3 \| 40 \| $how \| [0-9]+\.[0-9] \| [0-9]+\.[0-9] \| [0-9]+\.[0-9]{2} \| [0-9]+\.[0-9]{2} \|$" \
        "$out/said" || fail "no row of $how"
done
echo 'test_gpu_served: all as it should be'

#!/usr/bin/env bash
# What making values again costs on this machine, against what `plan` says of it: one rank, one thread,
# fp32, `runner calibrate` first; then a step with nothing made again, with parts, and with everything.
#
#   tests/bench/recompute.sh [BUILD [STEPS]]
#
# Prints a table: predicted and measured seconds of a step, and both as ratios to a step with nothing made again. A
# measured step is the median of the steps after the first two.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
steps=${2:-12}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
fail() {
    echo "recompute: $*" >&2
    exit 3
}
bash examples/make_text.sh || fail "no text to learn"
"$build/runner" calibrate -o "$work/this.profile.yaml" >"$work/log" 2>&1 || fail "$(cat "$work/log")"

cat >"$work/run.yaml" <<END
name: again
model: {vocab_size: 256, hidden_size: 512, intermediate_size: 1408, num_hidden_layers: 8, num_attention_heads: 8,
        num_key_value_heads: 4, max_position_embeddings: 1024, rope_theta: 10000.0, rms_norm_eps: 1.0e-5}
cluster: {name: one, nodes: 1, accelerators_per_node: 1, accelerator: $PWD/configs/accelerators/cpu-core.yaml,
          launcher: mpirun, profile: $work/this.profile.yaml}
sequence_length: 1024
global_batch_size: 2
micro_batch_size: 2
precision: {compute: fp32}
optimizer: {total_steps: $steps}
data: {path: $PWD/examples/data/text.txt}
directory: $work/run
END

one() { # NAME RECOMPUTE: a line of the table
    local predicted measured
    rm -rf "$work/run" "$work/plan"
    "$build/plan" emit "$work/run.yaml" -o "$work/plan" --set "recompute=$2" --set cluster.accelerator.memory='16 GB' \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    predicted=$("$build/plan" explain "$work/run.yaml" --json --set "recompute=$2" --set cluster.accelerator.memory='16 GB' \
        2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["mesh"]["step_seconds"])') || fail explain
    "$build/runner" train "$work/plan/again.plan.yaml" >"$work/log" 2>&1 </dev/null || fail "$(tail -n 5 "$work/log")"
    measured=$(python3 - "$work/run/metrics.jsonl" <<'END'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(statistics.median([r["step_seconds"] for r in rows if "loss" in r][2:]))
END
    ) || fail metrics
    base_predicted=${base_predicted:-$predicted} base_measured=${base_measured:-$measured}
    awk -v n="$1" -v p="$predicted" -v m="$measured" -v bp="$base_predicted" -v bm="$base_measured" 'BEGIN {
        printf "| %s | %.3f | %.3f | %+.1f %% | %.3f | %.3f | %+.1f %% |\n", n, p, m, 100 * (p / m - 1), p / bp, m / bm,
            100 * ((p / bp) / (m / bm) - 1) }'
}

echo "| made again | predicted s | measured s | difference | predicted ratio | measured ratio | difference |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
one nothing none
one 'norms and the product of SwiGLU' '{values: [n1, n2, h]}'
one 'the same and gate, up' '{values: [n1, n2, h, gate, up]}'
one 'the same in half of the layers' '{values: [n1, n2, h, gate, up], layers: 4}'
one 'everything in half of the layers' '{layers: 4}'
one everything full

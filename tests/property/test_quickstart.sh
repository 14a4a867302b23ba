#!/usr/bin/env bash
# The quickstart's run on its eight ranks and on one: the losses agree step by step, and what was
# learnt says the held-out text better than a model of byte pairs.
#
#   tests/property/test_quickstart.sh [BUILD-FOLDER] [STEPS]     STEPS instead of the run's 250
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
steps=${2:-}
settings=()
if [ -n "$steps" ]; then
    settings=(--set "optimizer.total_steps=$steps" --set "optimizer.warmup_steps=$((steps / 8))")
fi
tolerance=1e-5
run=configs/runs/quickstart.yaml
out=$build/quickstart-test

fail() {
    echo "FAIL: $*"
    find "$out" -name '*.log' -exec tail -n 20 {} +
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

# train NAME EMIT-ARGUMENTS...
train() {
    local name=$1
    shift
    mkdir -p "$out/$name"
    "$build/plan" emit "$run" -o "$out/$name" --set directory="$out/$name" \
        ${settings[@]+"${settings[@]}"} "$@" >"$out/$name/emit.log" 2>&1 ||
        fail "plan emit ($name)"
    SHARDWRIGHT_RUNNER=$build/runner timeout 600 bash "$out/$name/quickstart.sh" \
        >"$out/$name/train.log" 2>&1 </dev/null || fail "training ($name)"
    # 'step loss' a line
    sed -nE 's/.*"step": *([0-9]+),.*"loss": *([-+.0-9eE]+),.*/\1 \2/p' "$out/$name/metrics.jsonl" \
        >"$out/$name/losses"
}

rm -rf "$out"
bash examples/make_text.sh || fail "no text to learn"
train eight
train one --mesh_dim 1,1,1,1 --set cluster.accelerators_per_node=1

expected=${steps:-$(sed -nE 's/.*total_steps: *([0-9]+).*/\1/p' "$run")}
# Before the two are compared: they are two meshes, and every step is there.
grep -q "mesh_dim: '1,2,2,2'" "$out/eight/quickstart.plan.yaml" || fail "not on the mesh 1,2,2,2"
grep -q "mesh_dim: '1,1,1,1'" "$out/one/quickstart.plan.yaml" || fail "not on one rank"
for name in eight one; do
    [ "$(wc -l <"$out/$name/losses")" -eq "$expected" ] ||
        fail "$name: $(wc -l <"$out/$name/losses") losses, not $expected"
done
paste -d ' ' "$out/eight/losses" "$out/one/losses" | awk -v tolerance="$tolerance" '
    {
        difference = ($2 - $4) / $4
        if (difference < 0) difference = -difference
        if (difference > worst) { worst = difference; at = $1 }
        if ($1 != $3 || !(difference <= tolerance)) {
            printf "step %s: loss %s on eight ranks, %s on one\n", $1, $2, $4
            bad = 1
        }
    }
    END {
        printf "%d steps, largest relative difference %.2g at step %d\n", NR, worst, at
        exit bad || NR == 0
    }' || fail "the losses of eight ranks are not those of one"
for name in eight one; do
    line=$(grep -a '^held-out:' "$out/$name/train.log") || fail "$name: no held-out line"
    echo "$name: $line"
    sed -nE 's/^held-out: ([0-9.]+) bits.*byte-bigram ([0-9.]+)\).*/\1 \2/p' <<<"$line" |
        awk '{found = $1 > 0 && $1 < $2} END {exit !found}' || fail "$name: worse than byte pairs"
done

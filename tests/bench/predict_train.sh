#!/usr/bin/env bash
# How well `plan` predicts a training step where every rank has a core: `runner calibrate` of two
# ranks, then each mesh of two ranks of two models, predicted and run.
#
#   tests/bench/predict_train.sh [--steps 12] [--quick] [--build build] [-o FILE]
#
# A step's time is the median of the steps after the first two. Steps are predicted from the profile
# as it is and without its products, so that both rest on one measurement. Writes a table to FILE (default
# tests/bench/results/predict_train.md) and prints it. Needs two cores and nothing else that runs:
# where a thread had a core for less than 90 % of its time, the figures are of that, and the table says so.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

steps=12 build=build output=tests/bench/results/predict_train.md quick=()
while [ $# -gt 0 ]; do
    case $1 in
        --steps) steps=${2:-} && shift ;;
        --build) build=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        --quick) quick=(--quick) ;;
        *)
            sed -n '5s/^# *//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
export OMP_NUM_THREADS=1 OMPI_MCA_hwloc_base_binding_policy=core OMPI_MCA_mpi_yield_when_idle=0
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
fail() {
    echo "predict_train: $*" >&2
    exit 3
}
load=$(cut -d' ' -f1 /proc/loadavg)
work=$(mktemp -d "$build/predict-train.XXXXXX") || exit 3
trap 'rm -rf "$work"' EXIT

bash examples/make_text.sh || fail "no text to train on"
mpirun -q -np 2 "$build/runner" calibrate --force -o "$work/cluster.profile.yaml" --cluster "$work/cluster.yaml" \
    ${quick[@]+"${quick[@]}"} >"$work/log" 2>&1 || fail "calibrate: $(tail -n 3 "$work/log")"
cat "$work/log" >&2
# a grid's lines are deeper than its key
awk '/^products(_scale)?:/ {skip = 1; next} /^[^ ]/ {skip = 0} !skip' \
    "$work/cluster.profile.yaml" >"$work/curves.profile.yaml"
sed 's/^profile: .*/profile: curves.profile.yaml/' "$work/cluster.yaml" >"$work/curves.yaml"
sed 's/^hidden_size: .*/hidden_size: 512/; s/^intermediate_size: .*/intermediate_size: 1408/' \
    configs/models/quickstart.yaml >"$work/wide.yaml"
cp configs/models/quickstart.yaml "$work/quickstart.yaml"

: >"$work/rows"
for model in quickstart wide; do
    for mesh in 2,1,1,1 1,2,1,1 1,1,2,1 1,1,1,2; do
        folder=$work/$model-${mesh//,/-}
        mkdir "$folder"
        for cluster in curves cluster; do
            cat >"$work/$cluster-run.yaml" <<END
name: predict
model: $model.yaml
cluster: $cluster.yaml
sequence_length: 256
global_batch_size: 8
precision: {compute: fp32, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-3, total_steps: 1000, warmup_steps: 10}
data: {path: $PWD/examples/data/text.txt, format: bytes, seed: 1}
END
            "$build/plan" emit "$work/$cluster-run.yaml" -o "$folder/$cluster" --mesh_dim "$mesh" \
                --set directory="$folder" >"$work/log" 2>&1 || fail "plan: $(tail -n 3 "$work/log")"
        done
        mpirun -q -np 2 "$build/runner" train "$folder/cluster/predict.plan.yaml" --steps "$steps" \
            >"$work/log" 2>&1 </dev/null || fail "train: $(tail -n 3 "$work/log")"
        measured=$(sed -nE 's/.*"step": *[0-9]+,.*"step_seconds": *([0-9.e+-]+).*/\1/p' \
            "$folder/metrics.jsonl" | tail -n +3 | sort -g | awk '{t[NR] = $1} END {if (NR) print t[int((NR + 1) / 2)]}')
        row="$model $mesh"
        for cluster in curves cluster; do
            row+=" $(sed -nE 's/^ *step_seconds: *([0-9.e+-]+).*/\1/p' "$folder/$cluster/predict.plan.yaml" | head -n 1)"
        done
        [ -n "$measured" ] || fail "$row: no steps"
        echo "$row $measured" | tee -a "$work/rows" >&2
    done
done

# shellcheck disable=SC2016 # awk's
summary='{e = $COLUMN / $5 - 1; print (e < 0 ? -e : e) * 100}'
of_column() {
    awk "${summary/COLUMN/$1}" "$work/rows" | sort -g |
        awk '{e[NR] = $1} END {printf "%.1f %% (median), %.1f %% (worst)", (e[NR / 2] + e[NR / 2 + 1]) / 2, e[NR]}'
}
{
    echo "# Predicted and measured training steps, two ranks with a core each"
    echo
    echo "Command: \`tests/bench/predict_train.sh --steps $steps${quick[*]+ ${quick[*]}}\`, $(date -u +%Y-%m-%d)," \
        "$("$build/runner" --version | head -n 1) ($(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'))," \
        "load $load at the start and $(cut -d' ' -f1 /proc/loadavg) at the end, about 2 of it our own;" \
        "$(sed -n 's/.*\(a rank.s thread had a core for [0-9]* %\).*/\1/p' "$work/cluster.profile.yaml" | tail -n 1) of its time" \
        "while it was calibrated."
    echo
    echo "| model | mesh dp,fsdp,tp,sp | predicted ms | without products ms | measured ms | error | without products |"
    echo "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    awk '{printf "| %s | %s | %.1f | %.1f | %.1f | %+.1f %% | %+.1f %% |\n", $1, $2, $4 * 1e3, $3 * 1e3, $5 * 1e3, ($4 / $5 - 1) * 100, ($3 / $5 - 1) * 100}' "$work/rows"
    echo
    echo "Error $(of_column 4); without products $(of_column 3); wanted 6 % and 15 %."
} >"$work/table"
mkdir -p "$(dirname "$output")"
cp "$work/table" "$output" || fail "cannot write $output"
cat "$output"

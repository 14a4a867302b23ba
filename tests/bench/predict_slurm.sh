#!/usr/bin/env bash
# How well `plan` predicts a step on a real, slow network: four Slurm nodes of two ranks on this
# machine, links throttled, `runner calibrate`, then all 20 meshes of eight ranks predicted and run.
#
#   tests/bench/predict_slurm.sh [--rate 400mbit] [--steps 7] [--quick] [--mesh dp,fsdp,tp,sp]...
#       [--build build] [-o FILE]
#
# Writes a table to FILE (default tests/bench/results/predict_slurm_RATE.md) and prints it. --quick
# calibrates in 10 s instead of 60; --mesh takes these meshes only. A step's time is the median of the steps after the first two.
# Needs root and Slurm (tests/install.sh test). Exit code 77 and "SKIP: ..." when it cannot run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

rate=400mbit steps=7 build=build output='' quick=() meshes=()
while [ $# -gt 0 ]; do
    case $1 in
        --rate) rate=${2:-} && shift ;;
        --steps) steps=${2:-} && shift ;;
        --build) build=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        --mesh) meshes+=("${2:-}") && shift ;;
        --quick) quick=(--quick) ;;
        *)
            echo "usage: predict_slurm.sh [--rate R] [--steps N] [--quick] [--mesh M]... [--build DIR] [-o FILE]" >&2
            exit 2
            ;;
    esac
    shift
done
[ -n "$output" ] || output=tests/bench/results/predict_slurm_$rate.md
build=$(cd "$build" && pwd) || exit 2
load=$(cut -d' ' -f1 /proc/loadavg)
# Clock ticks of all cores, and those that a virtual machine's host gave to others.
ticks() { awk '/^cpu / {for (i = 2; i <= 9; i++) all += $i; print all, $9}' /proc/stat; }
read -r ticks_before stolen_before < <(ticks)

fail() {
    echo "predict_slurm: $*" >&2
    exit 3
}

work=$(mktemp -d "$build/predict-slurm.XXXXXX") || exit 3
line=$(bash tests/cluster/slurm_cluster.sh up bench)
status=$?
if [ $status -ne 0 ]; then
    rm -rf "$work"
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/slurm_cluster.sh down bench; rm -rf "$work"' EXIT
trap 'exit 3' INT TERM
bash tests/cluster/throttle.sh bench "$rate" || exit $?
# SBATCH_*, SLURM_* of a surrounding job would change what is run.
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_')
export SLURM_CONF=${line#SLURM_CONF=} OMP_NUM_THREADS=1
on_nodes=(srun --mpi=pmix --nodes=4 --ntasks=8 --ntasks-per-node=2 --distribution=block:block
    --kill-on-bad-exit=1 --wait=60 --time=10 --quiet)

# Open MPI 4.1's TCP sometimes crashes in MPI_Init when ranks start far apart: try again.
run_ranks() { # LOG COMMAND...
    local log=$1 try
    shift
    for try in 1 2 3; do
        timeout 300 "${on_nodes[@]}" "$@" >"$log" 2>&1 </dev/null && return 0
        grep -q 'Segmentation fault' "$log" || return 1
        echo "try $try crashed while starting" >&2
    done
    return 1
}

bash examples/make_text.sh || fail "no text to train on"
echo "calibrate: 8 ranks on 4 nodes, $rate" >&2
if ! run_ranks "$work/calibrate.log" "$build/runner" calibrate -o "$work/cluster.profile.yaml" \
    --cluster "$work/cluster.yaml" ${quick[@]+"${quick[@]}"}; then
    tail -n 20 "$work/calibrate.log" >&2
    fail "calibrate failed"
fi

cat >"$work/run.yaml" <<END
name: predict
model: $PWD/configs/models/quickstart.yaml
cluster: cluster.yaml
sequence_length: 256
global_batch_size: 8
precision: {compute: fp32, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-3, total_steps: 1000, warmup_steps: 10}
data: {path: $PWD/examples/data/text.txt, format: bytes, seed: 1}
END

# Every mesh dp,fsdp,tp,sp of eight ranks.
[ ${#meshes[@]} -gt 0 ] || for dp in 1 2 4 8; do
    for fsdp in 1 2 4 8; do
        for tp in 1 2 4 8; do
            for sp in 1 2 4 8; do
                [ $((dp * fsdp * tp * sp)) -eq 8 ] && meshes+=("$dp,$fsdp,$tp,$sp")
            done
        done
    done
done

: >"$work/rows"
for mesh in "${meshes[@]}"; do
    folder=$work/m-${mesh//,/-}
    mkdir "$folder"
    if ! "$build/plan" emit "$work/run.yaml" -o "$folder" --mesh_dim "$mesh" \
        --set directory="$folder" >"$folder/emit.log" 2>&1; then
        echo "$mesh: not planned: $(tail -n 1 "$folder/emit.log")" >&2
        continue
    fi
    if ! run_ranks "$folder/train.log" "$build/runner" train "$folder/predict.plan.yaml" \
        --steps "$steps"; then
        tail -n 5 "$folder/train.log" >&2
        fail "mesh $mesh did not train"
    fi
    predicted=$(sed -nE 's/^ *step_seconds: *([0-9.e+-]+).*/\1/p' "$folder/predict.plan.yaml" | head -n 1)
    measured=$(sed -nE 's/.*"step": *[0-9]+,.*"step_seconds": *([0-9.e+-]+).*/\1/p' \
        "$folder/metrics.jsonl" | tail -n +3 | sort -g |
        awk '{t[NR] = $1} END {if (NR) print NR % 2 ? t[(NR + 1) / 2] : (t[NR / 2] + t[NR / 2 + 1]) / 2}')
    if [ -z "$predicted" ] || [ -z "$measured" ]; then fail "mesh $mesh: no figures"; fi
    echo "$mesh $predicted $measured" >>"$work/rows"
    echo "$mesh: predicted $predicted s, measured $measured s" >&2
done

mkdir -p "$(dirname "$output")"
read -r ticks_after stolen_after < <(ticks)
stolen=$((100 * (stolen_after - stolen_before) / (ticks_after - ticks_before + 1)))
{
    echo "# Predicted and measured steps, 8 ranks on 4 nodes, links $rate"
    echo
    echo "Command: \`tests/bench/predict_slurm.sh --rate $rate --steps $steps${quick[*]+ ${quick[*]}}\`," \
        "$(date -u +%Y-%m-%d), $("$build/runner" --version | head -n 1), $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) cores for all ranks" \
        "($(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //')), load $load at the start and $(cut -d' ' -f1 /proc/loadavg) at the end" \
        "(about 4 of it our own), $stolen % of the cores' time taken by the host."
    echo
    echo "| mesh dp,fsdp,tp,sp | predicted s | measured s | error |"
    echo "| --- | --- | --- | --- |"
    awk '{printf "| %s | %.3f | %.3f | %+.1f %% |\n", $1, $2, $3, ($2 / $3 - 1) * 100}' "$work/rows"
    echo
    awk '{e = $2 / $3 - 1; print (e < 0 ? -e : e) * 100}' "$work/rows" | sort -g | awk '
        {e[NR] = $1}
        END {
            m = NR % 2 ? e[(NR + 1) / 2] : (e[NR / 2] + e[NR / 2 + 1]) / 2
            printf "%d meshes: error %.1f %% (median), %.1f %% (worst); wanted 5 %% and 12 %%.\n", NR, m, e[NR]
        }'
    awk '
        NR == 1 || $2 < p {p = $2; chosen = $1; got = $3}
        NR == 1 || $3 < b {b = $3; best = $1}
        END {
            printf "Predicted best %s takes %.3f s, measured best %s %.3f s: %.1f %% slower; wanted 3 %%.\n",
                chosen, got, best, b, (got / b - 1) * 100
        }' "$work/rows"
    echo
    echo "What \`runner calibrate\` measured:"
    echo
    echo '```yaml'
    cat "$work/cluster.profile.yaml" "$work/cluster.yaml"
    echo '```'
} >"$output"
sed -n '/^| mesh/,/slower; wanted/p' "$output"

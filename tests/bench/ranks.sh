#!/usr/bin/env bash
# What ranks cost on the cores of one machine: a training step of eight ranks with a thread each beside that of one rank with two
# threads, the quickstart's model and batch, in turns in one run.
#
#   tests/bench/ranks.sh [BUILD [STEPS [ROUNDS [MESH...]]]]      build, 40, 3, '1,2,2,2' '1,1,1,8' '8,1,1,1'
#
# Prints for each mesh the median of a step's time and what of that one rank takes: 0.95 is wanted on two cores that do nothing
# else; and processors' share that others had before the runs, for elsewhere these figures are none. Then the same by processor
# time, which others disturb less: that of a run less that of a short one, by the steps between.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
steps=${2:-40} rounds=${3:-3} start=10
meshes=("${@:4}")
[ ${#meshes[@]} -gt 0 ] || meshes=('1,2,2,2' '1,1,1,8' '8,1,1,1')
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
fail() {
    echo "ranks: $*" >&2
    exit 3
}
bash examples/make_text.sh >"$work/log" 2>&1 || fail "no text to learn"

# emit NAME MESH RANKS STEPS
emit() {
    "$build/plan" emit configs/runs/quickstart.yaml -o "$work/$1" --set mesh_dim="$2" --set directory="$work/$1" \
        --set cluster.accelerators_per_node="$3" --set optimizer.total_steps="$4" --set optimizer.warmup_steps=5 \
        --set data.path="$PWD/examples/data/text.txt" >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log" | head -n 1)"
}

# run NAME RANKS THREADS: prints the seconds of processors that it took
run() {
    local TIMEFORMAT='%U %S'
    {
        time OMP_NUM_THREADS=$3 OMP_WAIT_POLICY=passive mpirun -np "$2" "$build/runner" train "$work/$1/quickstart.plan.yaml" \
            --resume none --overwrite --quiet >"$work/log" 2>&1 </dev/null
    } 2>"$work/time" || fail "training: $(tail -n 1 "$work/log")"
    awk '{print $1 + $2}' "$work/time"
}

# train NAME RANKS THREADS: seconds of its steps but the first five, a line each, to NAME.steps; a step's of processors to NAME.busy
train() {
    local short long
    short=$(run "$1.start" "$2" "$3") && long=$(run "$1" "$2" "$3") || exit 3
    awk -v l="$long" -v s="$short" -v n=$((steps - start)) 'BEGIN {print (l - s) / n}' >>"$work/$1.busy"
    sed -n 's/.*"step_seconds":\([0-9.e-]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n +6 >>"$work/$1.steps"
}

median() {
    sort -g "$work/$1" | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'
}

others() {
    # shellcheck disable=SC2016 # awk's own
    local jiffies='/^cpu / {print $2 + $3 + $4 + $7 + $8 + $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9}' before
    before=$(awk "$jiffies" /proc/stat)
    sleep 1
    awk "$jiffies" /proc/stat | awk -v b="$before" '{split(b, p, " "); printf "%.0f %%", 100 * ($1 - p[1]) / ($2 - p[2])}'
}

busy=$(others)
for mesh in one "${meshes[@]}"; do
    for end in .start ''; do
        ranks=8 last=$steps
        [ "$mesh" = one ] && ranks=1
        [ "$end" = .start ] && last=$start
        emit "$mesh$end" "${mesh/one/1,1,1,1}" "$ranks" "$last"
    done
done
for ((round = 0; round < rounds; round++)); do
    train one 1 2
    for mesh in "${meshes[@]}"; do train "$mesh" 8 1; done
done
echo "others had $busy of the processors"
for clock in steps busy; do
    alone=$(median one.$clock)
    [ $clock = steps ] || echo "by processor time:"
    echo "one rank, two threads: $alone s a step"
    for mesh in "${meshes[@]}"; do
        awk -v mesh="$mesh" -v a="$alone" -v s="$(median "$mesh.$clock")" \
            'BEGIN {printf "%s: %s s a step, %.3f of its rate\n", mesh, s, a / s}'
    done
done

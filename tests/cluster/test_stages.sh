#!/usr/bin/env bash
# A run of three stages on a real Slurm cluster of four nodes, submitted once: two stages on four nodes, of
# other meshes, lengths, batches and positions, share a job; the third, on two nodes, is a job of its own. In
# each a rank is killed, and the run ends with the losses of its parts run by hand, bit for bit. Then one
# is cancelled between stages' steps and submitted again.
#
#   tests/cluster/test_stages.sh [BUILD-FOLDER]            exit code 77: this machine cannot
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/slurm-stages
cluster=tests/cluster/slurm_cluster.sh
run=$out/run

fail() {
    echo "FAIL: $*"
    squeue -a 2>/dev/null
    "$build/plan" status "$run"
    find "$run" -maxdepth 2 -type f \( -name 'slurm-*.out' -o -name attempt.json -o -name '*.log' \) -exec tail -n 30 {} +
    exit 1
}
trap 'bash tests/cluster/slurm_cluster.sh down test' EXIT
trap 'exit 3' INT TERM
line=$(bash $cluster up test)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
export SLURM_CONF=${line#SLURM_CONF=}
bash $cluster mend test || fail "a node does not come up"
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)
bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out" && mkdir -p "$out"

# ---- The run, and its parts by hand
pace=0.3
names=(short long huge)
settings=(
    'sequence_length=64 global_batch_size=8 mesh_dim=1,2,2,2 optimizer.total_steps=16 rope_theta=10000.0'
    'sequence_length=128 global_batch_size=4 mesh_dim=1,4,1,2 optimizer.total_steps=14 rope_theta=50000.0 data.seed=5'
    'sequence_length=256 global_batch_size=2 mesh_dim=1,2,1,2 optimizer.total_steps=12 rope_theta=500000.0 nodes=2'
)
common=(--set optimizer.warmup_steps=3 --set checkpoint.every_steps=3 --set model.hidden_size=64
    --set model.intermediate_size=128 --set model.num_hidden_layers=2 --set data.holdout=0)
stages() { # SETTING...: as the list in a run
    local i one text=''
    for i in 0 1 2; do
        text+="{name: ${names[$i]}"
        for one in ${settings[$i]}; do
            case $one in
                optimizer.* | data.*) text+=", ${one%%.*}: {${one#*.}}" && text=${text/total_steps=/total_steps: } && text=${text/seed=/seed: } ;;
                mesh_dim=*) text+=", mesh_dim: '${one#*=}'" ;;
                *) text+=", ${one%%=*}: ${one#*=}" ;;
            esac
        done
        text+="}$([ "$i" -eq 2 ] || echo ', ')"
    done
    echo "stages=[$text]"
}
submit() {
    "$build/plan" submit configs/runs/quickstart-slurm.yaml "${common[@]}" --set "directory=$run" --set slurm.continue=requeue \
        --set "$(stages)" --set "slurm.environment={LD_PRELOAD: \"$build/tests/libpace_shim.so\", PACE_SECONDS: \"$pace\"}" \
        >"$out/submit.log" 2>&1 || fail "plan submit: $(cat "$out/submit.log")"
}
by_hand() {
    local i one sets
    for i in 0 1 2; do
        sets=()
        for one in ${settings[$i]}; do
            [ "${one%%=*}" != rope_theta ] || one=model.$one
            sets+=(--set "$one")
        done
        [ "$i" -eq 0 ] || sets+=(--set "stage.from=$out/part$((i - 1))")
        "$build/plan" emit configs/runs/quickstart-slurm.yaml "${common[@]}" "${sets[@]}" --set "name=part$i" \
            --set "directory=$out/part$i" -o "$out/part$i" >"$out/emit.log" 2>&1 || fail "plan emit: $(cat "$out/emit.log")"
        # on the same nodes: messages in one machine's memory are summed in another order
        sbatch --wait "$out/part$i/part$i.sbatch" >/dev/null || fail "part $i by hand: $(cat "$out/part$i"/slurm-*.out)"
    done
}
losses() {
    sed -nE 's/.*"step": *([0-9]+),.*"loss": *([-+.0-9eE]+),.*"grad_norm": *([-+.0-9eE]+),.*/\1 \2 \3/p' "$1/metrics.jsonl" |
        awk '{ at[$1] = $0 } END { for (s in at) print at[s] }' | sort -n
}
compare() {
    local i
    for i in 0 1 2; do
        cmp <(losses "$out/part$i") <(losses "$run/${names[$i]}") || fail "the losses of stage ${names[$i]}"
        [ "$(losses "$out/part$i" | wc -l)" -ge 12 ] || fail "too few steps"
    done
}

# ---- What happens
# Slurm waits two minutes before it starts a requeued job. At once is too early: the steps before are still
# being cleared away.
hurry() {
    local job
    for job in $(squeue -h -t PENDING -o '%i %r' | awk '$2 == "BeginTime" { print $1 }'); do
        sleep 2
        scontrol update JobId="$job" StartTime=now 2>/dev/null
    done
}
until_step() { # STAGE STEP
    local i
    for ((i = 0; i < 900; i++)); do
        grep -q "\"step\":$2," "$run/$1/metrics.jsonl" 2>/dev/null && return
        hurry
        sleep 0.2
    done
    fail "stage $1 does not come to step $2"
}
until_done() {
    local i
    for ((i = 0; i < 900; i++)); do
        [ -z "$(squeue -h)" ] && return
        hurry
        sleep 0.3
    done
    fail "the jobs do not end"
}
# Of the two processes of a rank the one that trains.
kill_a_rank() { # STAGE
    local pid parent ranks=()
    for pid in $(pgrep -f "runner train $run/quickstart-slurm\.$1\.plan"); do
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        [ "$(cat "/proc/${parent:-0}/comm" 2>/dev/null)" != runner ] || ranks+=("$pid")
    done
    [ "${#ranks[@]}" -gt 0 ] || fail "no rank of stage $1"
    kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" || fail "no rank of stage $1 any more"
}

RANDOM=$$
by_hand
submit
for name in "${names[@]}"; do
    until_step "$name" $((4 + RANDOM % 4))
    "$build/plan" status "$run" >"$out/status.log" 2>&1
    grep -q "stage $name (" "$out/status.log" || fail "status in stage $name: $(cat "$out/status.log")"
    kill_a_rank "$name"
done
until_done
compare
"$build/plan" status "$run" >"$out/status.log" 2>&1
grep -q '^quickstart-slurm: done' "$out/status.log" || fail "status at the end: $(cat "$out/status.log")"
grep -q '42 of 42 steps of all' "$out/status.log" || fail "status at the end: $(cat "$out/status.log")"
[ "$(wc -l <"$run/submission.jobs")" -eq 1 ] || fail "not one job more: $(cat "$run/submission.jobs")"
"$build/plan" logs "$run" -n 1000 | grep -q 'stage huge' || fail "the log of the second job is not shown"

# Cancelled in the second stage, the run goes on there.
rm -rf "$run"
submit
until_step long 4
"$build/plan" cancel "$run" >"$out/cancel.log" 2>&1 || fail "cancel: $(cat "$out/cancel.log")"
until_done
grep -q '"verdict": 130' "$run/long/attempt.json" || fail "not told to stop: $(cat "$run/long/attempt.json")"
[ ! -e "$run/huge/attempt.json" ] || fail "a stage began behind a cancel"
submit
until_done
compare
echo "three stages, two jobs, killed in each stage, cancelled once: losses as by hand"

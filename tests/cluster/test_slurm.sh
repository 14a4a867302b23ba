#!/usr/bin/env bash
# The emitted Slurm script runs on a real Slurm cluster of four nodes: eight ranks train the
# quickstart's model over four hosts, and the loss falls.
#
#   tests/cluster/test_slurm.sh [BUILD-FOLDER]       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
steps=12
name=quickstart-slurm
out=$build/slurm-test
job=

fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && scontrol show job "$job" 2>/dev/null | head -n 30
    find "$out" -type f \( -name '*.out' -o -name '*.log' -o -name '*.err' -o -name 'slurm-*' \) \
        -exec tail -n 40 {} +
    exit 1
}

line=$(bash tests/cluster/slurm_cluster.sh up test)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/slurm_cluster.sh down test' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}

bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out"
mkdir -p "$out/run"
"$build/plan" emit configs/runs/$name.yaml -o "$out" --set directory="$out/run" \
    --set optimizer.total_steps=$steps --set optimizer.warmup_steps=2 || fail "plan emit failed"
bash -n "$out/$name.sbatch" || fail "the script is not valid shell"

# SBATCH_*, SLURM_* of a surrounding job would change what is submitted.
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)

job=$(sbatch --parsable "$out/$name.sbatch") || fail "sbatch refused the script"
tasks_seen=0
state=
for ((i = 0; i < 400; i++)); do
    description=$(scontrol show job "$job")
    state=$(sed -nE 's/.*JobState=([A-Z_]+).*/\1/p' <<<"$description")
    # The step as Slurm runs it: the most tasks it has at once.
    tasks=$(scontrol show step "$job" 2>/dev/null | sed -nE 's/.*Tasks=([0-9]+).*/\1/p' | sort -n |
        tail -n 1)
    [ "${tasks:-0}" -gt "$tasks_seen" ] && tasks_seen=$tasks
    case $state in PENDING | CONFIGURING | RUNNING | COMPLETING) ;; *) break ;; esac
    sleep 1
done
[ "$state" = COMPLETED ] || fail "job $job is $state, not COMPLETED"
grep -q 'NodeList=n\[1-4\]' <<<"$description" || fail "the job did not get the four nodes"
grep -qE 'NumNodes=4 .*NumTasks=8' <<<"$description" || fail "the job had not 4 nodes and 8 tasks"
[ "$tasks_seen" -eq 8 ] || fail "the largest step that Slurm ran had $tasks_seen tasks, not 8"

metrics=$out/run/metrics.jsonl
[ -s "$metrics" ] || fail "no metrics.jsonl"
awk -v want=$steps '
    match($0, /"step": *[0-9]+/) && match($0, /"loss": *[-+.0-9eE]+/) {
        loss = substr($0, RSTART, RLENGTH); sub(/.*: */, "", loss); loss += 0
        if (!seen++) first = loss
        last = loss
    }
    END {
        printf "%d steps, loss %.3f -> %.3f\n", seen, first, last
        exit !(seen == want && first > 5 && first < 7 && last < first - 0.5)
    }' "$metrics" || fail "the loss did not fall as it should in $steps steps"
echo "job $job: eight ranks over four nodes"

# How runs end under Slurm: what reaches the ranks, the script's exit code, and attempt.json.
run=$out/ends
"$build/plan" emit configs/runs/$name.yaml -o "$run" --set directory="$run" \
    --set optimizer.total_steps=100000 --set global_batch_size=2 --set sequence_length=64 \
    >/dev/null || fail "plan emit failed"

# Open MPI 4.1.4 under Slurm 22.05 now and then crashes in MPI_Init on a busy machine.
start() {
    local i
    rm -f "$run"/metrics.jsonl "$run"/slurm-*.out
    job=$(sbatch --parsable --no-requeue "$run/$name.sbatch") || fail "sbatch refused the script"
    for ((i = 0; i < 600; i++)); do
        [ -f "$run/metrics.jsonl" ] && [ "$(wc -l <"$run/metrics.jsonl")" -ge 3 ] && return
        squeue -h -j "$job" -o '%T' 2>/dev/null | grep -qE 'PENDING|CONFIGURING|RUNNING' || return 1
        sleep 0.1
    done
    return 1
}
ends() { # WHAT STATE EXIT-CODE VERDICT SECONDS COMMAND...
    local what=$1 state_wanted=$2 code=$3 verdict=$4 seconds=$5 i
    shift 5
    start || start || start || fail "$what: no step was done"
    "$@" || fail "$what: $1 failed"
    for ((i = 0; i < seconds * 5; i++)); do
        description=$(scontrol show job "$job")
        state=$(sed -nE 's/.*JobState=([A-Z_]+).*/\1/p' <<<"$description")
        case $state in RUNNING | COMPLETING) sleep 0.2 ;; *) break ;; esac
    done
    [ "$state" = "$state_wanted" ] || fail "$what: $state after $seconds s, not $state_wanted"
    grep -q " ExitCode=$code:0" <<<"$description" || fail "$what: not exit code $code"
    grep -qx "  \"verdict\": $verdict," "$run/attempt.json" ||
        fail "$what: $(cat "$run/attempt.json")"
    grep -qx "  \"job\": \"$job\",*" "$run/attempt.json" || fail "$what: the job is not named"
    echo "job $job: $what: $state, verdict $verdict"
}
# Of the two processes of a rank the one that trains.
kill_rank() {
    local pid parent
    for pid in $(pgrep -f "runner train $run"); do
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        [ "$(cat "/proc/${parent:-0}/comm" 2>/dev/null)" = runner ] || continue
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'SLURM_PROCID=5' && kill -KILL "$pid" && return
    done
    return 1
}
# While a save is being written: it is slow, and they follow one another.
cancel_in_a_save() {
    local i
    for ((i = 0; i < 300; i++)); do
        [ -n "$(find "$run/checkpoints" -maxdepth 1 -name '.step-*partial*' 2>/dev/null)" ] && scancel "$job" && return
        sleep 0.1
    done
    return 1
}
send_usr1() { scancel --signal=USR1 "$job"; }
cancel() { scancel "$job"; }
ends "USR1 to the ranks" FAILED 75 75 30 send_usr1
ends "scancel" CANCELLED 143 143 30 cancel
"$build/plan" emit configs/runs/$name.yaml -o "$run" --set directory="$run" \
    --set optimizer.total_steps=100000 --set global_batch_size=2 --set sequence_length=64 \
    --set checkpoint.every_steps=5 --set checkpoint.bandwidth='20 MB/s' >/dev/null || fail "plan emit failed"
ends "scancel in a save" CANCELLED 143 143 30 cancel_in_a_save
"$build/runner" checkpoint verify "$run/checkpoints/latest" >/dev/null || fail "no whole checkpoint after scancel in a save"
saved=$(readlink "$run/checkpoints/latest")
[ "$(sed -nE 's/^ *"step": ([0-9]+),?$/\1/p' "$run/attempt.json")" -eq "$((10#${saved#step-}))" ] ||
    fail "attempt.json says another step than $saved: $(cat "$run/attempt.json")"
[ -z "$(find "$run/checkpoints" -maxdepth 1 -name '.*')" ] || fail "a part of a save is left"
ends "a rank is killed" FAILED 3 3 20 kill_rank
[ "$(grep -ac 'error: ended by signal' "$run"/slurm-*.out)" -eq 1 ] || fail "not one line says it"
grep -aq '^rank 5 (host n3): error: ended by signal 9 (Killed) after step' "$run"/slurm-*.out ||
    fail "no line names rank 5 and its host"
grep -qx '  "nodes": \["n3"\],' "$run/attempt.json" || fail "the node is not named"

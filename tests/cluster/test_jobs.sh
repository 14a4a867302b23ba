#!/usr/bin/env bash
# The life of a job through plan's own commands, on a real Slurm cluster of four nodes: submit, status,
# logs, cancel; a second submit; submits that are killed at any moment; jobs that wait; a controller
# that hangs.
#
#   tests/cluster/test_jobs.sh [BUILD-FOLDER [CLUSTER]]      exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
cluster=${2:-test}
plan=$build/plan
out=$build/jobs-test
name=quickstart-slurm
file=configs/runs/$name.yaml
small=(--set optimizer.total_steps=100000 --set global_batch_size=2 --set sequence_length=64)

fail() {
    echo "FAIL: $*"
    squeue -t all 2>/dev/null | head -n 20
    find "$out" -maxdepth 2 -type f \( -name '*.out' -o -name 'said*' -o -name '*.json' \) -newer "$out/begun" \
        -exec tail -n 15 {} +
    exit 1
}

line=$(bash tests/cluster/slurm_cluster.sh up "$cluster")
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
end() {
    scancel --user="$(id -un)" --name="$name" 2>/dev/null
    [ "$cluster" = play ] || bash tests/cluster/slurm_cluster.sh down "$cluster"
}
trap end EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}
state=$(dirname "$SLURM_CONF")
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)

bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out"
mkdir -p "$out"
touch "$out/begun"
export XDG_STATE_HOME=$out/state

# Nothing that Slurm's commands read from a user's environment changes what plan does.
wrong=()
while read -r variable value; do
    wrong+=("${variable#+}=$value")
done < <(grep -E '^[+]?S' tests/support/slurm_variables.txt)
# plan ARGUMENTS...: stdout and stderr are kept in $out/said and $out/said.err
run() {
    env "${wrong[@]}" "$plan" "$@" >"$out/said" 2>"$out/said.err"
}
key() { # KEY: of the JSON in $out/said
    sed -nE "s/^\t*\"$1\":\t\"?([^\",]*)\"?,?\$/\1/p" "$out/said" | head -n 1
}
# Open MPI 4.1.4 under Slurm 22.05 now and then fails in MPI_Init on a busy machine: then once more.
trains() { # FOLDER
    local i
    for ((i = 0; i < 120; i++)); do
        "$plan" status "$1" --json >"$out/said" 2>"$out/said.err"
        case $(key state) in
            running) return ;;
            pending | starting | ending) sleep 0.5 ;;
            *) return 1 ;;
        esac
    done
    return 1
}
submit_until_it_trains() { # FOLDER ARGUMENTS...: of submit
    local folder=$1 i
    shift
    for ((i = 0; i < 4; i++)); do
        run submit "$@" || fail "submit: $(cat "$out/said.err")"
        job=$(sed -nE 's/^  "jobs": \["([0-9]+)"\],$/\1/p' "$folder/submission.json")
        trains "$folder" && return
    done
    fail "$folder does not begin to train"
}
live_jobs() { squeue -h -o '%i' | wc -l; }

# ---- submit, status, logs, cancel ----
one=$out/one
run submit "$file" --set directory="$one" "${small[@]}" || fail "submit: $(cat "$out/said.err")"
job=$(cat "$out/said")
[[ $job =~ ^[0-9]+$ ]] || fail "submit printed '$job', no number"
grep -qx "  \"jobs\": \[\"$job\"\]," "$one/submission.json" || fail "the job is not on record"
[ "$(squeue -h -j "$job" -o '%o')" = "$one/$name.sbatch" ] || fail "another script was submitted"

run submit "$file" --set directory="$one" "${small[@]}" && fail "a second submit"
[ $? -eq 1 ] || fail "a second submit: not exit 1"
grep -q "^plan: error: job $job of this folder is " "$out/said.err" || fail "a second submit: $(cat "$out/said.err")"
run submit "$one/$name.plan.yaml" && fail "a second submit of the plan"
grep -q "^plan: error: job $job of this folder is " "$out/said.err" || fail "a second submit of the plan"
sum=$(cksum <"$one/$name.plan.yaml")
run emit "$file" -o "$one" --set directory="$one" && fail "emit over a live job's plan"
[ $? -eq 1 ] || fail "emit over a live job's plan: not exit 1"
grep -q "^plan: error: job $job was submitted with another plan of this name" "$out/said.err" ||
    fail "emit over a live job's plan: $(cat "$out/said.err")"
[ "$(cksum <"$one/$name.plan.yaml")" = "$sum" ] || fail "the plan was overwritten"
run emit "$file" -o "$one" --set directory="$one" "${small[@]}" || fail "emit of the same plan: $(cat "$out/said.err")"

trains "$one" || {
    rm -f "$one"/slurm-*.out
    submit_until_it_trains "$one" "$one/$name.plan.yaml"
}
attempt=$(key attempt)
for ((i = 0; i < 300; i++)); do
    [ -f "$one/metrics.jsonl" ] && [ "$(wc -l <"$one/metrics.jsonl")" -ge 5 ] && break
    sleep 0.2
done
run status "$job" || fail "status by number: $(cat "$out/said.err")"
grep -qx "$name: running, job $job, attempt $attempt" "$out/said" || fail "status: $(cat "$out/said")"
grep -qE '^  where    4 nodes n\[1-4\], for .* of 30\.0 min, mesh 1,2,2,2$' "$out/said" || fail "status: $(cat "$out/said")"
grep -qE '^  steps    step [0-9]+ of 100,000, loss [0-9.]+, .* left$' "$out/said" || fail "status: $(cat "$out/said")"
run status "$file" --set directory="$one" --json || fail "status by run file"
[ "$(key job) $(key attempt) $(key live)" = "$job $attempt true" ] || fail "status --json: $(cat "$out/said")"
run runs "$out" || fail "runs"
grep -qE "^$name +running( \(slow\))? +$job +[0-9]+/100000 " "$out/said" || fail "runs: $(cat "$out/said")"
run logs -n 3 "$job" || fail "logs"
# what the ranks say is there at once
grep -q '^step ' "$out/said" || fail "logs: $(cat "$out/said")"

"$plan" logs -f "$one" >"$out/followed" 2>"$out/followed.err" &
follower=$!
"$plan" status --watch "$one" >"$out/watched" 2>"$out/watched.err" &
watcher=$!
sleep 2
run cancel "$one" || fail "cancel: $(cat "$out/said.err")"
grep -qE "^step [0-9]+ is saved in $one/checkpoints/step-[0-9]+$" "$out/said" || fail "cancel: $(cat "$out/said")"
grep -qx '  "verdict": 130,' "$one/attempt.json" || fail "not 130: $(cat "$one/attempt.json")"
"$build/runner" checkpoint verify "$one/checkpoints/latest" >/dev/null || fail "no whole checkpoint"
pgrep -f "runner train $one" >/dev/null && fail "a process is left"
squeue -h -j "$job" 2>/dev/null | grep -q . && fail "the job is still there"
wait "$watcher"
[ $? -eq 130 ] || fail "status --watch did not end with the verdict: $(cat "$out/watched" "$out/watched.err")"
grep -q ' stopped, step ' "$out/watched" || fail "status --watch: $(cat "$out/watched")"
wait "$follower" || fail "logs -f failed: $(cat "$out/followed.err")"
cmp -s "$one/slurm-$job.out" <(tail -c "$(stat -c %s "$one/slurm-$job.out")" "$out/followed") ||
    diff <(tail -n 5 "$one/slurm-$job.out") <(tail -n 5 "$out/followed") || fail "logs -f missed something"
grep -q '^==> stopped, ' "$out/followed.err" || fail "logs -f does not say how it ended"
echo "job $job: submitted, watched, followed, cancelled with a checkpoint"

# It goes on from there; --now leaves no checkpoint of its own.
run submit "$one/$name.plan.yaml" --json || fail "submit again: $(cat "$out/said.err")"
[ "$(key attempt) $(key state)" = "$((attempt + 1)) submitted" ] || fail "submit --json: $(cat "$out/said")"
trains "$one" || submit_until_it_trains "$one" "$one/$name.plan.yaml"
run cancel --now "$one" || fail "cancel --now: $(cat "$out/said.err")"
pgrep -f "runner train $one" >/dev/null && fail "a process is left after --now"
grep -qxE '  "verdict": (null|3),' "$one/attempt.json" || fail "--now let it end in good order: $(cat "$one/attempt.json")"
run status "$one" --json
[ "$(key state)" = stopped ] || fail "after --now: $(cat "$out/said")"
run cancel "$one" || fail "cancel of what is over"
echo "the next attempt: ended at once"

# ---- jobs that wait ----
two=$out/two
blocker=$(sbatch --parsable --exclusive -N4 -J "$name" -o /dev/null --wrap 'sleep 300')
run submit "$file" --set directory="$two" "${small[@]}" || fail "submit behind another: $(cat "$out/said.err")"
job=$(cat "$out/said")
waits() { # WHAT TEXT NEVER
    local i
    for ((i = 0; i < 30; i++)); do
        "$plan" status "$two" --json >"$out/said" 2>"$out/said.err"
        grep -q "$2" "$out/said" && [ "$(key never_starts)" = "$3" ] && return
        sleep 0.5
    done
    fail "$1: $(cat "$out/said")"
}
waits "behind another" "enough nodes are free\|higher priority" false
[ "$(key state)" = pending ] || fail "not pending: $(cat "$out/said")"
"$plan" logs "$two" >"$out/said" 2>"$out/said.err" && fail "a log of a job that waits"
grep -q "^plan: error: job $job has printed nothing yet (pending: " "$out/said.err" || fail "logs: $(cat "$out/said.err")"
scontrol uhold "$job"
waits "held" "scontrol release" true
scontrol release "$job"
run cancel "$job" || fail "cancel of a job that waits: $(cat "$out/said.err")"
squeue -h -j "$job" 2>/dev/null | grep -q . && fail "the job that waited is still there"
grep -q 'stopped' "$out/said" || fail "cancel: $(cat "$out/said")"
# Slurm takes a time limit beyond the partition's, and lets the job wait for ever: plan does not submit it.
sed -i 's/^#SBATCH --time=.*/#SBATCH --time=5:00:00/' "$two/$name.sbatch"
run submit "$two/$name.plan.yaml" && fail "submit with a long limit"
grep -qx "plan: error: the job cannot start: its time limit, 5:00:00, is more than the 2.0 h of partition play: it would wait for ever" \
    "$out/said.err" || fail "submit with a long limit: $(cat "$out/said.err")"
sed -i 's/^#SBATCH --time=.*/#SBATCH --time=1:00:00/' "$two/$name.sbatch"
run submit "$two/$name.plan.yaml" || fail "submit again: $(cat "$out/said.err")"
scontrol update partition=play MaxTime=0:30:00 || fail "scontrol update"
waits "beyond the partition's limit" "never start: its time limit is longer than the partition allows" true
run cancel "$two" || fail "cancel of a job that never starts: $(cat "$out/said.err")"
scontrol update partition=play MaxTime=2:00:00 || fail "scontrol update"
echo "jobs that wait say why"

# ---- submits that are killed ----
# sbatch itself, with plan killed before it, after it, or long before it ends.
three=$out/three
mkdir -p "$out/bin"
cat >"$out/bin/sbatch" <<END
#!/bin/sh
case \$*/\$MOMENT in
    *--test-only*) ;;
    */before) kill -KILL \$PPID ;;
    */during) kill -KILL \$PPID; sleep 1.5 ;;
esac
$(command -v sbatch) "\$@"
code=\$?
case \$*/\$MOMENT in *--test-only*) ;; */after) kill -KILL \$PPID ;; esac
exit \$code
END
chmod +x "$out/bin/sbatch"
for moment in before during after; do
    rm -rf "$three"
    (PATH=$out/bin:$PATH MOMENT=$moment "$plan" submit "$file" --set directory="$three" "${small[@]}") \
        >"$out/said" 2>"$out/said.err"
    [ $? -eq 137 ] || fail "$moment: plan was not killed: $(cat "$out/said" "$out/said.err")"
    run submit "$file" --set directory="$three" "${small[@]}" && fail "$moment: a second job"
    grep -qE '^plan: error: job [0-9]+ of this folder is waiting' "$out/said.err" || fail "$moment: $(cat "$out/said.err")"
    [ "$(live_jobs)" -eq 2 ] || fail "$moment: $(live_jobs) jobs, not two"
    grep -qx '  "state": "submitted",' "$three/submission.json" || fail "$moment: the job is not on record now"
    run cancel "$three" || fail "$moment: cancel: $(cat "$out/said.err")"
done
tries=0 found=0
for delay in $(seq 0.000 0.006 0.16); do
    rm -rf "$three"
    "$plan" submit "$file" --set directory="$three" "${small[@]}" >/dev/null 2>&1 &
    pid=$!
    sleep "$delay"
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    run status "$three" 2>/dev/null
    if run submit "$file" --set directory="$three" "${small[@]}"; then
        :
    elif grep -qE '^plan: error: job [0-9]+ of this folder is waiting' "$out/said.err"; then
        found=$((found + 1))
    else
        fail "killed after $delay s: $(cat "$out/said.err")"
    fi
    tries=$((tries + 1))
    [ "$(live_jobs)" -eq 2 ] || fail "killed after $delay s: $(live_jobs) jobs, not two"
    id=$(squeue -h -t PENDING -o '%i')
    grep -q "\"jobs\": \[\"$id\"\]" "$three/submission.json" || fail "killed after $delay s: job $id is not on record"
    scancel "$id"
done
scancel "$blocker"
echo "$tries submits killed, $found of their jobs found again, never two jobs"

# ---- a controller that hangs ----
kill -STOP "$(cat "$state/slurmctld.pid")"
for command in "status $one" "runs $out" "cancel $one" "submit $one/$name.plan.yaml" "status 999999"; do
    begun=$EPOCHREALTIME
    # shellcheck disable=SC2086
    run $command
    code=$?
    took=$((${EPOCHREALTIME/./} - ${begun/./}))
    { [ $code -eq 3 ] && [ "$took" -lt 5500000 ] && [ "$(wc -l <"$out/said.err")" -eq 1 ]; } || {
        kill -CONT "$(cat "$state/slurmctld.pid")"
        fail "plan $command: exit $code after $took us: $(cat "$out/said.err")"
    }
done
run status "$one"
kill -CONT "$(cat "$state/slurmctld.pid")"
grep -q '^  saved    step ' "$out/said" || fail "status without an answer: $(cat "$out/said")"
echo "a controller that hangs: one line within 5 s"

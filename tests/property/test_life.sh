#!/usr/bin/env bash
# How runs of several ranks end: signals to the script, to mpirun and to one rank; one rank that
# stands still for 2 s meanwhile; a second signal; a rank that dies. Each ends with the verdict as
# exit code and in attempt.json, and with one line that says why.
#
#   tests/property/test_life.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/life-test
plan=$out/life.plan.yaml
job=
case_name=

ranks_of() { # the processes that train, one "RANK PID WATCHER" a line
    local pid parent
    for pid in $(pgrep -f "runner train $plan"); do
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        [ "$(cat "/proc/${parent:-0}/comm" 2>/dev/null)" = runner ] || continue
        echo "$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null |
            sed -n 's/^OMPI_COMM_WORLD_RANK=//p') $pid $parent"
    done
}
worker() { ranks_of | awk -v rank="$1" '$1 == rank { print $2 }'; }
watcher() { ranks_of | awk -v rank="$1" '$1 == rank { print $3 }'; }

fail() {
    echo "FAIL: $case_name: $*"
    tail -n 20 "$out/log"
    cat "$out/attempt.json" 2>/dev/null
    [ -n "$job" ] && kill -KILL "$job" 2>/dev/null
    for pid in $(ranks_of | awk '{ print $2, $3 }'); do kill -KILL "$pid" 2>/dev/null; done
    exit 1
}

# Starts the script (or what else is given) and waits for three steps. $job is its process.
begin() { # NAME [COMMAND...]
    case_name=$1
    shift
    rm -f "$out/metrics.jsonl"
    if [ $# -eq 0 ]; then set -- bash "$out/life.sh"; fi
    # A shell ignores INT in what it starts beside itself.
    env --default-signal=INT "$@" >"$out/log" 2>&1 </dev/null &
    job=$!
    local i
    for ((i = 0; i < 600; i++)); do
        [ -f "$out/metrics.jsonl" ] && [ "$(wc -l <"$out/metrics.jsonl")" -ge 3 ] && return
        kill -0 "$job" 2>/dev/null || break
        sleep 0.05
    done
    fail "no step was done"
}

mpirun_pid() { pgrep -f "mpirun .*$plan" | head -n 1; }

# The job ends within so many seconds with that exit code, verdict and cause.
ends() { # SECONDS CODE CAUSE-PATTERN
    local i status=0
    for ((i = 0; i < $1 * 20; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.05
    done
    kill -0 "$job" 2>/dev/null && fail "it still runs after $1 s"
    wait "$job" || status=$?
    job=
    [ "$status" -eq "$2" ] || fail "exit code $status, not $2"
    grep -qx "  \"verdict\": $2," "$out/attempt.json" || fail "attempt.json has not verdict $2"
    grep -qE "^  \"cause\": \"$3\",$" "$out/attempt.json" || fail "the cause is not '$3'"
    for ((i = 0; i < 60; i++)); do
        pgrep -f "runner train $plan" >/dev/null || break
        sleep 0.05
    done
    pgrep -f "runner train $plan" >/dev/null && fail "a process is left"
    [ "$(find "$out" -name 'core*' | wc -l)" -eq 0 ] || fail "a core dump"
    echo "ok: $case_name"
}

# Nothing is said but the run's own lines, and these so often. (Open MPI's "Read -1, expected": it
# was copying from the memory of a rank that died.)
said() { # PATTERN TIMES
    [ "$(grep -acE "$1" "$out/log")" -eq "$2" ] || fail "not $2 lines of '$1'"
    [ "$(grep -avcE "^(training|step|held-out|resuming from|checkpoint of step|note: took|SIG(INT|TERM): stops after step)|$1|Read -1, expected" "$out/log")" -eq 0 ] ||
        fail "other lines than '$1'"
}

export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || exit 3
# Small steps, and more than there is time for.
sed -E 's/^name: .*/name: life/' configs/runs/quickstart.yaml >"$out/life.yaml"
sed -i "s|\.\./\.\./|$PWD/|g; s|\.\./|$PWD/configs/|g" "$out/life.yaml"
"$build/plan" emit "$out/life.yaml" -o "$out" --set directory="$out" --mesh_dim 2,1,2,1 \
    --set cluster.accelerators_per_node=4 --set global_batch_size=2 --set sequence_length=64 \
    --set optimizer.total_steps=1000000 >"$out/emit.log" 2>&1 || { cat "$out/emit.log"; exit 1; }
mpirun=(mpirun -quiet --oversubscribe -np 4 "$build/runner" train "$plan")

stopped='^stopped after step [0-9]+ of 1000000; the checkpoint is in '
begin "INT to the script"
kill -INT "$job"
ends 20 130 'SIGINT, after step [0-9]+ of 1000000'
said "$stopped" 1
grep -q '^SIGINT: stops after step [0-9]* and saves; a second one leaves at once$' "$out/log" || fail "the signal was not answered"

begin "TERM to the script"
kill -TERM "$job"
ends 20 143 'SIGTERM, after step [0-9]+ of 1000000'
said "$stopped" 1

begin "USR1 to the script"
kill -USR1 "$job"
ends 20 75 'the checkpoint signal, after step [0-9]+ of 1000000'
said "$stopped" 1

begin "TERM to mpirun, which sends it to the ranks"
kill -TERM "$(mpirun_pid)"
ends 20 143 'SIGTERM, after step [0-9]+ of 1000000'

begin "USR1 to mpirun" "${mpirun[@]}"
kill -USR1 "$job"
ends 20 75 'the checkpoint signal, after step [0-9]+ of 1000000'

begin "TERM with less time than a save takes" env SHARDWRIGHT_GRACE_SECONDS=0.000001 bash "$out/life.sh"
newest=$(readlink "$out/checkpoints/latest") || fail "nothing was saved before"
kill -TERM "$job"
ends 20 143 'SIGTERM, after step [0-9]+ of 1000000'
grep -q "there was no time to save it: the last checkpoint is of step $((10#${newest#step-}))\$" "$out/log" ||
    fail "it does not say that it saved nothing"
[ "$(readlink "$out/checkpoints/latest")" = "$newest" ] || fail "it saved"

begin "TERM to one rank" "${mpirun[@]}"
kill -TERM "$(worker 2)"
ends 20 143 'SIGTERM, after step [0-9]+ of 1000000'

begin "INT to one watcher, TERM to another: TERM is the stronger"
late=$(worker 0)
kill -STOP "$late"
kill -INT "$(watcher 1)"
kill -TERM "$(watcher 3)"
sleep 0.3
kill -CONT "$late"
ends 20 143 'SIGTERM, after step [0-9]+ of 1000000'

begin "USR1 while a rank stands still for 2 s"
late=$(worker 3)
kill -STOP "$late"
kill -USR1 "$job"
sleep 2
kill -0 "$job" 2>/dev/null || fail "it did not wait for rank 3"
grep -q '"verdict": null' "$out/attempt.json" || fail "a verdict before rank 3 agreed"
kill -CONT "$late"
ends 20 75 'the checkpoint signal, after step [0-9]+ of 1000000'
said "$stopped" 1

begin "USR1 to rank 0 alone, its watcher asleep"
late=$(watcher 0)
rank=$(worker 0)
kill -STOP "$late"
kill -USR1 "$rank"
sleep 2
kill -CONT "$late"
ends 20 75 'the checkpoint signal, after step [0-9]+ of 1000000'

begin "a second TERM while a rank stands still"
kill -STOP "$(worker 3)"
kill -TERM "$job"
sleep 1.5
kill -0 "$job" 2>/dev/null || fail "the first TERM ended it"
kill -TERM "$job"
ends 20 143 'a second signal ended it at once, in step [0-9]+'
said '^left at once on a second signal, in step [0-9]+$' 1

host=$(uname -n)
for death in "KILL 3 9 (Killed)" "SEGV 3 11 (Segmentation fault)" "BUS 76 7 (Bus error)"; do
    read -r signal code number words <<<"$death"
    begin "$signal to rank 2"
    kill "-$signal" "$(worker 2)"
    pattern="rank 2 \\(host $host\\): (error: )?ended by signal $number ${words/(/\\(}"
    pattern="${pattern/%)/\\)} after step [0-9]+(; the kernel does so when memory runs out)?"
    ends 5 "$code" "$pattern"
    said "^$pattern$" 1
    grep -qx "  \"nodes\": \\[\"$host\"\\]," "$out/attempt.json" || fail "the node is not named"
done

begin "KILL to mpirun: the ranks say it"
kill -KILL "$(mpirun_pid)"
ends 20 3 'rank [0-3] \(host .*\): ended after step [0-9]+ because the launcher \(mpirun or srun\) that started it was killed; start the run again to resume from its last checkpoint'

begin "KILL to a watcher: nobody can say why" bash "$out/life.sh"
kill -KILL "$(watcher 1)"
for ((i = 0; i < 200; i++)); do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.05
done
status=0
wait "$job" || status=$?
job=
[ "$status" -eq 137 ] || fail "exit code $status, not 137"
said '^mpirun ended with exit code 137 and no rank could say why: a node may be gone$' 1
echo "ok: $case_name"

case_name="what mpirun cannot start is said by mpirun"
sed 's/^ranks=4$/ranks=400/; s/--oversubscribe/--nooversubscribe/; s/--use-hwthread-cpus//' \
    "$out/life.sh" >"$out/many.sh"
status=0
env -u OMPI_MCA_rmaps_base_oversubscribe bash "$out/many.sh" >"$out/log" 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "exit code $status, not 1"
grep -q 'not enough slots' "$out/log" || fail "it does not say why"
echo "ok: $case_name"

case_name="a reader of standard error that goes away"
status=0
{ bash "$out/life.sh" --resume none --overwrite --steps 30 2>&1; echo $? >"$out/code"; } | head -n 1 >/dev/null
[ "$(cat "$out/code")" -eq 0 ] || fail "exit code $(cat "$out/code"), not 0"
grep -qx '  "verdict": 0,' "$out/attempt.json" || fail "attempt.json has not verdict 0"
echo "ok: $case_name"

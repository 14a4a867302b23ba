#!/usr/bin/env bash
# A rank that stops answering ends the job with one line that names it, also where most of the others
# wait for each other and not for it, and before the first step, instead of a hang. A watcher that stops
# keeps nobody, and ranks whose mpirun is killed end and say why.
#
#   tests/property/test_stall.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/stall-test
job=

fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && kill -KILL "$job" 2>/dev/null
    pkill -KILL -f "$out/quickstart.plan.yaml"
    tail -n 20 "$out"/*.log
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh
# "RANK trains|watches PID STATE" of each process.
processes() {
    local pid rank parent
    pgrep -f "runner train $out/quickstart.plan.yaml" | while read -r pid; do
        rank=$({ tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        if [ -z "$rank" ] || [ -z "$parent" ]; then continue; fi
        [ "$(cat "/proc/$parent/comm" 2>/dev/null)" = runner ] && parent=trains || parent=watches
        echo "$rank $parent $pid $(awk '/^State:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)"
    done
}
stopped() { processes | awk '$4 == "T" { print $3 }'; }

rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || fail "no text to learn"
"$build/plan" emit configs/runs/quickstart.yaml -o "$out" --set directory="$out" --mesh_dim 2,1,2,1 \
    --set cluster.accelerators_per_node=4 --set global_batch_size=2 --set sequence_length=64 >"$out/emit.log" 2>&1 || fail "plan emit"

SHARDWRIGHT_STALL_SECONDS=3 mpirun -np 4 "$build/runner" train "$out/quickstart.plan.yaml" \
    >"$out/train.log" 2>&1 </dev/null &
job=$!
for ((i = 0; i < 600; i++)); do
    [ -f "$out/metrics.jsonl" ] && [ "$(wc -l <"$out/metrics.jsonl")" -ge 3 ] && break
    sleep 0.1
done
rank=$(processes | awk '$1 == 3 && $2 == "trains" { print $3 }')
[ -n "$rank" ] || fail "rank 3 was not found"
kill -STOP "$rank" || fail "rank 3 could not be stopped"
for ((i = 0; i < 300; i++)); do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$job" 2>/dev/null && fail "the job still runs 30 s after rank 3 stopped"
wait "$job"
status=$?
[ "$status" -eq 3 ] || fail "exit status $status, not 3"
[ "$(grep -ac 'error: ' "$out/train.log")" -eq 1 ] || fail "not one error"
host=$(uname -n)
pattern="error: rank 3 \(host $host\) does not answer: .*: nothing from rank 3 for 3 s: it hangs, or "
pattern+="its node or network is gone \(SHARDWRIGHT_STALL_SECONDS is how long to wait\)"
grep -aqE "^rank [0-2] \(host $host\): $pattern\$" "$out/train.log" ||
    fail "the error does not name rank 3"
grep -qx '  "verdict": 3,' "$out/attempt.json" || fail "attempt.json has not verdict 3"
grep -qx "  \"nodes\": \[\"$host\"\]," "$out/attempt.json" || fail "the node is not named"
grep -qE "^  \"cause\": \"rank [0-2] \(host $host\): $pattern\",\$" "$out/attempt.json" ||
    fail "the cause does not name rank 3"
pgrep -f "$out/quickstart.plan.yaml" >/dev/null && fail "a process is left"
echo "the job ended: $(grep -a 'error: ' "$out/train.log" | head -n 1)"

# One that stops before there is a collective of ours: each of MPI's own calls of the start.
# the address sanitizer's library wants to be the first
asan=$(ldd "$build/runner" | awk '$1 ~ /^libasan/ { print $3 }')
for where in split bcast init; do
    SHARDWRIGHT_STALL_SECONDS=3 SHARDWRIGHT_START_SECONDS=12 STOP_RANK=2 STOP_IN=$where mpirun -np 4 \
        env LD_PRELOAD="${asan:+$asan:}$build/tests/libstop_shim.so" "$build/runner" train "$out/quickstart.plan.yaml" \
        >"$out/early.log" 2>&1 </dev/null &
    job=$!
    for ((i = 0; i < 300; i++)); do
        rank=$(stopped)
        [ -n "$rank" ] && break
        sleep 0.1
    done
    [ -n "$rank" ] || fail "rank 2 did not stop in '$where'"
    begin=$SECONDS
    for ((i = 0; i < 300; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$job" 2>/dev/null && fail "the job still runs 30 s after rank 2 stopped in '$where'"
    wait "$job"
    status=$?
    [ "$status" -eq 3 ] || fail "exit status $status, not 3, when a rank stops in '$where'"
    # a start has its own limit, and the ranks a moment to say so
    [ $((SECONDS - begin)) -le "$([ $where = bcast ] && echo 12 || echo 20)" ] || fail "took $((SECONDS - begin)) s to miss a rank that stopped in '$where'"
    if [ $where = bcast ]; then
        pattern="rank 2 \(host $host\) does not answer: nothing from rank 2 for 3 s: it hangs, or its node "
        pattern+="or network is gone \(SHARDWRIGHT_STALL_SECONDS is how long to wait\)"
        grep -aqE "^rank 3 \(host $host\): error: $pattern\$" "$out/early.log" ||
            fail "the error does not name rank 2"
        [ "$(grep -ac 'error: ' "$out/early.log")" -eq 1 ] || fail "not one error"
    else
        grep -aq "error: MPI does not start for 12 s" "$out/early.log" || fail "a start that hangs is not told"
    fi
    pgrep -f "$out/quickstart.plan.yaml" >/dev/null && fail "a process is left"
    echo "stopped in '$where': $(grep -a 'error: ' "$out/early.log" | head -n 1)"
done

# One that never starts is missed as soon as the others wait for it.
SHARDWRIGHT_START_SECONDS=3 timeout 60 mpirun -np 1 sleep 300 : -np 2 "$build/runner" train \
    "$out/quickstart.plan.yaml" >"$out/start.log" 2>&1 </dev/null
status=$?
[ "$status" -eq 3 ] || fail "exit status $status, not 3, when a rank never starts"
for rank in 1 2; do
    grep -aqE "^rank $rank \(host $host\): error: MPI does not start for 3 s: not all of the job's ranks are there" \
        "$out/start.log" || fail "rank $rank, whose start waits for ever, does not say so"
done
pgrep -f "$out/quickstart.plan.yaml" >/dev/null && fail "a process is left"
echo "the start ended: $(grep -a 'error: ' "$out/start.log" | head -n 1)"

# A watcher that is stopped does not keep mpirun behind the end of the run.
rm -rf "$out/checkpoints" "$out/metrics.jsonl"
mpirun -np 4 "$build/runner" train "$out/quickstart.plan.yaml" --steps 30 >"$out/watcher.log" 2>&1 </dev/null &
job=$!
for ((i = 0; i < 600; i++)); do
    [ -f "$out/metrics.jsonl" ] && [ "$(wc -l <"$out/metrics.jsonl")" -ge 3 ] && break
    sleep 0.1
done
watcher=$(processes | awk '$1 == 1 && $2 == "watches" { print $3 }')
[ -n "$watcher" ] || fail "the watcher of rank 1 was not found"
kill -STOP "$watcher"
for ((i = 0; i < 600; i++)); do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$job" 2>/dev/null && fail "mpirun waits for a watcher that is stopped"
wait "$job" || fail "exit status $? behind a watcher that was stopped"
echo "a watcher that was stopped: mpirun ended with the run"

# mpirun is killed: no rank is left, and what is said is what happened.
rm -rf "$out/checkpoints" "$out/metrics.jsonl"
mpirun -np 4 "$build/runner" train "$out/quickstart.plan.yaml" >"$out/killed.log" 2>&1 </dev/null &
job=$!
for ((i = 0; i < 600; i++)); do
    [ -f "$out/metrics.jsonl" ] && [ "$(wc -l <"$out/metrics.jsonl")" -ge 3 ] && break
    sleep 0.1
done
kill -KILL "$job"
wait "$job" 2>/dev/null
for ((i = 0; i < 100; i++)); do
    [ -n "$(processes)" ] || break
    sleep 0.1
done
[ -z "$(processes)" ] || fail "a rank is left behind mpirun"
pattern="rank [0-3] \(host $host\): ended after step [0-9]+ because the launcher \(mpirun or srun\) that "
pattern+="started it was killed; start the run again to resume from its last checkpoint"
grep -qE "^  \"cause\": \"$pattern\",\$" "$out/attempt.json" || fail "the cause is not told: $(cat "$out/attempt.json")"
grep -qx '  "nodes": \[\],' "$out/attempt.json" || fail "a node is blamed"
echo "mpirun killed: $(sed -n 's/^  "cause": //p' "$out/attempt.json")"

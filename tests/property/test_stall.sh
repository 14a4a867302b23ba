#!/usr/bin/env bash
# A rank that stops answering ends the job with one line that names it, also where most of the others
# wait for each other and not for it, instead of a hang.
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
# Of the two processes of a rank the one that trains.
rank=$(pgrep -f "runner train $out/quickstart.plan.yaml" | while read -r pid; do
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q '^OMPI_COMM_WORLD_RANK=3$' || continue
    parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
    [ "$(cat "/proc/$parent/comm")" = runner ] && echo "$pid"
done)
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

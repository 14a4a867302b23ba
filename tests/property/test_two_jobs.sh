#!/usr/bin/env bash
# Two jobs on one directory: the second is refused and told who has it, and does nothing to it; once
# the first is killed, the next one has the directory at once and goes on.
#
#   tests/property/test_two_jobs.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/tests/two-jobs
job=

our_processes() {
    pgrep -f "runner train $out/run.plan.yaml"
}
fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && kill -KILL "$job" 2>/dev/null
    our_processes | xargs -r kill -KILL 2>/dev/null
    tail -n 20 "$out"/*.log
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh
unset SLURM_JOB_ID
rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || fail "no text to learn"
"$build/plan" emit configs/runs/quickstart.yaml -o "$out" --mesh_dim 1,2,1,1 --set name=run \
    --set directory="$out" --set cluster.accelerators_per_node=2 --set model.hidden_size=32 \
    --set model.intermediate_size=64 --set model.num_hidden_layers=1 --set sequence_length=16 \
    --set model.num_attention_heads=4 --set model.num_key_value_heads=4 --set data.holdout=0 \
    --set global_batch_size=2 --set optimizer.total_steps=9000000 --set checkpoint.every_steps=500 \
    >"$out/emit.log" 2>&1 || fail "plan emit"

first() {
    local i
    mpirun -np 2 "$build/runner" train "$out/run.plan.yaml" >"$out/first.log" 2>&1 </dev/null &
    job=$!
    disown "$job" # its end by a signal is no news
    for ((i = 0; i < 600; i++)); do
        [ -e "$out/checkpoints/latest" ] && [ -e "$out/lock" ] && break
        sleep 0.1
    done
    [ -e "$out/checkpoints/latest" ] || fail "no first checkpoint"
}
holder() { # its pid
    sed -n 's/^pid //p' "$out/lock"
}
second() { # OPTIONS...
    timeout -k 5 120 mpirun -np 2 "$build/runner" train "$out/run.plan.yaml" "$@" \
        >"$out/second.log" 2>&1 </dev/null
}

first
pid=$(holder)
before=$(cat "$out/attempt.json")
second
status=$?
[ $status -eq 3 ] || fail "the second job: exit status $status"
expected="runner: error: '$out' is in use by pid $pid on host $(hostname) (attempt 1); wait for it, or end it"
[ "$(head -n 1 "$out/second.log")" = "$expected" ] || fail "not as expected: $expected"
[ "$(grep -ac 'error: ' "$out/second.log")" -eq 1 ] || fail "more than one line of errors"
kill -0 "$job" 2>/dev/null || fail "the first job ended"
[ "$(holder)" = "$pid" ] || fail "the lock is another's"
[ "$(cat "$out/attempt.json")" = "$before" ] || fail "attempt.json is another"
expected="took '$out' over from pid $pid on host $(hostname) (attempt 1), which is gone"
# all of it at once, as when a node is reset
# shellcheck disable=SC2046
kill -KILL "$job" $(our_processes)
second --steps 100000000000 2>/dev/null &
last=$!
disown "$last"
for ((i = 0; i < 600; i++)); do
    grep -q '^training run' "$out/second.log" && break
    kill -0 "$last" 2>/dev/null || break
    sleep 0.1
done
[ "$(head -n 1 "$out/second.log")" = "note: $expected" ] || fail "not as expected: $expected"
grep -q "^resuming from $out/checkpoints/step-" "$out/second.log" || fail "it does not go on"
grep -q '"attempt": 2,' "$out/attempt.json" || fail "it is no second attempt"
our_processes | xargs -r kill -KILL 2>/dev/null
while kill -0 "$last" 2>/dev/null; do sleep 0.1; done
"$build/tests/check_store" "$out/checkpoints" >"$out/verify.log" 2>&1 || fail "no good checkpoint"
echo "refused while pid $pid had it, taken over when it was gone"

#!/usr/bin/env bash
# The tool's threads at once, as one rank: a training that saves every step (the saver, the lock's renewal, the watch over
# progress, initial state), then a server with four clients (HTTP, its desk, the signal that ends it).
#
#   tests/unit/test_runner_threads.sh BUILD SCRATCH [serve]      from the root of the tree; serve: the build has a server
set -uo pipefail
build=$(realpath "$1") && [ -x "$build/runner" ] || exit 2
serve=${3:-}
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
cp tests/mistakes/start/* "$scratch"
cd "$scratch" || exit 2
fail() {
    echo "FAIL: $*"
    [ ! -e log ] || cat log
    exit 1
}
steps=6
"$build/plan" emit run.yaml -o . --set checkpoint.every_steps=1 --set optimizer.total_steps=$steps >log 2>&1 || fail "plan emit"
"$build/runner" train tiny.plan.yaml >log 2>&1 || fail "training left with $?"
grep -q "step $steps/$steps" log || fail "not $steps steps"
checkpoint=runs/tiny/checkpoints/latest
[ -e "$checkpoint/manifest.json" ] || fail "no checkpoint"

[ "$serve" = serve ] || { echo "runner_threads: ok, without a server" && exit 0; }
"$build/runner" serve tiny.plan.yaml --checkpoint "$checkpoint" --listen unix:socket >log 2>&1 &
server=$!
trap 'kill -9 $server 2>/dev/null' EXIT
for ((i = 0; i < 600; i++)); do
    [ -S socket ] && curl -fs --unix-socket socket http://localhost/health >/dev/null && break
    kill -0 $server 2>/dev/null || fail "the server ended"
    sleep 0.1
done
clients=()
for ((i = 0; i < 4; i++)); do
    curl -fsS --unix-socket socket http://localhost/v1/completions -H 'Content-Type: application/json' \
        -d "{\"prompt\": \"text $i\", \"max_tokens\": 8, \"temperature\": 0, \"stream\": $([ $i = 3 ] && echo true || echo false)}" >"answer-$i" &
    clients+=($!)
done
for client in "${clients[@]}"; do wait "$client" || fail "a client got no answer"; done
kill -TERM $server
wait $server
status=$?
[ $status -eq 0 ] || [ $status -eq 143 ] || fail "the server left with $status"
echo "runner_threads: ok"

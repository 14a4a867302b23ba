#!/usr/bin/env bash
# Random processes of a training job are killed at random moments, while it trains and while it
# saves; every restart goes on from the newest checkpoint, and the run ends with the loss and the
# files, bit for bit, of one that nothing happened to.
#
#   tests/property/test_kill.sh [BUILD-FOLDER [KILLS [SEED [FOLDER]]]]
#
# A rank is two processes, a watcher and its child: either may be hit. After a kill the job has to be
# gone soon, with one line that names the rank; nobody can say who ended a watcher. Checkpoints are
# 150 MB in files of 50 MB, the disk is as slow as `checkpoint.bandwidth` makes it; six kills of ten
# wait for a save. A run that ends before all kills are done is compared and begun anew. A FOLDER that
# is there is gone on with.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
kills=${2:-3}
seed=${3:-$RANDOM}
out=${4:-$build/tests/kill}
ranks=4
most_seconds=15 # between a kill and the end of the last process
job=

our_processes() { # of the job that runs
    pgrep -f "runner train $out/killed/killed.plan.yaml"
}

fail() {
    echo "FAIL (seed $seed, kill $((done_kills + 1))): $*"
    [ -n "$job" ] && kill -KILL "$job" 2>/dev/null
    our_processes | xargs -r kill -KILL 2>/dev/null
    tail -n 20 "$out/attempt.log" 2>/dev/null
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh
done_kills=0 in_saves=0 of_watchers=0 resumed=0 rounds=0 longest=0
[ $# -lt 4 ] && rm -rf "$out"
mkdir -p "$out"
# shellcheck disable=SC1091
[ -f "$out/counts" ] && . "$out/counts"
remember() {
    declare -p done_kills in_saves of_watchers resumed rounds longest | sed 's/^declare -- //' \
        >"$out/counts.new" && mv "$out/counts.new" "$out/counts"
}

bash examples/make_text.sh || fail "no text to learn"
steps=$((kills > 50 ? 204 : kills * 4 + 4))
last=$(printf 'step-%06d' "$steps")
prepare() { # NAME BANDWIDTH
    rm -rf "${out:?}/$1"
    mkdir -p "$out/$1"
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/$1" --mesh_dim 1,2,2,1 \
        --set directory="$out/$1" --set name="$1" --set cluster.accelerators_per_node=$ranks \
        --set model.hidden_size=512 --set model.intermediate_size=1536 --set sequence_length=64 \
        --set global_batch_size=4 --set optimizer.total_steps="$steps" --set data.holdout=0 \
        --set optimizer.warmup_steps=5 --set checkpoint.every_steps=4 --set checkpoint.keep=2 \
        --set checkpoint.bandwidth="$2" >"$out/emit.log" 2>&1 ||
        fail "plan emit: $(cat "$out/emit.log")"
}
loss() { # of the last step
    grep "\"step\":$steps,\"loss\"" "$out/$1/metrics.jsonl" | tail -n 1 | sed 's/,"learning.*//'
}
milliseconds() { # now
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}
pause() { # MILLISECONDS
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"
}
save_under_way() {
    compgen -G "$out/killed/checkpoints/.step-*.partial" >/dev/null
}
check_store() { # [clean]
    "$build/tests/check_store" "$out/killed/checkpoints" "$@" 2>"$out/verify.log" ||
        fail "$(cat "$out/verify.log")"
}

# The run is over: it is what the undisturbed one is.
compare() {
    check_store clean >/dev/null
    local file count=0
    while read -r file; do
        cmp "$out/straight/checkpoints/$last/$file" "$out/killed/checkpoints/$last/$file" ||
            fail "$file differs from the undisturbed run's"
        count=$((count + 1))
    done < <(cd "$out/straight/checkpoints/$last" && find . -type f ! -name manifest.json)
    [ "$count" -ge 5 ] || fail "only $count files in the last checkpoint"
    [ -n "$(loss straight)" ] || fail "no last step"
    [ "$(loss straight)" = "$(loss killed)" ] ||
        fail "'$(loss killed)', undisturbed '$(loss straight)'"
    [ -z "$(our_processes)" ] || fail "processes are left"
    file=$(find "$out/killed" -mindepth 1 -maxdepth 1 \( -name '.*' -o -name lock \))
    [ -z "$file" ] || fail "left behind: $file"
    rounds=$((rounds + 1))
}

start() {
    mpirun -np $ranks "$build/runner" train "$out/killed/killed.plan.yaml" \
        >"$out/attempt.log" 2>&1 </dev/null &
    job=$!
}
# Until nothing of the job is there any more; its exit status is in $status.
wait_for_end() { # SECONDS WHY
    local until=$(($(milliseconds) + $1 * 1000))
    while kill -0 "$job" 2>/dev/null || [ -n "$(our_processes)" ]; do
        [ "$(milliseconds)" -lt "$until" ] || fail "the job still runs $1 s after $2"
        sleep 0.05
    done
    wait "$job"
    status=$?
    cat "$out/attempt.log" >>"$out/killed.log"
}

# SIGKILL to a process of rank VICTIM; *what is said afterwards.
kill_one() { # WATCHER-PID ROLE
    local pid=$1 began errors
    [ "$2" = rank ] && pid=$(pgrep -P "$1")
    [ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null || return 1
    began=$(milliseconds)
    wait_for_end $most_seconds "the $2 of rank $victim was killed"
    began=$(($(milliseconds) - began))
    [ "$began" -gt "$longest" ] && longest=$began
    [ "$status" -ne 0 ] || return 1 # it was over already
    [ "$2" = watcher ] && return 0
    errors=$(grep -a 'error: ' "$out/attempt.log")
    [ "$(grep -c . <<<"$errors")" -eq 1 ] || fail "not one line: $errors"
    grep -Eq "^rank $victim \(host .*\): error: ended by signal 9 \(Killed\)" <<<"$errors" ||
        fail "rank $victim was killed: $errors"
}

attempt() { # NUMBER
    local pids role wait_ms i
    RANDOM=$((seed * 1000 + $1))
    : $RANDOM
    local with_save=$((RANDOM % 10 < 6)) nth=$((RANDOM % 2))
    victim=$((RANDOM % ranks))
    role=$((RANDOM % 2))
    role=$([ $role -eq 0 ] && echo rank || echo watcher)
    wait_ms=$((with_save ? RANDOM % 1300 : RANDOM % 4000))
    start
    for ((i = 0; i < 200; i++)); do # the clock runs from when the ranks are there
        mapfile -t pids < <(pgrep -P "$job" -f "runner train")
        [ "${#pids[@]}" -eq $ranks ] && [ -n "$(pgrep -P "${pids[$victim]}")" ] && break
        sleep 0.02
    done
    [ "${#pids[@]}" -eq $ranks ] || fail "there are ${#pids[@]} processes, not $ranks"
    if [ "$with_save" -eq 1 ]; then # the first or the second save of this attempt
        while kill -0 "$job" 2>/dev/null && [ "$nth" -ge 0 ]; do
            while kill -0 "$job" 2>/dev/null && save_under_way; do sleep 0.02; done
            while kill -0 "$job" 2>/dev/null && ! save_under_way; do sleep 0.02; done
            nth=$((nth - 1))
        done
    fi
    pause "$wait_ms"
    if kill_one "${pids[$victim]}" "$role"; then
        done_kills=$((done_kills + 1))
        save_under_way && in_saves=$((in_saves + 1))
        [ "$role" = watcher ] && of_watchers=$((of_watchers + 1))
        grep -aq '^resuming from' "$out/attempt.log" && resumed=$((resumed + 1))
        check_store >/dev/null
        return
    fi
    wait_for_end 120 "its end"
    [ "$status" -eq 0 ] || fail "exit status $status"
    compare
    prepare killed '100 MB/s'
}

echo "seed $seed, $kills kills, runs of $steps steps"
if [ ! -f "$out/straight.done" ]; then
    prepare straight '1 TB/s'
    mpirun -np $ranks "$build/runner" train "$out/straight/straight.plan.yaml" \
        >"$out/straight.log" 2>&1 </dev/null || fail "the undisturbed run: $(cat "$out/straight.log")"
    touch "$out/straight.done"
    prepare killed '100 MB/s'
fi
for ((tries = 0; done_kills < kills; tries++)); do
    [ "$tries" -lt $((kills * 3 + 3)) ] || fail "the runs end before they can be killed"
    attempt $((done_kills + tries))
    remember
done
start
wait_for_end 600 "the last kill"
[ "$status" -eq 0 ] || fail "the run does not end: $status"
compare
# a few may all miss by chance
if [ "$kills" -ge 20 ] && [ $((in_saves * 3)) -lt "$done_kills" ]; then
    fail "only $in_saves of $done_kills kills hit a save"
fi
echo "$done_kills kills, $in_saves of them in a save, $of_watchers of watchers; gone on $resumed" \
    "times, $rounds runs ended, loss and files bit-equal; the longest end took $longest ms"

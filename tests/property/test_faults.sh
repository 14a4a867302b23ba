#!/usr/bin/env bash
# Every file operation of a save fails, is cut short, or is the last one of its process, in a real
# training job: afterwards `latest` names a whole checkpoint, and a run without the fault goes on from
# it and ends with the files, bit for bit, of one that nothing happened to. A save that fails does not
# end the run; the last one does, with exit code 3.
#
#   tests/property/test_faults.sh [BUILD-FOLDER [COUNT|all [SEED [FOLDER]]]]
#
# The operations are those of runs with two saves, of one rank without mpirun and of two ranks with
# it (tests/support/fault_shim.h). COUNT points are drawn from all of them. A FOLDER that is there is
# gone on with.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
wanted=${2:-10}
seed=${3:-$RANDOM}
out=${4:-$build/tests/faults}
shim=$build/tests/libfault_shim.so
steps=6 every=3 # two saves, the second one at the end
point=none

fail() {
    echo "FAIL (seed $seed, point '$point'): $*"
    tail -n 20 "$out/faulted.log" "$out/after.log" 2>/dev/null
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh
[ $# -lt 4 ] && rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || fail "no text to learn"

# train RANKS LOG [VARIABLE=VALUE...]: a run as a user starts it; its exit code. Without mpirun there
# is no rank that the shim could know.
train() {
    local ranks=$1 log=$2 start=()
    shift 2
    if [ "$ranks" -gt 1 ]; then start=(mpirun -np "$ranks"); else set -- "${@/#SHIM_RANK=/IGNORED=}"; fi
    timeout -k 5 120 "${start[@]}" env "$@" "$build/runner" train "$out/plan$ranks/faults.plan.yaml" \
        >"$log" 2>&1 </dev/null
}
check_store() { # [clean]: the step that `latest` names
    "$build/tests/check_store" "$out/run/checkpoints" "$@" 2>"$out/verify.log" ||
        fail "$(cat "$out/verify.log")"
}
# compare RANKS: the last checkpoint is that of the undisturbed run.
compare() {
    local file count=0 last
    last=checkpoints/$(printf 'step-%06d' $steps)
    while read -r file; do
        cmp "$out/straight$1/$last/$file" "$out/run/$last/$file" || fail "$file differs"
        count=$((count + 1))
    done < <(cd "$out/straight$1/$last" && find . -type f ! -name manifest.json)
    [ "$count" -ge 5 ] || fail "only $count files in the last checkpoint"
}
verdict() {
    sed -n 's/^ *"verdict": \(.*\),$/\1/p' "$out/run/attempt.json"
}

# The operations of every rank of a run of so many, on a disk that says that it has little room: for no
# checkpoint with one rank, for one of two with two.
count_operations() { # RANKS
    local ranks=$1 rank room=1000 wanted='nothing can be saved: .* has 0.0 MB free, a checkpoint takes '
    if [ "$ranks" -eq 2 ]; then
        room=$(find "$out/straight1/checkpoints/latest/" -type f -exec cat {} + | wc -c)
        room=$((room * 3 / 2)) wanted='and 2 more checkpoints of .* are to come; .* checkpoint.keep is 1$'
    fi
    for ((rank = 0; rank < ranks; rank++)); do
        rm -rf "$out/run" "$out/ops$ranks.$rank"
        train "$ranks" "$out/straight.log" LD_PRELOAD="$shim" SHIM_UNDER="$out/run/checkpoints" \
            SHIM_LOG="$out/ops$ranks.$rank" SHIM_FREE="$room" SHIM_RANK=$rank || fail "$(cat "$out/straight.log")"
        [ "$(grep -ac "note: .*$wanted" "$out/straight.log")" = 1 ] || fail "little room is not told"
    done
    rm -rf "$out/straight$ranks"
    mv "$out/run" "$out/straight$ranks"
}
# A line for each: RANKS RANK NUMBER OPERATION MODE SAVE PATH; SAVE is 1 or 2, or 0 where rank 0 tries the folder at the start.
list_points() { # RANKS RANK MODES...
    local ranks=$1 rank=$2
    shift 2
    sed "s|$out/run/||" "$out/ops$ranks.$rank" |
        awk -v head="$ranks $rank" -v rank="$rank" -v modes="$*" -v last="$(printf '%06d' $steps)" '
        BEGIN { count = split(modes, mode); save = rank == 0 ? 0 : 1 }
        $1 > 1 && $2 == "mkdir" && $3 == "checkpoints" { save++ }
        index($3, "step-" last) { save = 2 }
        { for (i = 1; i <= count; i++)
              if ($2 ~ /write/ || (mode[i] != "short" && mode[i] != "torn"))
                  print head, $1, $2, mode[i], save, $3 }'
}
emit() { # RANKS NAME STEPS EVERY KEEP [OPTIONS]
    local ranks=$1 name=$2 steps=$3 every=$4 keep=$5
    shift 5
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$ranks" --mesh_dim "1,$ranks,1,1" \
        --set directory="$out/run" --set name="$name" --set cluster.accelerators_per_node="$ranks" \
        --set model.hidden_size=32 --set model.intermediate_size=64 --set data.holdout=0 \
        --set model.num_hidden_layers=1 --set model.num_attention_heads=4 \
        --set model.num_key_value_heads=4 --set sequence_length=16 --set global_batch_size=2 \
        --set optimizer.total_steps="$steps" --set optimizer.warmup_steps=2 \
        --set checkpoint.every_steps="$every" --set checkpoint.keep="$keep" "$@" >"$out/emit.log" 2>&1 ||
        fail "plan emit: $(cat "$out/emit.log")"
}
prepare() {
    local ranks
    for ranks in 1 2; do
        emit "$ranks" faults $steps $every 1
        count_operations $ranks
    done
    {
        list_points 1 0 fail full short torn before after
        list_points 2 1 fail full short torn before after
        list_points 2 0 fail before
    } >"$out/all"
    [ "$(wc -l <"$out/all")" -ge 500 ] || fail "only $(wc -l <"$out/all") points"
    if [ "$wanted" = all ]; then
        mv "$out/all" "$out/points.new"
    else # one that once went wrong; the others mostly without mpirun, which takes longest to start
        {
            grep -m 1 '^1 .* mkdir fail 2 checkpoints$' "$out/all"
            awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand() * ($1 == 2 ? 2 : 1), $0 }' \
                "$out/all" | sort -n | cut -d ' ' -f 2-
        } | head -n "$wanted" >"$out/points.new"
    fi
    rm -f "$out/done"
    mv "$out/points.new" "$out/points"
}

# What came of a run in which an operation failed, or wrote less than it was asked to.
judge_failure() { # STATUS RANKS MODE SAVE
    local at=$((every * $4)) lines
    lines=$(grep -a 'error: ' "$out/faulted.log")
    if [ "$4" -eq 0 ]; then # refused before the first step, where there may be no folder for a verdict
        [ "$1" -eq 3 ] || fail "exit code $1"
        [ "$(grep -c 'checkpoints cannot be written' <<<"$lines")" = "$(wc -l <<<"$lines")" ] || fail "it says: $lines"
        return
    fi
    if [ "$1" -eq 0 ]; then
        [ "$(check_store)" -eq $steps ] || fail "exit code 0, but no last checkpoint"
        compare "$2"
        [ "$(verdict)" = 0 ] || fail "exit code 0, but verdict $(verdict)"
        [ -z "$lines" ] || [ "$4" -eq 1 ] || fail "exit code 0, but it says: $lines"
    else
        [ "$1 $4" = "3 2" ] || fail "exit code $1"
        [ "$(verdict)" = 3 ] || fail "exit code 3, but verdict $(verdict)"
        grep -q ': the run is done, but its last checkpoint could not be written to .*: cannot ' <<<"$lines" ||
            fail "it says: $lines"
        lines=$(grep -v 'but its last checkpoint could not' <<<"$lines")
    fi
    [ -n "$lines" ] || [ "$1" -eq 0 ] || fail "nothing says why"
    [ "$(wc -l <<<"$lines")" -eq 1 ] || fail "more than one line: $lines"
    [ "$3" = short ] && [ "$1$lines" != 0 ] && fail "a short write is no failure"
    [ -z "$lines" ] || grep -q "error: the checkpoint of step $at is abandoned: cannot " <<<"$lines" ||
        fail "it says: $lines"
    [ -z "$lines" ] || given_up=$((given_up + 1))
}
judge_kill() { # STATUS RANK SAVE
    local lines
    lines=$(grep -a 'error: ' "$out/faulted.log")
    [ "$1" -eq 3 ] || fail "exit code $1"
    [ "$3" -eq 0 ] || [ "$(verdict)" = 3 ] || fail "verdict $(verdict)"
    [ "$(wc -l <<<"$lines")" -eq 1 ] || fail "more than one line: $lines"
    grep -q "^rank $2 (host .*): error: ended by signal 9 (Killed)" <<<"$lines" ||
        fail "it says: $lines"
}

try_point() { # RANKS RANK NUMBER OPERATION MODE SAVE PATH
    local mode=$5 reason=EIO status left
    [ "$mode" = full ] && mode=fail reason=ENOSPC
    rm -rf "$out/run" "$out/after.log"
    train "$1" "$out/faulted.log" LD_PRELOAD="$shim" SHIM_UNDER="$out/run/checkpoints" SHIM_AT="$3" \
        SHIM_MODE="$mode" SHIM_ERRNO=$reason SHIM_RANK="$2"
    status=$?
    check_store >/dev/null
    case $mode in
    fail | short) judge_failure $status "$1" "$mode" "$6" ;;
    *) judge_kill $status "$2" "$6" ;;
    esac
    train "$1" "$out/after.log" || fail "the run after it: exit code $?"
    [ "$(verdict)" = 0 ] || fail "the run after it: verdict $(verdict)"
    [ "$(check_store clean)" -eq $steps ] || fail "the run after it has no last checkpoint"
    compare "$1"
    left=$(find "$out/run" -mindepth 1 -maxdepth 1 \( -name '.*' -o -name lock \))
    [ -z "$left" ] || fail "left behind: $left"
}

# A save that the disk has no room for once is tried again when what `keep` deletes after it is gone, on the way at the
# next step, at the end at once; the run ends as it would have.
make_room() {
    local step number found="step-000007 step-000008"
    emit 1 room 8 2 2 --set 'cluster.accelerator.memory=200.6 MB' --set memory_headroom=0 # too little for a snapshot
    rm -rf "$out/run" "$out/roomy" "$out/ops"
    "$build/runner" train "$out/plan1/room.plan.yaml" >"$out/after.log" 2>&1 || fail "a run with room"
    mv "$out/run" "$out/roomy"
    for step in 6 8; do
        rm -rf "$out/run" "$out/ops"
        LD_PRELOAD=$shim SHIM_UNDER=$out/run/checkpoints SHIM_LOG=$out/ops "$build/runner" train "$out/plan1/room.plan.yaml" \
            >"$out/after.log" 2>&1
        number=$(awk -v aside="[.]step-00000${step}[.]partial/model" '$2 == "pwrite" && $3 ~ aside { print $1; exit }' "$out/ops")
        rm -rf "$out/run"
        LD_PRELOAD=$shim SHIM_UNDER=$out/run/checkpoints SHIM_AT=$number SHIM_MODE=fail SHIM_ERRNO=ENOSPC \
            "$build/runner" train "$out/plan1/room.plan.yaml" >"$out/faulted.log" 2>&1 || fail "no room at $step: exit code $?"
        grep -q "error: the checkpoint of step $step is abandoned: .*No space left" "$out/faulted.log" || fail "not full at $step"
        grep -qxF "note: the disk is full: deleted 1 old checkpoint of $out/run/checkpoints, which a save deletes after it (checkpoint.keep: 2); saving again" \
            "$out/faulted.log" || fail "room at $step is not told"
        [ "$(cd "$out/run/checkpoints" && echo step-*)" = "$found" ] || fail "left: $(ls "$out/run/checkpoints")"
        cmp "$out"/{roomy,run}/checkpoints/latest/model-00001-of-00001.safetensors || fail "another model"
        found="step-000006 step-000008"
    done
}

[ -f "$out/points" ] || { prepare && make_room; }
done_points=0 given_up=0
# shellcheck disable=SC1091
[ -f "$out/done" ] && . "$out/done"
total=$(wc -l <"$out/points")
echo "seed $seed, $total points"
while [ "$done_points" -lt "$total" ]; do
    point=$(sed -n "$((done_points + 1))p" "$out/points")
    # shellcheck disable=SC2086
    try_point $point
    done_points=$((done_points + 1))
    echo "done_points=$done_points given_up=$given_up" >"$out/done.new"
    mv "$out/done.new" "$out/done"
done
kills=$(grep -cE ' (torn|before|after) ' "$out/points")
echo "$done_points points ($(grep -c '^2 ' "$out/points") with two ranks): $kills kills," \
    "$((done_points - kills)) failures, $given_up saves given up; every run after one went on, files" \
    "bit-equal"

#!/usr/bin/env bash
# A run of three stages on other meshes, with other lengths, batches, positions, rates and data, killed in
# each stage at a drawn moment, ends with the losses and the files, bit for bit, of its parts run by hand
# ('stage.from'). The runs of a seed are drawn.
#
#   tests/property/test_stages.sh [BUILD-FOLDER [RUNS [SEED [FOLDER]]]]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
runs=${2:-1}
seed=${3:-$RANDOM}
# shellcheck source=tests/support/scratch.sh
. tests/support/scratch.sh
mkdir -p "$build/tests"
out=$(scratch_in "${4:-$build/tests}") || exit 2
stages=(one two three)
job=

ours() {
    pgrep -f "runner train $out/killed/toy\."
}
fail() {
    echo "FAIL (seed $seed, run $run): $*"
    ours | xargs -r kill -KILL 2>/dev/null
    tail -n 20 "$out"/*.log 2>/dev/null
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh
# mpirun takes variables for its ranks from this one or from -x, which our scripts use: here all programs get them.
IFS=';' read -ra settings <<<"${OMPI_MCA_mca_base_env_list:-}"
unset OMPI_MCA_mca_base_env_list
for setting in "${settings[@]}"; do
    export "${setting?}"
done
run=0 kills=0 missed=0
bash examples/make_text.sh || fail "no text to learn"
text=$PWD/examples/data/text.txt

# A mesh of so many ranks into $mesh, and what it divides into.
draw_mesh() { # RANKS
    local left=$1 size=(1 1 1 1) axis
    while [ "$left" -gt 1 ]; do
        axis=$((RANDOM % 4))
        [ "$axis" -ne 2 ] || [ "${size[2]}" -lt 4 ] || continue # the model has four heads
        size[axis]=$((size[axis] * 2)) left=$((left / 2))
    done
    mesh=$(IFS=, && echo "${size[*]}")
    rows=$((size[0] * size[1])) parts=$((size[3] * 2))
}

# What stage I has, as 'KEY VALUE' lines in FOLDER/stage-I; the rope's key stands last.
draw_stage() { # I RANKS
    local length batch steps
    draw_mesh "$2"
    length=$((parts * (24 + RANDOM % 24)))
    batch=$((rows * (3 + RANDOM % 3)))
    steps=$((18 + RANDOM % 8))
    {
        echo "mesh_dim $mesh"
        echo "sequence_length $length"
        echo "global_batch_size $batch"
        echo "optimizer.total_steps $steps"
        echo "optimizer.learning_rate 0.00$((1 + RANDOM % 9))"
        echo "optimizer.schedule $( ((RANDOM % 2)) && echo cosine || echo constant)"
        echo "data.path $out/text-$((RANDOM % 2)).txt"
        echo "data.seed $((RANDOM % 100))"
        echo "rope_theta $((1 + RANDOM % 50))0000.0"
    } >"$out/stage-$1"
    all_steps[$1]=$steps
}

common() { # NAME
    echo --set "name=$1" --set "directory=$out/$1/run" --set "cluster.accelerators_per_node=$ranks" \
        --set optimizer.warmup_steps=3 --set model.hidden_size=64 --set model.intermediate_size=96 \
        --set model.num_hidden_layers=2 --set model.num_attention_heads=4 \
        --set model.num_key_value_heads=4 --set model.max_position_embeddings=4096 \
        --set checkpoint.every_steps=4 --set checkpoint.keep=2 --set data.holdout=0
}

# The parts, each a run of its own that begins where the one before ended.
by_hand() {
    local i key value sets
    for i in 0 1 2; do
        sets=()
        while read -r key value; do
            [ "$key" != rope_theta ] || key=model.rope_theta
            sets+=(--set "$key=$value")
        done <"$out/stage-$i"
        [ "$i" -eq 0 ] || sets+=(--set "stage.from=$out/part$((i - 1))/run"
            --set "stage.continue_schedule=false")
        # shellcheck disable=SC2046 # words
        "$build/plan" emit configs/runs/quickstart.yaml -o "$out/part$i" $(common "part$i") \
            "${sets[@]}" >"$out/emit.log" 2>&1 || fail "plan emit: $(cat "$out/emit.log")"
        mpirun -np "$ranks" "$build/runner" train "$out/part$i/part$i.plan.yaml" \
            >"$out/part$i.log" 2>&1 </dev/null || fail "part $i: $(cat "$out/part$i.log")"
    done
}

# The same as one run.
write_stages() {
    local i key value
    {
        sed "s#: \.\./#: $PWD/configs/#; s#^data: .*#data: {path: x}#; /^directory/d" \
            configs/runs/quickstart.yaml
        echo "stages:"
        for i in 0 1 2; do
            echo "  - name: ${stages[$i]}"
            sed -n 's/^\([a-z_]*\) \(.*\)/    \1: '"'\2'"'/p' "$out/stage-$i" |
                sed -E "s/'([0-9.]+)'\$/\1/"
            echo "    optimizer: {$(sed -n 's/^optimizer\.\([a-z_]*\) \(.*\)/\1: \2/p' "$out/stage-$i" | paste -sd ,)}"
            echo "    data: {$(sed -n 's/^data\.\([a-z_]*\) \(.*\)/\1: \2/p' "$out/stage-$i" | paste -sd ,)}"
        done
    } >"$out/toy.yaml"
    # shellcheck disable=SC2046 # words
    "$build/plan" emit "$out/toy.yaml" -o "$out/killed" $(common killed) --set name=toy \
        >"$out/emit.log" 2>&1 || fail "plan emit: $(cat "$out/emit.log")"
}

# Steps that wait for the one that kills; a sanitizer's runtime does not let itself be preceded.
shim=$build/tests/libpace_shim.so
make_runner() { # SECONDS of a step at least
    printf '#!/bin/sh\nexec env %s "%s" "$@"\n' \
        "$(LD_PRELOAD=$shim "$build/runner" --version >/dev/null 2>&1 && echo "LD_PRELOAD=$shim PACE_SECONDS=$1")" \
        "$build/runner" >"$out/runner" && chmod +x "$out/runner"
}

# Until the stage is killed behind its step STEP, or all is over.
kill_in() { # STAGE STEP
    local log=$out/killed/run/$1/metrics.jsonl pids ended until=$((SECONDS + 120))
    SHARDWRIGHT_RUNNER=$out/runner bash "$out/killed/toy.sh" >"$out/attempt.log" 2>&1 &
    job=$!
    while kill -0 "$job" 2>/dev/null; do
        [ "$SECONDS" -lt "$until" ] || fail "it hangs in stage $1"
        if grep -q "\"step\":$2," "$log" 2>/dev/null; then
            mapfile -t pids < <(pgrep -f "runner train $out/killed/toy\.$1\.plan")
            [ "${#pids[@]}" -eq 0 ] || kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null
            break
        fi
        sleep 0.005
    done
    wait "$job"
    ended=$?
    cat "$out/attempt.log" >>"$out/killed.log"
    [ "$ended" -ne 0 ] || { missed=$((missed + 1)) && return; }
    while [ -n "$(ours)" ]; do
        [ "$SECONDS" -lt "$until" ] || fail "processes stay behind a kill in stage $1"
        sleep 0.05
    done
    kills=$((kills + 1))
}

losses() { # FOLDER: of each step the last
    sed -nE 's/.*"step":([0-9]+),"loss":([^,]*),"grad_norm":([^,]*),.*/\1 \2 \3/p' "$1/metrics.jsonl" |
        awk '{ at[$1] = $0; if ($1 > n) n = $1 } END { for (i = 1; i <= n; i++) print at[i] }'
}

compare() {
    local i last file count
    for i in 0 1 2; do
        last=$(printf 'step-%06d' "${all_steps[$i]}")
        cmp <(losses "$out/part$i/run") <(losses "$out/killed/run/${stages[$i]}") ||
            fail "the losses of stage ${stages[$i]}"
        [ "$(losses "$out/part$i/run" | wc -l)" -eq "${all_steps[$i]}" ] || fail "steps are missing"
        count=0
        while read -r file; do
            cmp "$out/part$i/run/checkpoints/$last/$file" \
                "$out/killed/run/${stages[$i]}/checkpoints/$last/$file" ||
                fail "$file of stage ${stages[$i]}"
            count=$((count + 1))
        done < <(cd "$out/part$i/run/checkpoints/$last" && find . -type f ! -name manifest.json)
        [ "$count" -ge 4 ] || fail "only $count files in the checkpoint of stage ${stages[$i]}"
    done
}

# Stages, of which the last is stage N, end with the bits of one run of 15 steps.
as_one() { # DATA N STAGES
    local sets=(--set "mesh_dim=1,1,1,1" --set sequence_length=64 --set global_batch_size=1 --set optimizer.warmup_steps=0
        --set optimizer.schedule=constant --set "data.path=$out/$1" --set optimizer.total_steps=15) file name
    rm -rf "$out"/{cut,whole}
    ranks=1
    for name in cut whole; do
        # shellcheck disable=SC2046 # words
        "$build/plan" emit configs/runs/quickstart.yaml -o "$out/$name" $(common $name) "${sets[@]}" \
            --set "stages=$([ $name = whole ] || echo "$3")" >"$out/emit.log" 2>&1 || fail "plan emit: $(cat "$out/emit.log")"
        bash "$out/$name/$name.sh" >"$out/$name.log" 2>&1 || fail "as one run: $(cat "$out/$name.log")"
    done
    for file in model-00001-of-00001 optimizer/exp_avg-00001-of-00001 optimizer/exp_avg_sq-00001-of-00001; do
        cmp "$out"/{cut/run/stage"$2",whole/run}/checkpoints/latest/$file.safetensors || fail "stages are not one run: $file"
    done
}
rm -rf "$out" && mkdir -p "$out"
head -c 65 "$text" >"$out/row.txt"
head -c 20000 "$text" >"$out/rows.txt"
# Every step sees the same row at the same rate: AdamW corrects moments by all updates, whether steps begin anew or continue.
as_one row.txt 3 '[{optimizer: {total_steps: 4}}, {optimizer: {total_steps: 5}}, {optimizer: {total_steps: 11}, continue_schedule: true}]'
# Every step sees another row: a stage that continues the schedule goes on behind what was trained on.
as_one rows.txt 2 '[{optimizer: {total_steps: 6}}, {optimizer: {total_steps: 15}, continue_schedule: true}]'

counts=(2 4 8 1)
for ((run = 1; run <= runs; run++)); do
    RANDOM=$((seed * 1000 + run))
    : $RANDOM
    rm -rf "$out" && mkdir -p "$out"
    head -c 60000 "$text" >"$out/text-0.txt"
    tail -c 50000 "$text" >"$out/text-1.txt"
    ranks=${counts[$(((run - 1) % 4))]}
    all_steps=()
    for i in 0 1 2; do draw_stage $i "$ranks"; done
    by_hand
    # a busy machine may look at the first stage when all are over: again, with longer steps
    for pace in 0.02 0.1 0.5; do
        before=$kills
        rm -rf "$out/killed" "$out/killed.log"
        write_stages
        make_runner $pace
        for i in 0 1 2; do kill_in "${stages[$i]}" $((1 + RANDOM % (all_steps[i] / 3))); done
        [ "$kills" -eq "$before" ] || break
    done
    [ "$kills" -gt "$before" ] || fail "no kill came in time"
    bash "$out/killed/toy.sh" >"$out/last.log" 2>&1 || fail "the last start: $(cat "$out/last.log")"
    compare
    [ "$(grep -c 'beginning with the weights and moments' "$out/killed.log")" -ge 2 ] ||
        fail "not two stages began where another ended"
    "$build/plan" status "$out/killed/run" >"$out/status.log" 2>&1 || fail "$(cat "$out/status.log")"
    grep -q 'stage three (3 of 3)' "$out/status.log" || fail "status: $(cat "$out/status.log")"
done
echo "seed $seed: $runs runs of three stages, $kills kills, $missed too late: losses and files as by hand"

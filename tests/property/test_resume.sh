#!/usr/bin/env bash
# Runs that are stopped and gone on with, as a user starts them: on the same mesh the losses and the
# files of the last checkpoint are bit for bit those of a run that was not stopped, on another mesh
# the losses are the same to 1e-5 (they are sums in another order); what may change meanwhile is said
# in one line each, what may not is refused, and so is a checkpoint that is not whole.
#
#   tests/property/test_resume.sh [BUILD-FOLDER [quick|large]]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
which=${2:-quick}
tolerance=1e-5
out=$build/tests/resume-$which
text=$PWD/examples/data/text.txt

fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

# ---- Runs ----

hidden=32 length=32 # of the model, of a sequence
sharding=()         # arguments of plan emit

# Writes $out/NAME.plan/tiny.plan.yaml of a run in the folder $out/RUN.
emit() { # NAME RUN MESH ARGUMENTS...
    local name=$1 run=$2 mesh=$3
    shift 3
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/$name.plan" --mesh_dim "$mesh" \
        --set name=tiny --set directory="$out/$run" \
        --set cluster.accelerators_per_node=$((${mesh//,/*})) \
        --set model.hidden_size=$hidden --set model.intermediate_size=64 \
        --set model.num_hidden_layers=2 --set sequence_length=$length --set global_batch_size=8 \
        --set optimizer.total_steps=8 --set optimizer.warmup_steps=2 --set data.holdout=0 \
        --set data.path="$text" "${sharding[@]}" "$@" >"$out/log" 2>&1 || fail "plan emit $name"
}

# The exit code is checked; $out/said is what was said, without the progress.
train() { # CODE NAME ARGUMENTS...
    local code=$1 plan=$out/$2.plan/tiny.plan.yaml status=0 ranks
    shift 2
    ranks=$(sed -nE "s/.*mesh_dim: '([0-9,]+)'.*/\1/p" "$plan" | head -n 1)
    ranks=$((${ranks//,/*}))
    if [ "$ranks" -eq 1 ]; then
        timeout 120 "$build/runner" train "$plan" "$@" >"$out/log" 2>&1 </dev/null || status=$?
    else
        timeout 120 mpirun -q -np "$ranks" "$build/runner" train "$plan" "$@" >"$out/log" 2>&1 \
            </dev/null || status=$?
    fi
    [ "$status" -eq "$code" ] || fail "$plan $*: exit code $status, not $code"
    grep -avE '^(step [0-9]|training |checkpoint of step |$)|^held-out' "$out/log" >"$out/said"
}

said() { # LINES
    [ "$(cat "$out/said")" = "$1" ] && return
    diff <(echo "$1") "$out/said"
    fail "said something else than this:" "$1"
}

# Of several ranks: of what the launcher says besides, nothing is ours.
said_error() { # LINE
    local lines
    lines=$(grep -a 'error:' "$out/said" | sed -E 's/^rank [0-9]+ \(host [^)]*\): //')
    [ "$lines" = "$1" ] && return
    diff <(echo "$1") <(echo "$lines")
    fail "said something else than this:" "$1"
}

# 'step loss' a line, of every start.
losses() { sed -nE 's/^\{"step":([0-9]+),"loss":([^,]+),.*/\1 \2/p' "$out/$1/metrics.jsonl"; }

same_losses() { # RUN RUN
    [ "$(losses "$1" | wc -l)" -eq 8 ] || fail "$1: $(losses "$1" | wc -l) losses"
    diff <(losses "$1") <(losses "$2") || fail "the losses of $2 are not those of $1"
}

close_losses() { # FROM-STEP RUN RUN
    paste -d ' ' <(losses "$2" | awk -v from="$1" '$1 >= from') \
        <(losses "$3" | awk -v from="$1" '$1 >= from') | awk -v tolerance=$tolerance '
        {
            difference = ($2 - $4) / $4
            if (difference < 0) difference = -difference
            if ($1 != $3 || !(difference <= tolerance)) {
                print "step " $1 ": " $2 " and " $4
                bad = 1
            }
        }
        END { exit bad || NR == 0 }' || fail "the losses of $3 are not those of $2"
}

step() { echo "$out/$1/checkpoints/step-$(printf %06d "$2")"; } # RUN STEP

same_files() { # FOLDER FOLDER
    local file
    for file in $(cd "$1" && find . -type f ! -name manifest.json); do
        cmp "$1/$file" "$2/$file" || fail "$file of $2 is not that of $1"
    done
    [ "$(find "$1" -type f | wc -l)" -eq "$(find "$2" -type f | wc -l)" ] || fail "more files in $2"
}

# In the manifest of a checkpoint.
fact() { sed -nE "s/^  \"$2\": \"?([^\",]*)\"?,?$/\1/p" "$1/manifest.json"; } # FOLDER KEY

copy() { # FROM TO
    rm -rf "$2"
    mkdir -p "$(dirname "$2")"
    cp -a "$1" "$2"
}

# ---- Stopped and gone on with ----

stopped() { # MESH STEPS...
    local mesh=$1 stop before=0 name=${1//,/}
    shift
    emit "straight$name" "straight$name" "$mesh"
    train 0 "straight$name"
    said ""
    emit "stopped$name" "stopped$name" "$mesh"
    for stop in "$@" 8; do
        train 0 "stopped$name" --steps "$stop"
        if [ "$before" -eq 0 ]; then said ""; else
            said "resuming from $(step "stopped$name" "$before"), after step $before"
        fi
        before=$stop
    done
    same_losses "straight$name" "stopped$name"
    same_files "$(step "straight$name" 8)" "$(step "stopped$name" 8)"
    grep -q '"loaded":{"folder":"'"$(step "stopped$name" "$1")"'","bytes":[1-9][0-9]*,"reads":[1-9]' \
        "$out/stopped$name/metrics.jsonl" || fail "metrics.jsonl does not say what was loaded"
    echo "mesh $mesh, stopped after $*: losses and files are bit-equal"
}

# Saves on the way, in one attempt: of sizes whose messages come to lie where a step has its
# positions (test_saves.c has others).
saves() { # MESH
    hidden=128 length=128
    emit straight straight "$1" --set checkpoint.every_steps=8
    train 0 straight
    emit saves saves "$1" --set checkpoint.every_steps=3
    train 0 saves
    same_losses straight saves
    same_files "$(step straight 8)" "$(step saves 8)"
    [ -d "$(step saves 3)" ] || fail "nothing was saved on the way"
    hidden=32 length=32
    echo "mesh $1, saves on the way: losses and files are bit-equal"
}

# Each rank's part once, and no more memory than the buffers: a loose bound, for a small model.
check_loading() { # RUN
    local bytes growth all
    bytes=$(sed -nE 's/.*"loaded":.*"bytes":([0-9]+),.*/\1/p' "$out/$1/metrics.jsonl" | tail -n 1)
    growth=$(sed -nE 's/.*"resident_growth_bytes":([0-9]+).*/\1/p' "$out/$1/metrics.jsonl" | tail -n 1)
    # everything behind the headers, which are 4096 bytes each here
    all=$(find -L "$out/$1/checkpoints/step-000004" -name '*.safetensors' -printf '%s\n' |
        awk '{ sum += $1 - 4096 } END { print sum }')
    [ "$bytes" -eq "$all" ] || fail "$1: $bytes bytes were read of $all"
    [ "$growth" -le 67108864 ] || fail "$1: grew by $growth bytes while loading"
}

reshard() { # FROM-MESH MESHES...
    local from=$1 mesh name
    shift
    rm -rf "$out/saved" "$out/straight"
    emit saved saved "$from"
    train 0 saved --steps 4
    copy "$out/saved" "$out/straight"
    emit straight straight "$from"
    train 0 straight
    for mesh in "$@"; do
        name=on${mesh//,/}
        copy "$out/saved" "$out/$name"
        emit "$name" "$name" "$mesh"
        train 0 "$name"
        said "resuming from $(step "$name" 4), after step 4"
        close_losses 5 straight "$name"
        check_loading "$name"
        [ "$(fact "$(step "$name" 8)" next_sequence)" = 64 ] || fail "$name: sequences were left out"
        echo "saved on $from, loaded on $mesh: losses equal to $tolerance"
    done
}

# Whatever is split of weights, gradients and masters: a checkpoint does not know it, and a run that
# is stopped goes on to the bit.
shardings() {
    rm -rf "$out/saved" "$out/straight"
    emit saved saved 1,2,1,1
    train 0 saved --steps 4
    copy "$out/saved" "$out/straight"
    emit straight straight 1,2,1,1
    train 0 straight
    resharded zero1 2,2,1,1 --set zero=1
    resharded zero2 1,2,1,2 --set zero=2
    resharded kept 1,2,1,2 --set reshard_after_forward=false
    resharded masters 2,2,1,1 --set 'rules={moment_embed: [fsdp, sp, dp]}'
    sharding=(--set zero=1 --set 'rules={embed: [fsdp]}' --set precision.compute=bf16)
    stopped 1,2,1,2 3
    sharding=()
}

resharded() { # NAME MESH ARGUMENTS...
    local name=$1 mesh=$2
    shift 2
    copy "$out/saved" "$out/$name"
    emit "$name" "$name" "$mesh" "$@"
    train 0 "$name"
    said "resuming from $(step "$name" 4), after step 4"
    close_losses 5 straight "$name"
    # back, from what was saved there, to where every rank has everything
    copy "$out/$name" "$out/back"
    emit back back 1,1,1,1
    train 0 back --steps 9
    said "resuming from $(step back 8), after step 8"
    echo "saved by FSDP, loaded with $*: losses equal to $tolerance"
}

# Sizes that three ranks do not divide: hidden_size, and the batch of 8.
uneven() { # FROM-MESH MESHES...
    local mesh ranks first=""
    hidden=80 length=48
    reshard "$@"
    for mesh in "$@"; do # the held-out tail does not fill its last batch either
        emit judged judged "$mesh" --set data.holdout=0.001
        ranks=$((${mesh//,/*}))
        timeout 120 mpirun -q -np "$ranks" "$build/runner" evaluate "$out/judged.plan/tiny.plan.yaml" \
            --checkpoint "$out/straight/checkpoints" >"$out/said" 2>"$out/log" </dev/null ||
            fail "evaluate on $mesh"
        first=${first:-$(cat "$out/said")}
        [ "$(cat "$out/said")" = "$first" ] || fail "on $mesh: $(cat "$out/said"), not $first"
    done
    echo "judged on $*: ${first#*: }"
    hidden=32 length=32
}

# ---- Options ----

options() {
    local from folder=$out/options/checkpoints
    emit options options 1,1,1,1
    train 0 options --steps 3
    train 0 options --steps 3
    from=$(step options 3)
    said "tiny is finished: step 3 of 3 is in $from"
    train 0 options --steps 2
    said "tiny is finished: step 3 of 2 is in $from"
    train 0 options --resume auto
    said "resuming from $from, after step 3"
    train 2 options --resume none
    said "$out/options.plan/tiny.plan.yaml: error: '$folder' has checkpoints up to step-000008; --resume none would start over beside them: add --overwrite to delete them"
    train 0 options # finished
    said "tiny is finished: step 8 of 8 is in $(step options 8)"
    # a script that was written for another plan
    train 2 options --digest 0123456789abcdef
    said "$out/options.plan/tiny.plan.yaml: error: it has digest $(sed -n "s/^digest: '\?\([0-9a-f]*\).*/\1/p" "$out/options.plan/tiny.plan.yaml"), the script that starts it was written for 0123456789abcdef: the run was emitted again since; use the script that is there now"
    # a checkpoint of another run, by its own name, and by that of its folder
    emit other other 1,1,1,1
    train 0 other --steps 6 --resume "$(step options 3)"
    said "resuming from $(step options 3), after step 3"
    [ -d "$(step other 6)" ] || fail "the checkpoint is not in the run's own folder"
    train 0 other --steps 9 --resume "$folder"
    said "resuming from $(step options 8), after step 8"
    train 0 other --steps 10 --resume "$out/options" # the run's folder
    said "resuming from $(step options 8), after step 8"
    # back to an older one: what was newer is replaced when its step comes again
    train 0 options --resume "$(step options 3)"
    said "resuming from $(step options 3), after step 3"
    train 0 options --resume none --overwrite --steps 2
    said ""
    [ "$(ls -A "$folder")" = "latest
step-000002" ] || fail "left after --overwrite: $(ls -A "$folder")"
    train 0 options --resume none --overwrite --steps 2
    train 2 options --overwrite
    said "runner train: error: --overwrite deletes checkpoints, with --resume none only; see 'runner train --help'"
    train 2 options --resume
    said "runner train: error: --resume needs a value: auto, DIR or none; see 'runner train --help'"
    train 2 options --resume "$out/nowhere"
    said "$out/nowhere: error: --resume names a folder that is not there; name a checkpoint or a run's folder"
    # none where there are none
    rm -rf "$out/options"
    train 0 options --resume none --steps 1
    said ""
    echo "--resume, --overwrite, --steps and a finished run: as they should"
}

# ---- What may differ, and what may not ----

base() { # the checkpoint that the following start from: step 4
    emit base base 1,1,1,1
    train 0 base --steps 4
}

changed() { # NAME NOTE EMIT-ARGUMENTS...
    local name=$1 note=$2
    shift 2
    copy "$out/base" "$out/$name"
    emit "$name" "$name" 1,1,1,1 "$@"
    train 0 "$name" --steps 5
    said "resuming from $(step "$name" 4), after step 4
note: $note"
    [ -d "$(step "$name" 5)" ] || fail "$name: no step was done"
}

differences() {
    head -c 500000 "$text" >"$out/half.txt"
    mkdir -p "$out/cut"
    head -c 400000 "$text" >"$out/cut/text.txt"
    changed batch "global_batch_size is 4 now, it was 8 in the checkpoint" \
        --set global_batch_size=4
    [ "$(fact "$(step batch 4)" next_sequence) $(fact "$(step batch 5)" next_sequence)" = "32 36" ] ||
        fail "a changed batch: the data do not go on"
    changed length "sequence_length is 16 now, it was 32 in the checkpoint" --set sequence_length=16
    changed rate "the optimizer has learning_rate 0.002 now, it had learning_rate 0.001 in the checkpoint" \
        --set optimizer.learning_rate=2e-3
    changed decay "the optimizer has weight_decay 0, schedule linear now, it had weight_decay 0.1, schedule cosine in the checkpoint" \
        --set optimizer.weight_decay=0 --set optimizer.schedule=linear
    changed compute "precision.compute is bf16 now, it was fp32 in the checkpoint" \
        --set precision.compute=bf16
    changed params "precision.params is bf16 now, it was fp32 in the checkpoint" \
        --set precision.params=bf16
    changed steps "optimizer.total_steps is 20 now, it was 8 in the checkpoint" \
        --set optimizer.total_steps=20
    changed data "data.path is 'half.txt' now, it was 'text.txt' in the checkpoint: the data comes in another order" \
        --set data.path="$out/half.txt"
    changed tokens "'text.txt' has 400000 tokens now, it had $(fact "$(step base 4)" data_tokens) in the checkpoint: the data comes in another order" \
        --set data.path="$out/cut/text.txt"
    changed seed "data.seed is 2 now, it was 1 in the checkpoint: the data comes in another order" \
        --set data.seed=2
    changed holdout "data.holdout is 0.01 now, it was 0 in the checkpoint: the data comes in another order" \
        --set data.holdout=0.01
    # the same sequences in other batches: with parameters that stand still, the mean loss of two
    # batches of 4 is that of one of 8
    local still=(--set optimizer.learning_rate=1e-30 --set optimizer.min_learning_rate=0)
    copy "$out/base" "$out/eight"
    emit eight eight 1,1,1,1 "${still[@]}"
    train 0 eight --steps 5
    copy "$out/base" "$out/four"
    emit four four 1,1,1,1 "${still[@]}" --set global_batch_size=4
    train 0 four --steps 6
    { losses four; losses eight; } | awk '
        NR == 5 || NR == 6 { half += $2 / 2 }
        NR == 11 { difference = (half - $2) / $2 }
        END { exit !(NR == 11 && difference < 1e-6 && difference > -1e-6) }' ||
        fail "in batches of another size the sequences are others: $(losses four | tail -n 2) $(losses eight | tail -n 1)"
    echo "what differs is said in one line, and the data go on where they were"
}

refused() { # MESH DIFFERENCE EMIT-ARGUMENTS...
    local mesh=$1 difference=$2
    shift 2
    copy "$out/base" "$out/refused"
    emit refused refused "$mesh" "$@"
    train 2 refused
    said_error "$(step refused 4): error: holds another model than the plan: $difference; give the run another directory, or start over with --resume none --overwrite"
    [ "$(losses refused | wc -l)" -eq 4 ] || fail "a step was done with another model"
}

refusals() {
    refused 1,1,1,1 "hidden_size is 32, not 64" --set model.hidden_size=64 \
        --set model.num_hidden_layers=3
    refused 1,1,1,1 "vocab_size is 256, not 512" --set model.vocab_size=512 --set data.format=bytes
    refused 1,1,1,1 "tie_word_embeddings is false, not true" --set model.tie_word_embeddings=true
    refused 1,1,1,1 "rope_theta is 10000, not 500000" --set model.rope_theta=500000
    refused 1,2,1,1 "num_hidden_layers is 2, not 3" --set model.num_hidden_layers=3
    copy "$out/base" "$out/refused"
    emit refused refused 1,1,1,1
    "$build/tests/forge_manifest" "$(step refused 4)" lion || fail "no manifest of another optimizer"
    train 2 refused
    said_error "$(step refused 4): error: was trained with lion, the plan has adamw"
    echo "another model or optimizer is refused"
}

# ---- Checkpoints that are not whole ----

broken() { # EMIT-NAME ERROR: of $out/broken, which is made anew
    train 2 "$1" --resume "$out/broken"
    said_error "$out/broken/$2"
    [ ! -e "$out/$1/checkpoints" ] || fail "something was saved"
    [ ! -e "$out/$1/metrics.jsonl" ] || fail "a step was done"
    copy "$(step base 4)" "$out/broken"
}

damage() { # FILE: changes its last byte
    local last
    last=$(tail -c 1 "$1" | od -An -tu1)
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\x$(printf %x $((last ^ 1)))" |
        dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 1)) conv=notrunc status=none
}

wholeness() { # MESHES...
    local mesh name model=model-00001-of-00001.safetensors moment=optimizer/exp_avg-00001-of-00001.safetensors
    local bytes config other wrong
    copy "$(step base 4)" "$out/broken"
    bytes=$(stat -c %s "$out/broken/$model")
    config=$(stat -c %s "$out/broken/config.json")
    wrong="are not what was written: their checksum is wrong; use another checkpoint"
    other="bytes 4096 to $bytes ('model.embed_tokens.weight' and 20 more tensors) $wrong"
    for mesh in "$@"; do
        name=whole${mesh//,/}
        emit "$name" "$name" "$mesh"
        rm "$out/broken/manifest.json"
        broken "$name" "manifest.json: error: it is missing; a folder without it is not a checkpoint"
        sed -i 's/"step": 4,/"step": 5,/' "$out/broken/manifest.json"
        broken "$name" "manifest.json: error: its own checksum is wrong; it was changed or damaged"
        truncate -s 100 "$out/broken/manifest.json"
        broken "$name" "manifest.json: error: no checksum at its end; it is not a manifest, or it was cut off"
        truncate -s $((bytes - 100)) "$out/broken/$model"
        broken "$name" "$model: error: it has $((bytes - 100)) bytes, not $bytes"
        rm "$out/broken/$model"
        broken "$name" "$model: error: it is missing"
        rm "$out/broken/$moment"
        broken "$name" "$moment: error: it is missing"
        damage "$out/broken/$model"
        broken "$name" "$model: error: $other"
        damage "$out/broken/$moment"
        broken "$name" "$moment: error: $other"
        printf X | dd of="$out/broken/$model" bs=1 seek=4000 conv=notrunc status=none
        broken "$name" "$model: error: bytes 0 to 4096 $wrong"
        # a space more in the padding: only the checksum knows
        printf '\n' | dd of="$out/broken/$model" bs=1 seek=4000 conv=notrunc status=none
        broken "$name" "$model: error: bytes 0 to 4096 $wrong"
        printf ' ' >>"$out/broken/config.json"
        broken "$name" "config.json: error: it has $((config + 1)) bytes, not $config"
        sed -i 's/initializer_range": 0.02/initializer_range": 0.03/' "$out/broken/config.json"
        broken "$name" "config.json: error: bytes 0 to $config $wrong"
    done
    # what is not whole is passed over, and kept
    copy "$out/base" "$out/passed"
    emit passed passed 1,1,1,1
    train 0 passed --steps 6
    truncate -s 100 "$(step passed 6)/$model"
    train 0 passed --steps 6
    said "'$out/passed/checkpoints/latest' names step-000006, which is not a whole checkpoint ($model: it has 100 bytes, not $bytes); taking step-000004
resuming from $(step passed 4), after step 4
note: what is not a whole checkpoint in '$out/passed/checkpoints' is kept as step-000006.damaged; it is not read again, and you may delete it"
    [ "$(stat -c %s "$(step passed 6).damaged/$model")" -eq 100 ] || fail "it is not kept as it was"
    losses passed | awk '$1 > 4 { if ($1 in was && was[$1] != $2) bad = 1; was[$1] = $2; n++ }
        END { exit bad || n != 4 }' || fail "the steps that came again have other losses"
    rm "$(step passed 6)/manifest.json"
    damage "$(step passed 4)/$model"
    train 2 passed --steps 6
    said_error "runner: error: '$out/passed/checkpoints/latest' names step-000006, which is not a whole checkpoint (manifest.json: it is missing; a folder without it is not a checkpoint), nor is step-000004 ($model: ${other%; use*}); there is no other; --resume none --overwrite deletes what is there and starts over"
    train 0 passed --steps 1 --resume none --overwrite
    said ""
    [ "$(ls -A "$out/passed/checkpoints")" = "latest
step-000001" ] || fail "left after --overwrite: $(ls -A "$out/passed/checkpoints")"
    echo "checkpoints that are not whole are refused, and passed over"
}

rm -rf "$out"
mkdir -p "$out"
bash examples/make_text.sh || fail "no text to learn"
if [ "$which" = large ]; then
    stopped 1,2,2,2 1 3 5
    reshard 1,2,2,2 1,1,1,1 2,2,1,2 1,8,1,1 1,1,2,4
    uneven 1,2,2,2 1,1,1,3 1,3,1,1 1,1,2,3
    uneven 1,3,1,1 1,4,1,1
    base
    wholeness 1,2,2,1
else
    stopped 1,1,1,1 1 5
    stopped 1,2,1,1 3
    saves 1,2,1,1
    reshard 1,2,1,1 2,1,1,1 1,1,1,1 1,1,2,1
    shardings
    uneven 1,4,1,1 1,3,1,1 # three of four nodes are left
    options
    base
    differences
    refusals
    wholeness 1,1,1,1
fi

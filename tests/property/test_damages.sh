#!/usr/bin/env bash
# A folder of checkpoints that is damaged in any of 65 ways, each file in turn truncated, emptied,
# flipped, missing, swapped and so on: the run goes on from the best checkpoint that is whole and ends
# with the files, bit for bit, of one that nothing happened to; what is damaged is told with its
# file and kept aside. Where the same happened to every checkpoint, it is refused with the reason and
# nothing is touched. In turn on one rank and on two.
#
#   tests/property/test_damages.sh [BUILD-FOLDER [COUNT|all [SEED [FOLDER]]]]
#
# COUNT damages are drawn from all of them.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
wanted=${2:-6}
seed=${3:-$RANDOM}
# shellcheck source=tests/support/scratch.sh
. tests/support/scratch.sh
out=$(scratch_in "${4:-$build/tests/damages}") || exit 2
run=$out/run
folder=$run/checkpoints
damage=none

fail() {
    echo "FAIL (seed $seed, damage '$damage'): $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

prepare() { # RANKS: straight$1, all the way, and from$1, its first two checkpoints
    local ranks=$1
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$ranks" --mesh_dim "1,$ranks,1,1" \
        --set name=tiny --set directory="$run" --set cluster.accelerators_per_node="$ranks" \
        --set model.hidden_size=32 --set model.intermediate_size=64 \
        --set model.num_hidden_layers=1 --set sequence_length=32 --set global_batch_size=4 \
        --set optimizer.total_steps=6 --set optimizer.warmup_steps=1 --set data.holdout=0 \
        --set checkpoint.every_steps=2 >"$out/log" 2>&1 || fail "plan emit"
    train "$ranks" --steps 4 || fail "no checkpoints"
    cp -a "$run" "$out/from$ranks"
    train "$ranks" || fail "the run does not end"
    mv "$run" "$out/straight$ranks"
}

train() { # RANKS ARGUMENTS...
    local ranks=$1 start=()
    shift
    [ "$ranks" -eq 1 ] || start=(mpirun -q -np "$ranks")
    timeout 120 "${start[@]}" "$build/runner" train "$out/plan$ranks/tiny.plan.yaml" "$@" \
        >"$out/log" 2>&1 </dev/null
}

flip() { # FILE: a bit in its middle
    local at was
    at=$(($(stat -c %s "$1") / 2))
    was=$(od -An -tu1 -j $at -N 1 "$1")
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\x$(printf %x $((was ^ 16)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}

swap() { mv "$1" "$1.other" && mv "$2" "$1" && mv "$1.other" "$2"; }

# Does to FILE of a checkpoint, or to the checkpoint itself (FILE is .), what HOW says.
do_damage() { # CHECKPOINT FILE HOW
    local file=$1 bytes
    [ "$2" = . ] || file=$1/$2
    case $3 in
    truncated)
        bytes=$(stat -c %s "$file")
        truncate -s $((bytes - bytes / 3)) "$file"
        ;;
    emptied) if [ -d "$file" ]; then rm -r "$file" && mkdir "$file"; else : >"$file"; fi ;;
    flipped) flip "$file" ;;
    missing) rm -r "$file" ;;
    longer) printf ' ' >>"$file" ;;
    swapped) swap "$file" "$1/$(next_file "$2")" ;;
    a_folder) rm "$file" && mkdir "$file" ;;
    a_file) rm -r "$file" && echo text >"$file" ;;
    a_dangling_link) rm -r "$file" && ln -s nowhere "$file" ;;
    a_link_to_it) mv "$file" "$out/moved" && ln -s "$out/moved" "$file" ;;
    *) fail "no damage '$3'" ;;
    esac
}

next_file() { # the file that it is swapped with: of the same size where there is one
    case $1 in
    */exp_avg-*) echo "${1/exp_avg-/exp_avg_sq-}" ;;
    */exp_avg_sq-*) echo "${1/exp_avg_sq-/exp_avg-}" ;;
    config.json) echo manifest.json ;;
    *) echo config.json ;;
    esac
}

# Of `latest`: the step that is gone on with is printed.
do_latest() { # HOW
    case $1 in
    missing) rm "$folder/latest" && echo 4 ;;
    dangling) ln -sfn step-000099 "$folder/latest" && echo 4 ;;
    elsewhere) ln -sfn /nonexistent "$folder/latest" && echo 4 ;;
    older) ln -sfn step-000002 "$folder/latest" && echo 2 ;;
    a_copy) rm "$folder/latest" && cp -a "$folder/step-000004" "$folder/latest" && echo 4 ;;
    the_only_one) rm "$folder/latest" && mv "$folder/step-000004" "$folder/latest" && echo 4 ;;
    an_older_copy) rm "$folder/latest" && cp -a "$folder/step-000002" "$folder/latest" && echo 4 ;;
    an_empty_folder) rm "$folder/latest" && mkdir "$folder/latest" && echo 4 ;;
    a_folder) rm "$folder/latest" && mkdir "$folder/latest" && : >"$folder/latest/x" && echo 4 ;;
    a_name) rm "$folder/latest" && echo step-000004 >"$folder/latest" && echo 4 ;;
    a_file) rm "$folder/latest" && echo text >"$folder/latest" && echo 4 ;;
    *) fail "no damage '$1'" ;;
    esac
}

anew() { # RANKS
    rm -rf "$run" "$out/moved"
    cp -a "$out/from$1" "$run"
}

# The run goes on behind STEP and ends as if nothing had happened.
goes_on() { # RANKS STEP
    local file status
    train "$1"
    status=$?
    [ $status -eq 0 ] || fail "exit code $status on $1 ranks"
    grep -aq ", after step $2\$" "$out/log" || fail "does not go on behind step $2"
    while read -r file; do
        cmp "$out/straight$1/checkpoints/step-000006/$file" "$folder/step-000006/$file" ||
            fail "$file differs"
    done < <(cd "$out/straight$1/checkpoints/step-000006" && find . -type f ! -name manifest.json)
    [ "$("$build/tests/check_store" "$folder" clean 2>&1)" = 6 ] ||
        fail "$("$build/tests/check_store" "$folder" clean 2>&1)"
    "$build/runner" checkpoint verify "$folder" >"$out/log" 2>&1 || fail "a checkpoint is not whole"
}

try_file() { # RANKS FILE HOW
    local said=${2#.} before after
    anew "$1"
    do_damage "$folder/step-000004" "$2" "$3"
    if [ "$3" = a_link_to_it ]; then # the same bytes elsewhere: nothing is wrong
        goes_on "$1" 4
        return
    fi
    if [ "$2" = . ]; then said=manifest.json; fi
    before=$(cd "$folder" && find step-000004 -printf '%P %y %s\n' 2>/dev/null | sort)
    said_all=$(train "$1" --steps 5 && cat "$out/log")
    [ -n "$said_all" ] || fail "does not go on"
    [[ $said_all == *"names step-000004, which is not a whole checkpoint ("*"); taking step-000002"* ]] ||
        fail "does not say what is passed over"
    case $said in
    manifest.json | model.safetensors.index.json | config.json | *safetensors)
        [[ $said_all == *"whole checkpoint ($said: "* ]] || [ "$3" = swapped ] ||
            fail "does not name $said"
        ;;
    esac
    if [ "$2 $3" != ". missing" ]; then
        after=$(cd "$folder" && find step-000004.damaged -printf '%P %y %s\n' | sort)
        [ "$before" = "$after" ] || fail "what is damaged is not kept"
    fi
    goes_on "$1" 5
    # the same with every checkpoint: nothing is gone on with, nothing is lost
    anew "$1"
    do_damage "$folder/step-000004" "$2" "$3"
    rm -rf "$out/moved"
    do_damage "$folder/step-000002" "$2" "$3"
    if [ "$2 $3" = ". missing" ]; then rm "$folder/latest" && ln -s step-000004 "$folder/latest"; fi
    before=$(find "$folder" -printf '%P %y %s %l\n' | sort)
    train "$1"
    status=$?
    [ $status -eq 2 ] || fail "exit code $status where no checkpoint is whole"
    grep -aq 'error: .* is not a whole checkpoint (.*; there is no other; --resume none --overwrite' "$out/log" ||
        fail "the refusal has no reason"
    [ "$before" = "$(find "$folder" -printf '%P %y %s %l\n' | sort)" ] ||
        fail "something changed though it was refused"
}

bash examples/make_text.sh || fail "no text to learn"
prepare 1
prepare 2
mapfile -t files < <(cd "$out/from1/checkpoints/step-000004" && find . -type f -printf '%P\n' | sort)
[ ${#files[@]} -eq 6 ] || fail "not six files: ${files[*]}"
damages=()
for file in "${files[@]}"; do
    for how in truncated emptied flipped missing longer swapped a_folder a_dangling_link; do
        damages+=("$file $how")
    done
done
damages+=("model-00001-of-00001.safetensors a_link_to_it")
for how in emptied missing a_file a_dangling_link a_link_to_it; do damages+=(". $how"); done
for how in missing dangling elsewhere older a_copy the_only_one an_older_copy an_empty_folder a_folder \
    a_name a_file; do
    damages+=("latest $how")
done
[ ${#damages[@]} -eq 65 ] || fail "${#damages[@]} damages, not 65"

RANDOM=$seed
if [ "$wanted" = all ]; then wanted=${#damages[@]}; fi
echo "seed $seed, $wanted of ${#damages[@]} damages"
for ((i = 0; i < wanted; i++)); do
    k=$((i + RANDOM % (${#damages[@]} - i)))
    damage=${damages[k]}
    damages[k]=${damages[i]}
    read -r file how <<<"$damage"
    ranks=$((1 + i % 2))
    if [ "$file" = latest ]; then
        anew $ranks
        step=$(do_latest "$how") || exit 1
        goes_on $ranks "$step"
        [ -L "$folder/latest" ] || fail "latest is no symlink again"
        said_all=$(train $ranks && cat "$out/log")
        [[ $said_all == *"is finished: step 6 of 6"* ]] || fail "is not finished"
    else
        try_file $ranks "$file" "$how"
    fi
done
echo "$wanted damages of a folder of checkpoints: gone on with from the best whole one, bit-equal, or refused with the reason"

#!/usr/bin/env bash
# The time from the start of `runner generate` to its first token, of 2 GB of random bf16 weights in a Hugging Face directory,
# beside `cat` of the same file: with the file in the page cache, and without. Runs alternate in each round; medians, each with
# the user and system seconds of all its processes.
#
#   tests/bench/load.sh [BUILD] [--before BUILD] [--llama LLAMA_BUILD GGUF] [--rounds N] [--ranks '1 2 4'] [--python PYTHON]
#
# --before: another build's runner in turn. --llama: llama.cpp's llama-completion on weights of the same size. PYTHON has NumPy,
# which makes the weights, in BUILD/bench/load, once. On quiet cores wanted: warm 1.5, cold 1.2 times llama.cpp's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=build before='' llama='' gguf='' rounds=5 ranks='1 2 4' python=python3
[ $# -eq 0 ] || [[ $1 == --* ]] || { build=$1 && shift; }
while [ $# -gt 0 ]; do
    case $1 in
        --before) before=${2:-} && shift ;;
        --llama) llama=${2:-} gguf=${3:-} && shift 2 ;;
        --rounds) rounds=${2:-} && shift ;;
        --ranks) ranks=${2:-} && shift ;;
        --python) python=${2:-} && shift ;;
        *) sed -n '6s/^# *//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
work=$build/bench/load
threads=$(env -u OMP_NUM_THREADS nproc)
fail() {
    echo "load: $*" >&2
    exit 3
}
mkdir -p "$work" || exit 3
weights=$work/model/model.safetensors
if [ ! -f "$weights" ]; then
    "$python" tests/bench/ladder_weights.py '{"hidden": 2048, "intermediate": 5632, "layers": 20, "heads": 32, "kv_heads": 4,
        "head_dim": 64, "vocab": 32000, "theta": 10000, "tied": false}' "$work/model" 2048 || fail "no weights"
fi
bash examples/make_text.sh >/dev/null || fail "no text"

plan() { # RANKS
    "$build/plan" emit configs/runs/quickstart.yaml -o "$work/plan$1" --mesh_dim "1,1,$1,1" --set "model=$work/model/config.json" \
        --set "directory=$work/run" --set "cluster.accelerators_per_node=$1" --set "cluster.accelerator.memory=64 GB" \
        --set serve.max_batch=1 --set serve.max_tokens=128 --set serve.prompt_tokens=64 --set precision.compute=bf16 \
        --set data.format=bytes --set data.holdout=0 >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log")"
}
first_token() { # BUILD RANKS
    local start=() each=$((threads / $2))
    [ "$2" -eq 1 ] || start=(mpirun -q -np "$2")
    OMP_NUM_THREADS=$((each > 0 ? each : 1)) "${start[@]}" "$1/runner" generate "$work/plan$2/quickstart.plan.yaml" \
        --checkpoint "$work/model" --prompt hello --max-new-tokens 1 --temperature 0
}
peer() { "$llama/bin/llama-completion" -m "$gguf" -t "$threads" -p hello -n 1 -no-cnv; }
measure() { # NAME COMMAND...
    local name=$1 TIMEFORMAT='%R %U %S' spent
    shift
    if [ "$state" = cold ]; then # the file's pages, not everybody's
        for file in "$weights" ${gguf:+"$gguf"}; do dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none; done
    fi
    spent=$({ time "$@" </dev/null >/dev/null 2>"$work/log"; } 2>&1) || fail "$name: $(tail -n 2 "$work/log")"
    echo "$state $name $spent" >>"$work/times"
}
for n in $ranks; do plan "$n"; done
: >"$work/times"
for ((round = 0; round < rounds; round++)); do
    for state in warm cold; do
        [ "$state" = cold ] || cat "$weights" ${gguf:+"$gguf"} >/dev/null
        measure cat cat "$weights"
        for n in $ranks; do
            measure "ranks:$n" first_token "$build" "$n"
            [ -z "$before" ] || measure "before:$n" first_token "$before" "$n"
        done
        [ -z "$llama" ] || measure llama.cpp peer
    done
done
printf '%-5s %-10s %8s %8s %8s %10s\n' '' '' wall_s user_s sys_s 'of cat'
for state in warm cold; do
    cat=''
    while read -r name; do
        median=$(for column in 3 4 5; do
            awk -v s="$state" -v n="$name" -v c=$column '$1 == s && $2 == n { print $c }' "$work/times" | sort -n |
                awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
        done | xargs)
        cat=${cat:-${median%% *}}
        # shellcheck disable=SC2086
        printf '%-5s %-10s %8.2f %8.2f %8.2f %9.2fx\n' "$state" "$name" $median \
            "$(awk -v a="${median%% *}" -v b="$cat" 'BEGIN { print a / b }')"
    done < <(awk -v s="$state" '$1 == s && !seen[$2]++ { print $2 }' "$work/times")
done

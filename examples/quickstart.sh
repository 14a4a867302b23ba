#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing (Debian and Ubuntu packages), builds,
# plans a small model for this machine, trains it on eight CPU ranks (dp=1, fsdp=2, tp=2, sp=2) and
# shows the loss falling. It leaves a checkpoint, which is a Hugging Face model directory. Run it again as
# often as you like, from anywhere: the last results are moved aside. Installed, as shardwright-quickstart,
# it takes the programs beside it, and the results are in runs/quickstart of the working directory.
#
# SW_QUICKSTART_STEPS=N trains N steps instead of 250; SW_QUICKSTART_OUT=DIR puts the results elsewhere
# than in runs/quickstart.
set -euo pipefail
here=$(cd "$(dirname "$(realpath "$0")")" && pwd)
case ${1:-} in
    --help | -h)
        echo "usage: shardwright-quickstart"
        echo "Plans a small model for this machine, trains it on eight CPU ranks (mesh 1,2,2,2) in minutes, and shows"
        echo "the loss falling. Plan, script, metrics and model are in runs/quickstart; the last results are moved aside."
        echo
        echo "SW_QUICKSTART_STEPS=N   trains N steps instead of 250"
        echo "SW_QUICKSTART_OUT=DIR   puts the results there instead of in runs/quickstart"
        exit 0
        ;;
    '') ;;
    *)
        echo "quickstart: unknown argument '$1'; it takes none" >&2
        exit 2
        ;;
esac

if [ -f "$here/../CMakeLists.txt" ]; then
    cd "$here/.."
    installed=false run=configs/runs/quickstart.yaml programs=build
else
    installed=true run=$(realpath "$here/../share/shardwright/configs/runs/quickstart.yaml") programs=$here
fi
out=${SW_QUICKSTART_OUT:-runs/quickstart}
steps=${SW_QUICKSTART_STEPS:-250}
case $steps in
    '' | *[!0-9]* | 0)
        echo "quickstart: SW_QUICKSTART_STEPS is '$steps', not a number of steps" >&2
        exit 2
        ;;
esac
settings=()
if [ "$steps" != 250 ]; then
    warmup=$((steps / 8))
    settings=(--set "optimizer.total_steps=$steps" --set "optimizer.warmup_steps=$warmup")
fi
if [ "$out" != runs/quickstart ]; then
    mkdir -p "$out"
    settings+=(--set "directory=$(cd "$out" && pwd)")
fi
say() {
    printf '\n== %s\n' "$*"
}
quietly() { # shows the output only when the command fails, and its last line on a terminal meanwhile
    local log status=0 command
    log=$(mktemp)
    if [ -t 2 ]; then
        "$@" >"$log" 2>&1 </dev/null &
        command=$!
        # what runs in the background of a script ignores Ctrl-C
        trap 'kill "$command"; printf "\n" >&2; exit 130' INT
        while kill -0 "$command" 2>/dev/null; do
            printf '\r\033[K%s' "$(tail -n 1 "$log" | cut -c 1-79)" >&2
            sleep 0.2
        done
        printf '\r\033[K' >&2
        wait "$command" || status=$?
        trap - INT
    else
        "$@" >"$log" 2>&1 </dev/null || status=$?
    fi
    [ $status -eq 0 ] || tail -n 40 "$log" >&2
    rm -f "$log"
    return $status
}

if [ $installed = false ]; then
    say "install what is missing, build, fetch a text"
    bash tests/install.sh build
    quietly cmake -S . -B build -G Ninja
    quietly cmake --build build --target plan runner
    bash examples/make_text.sh
    echo "build/plan, build/runner, examples/data/text.txt ($(wc -c <examples/data/text.txt) bytes)"
fi

# The last results stay beside the new ones, once.
if [ -e "$out" ]; then
    rm -rf "$out.previous"
    mv "$out" "$out.previous"
fi
mkdir -p "$out"

say "plan search $run"
"$programs/plan" search "$run" ${settings[@]+"${settings[@]}"}

say "plan emit $run -o $out"
"$programs/plan" emit "$run" -o "$out" ${settings[@]+"${settings[@]}"}

# Eight ranks share this machine's cores: let them yield, and don't tie them to one core each.
# Containers often run as root, which mpirun refuses unless told twice.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

say "train: $out/quickstart.sh, eight ranks, $steps steps"
started=$SECONDS
if ! bash "$out/quickstart.sh" 2>&1 | tee "$out/quickstart.log"; then
    echo "quickstart: training failed, see $out/quickstart.log" >&2
    exit 3
fi

say "the loss, from $out/metrics.jsonl (nats per byte; a guess among 256 bytes costs 5.55)"
awk -v every=$((steps > 10 ? steps / 10 : 1)) '
    match($0, /"step": *[0-9]+/) {
        step = substr($0, RSTART, RLENGTH); sub(/.*: */, "", step); step += 0
        if (!match($0, /"loss": *[-+.0-9eE]+/)) next
        loss = substr($0, RSTART, RLENGTH); sub(/.*: */, "", loss); loss += 0
        if (!seen++) first = loss
        last = loss; last_step = step
        bar = ""; for (i = 0; i < loss * 10; i++) bar = bar "#"
        if (seen == 1 || step % every == 0) printf "step %5d  loss %6.3f  %s\n", step, loss, bar
    }
    END {
        if (!seen) { print "quickstart: no step in metrics.jsonl" > "/dev/stderr"; exit 1 }
        printf "\nloss %.3f at the first step, %.3f at step %d (%.2f bits per byte)\n",
            first, last, last_step, last / log(2)
        if (!(last < 0.9 * first)) {
            print "quickstart: the loss did not fall" > "/dev/stderr"
            exit 1
        }
    }' "$out/metrics.jsonl"
grep -aiE 'held[- ]?out|bigram' "$out/quickstart.log" | tail -n 2 || true
echo "trained in $((SECONDS - started)) s; the plan is $out/quickstart.plan.yaml"
checkpoint=$out/checkpoints/$(readlink "$out/checkpoints/latest")
echo "the model is in $checkpoint, as Hugging Face has it; to look at it:"
echo "  $programs/runner checkpoint ls $out"

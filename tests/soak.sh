#!/usr/bin/env bash
# The long trials of what people trust runs with: kills, faults at every file operation of a save,
# flipped bits, damaged checkpoints, the lock, job scripts, what saves do to a training. Hours on a
# small machine; interrupted, it goes on where it was.
#
#   tests/soak.sh [--build DIR] [--seed N] [--saves N] [--kills N] [--faults N|all] [--flips N]
#                 [--damages N|all] [--locks N] [--lives N] [--settings N] [--limits N] [--searches N]
#                 [--rules N] [--chats N] [--broken N] [--stages N] [--fuzz SECONDS] [--only TRIAL] [--machine WORDS] [--report FILE.md] [--anew]
#
# The fuzzers and the trial `sanitized` need build-checked, the trial `threads` build-threads, as tests/run.sh --all makes them.
# What was done is in DIR/soak (removed by --anew). A trial that was begun with other programs than
# those in DIR now is begun anew; one that held is not run again. The table goes to stdout
# and to FILE.md, with the date, the commit, the machine in WORDS. Leaves with 1 when a trial fails.
set -uo pipefail
unset SW_TEST_SHARE # all of a test's repetitions
cd "$(dirname "$0")/.." || exit 2
build=build seed='' saves=200 kills=50 faults=all flips=1000 damages=all locks=20 lives=30 settings=1000 limits=300 searches=300 rules=300 chats=3000 broken=3000 stages=40 fuzz=600
report='' only='' anew=false
machine="$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
while [ $# -gt 0 ]; do
    case $1 in
    --anew)
        anew=true
        shift
        continue
        ;;
    --build | --seed | --saves | --kills | --faults | --flips | --damages | --locks | --lives | --settings | --limits | --searches | --rules | --chats | --broken | --stages | --fuzz | --only | --machine | --report)
        [ $# -gt 1 ] || { echo "soak: $1 needs a value" >&2 && exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    *)
        echo "soak: unknown option $1" >&2
        exit 2
        ;;
    esac
done
build=$(cd "$build" && pwd) || exit 2
out=$build/soak
[ "$anew" = true ] && rm -rf "$out"
mkdir -p "$out"
# the seed is that of the trials that were begun
[ -f "$out/seed" ] || echo "${seed:-$RANDOM}" >"$out/seed"
if [ -n "$seed" ] && [ "$seed" != "$(cat "$out/seed")" ]; then
    echo "soak: seed $(cat "$out/seed") was begun with; --anew starts over" >&2
    exit 2
fi
seed=$(cat "$out/seed")
echo "seed $seed, in $out"
failed=0

programs=$(cat "$build/runner" "$build/plan" | cksum)

# trial NAME WHAT COMMAND...: once; its row is its last line of output.
trial() {
    local name=$1 what=$2 begin=$SECONDS outcome said
    shift 2
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    [ -f "$out/$name.row" ] && return
    echo "$(date +%H:%M:%S) $name"
    [ "$(cat "$out/$name.programs" 2>/dev/null)" = "$programs" ] || rm -rf "${out:?}/$name"
    echo "$programs" >"$out/$name.programs"
    # what counts seconds is not put behind others
    if nice -n "$([ "$name" = lives ] || [ "$name" = each ] || [ "$name" = disturbed ] && echo 0 || echo 10)" "$@" >"$out/$name.log" 2>&1; then
        outcome=held
    else
        outcome=FAILED
    fi
    said=$(tail -n 1 "$out/$name.log")
    [ $outcome = held ] || said=$(grep -m 1 FAIL "$out/$name.log")
    printf '| %s | %s | %s | %s | %s s |\n' "$what" "$outcome" "${said//|/,}" \
        "$(git rev-parse --short=10 HEAD 2>/dev/null)" $((SECONDS - begin)) >"$out/$name.new"
    # one that failed is tried again the next time
    if [ $outcome = held ]; then mv "$out/$name.new" "$out/$name.row"; else failed=1; fi
}
# shellcheck disable=SC2317
lock_trials() {
    local i
    for ((i = 1; i <= locks; i++)); do
        "$build/tests/test_lock" "$build/tests" || return 1
        bash tests/property/test_two_jobs.sh "$build" || return 1
    done
    echo "$locks times: the second of two jobs refused by name, taken over when the first was killed"
}

# shellcheck disable=SC2317
save_draws() {
    local i
    mkdir -p "$out/saves"
    for ((i = 1; i <= saves; i++)); do
        [ -f "$out/saves/$i" ] && continue
        "$build/tests/test_saves" 1 "$seed" "$i" || return 1
        touch "$out/saves/$i"
    done
    echo "$saves trainings of as many models, meshes, chunks and intervals: bit-equal with and without saves and evaluations"
}
export -f save_draws
export build out saves seed
trial saves "$saves trainings with saves and evaluations" bash -c save_draws
# shellcheck disable=SC2317
search_all() {
    "$build/tests/test_contention" "$searches" "$seed" >&2 && "$build/tests/test_search_rule" "$searches" "$seed" >&2 &&
        "$build/tests/test_search_margin" "$searches" "$seed" | grep 'random trainings' &&
        "$build/tests/test_frontier" "$searches" "$seed" | grep 'random runs' &&
        "$build/tests/test_search_shardings" "$searches" "$seed" | grep 'random trainings'
}
export -f search_all
export searches
trial run_cost "$searches simulated runs" "$build/tests/test_run_cost" "$searches" "$seed" 10000
trial search "$searches random trainings' default meshes" bash -c search_all

# shellcheck disable=SC2317
rule_draws() {
    "$build/tests/test_layout" "$rules" "$seed" && "$build/tests/test_rules" "$rules" "$seed"
}
export -f rule_draws
export rules
trial rules "$rules random tables of rules" bash -c rule_draws

# shellcheck disable=SC2317
chat_draws() {
    mkdir -p "$out/chats" && tar -C "$out/chats" -xf tests/oracle/fixtures/counted_chats.tar.xz &&
        "$build/tests/test_counted_chats" "$out/chats" "$chats" "$seed" | grep 'drawn ones'
}
export -f chat_draws
export chats
trial chats "$chats conversations for each template and tokenizer" bash -c chat_draws

trial settings "$settings runs' job scripts" bash tests/cluster/test_settings.sh "$build" "$settings" 5000 \
    "$out/settings"
# shellcheck disable=SC2317
limit_draws() {
    "$build/tests/test_limits_drawn" $((limits * 100)) "$seed" && "$build/tests/test_shrunk_limits" $((limits * 50)) "$seed" && bash tests/cluster/test_limits.sh "$build" "$limits" "$seed" &&
        bash tests/cluster/test_budgets.sh "$build" $((limits / 4)) "$seed"
}
export -f limit_draws
export limits
trial limits "$limits sites' limits and accounts under a controller" bash -c limit_draws
trial packages "packages in a bare root folder" bash -c "bash tests/bare_root.sh --package '$build' || [ \$? -eq 77 ]"
trial imports "$settings sites, imported" python3 tests/unit/test_import_sites.py "$build/plan" "$out/imports" "$settings" "$seed"
trial segments "$((settings * 100)) meshes on blocks" "$build/tests/unit_segments" $((settings * 100)) "$seed"
trial topology "leaf switches of a real cluster" bash tests/cluster/test_topology.sh "$build"
trial placement "$settings jobs on blocks" python3 tests/unit/test_placement.py "$build/plan" "$out/placement" "$settings" "$seed"
trial broken "$broken data files, and damages of them" python3 tests/unit/test_broken_data.py "$build" "$out/broken" "$broken" "$seed"
trial variables "every variable of Slurm's commands" bash -c "bash tests/cluster/test_environment.sh '$build' each &&
    bash tests/unit/test_slurm_environment.sh '$build/plan' '$out/variables' each"
trial kill "$kills kills" bash tests/property/test_kill.sh "$build" "$kills" "$seed" "$out/kill"
trial staged_jobs "a run of three stages on a real cluster" bash tests/cluster/test_stages.sh "$build"
trial stages "$stages runs of three stages" bash tests/property/test_stages.sh "$build" "$stages" "$seed" "$out/stages"
trial faults "faults: $faults" bash tests/property/test_faults.sh "$build" "$faults" "$seed" \
    "$out/faults"
if [ -f tests/property/test_flips.sh ]; then
    trial flips "$flips flipped bits" bash tests/property/test_flips.sh "$build" "$flips" "$seed" \
        "$out/flips"
fi
trial damages "damages of a folder of checkpoints: $damages" bash tests/property/test_damages.sh \
    "$build" "$damages" "$seed" "$out/damages"
# What the tests of every build have, with larger counts.
# shellcheck disable=SC2317
count_trials() {
    "$build/tests/test_store_faults" "$build/tests" 1 && "$build/tests/test_search_rows" 200 7 &&
        "$build/tests/test_search_rule" 4000 && "$build/tests/test_search_help" 60 "$seed" 200 && "$build/tests/test_search_spare" 200 "$seed" &&
        "$build/tests/unit_token_index" 3000 "$seed" && "$build/tests/test_packing" 20000 "$seed" && "$build/tests/test_reading" 100 "$seed" && "$build/tests/test_packed_rows" "$out" 300 "$seed" && "$build/tests/test_meshes" 13 && "$build/tests/test_factors" 100 && "$build/tests/test_cached_masks" 2000 "$seed" && "$build/tests/test_masks" 30 "$seed" && "$build/tests/test_adapters" 20 "$seed" && "$build/tests/test_adapter_fixtures" all &&
        python3 tests/oracle/json_texts.py "$seed" 10000 "$out/json_texts.txt" && "$build/tests/test_json_texts" "$out/json_texts.txt" &&
        python3 tests/oracle/jinja_numbers.py "$seed" 100000 "$out/jinja_numbers.txt" &&
        "$build/tests/test_jinja_numbers" "$out/jinja_numbers.txt" &&
        "$build/tests/test_uneven_meshes" 41 && "$build/tests/test_slots" && bash tests/property/test_quickstart.sh "$build" || return 1
    echo "a fault at every file operation of a save, 200 searches row by row, 4000 searches and their rule, 60 runs that fit nowhere and every smaller change than their help, more variants on every mesh, 300,000 rows of factors, 2,000 calls over a cache with masks, 1,020 training steps with masks, 10,000 texts of Python's json, 3,000 files of tokens with their index, written, read and damaged, 20,000 packings by their definition, 900 drawn files packed, masked and mixed, 100,000 numbers in templates, texts in every slot of all meshes, types and shapes, all steps of the quickstart on eight ranks and on one"
}
export -f count_trials
export -f lock_trials
export locks build
# The gate compiles CUDA's kernels for one architecture.
# shellcheck disable=SC2317
architectures() {
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || { echo "no nvcc here: nothing compiled" && return; }
    cmake -S . -B "$out/architectures" -G Ninja -DSW_WERROR=ON -DSW_CUDA=ON && cmake --build "$out/architectures" --target runner-cuda &&
        bash tests/unit/test_cuda_code.sh "$out/architectures/runner-cuda.so" 80 90 || return 1
    echo "CUDA's kernels compiled for all architectures that nvcc knows of ours"
}
export -f architectures
trial architectures "CUDA for all architectures" bash -c architectures
# Tests of the emulated GPU draw one order of its streams.
# shellcheck disable=SC2317
stream_orders() {
    local i
    [ -x "$build/tests/test_cuda_meshes_nccl_emulated" ] || { echo "no emulated tests here: no orders drawn" && return; }
    for ((i = 1; i <= 10; i++)); do
        export SW_EMULATED_SEED=$((seed + i))
        "$build/tests/test_cuda_meshes_nccl_emulated" 2 97 && "$build/tests/test_cuda_texts_nccl_emulated" 7 &&
            "$build/tests/test_nccl_calls_emulated" || return 1
    done
    "$build/tests/test_cuda_meshes_nccl_emulated" waits 1 && "$build/tests/test_cuda_meshes_emulated" 2 17 &&
        "$build/tests/test_cuda_meshes_pieces_emulated" 2 17 || return 1
    echo "ten orders of an emulated GPU's streams; each of a training's waits for events left out once: all show"
}
export -f stream_orders
trial streams "orders of an emulated GPU's streams" bash -c stream_orders
trial optimizer "runs of every moment, schedule and spike on five meshes, killed behind each checkpoint" \
    python3 tests/oracle/test_optimizer.py "$build" "$out/optimizer" all
trial lock "the lock" bash -c lock_trials
trial counts "large counts of quick tests" bash -c count_trials
# shellcheck disable=SC2317
whole_tests() {
    ctest --test-dir "$build" -L share --output-on-failure --no-tests=error || return 1
    "$build/tests/test_family_texts" && "$build/tests/test_rows" && "$build/tests/test_layout" || return 1
    echo "every repetition of the tests of which the gate takes a share"
}
export -f whole_tests
trial whole "tests of which the gate takes a share" bash -c whole_tests

trial serve "1000 hostile requests to a server, 64 clients for five minutes" \
    bash tests/property/test_serve.sh "$build" 1000 64 300 "$seed"

# shellcheck disable=SC2317
fuzz_all() {
    local fuzzer count=0
    mkdir -p "$out/fuzz"
    for fuzzer in build-checked/tests/fuzz_*; do
        if [ ! -f "$fuzzer" ] || [ ! -x "$fuzzer" ]; then continue; fi
        count=$((count + 1))
        bash tests/fuzz/explore.sh "$fuzzer" "$fuzz" "$seed" "$out/fuzz" || {
            echo "FAIL ${fuzzer##*/}: what it found is in $out/fuzz"
            return 1
        }
    done
    [ "$count" -gt 0 ] || { echo "FAIL: no fuzzers in build-checked" && return 1; }
    echo "$count fuzzers, $fuzz s each, found nothing"
}
# What the gate leaves to Release builds, under the sanitizers.
# shellcheck disable=SC2317
release_sanitized() {
    local log=$out/sanitized.log
    ASAN_OPTIONS=detect_leaks=1:exitcode=99 LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp \
        UBSAN_OPTIONS=halt_on_error=1 OMPI_MCA_mca_base_env_list="ASAN_OPTIONS=detect_leaks=0:exitcode=99" \
        ctest --test-dir build-checked -L "release|share" --output-on-failure --no-tests=error >"$log" 2>&1 || {
        cat "$log"
        return 1
    }
    ASAN_OPTIONS=detect_leaks=1:exitcode=99 UBSAN_OPTIONS=halt_on_error=1 build-checked/tests/test_rows >"$log.rows" 2>&1 || {
        echo "FAIL: test_rows under the sanitizers"
        cat "$log.rows"
        return 1
    }
    sed -n 's/^100% tests passed, 0 tests failed out of \([0-9]*\)$/\1 tests passed, and test_rows with all types and shapes/p' "$log"
}
# What the gate's thread sanitizer sees a part of.
# shellcheck disable=SC2317
threads_whole() {
    TSAN_OPTIONS=suppressions=$PWD/tests/support/tsan.supp:halt_on_error=1 build-threads/tests/test_checkpoint_move || return 1
    echo "every trial of states that move between meshes, without a race"
}
export -f fuzz_all release_sanitized threads_whole
export fuzz
trial fuzz "fuzzers" bash -c fuzz_all
trial sanitized "tests with the label release under the sanitizers" bash -c release_sanitized
trial threads "moves of states under the thread sanitizer" bash -c threads_whole

# On four live Slurm nodes; each life that held is not lived again.
# shellcheck disable=SC2317
live() {
    local i
    mkdir -p "$out/lives"
    for ((i = 1; i <= lives; i++)); do
        [ -f "$out/lives/$i" ] && continue
        if ! bash tests/cluster/test_lives.sh "$build" "random:$((seed + i))" >"$out/lives/$i.log" 2>&1; then
            cat "$out/lives/$i.log"
            return 1
        fi
        if ip netns list | grep '^swtest' || pgrep -f "runner train $build/slurm-lives"; then
            echo "FAIL: life $i left a namespace or a process"
            return 1
        fi
        touch "$out/lives/$i"
    done
    echo "$lives lives under random faults: every run finished, losses within 1e-6, no process left"
}
# Each kind of life once, but those that the tests of every build have.
# shellcheck disable=SC2317
live_each() {
    local life
    for life in shrink crash array unchain cancel slow full host cut overwrite; do
        [ -f "$out/lives/$life" ] && continue
        if ! bash tests/cluster/test_lives.sh "$build" "$life" >"$out/lives/$life.log" 2>&1; then
            cat "$out/lives/$life.log"
            return 1
        fi
        touch "$out/lives/$life"
    done
    echo "a start that crashes, an array, a chain that is cancelled, cancel in a step and a save, a slow node, a full disk, the batch host, a cut link, a lost node of a run that began anew"
}
# What administrators, other jobs, limits and lost nodes do, each at a step that the seed chooses.
# shellcheck disable=SC2317
live_disturbed() {
    local life count=0
    for life in slowd controller preempt drain hold suspend starting requeue node limit random chain; do
        count=$((count + 1))
        [ -f "$out/lives/$life" ] && continue
        if ! bash tests/cluster/test_lives.sh "$build" "$life:$seed" >"$out/lives/$life.log" 2>&1; then
            cat "$out/lives/$life.log"
            return 1
        fi
        touch "$out/lives/$life"
    done
    echo "$count lives: every run finished, with the losses of an undisturbed one"
}
export -f live live_each live_disturbed
mkdir -p "$out/lives"
export out lives seed
trial each "eight lives on four Slurm nodes" bash -c live_each
trial disturbed "twelve lives that are disturbed on four Slurm nodes" bash -c live_disturbed
trial lives "$lives lives on four Slurm nodes" bash -c live

table() {
    echo "# Soak, $(date +%F)"
    echo
    echo "\`tests/soak.sh\`, seed $seed, commit $(git rev-parse --short=10 HEAD 2>/dev/null)$(
        git diff --quiet HEAD 2>/dev/null || echo ' and changes'
    ), on $machine. What a line says was seen by its test, which ends at the first thing that is not so."
    echo
    echo "| trial | outcome | what it says | commit | took |"
    echo "| --- | --- | --- | --- | ---: |"
    local name
    for name in saves search rules chats settings limits imports broken variables kill faults flips damages architectures streams lock counts serve fuzz sanitized threads each disturbed lives; do
        cat "$out/$name.row" 2>/dev/null || cat "$out/$name.new" 2>/dev/null
    done
}
table
if [ -n "$report" ]; then table >"$report"; fi
exit $failed

#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that needs no GPU.
#
#   tests/run.sh          the build with warnings as errors and every quick test (< 10 minutes)
#   tests/run.sh --build  the build and the check of its headers alone
#   tests/run.sh --all    the gate: what must hold before a change lands (tests/README.md: how long).
#                         Also what waits (a Slurm cluster, kills, stalls), beside all that computes; clang
#                         with sanitizers and asserts; the fuzzers; the thread sanitizer; a bare root
#                         folder; the quickstart; the linters
#
# tests/README.md says what runs where and why. The last line is `N passed, N failed`; the exit status is 0 only when nothing failed. Each test
# program and each step counts one. What this machine cannot run is said on a line `SKIP: ...`.
# Most functions are called by name through `step`.
# shellcheck disable=SC2317
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
root=$PWD

all=
case ${1:-} in
    '') ;;
    --all | --build) all=$1 ;;
    *)
        echo "usage: tests/run.sh [--build | --all]" >&2
        exit 2
        ;;
esac

# busy PART: how much of all processors' time went by in work since it was last said. What leaves them idle could run
# beside something else; what keeps them busy is made shorter by less work alone.
busy_before=(0 0)
busy() {
    local user nice system idle waiting irq soft steal all
    read -r _ user nice system idle waiting irq soft steal _ 2>/dev/null </proc/stat || return 0
    all=$((user + nice + system + idle + waiting + irq + soft + steal)) idle=$((idle + waiting))
    [ -z "${1:-}" ] || echo "     processors $((100 - 100 * (idle - busy_before[1]) / (all - busy_before[0] + 1))) % busy: $1 (at $SECONDS s)"
    busy_before=("$all" "$idle")
}
busy

passed=0
failed=0
failures=() # "NAME", and below it what was wrong in a few lines
logs=$root/build/test-logs
mkdir -p "$logs"
# nproc would say what OMP_NUM_THREADS or OMP_THREAD_LIMIT says
jobs=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 2)

# Eight ranks on two cores: they yield while they wait, are not bound, and may run as root (containers).
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# No rank looks for the devices of PCI, which takes it a tenth of a short job: a virtual machine answers each look itself.
export HWLOC_COMPONENTS=-pci,-linuxio
# Threads that wait for each other sleep: what they would spin away is another test's.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99
export LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# A third of the repetitions of the tests with the label `share`, in turns; all by tests/soak.sh.
export SW_TEST_SHARE=3
export TSAN_OPTIONS=suppressions=$root/tests/support/tsan.supp:halt_on_error=1:exitcode=98

# On a terminal: the last line of the log that grows, written over each second, since a step may take many minutes.
teller=
if [ -t 2 ]; then
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        newest=$(find "$logs" -name '*.log' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
        [ -z "$newest" ] || printf '\r\033[K%s' "$(tail -n 1 "$newest" | tr -d '\r' | cut -c 1-79)" >&2
    done &
    teller=$!
fi
clear_line() {
    [ -z "$teller" ] || printf '\r\033[K' >&2
}

# What runs beside us, each a process group of its own.
beside=()
# start_beside LOG COMMAND...: its process group is the last of `beside`. It is a session of its own, whose share of the
# processors Linux may keep apart.
start_beside() {
    local log=$1
    shift
    setsid "$@" >"$log" 2>&1 </dev/null &
    beside+=($!)
}
finish() {
    local failure group
    for group in ${beside[@]+"${beside[@]}"}; do kill -- "-$group" 2>/dev/null; done
    [ -z "$teller" ] || kill "$teller" 2>/dev/null
    clear_line
    if [ "$failed" -gt 0 ]; then
        echo
        for failure in "${failures[@]}"; do printf 'FAILED: %s\n' "$failure"; done
    fi
    echo "in $SECONDS s"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit $?
}
trap 'echo; failed=$((failed + 1)); failures+=("interrupted"); finish' INT TERM

count_pass() {
    passed=$((passed + 1))
    clear_line
    echo "ok   $1${2:+ ($2 s)}"
}
# The lines of a log that most likely say what was wrong, for the closing lines.
reasons() {
    grep -aE 'FAIL|[Ee]rror|[Aa]ssert|differ|Timeout' | grep -av 'Test *#' | head -n 6 | cut -c 1-300 | sed 's/^ */    /'
}
count_fail() { # NAME LOG
    failed=$((failed + 1))
    clear_line
    echo "FAIL $1"
    if [ -n "${2:-}" ] && [ -s "$2" ]; then
        awk '{ line[NR] = $0 }
            END {
                for (i = 1; i <= NR; i++) {
                    if (i <= 20 || i > NR - 60) print "    " line[i]
                    else if (i == 21) print "    [... " NR - 80 " lines ...]"
                }
            }' "$2"
        failures+=("$1"$'\n'"$(reasons <"$2")")
    else
        failures+=("$1")
    fi
}

# step NAME COMMAND...: one counted step; its output is shown when it fails. 77 is a skip.
step() {
    local name=$1 log start=$SECONDS
    shift
    log=$(log_of "$name")
    "$@" >"$log" 2>&1 </dev/null
    count_step "$name" "$log" $? $((SECONDS - start))
}
log_of() { echo "$logs/${1//[^A-Za-z0-9]/-}.log"; }
count_step() { # NAME LOG STATUS [SECONDS]
    local name=$1 log=$2 status=$3
    if [ "$status" -eq 0 ]; then
        count_pass "$name" "${4:-}"
    elif [ "$status" -eq 77 ]; then
        grep -a '^SKIP' "$log" | tail -n 1 | grep . || echo "SKIP: $name"
    else
        count_fail "$name" "$log"
        return 1
    fi
}

# begin_step NAME COMMAND...: as step, but goes on meanwhile; end_steps waits for all of them and counts each. For what keeps one
# processor busy, and needs nothing of what is built.
begun=()
begin_step() {
    local name=$1 log
    shift
    log=$(log_of "$name")
    "$@" >"$log" 2>&1 </dev/null &
    begun+=("$!|$name")
}
end_steps() {
    local job name status
    for job in ${begun[@]+"${begun[@]}"}; do
        name=${job#*|}
        wait "${job%%|*}"
        status=$?
        count_step "$name" "$(log_of "$name")" $status
    done
    begun=()
}

configure_and_build() { # DIR CMAKE-ARGUMENTS...
    local dir=$1
    shift
    cmake -S . -B "$dir" -G Ninja "$@" && cmake --build "$dir" -j "$jobs"
}

# What is woken does not push aside what runs: ranks on two cores wake each other all the time. Not for what runs
# alone, nor for what waits in build.
in_turns=()
if chrt --batch 0 true 2>/dev/null; then in_turns=(chrt --batch 0); fi

# run_ctest PREFIX DIR ARGUMENTS...: counts each test of ctest by itself. Tests write their files to the build folder, so a run
# may be repeated. Those that are several processes say so by PROCESSORS, those that may not be two at a time by RESOURCE_LOCK.
# Two at a time for each processor: ranks wait for each other, and many tests for processes that they started.
run_ctest() {
    local log=$logs/ctest-${1//[^A-Za-z0-9]/-}.log
    ${launch_prefix[@]+"${launch_prefix[@]}"} ctest --test-dir "$2" --output-on-failure -j $((2 * jobs)) --no-tests=error "${@:3}" \
        >"$log" 2>&1 </dev/null
    count_ctest "$1" "$2" "$log" $?
}
# Tests that judge by seconds (label) and failed while others ran: "DIR|NAME", to be run once more, alone.
late=()
count_ctest() { # PREFIX DIR LOG STATUS
    local prefix=$1 dir=$2 log=$3 status=$4 seen=0 name result seconds by_seconds
    by_seconds=$(ctest --test-dir "$dir" -N -L seconds | sed -nE 's/^ *Test +#[0-9]+: //p')
    while IFS='|' read -r name result seconds; do
        seen=$((seen + 1))
        case $result in
            Passed) count_pass "$prefix: $name" "$seconds" ;;
            Skipped | Disabled) echo "SKIP: $prefix: $name" ;;
            *)
                # ctest prints the output of a failed test right below its line.
                sed -n "/Test *#[0-9]*: $name [. ]*\*\*\*/,/^ *[0-9]*\/[0-9]* Test\|^ *Start \|tests passed/p" \
                    "$log" >"$log.failed"
                if [ ${#beside[@]} -gt 0 ] && grep -qx "$name" <<<"$by_seconds"; then
                    echo "LATE $prefix: $name ($result), and once more when nothing runs beside it"
                    reasons <"$log.failed"
                    late+=("$dir|$name")
                    continue
                fi
                count_fail "$prefix: $name ($result)" "$log.failed"
                ;;
        esac
    done < <(sed -nE \
        -e 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: +([^ ]+) [. ]*(\*\*\*)?([A-Z][A-Za-z]*( Run)?)[^0-9]* +([0-9.]+) sec.*/\1|\3|\5/p' \
        "$log")
    if [ $seen -eq 0 ]; then
        count_fail "$prefix: no test ran" "$log"
    elif [ "$status" -ne 0 ] && ! grep -q 'tests failed out of' "$log"; then
        count_fail "$prefix: ctest itself failed" "$log"
    fi
}
launch_prefix=()

# Shared objects that sanitizers do not know ask for fixed addresses on some kernels.
without_randomisation() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        launch_prefix+=(setarch "$(uname -m)" -R)
    fi
}

# Sanitizers, asserts, coverage for the fuzzers and the second compiler in one tree (gcc, and no fuzzers, where clang is missing).
has_clang=
if command -v clang >/dev/null 2>&1; then has_clang=1; fi
build_checked() {
    local compiler=(-DCMAKE_BUILD_TYPE=RelWithDebInfo)
    if [ -n "$has_clang" ]; then
        compiler=(-DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DSW_FUZZ=ON)
        # links the 130 programs, each with a sanitizer in it, in half of the time
        if command -v ld.lld >/dev/null 2>&1; then
            compiler+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld)
        fi
    fi
    bash tests/without.sh build-checked "${compiler[@]}" -DSW_CUDA=HOST "-DSW_SANITIZE=address;undefined"
}
run_checked() { # as run_ctest
    local launch_prefix=(${in_turns[@]+"${in_turns[@]}"})
    without_randomisation
    # Open MPI leaves blocks behind in plugins that it unloads, where no suppression can name them:
    # ranks under mpirun don't look for leaks, programs started alone do.
    OMPI_MCA_mca_base_env_list="ASAN_OPTIONS=detect_leaks=0:exitcode=99" run_ctest "$@"
}
# Only the programs of tests that start threads, by their label: nothing in the rest could race. Warnings are the other trees'.
build_threads() {
    cmake -S . -B build-threads -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DSW_CUDA=OFF \
        -DSW_SANITIZE=thread && cmake --build build-threads -j "$jobs" --target tests_threads
}
run_threads() {
    local launch_prefix=(${in_turns[@]+"${in_turns[@]}"}) starts=$logs/thread-starts
    without_randomisation
    rm -f "$starts"
    launch_prefix+=(env "SW_THREAD_STARTS=$starts" "LD_PRELOAD=$root/build-threads/tests/libthread_starts.so")
    run_ctest threads build-threads -L threads -LE slow
    step "all that starts threads did under the thread sanitizer" bash tests/check_threads.sh "$starts"
}
# What stands on oneDNN, with the second one where there is any (tests/install.sh onednn).
onednn=${SW_ONEDNN_ROOT:-$root/build/onednn}
onednn_tests=(test_ops test_rows test_slots test_oracle)
build_onednn() {
    cmake -S . -B build-onednn -G Ninja -DCMAKE_BUILD_TYPE=Release -DSW_CUDA=OFF "-DSW_ONEDNN_ROOT=$onednn" &&
        cmake --build build-onednn -j "$jobs" --target "${onednn_tests[@]}"
}
run_onednn() {
    local names
    names=$(IFS='|' && echo "${onednn_tests[*]}")
    run_ctest "oneDNN 3" build-onednn -R "^($names)\$"
}
# fuzz SECONDS: each fuzzer, as many at a time as there are processors; always the same way from here: a change is judged by
# what it did, and new ways are soak.sh's.
fuzz() {
    local fuzzer name begin=$SECONDS
    find build-checked/tests -name 'fuzz_*' -type f -perm -u+x ! -path '*/CMakeFiles/*' | sort >"$logs/fuzzers"
    [ -s "$logs/fuzzers" ] || count_fail "fuzz: no fuzzer was built"
    # shellcheck disable=SC2016 # the inner shell's
    xargs -P "$jobs" -I{} bash -c 'bash tests/fuzz/explore.sh "$1" "$2" 1 "$3" >"$3/${1##*/}.log" 2>&1; echo $? >"$3/${1##*/}.status"' \
        fuzz {} "$1" "$logs" <"$logs/fuzzers"
    while IFS= read -r fuzzer; do
        name=${fuzzer##*/}
        if [ "$(cat "$logs/$name.status")" = 0 ]; then
            count_pass "fuzz $name" "of $((SECONDS - begin))"
        else
            count_fail "fuzz $name" "$logs/$name.log"
        fi
    done <"$logs/fuzzers"
}

# Twice, from another folder, with fewer steps; a user's own results are left alone.
quickstart_smoke() {
    local i
    for i in 1 2; do
        (cd / && SW_QUICKSTART_STEPS=30 SW_QUICKSTART_OUT=build/quickstart-smoke \
            "$root/examples/quickstart.sh") || return 1
        echo "quickstart run $i: done"
    done
}

check_scripts() {
    command -v shellcheck >/dev/null 2>&1 || {
        echo "SKIP: shellcheck is not installed"
        return 77
    }
    find tests examples docs .ci \( -name '*.sh' -o -path '.ci/*' \) -type f -print0 |
        xargs -0 shellcheck
}

# Every YAML file that users copy is accepted by the program that reads it.
check_configs() {
    local file bad=0 count=0
    while IFS= read -r file; do
        count=$((count + 1))
        build/plan check "$file" || bad=1
    done < <(find configs -name '*.yaml' | sort)
    [ "$count" -gt 0 ] && return "$bad"
}

step "install packages" bash tests/install.sh test || finish
# Slurm's commands must not find another cluster's settings.
unset SLURM_CONF
# The gate compiles CUDA's kernels for one architecture; tests/soak.sh for all.
architectures=()
if [ "$all" = --all ]; then architectures=(-DSW_CUDA_ARCHITECTURES=90); fi
step "build (gcc, warnings are errors)" configure_and_build build "-DSW_WERROR=${SW_WERROR:-ON}" \
    ${architectures[@]+"${architectures[@]}"} || finish
busy "build"
step "headers compile alone" bash tests/check_headers.sh
[ "$all" != --build ] || finish
step "includes go the allowed way" bash tests/check_includes.sh
step "a name means one thing" bash tests/check_names.sh
step "comments begin with their subject" python3 tests/check_words.py
step "what pages and comments name exists" python3 tests/check_facts.py
step "subjects of commits" bash tests/check_commits.sh
step "circles between files are those that are named" python3 tests/check_circles.py build
step "no test empties what it is told" bash tests/check_scratch.sh
step "configs are accepted" check_configs
busy "what needs no test program"
if [ -z "$all" ]; then
    run_ctest gcc build -LE slow
    finish
fi

# ---- The gate
# What is measured, while nothing else runs.
run_ctest "gcc, alone" build -L alone
busy "alone"
# What mostly waits: a Slurm cluster, and ranks that are killed, one test of each at a time (RESOURCE_LOCK); and a bare root
# folder, which waits for packages. The rest computes meanwhile.
start_beside "$logs/ctest-waits.log" ctest --test-dir build --output-on-failure -j 4 --no-tests=error -L waits
bare="both commands in a bare root folder"
start_beside "$(log_of "$bare")" bash tests/bare_root.sh

launch_prefix=(${in_turns[@]+"${in_turns[@]}"})
run_ctest gcc build -LE 'alone|waits|checked'
busy "gcc"
# beside the configurations of the next build, each of which keeps one processor busy
begin_step "format" bash tests/check_format.sh
begin_step "walks apply" bash tests/check_walks.sh
begin_step "shellcheck" check_scripts
checked=
if step "the checked build, without each optional package, then with all" build_checked; then checked=1; fi
end_steps
busy "the checked build, format, walks, shellcheck"
if [ -n "$checked" ]; then
    run_checked checked build-checked -LE 'slow|variant|packaging|release'
    busy "checked"
    [ -z "$has_clang" ] || fuzz 3
    busy "fuzzers"
fi
if step "build (thread sanitizer)" build_threads; then run_threads; fi
busy "thread sanitizer"
if [ ! -f "$onednn/include/oneapi/dnnl/dnnl.h" ]; then
    echo "SKIP: oneDNN 3: there is none in '$onednn' (tests/install.sh onednn)"
elif step "build (oneDNN 3)" build_onednn; then
    run_onednn
fi

wait "${beside[1]}"
status=$?
count_step "$bare" "$(log_of "$bare")" $status
# There the quickstart runs twice; here where no such folder can be made.
if [ $status -eq 77 ]; then step "quickstart, twice" quickstart_smoke; fi
wait "${beside[0]}"
count_ctest "gcc, waits" build "$logs/ctest-waits.log" $?
busy "what was still waiting"
beside=()
launch_prefix=()
for test in ${late[@]+"${late[@]}"}; do
    case ${test%%|*} in build) again=run_ctest ;; *) again=run_checked ;; esac
    $again "once more: ${test%%|*}" "${test%%|*}" -R "^${test#*|}\$"
done
finish

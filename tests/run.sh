#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that needs no GPU.
#
#   tests/run.sh          the build with warnings as errors and every quick test (< 10 minutes)
#   tests/run.sh --build  the build and the check of its headers alone
#   tests/run.sh --all    also clang, the sanitizers, the fuzzers, the linters, the quickstart and the
#                         Slurm cluster: what must hold before a change lands (about an hour)
#
# The last line is `N passed, N failed`; the exit status is 0 only when nothing failed. Each test
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

passed=0
failed=0
failures=() # "NAME", and below it what was wrong in a few lines
logs=$root/build/test-logs
mkdir -p "$logs"
jobs=$(nproc 2>/dev/null || echo 2)

# Eight ranks on two cores: they yield while they wait, are not bound, and may run as root (containers).
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99
export LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=suppressions=$root/tests/support/tsan.supp:halt_on_error=1:exitcode=98

finish() {
    local failure
    if [ "$failed" -gt 0 ]; then
        echo
        for failure in "${failures[@]}"; do printf 'FAILED: %s\n' "$failure"; done
    fi
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit $?
}
trap 'echo; failed=$((failed + 1)); failures+=("interrupted"); finish' INT TERM

count_pass() {
    passed=$((passed + 1))
    echo "ok   $1${2:+ ($2 s)}"
}
# The lines of a log that most likely say what was wrong, for the closing lines.
reasons() {
    grep -aE 'FAIL|[Ee]rror|[Aa]ssert|differ|Timeout' | grep -av 'Test *#' | head -n 6 | cut -c 1-300 | sed 's/^ */    /'
}
count_fail() { # NAME LOG
    failed=$((failed + 1))
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
    local name=$1 log status start=$SECONDS
    shift
    log=$logs/${name//[^A-Za-z0-9]/-}.log
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        count_pass "$name" $((SECONDS - start))
    elif [ $status -eq 77 ]; then
        grep -a '^SKIP' "$log" | tail -n 1 | grep . || echo "SKIP: $name"
    else
        count_fail "$name" "$log"
        return 1
    fi
}

configure_and_build() { # DIR CMAKE-ARGUMENTS...
    local dir=$1
    shift
    cmake -S . -B "$dir" -G Ninja "$@" && cmake --build "$dir" -j "$jobs"
}

# run_ctest PREFIX DIR ARGUMENTS...: counts each test of ctest by itself.
run_ctest() {
    local prefix=$1 dir=$2 log seen=0 name result seconds
    shift 2
    log=$logs/ctest-${prefix//[^A-Za-z0-9]/-}.log
    # Tests write their files to the build folder, so a run may be repeated; MPI tests reserve the
    # processors they use by RUN_SERIAL or PROCESSORS.
    ${launch_prefix[@]+"${launch_prefix[@]}"} ctest --test-dir "$dir" --output-on-failure -j "$jobs" \
        --no-tests=error "$@" >"$log" 2>&1 </dev/null
    local status=$?
    while IFS='|' read -r name result seconds; do
        seen=$((seen + 1))
        case $result in
            Passed) count_pass "$prefix: $name" "$seconds" ;;
            Skipped | Disabled) echo "SKIP: $prefix: $name" ;;
            *)
                # ctest prints the output of a failed test right below its line.
                sed -n "/Test *#[0-9]*: $name [. ]*\*\*\*/,/^ *[0-9]*\/[0-9]* Test\|^ *Start \|tests passed/p" \
                    "$log" >"$log.failed"
                count_fail "$prefix: $name ($result)" "$log.failed"
                ;;
        esac
    done < <(sed -nE \
        -e 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: +([^ ]+) [. ]*(\*\*\*)?([A-Z][A-Za-z]*( Run)?)[^0-9]* +([0-9.]+) sec.*/\1|\3|\5/p' \
        "$log")
    if [ $seen -eq 0 ]; then
        count_fail "$prefix: no test ran" "$log"
    elif [ $status -ne 0 ] && ! grep -q 'tests failed out of' "$log"; then
        count_fail "$prefix: ctest itself failed" "$log"
    fi
}
launch_prefix=()

# Shared objects that sanitizers do not know ask for fixed addresses on some kernels.
without_randomisation() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        launch_prefix=(setarch "$(uname -m)" -R)
    fi
}

# The whole build reports coverage to the fuzzer, and errors to the sanitizers.
build_fuzzers() {
    local targets
    cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link -DSW_CUDA=OFF "-DSW_SANITIZE=address;undefined" \
        -DSW_FUZZ=ON || return 1
    mapfile -t targets < <(ninja -C build-fuzz -t targets all |
        sed -nE 's/^(([^:]*\/)?fuzz_[a-z0-9_]+): C_EXECUTABLE_LINKER.*/\1/p')
    [ ${#targets[@]} -gt 0 ] || return 0
    cmake --build build-fuzz -j "$jobs" --target "${targets[@]}"
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
step "build (gcc, warnings are errors)" configure_and_build build -DSW_WERROR=ON || finish
step "headers compile alone" bash tests/check_headers.sh
[ "$all" != --build ] || finish
step "includes go the allowed way" bash tests/check_includes.sh
step "a name means one thing" bash tests/check_names.sh
step "configs are accepted" check_configs
if [ -z "$all" ]; then
    run_ctest gcc build -LE slow
    finish
fi

run_ctest gcc build
step "format" bash tests/check_format.sh
step "walks apply" bash tests/check_walks.sh
step "shellcheck" check_scripts
step "quickstart, twice" quickstart_smoke
step "both commands in a bare root folder" bash tests/bare_root.sh
step "a debug build (clang), without each optional package, with all" bash tests/without.sh build-debug

without_randomisation
if step "build (address and undefined behaviour sanitizers)" configure_and_build build-asan \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSW_WERROR=ON -DSW_CUDA=OFF "-DSW_SANITIZE=address;undefined"; then
    # Open MPI leaves blocks behind in plugins that it unloads, where no suppression can name them:
    # ranks under mpirun don't look for leaks, programs started alone do.
    export OMPI_MCA_mca_base_env_list="ASAN_OPTIONS=detect_leaks=0:exitcode=99"
    run_ctest "asan, ubsan" build-asan -LE 'slow|variant|packaging'
    unset OMPI_MCA_mca_base_env_list
fi
# Only what starts threads, by its label: nothing in the rest could race.
if step "build (thread sanitizer)" configure_and_build build-tsan \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSW_WERROR=ON -DSW_CUDA=OFF -DSW_SANITIZE=thread; then
    run_ctest tsan build-tsan -L threads -LE slow
fi
launch_prefix=()

if command -v clang >/dev/null 2>&1; then
    if step "build (fuzzers)" build_fuzzers; then
        found=''
        while IFS= read -r fuzzer; do
            found=1
            # always the same way from here: a change is judged by what it did; new ways are soak.sh's
            step "fuzz ${fuzzer##*/}" bash tests/fuzz/explore.sh "$fuzzer" 5 1 "$logs"
        done < <(find build-fuzz -name 'fuzz_*' -type f -perm -u+x ! -path '*/CMakeFiles/*' | sort)
        [ -n "$found" ] || count_fail "fuzz: no fuzzer was built"
    fi
fi
finish

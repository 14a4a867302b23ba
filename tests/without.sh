#!/usr/bin/env bash
# `plan` is configured and built without the runner, `plan` and `runner` without each of the packages that they can do without, one after another,
# then everything with all of them: one build folder, in which a change builds only what it touches. Then `plan` checks,
# explains, searches and emits every run that users copy.
#
#   tests/without.sh [BUILD_DIR [OPTION...]]      OPTION: of cmake, for all of these builds (default: Debug, whose asserts are on)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=${1:-build-debug}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- -DCMAKE_BUILD_TYPE=Debug -DSW_CUDA_ARCHITECTURES=90
options=("$@")
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/pkg-config" <<'END'
#!/usr/bin/env bash
case " $* " in *" libmicrohttpd"*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x "$scratch/pkg-config"

# with_options NAME OPTIONS...: a fresh configuration, whose objects are those of the last where nothing changed
with_options() {
    local name=$1
    shift
    rm -f "$build/CMakeCache.txt"
    echo "== without $name"
    # shellcheck disable=SC2086
    cmake -S . -B "$build" -G Ninja -DSW_WERROR=ON "${options[@]}" "$@" >"$scratch/log" 2>&1 &&
        cmake --build "$build" --target $targets >>"$scratch/log" 2>&1 && return 0
    tail -n 40 "$scratch/log" >&2
    echo "FAIL: the build without $name" >&2
    exit 1
}
targets=plan
with_options 'the runner' -DSW_RUNNER=OFF
targets='plan runner'
with_options cmocka -DSW_CUDA=OFF -DSW_CMOCKA=OFF
with_options Python -DSW_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON
with_options libmicrohttpd -DSW_CUDA=OFF "-DPKG_CONFIG_EXECUTABLE=$scratch/pkg-config"
with_options libslurm -DSW_CUDA=OFF -DSW_SLURM=OFF
targets=all
with_options nothing

# plan_run RUN: what a user does with it
plan_run() {
    local command log out
    log=$(mktemp -p "$scratch") && out=$(mktemp -d -p "$scratch") || exit 3
    for command in "check $1" "explain $1" "search $1" "emit $1 -o $out --set directory=$out/run"; do
        # shellcheck disable=SC2086
        "$build/plan" $command >"$log" 2>&1 && continue
        echo "FAIL: $build/plan $command" >&2
        tail -n 5 "$log" >&2
        exit 1
    done
}
export -f plan_run
export build scratch
# shellcheck disable=SC2016 # the inner shell's
printf '%s\0' configs/runs/*.yaml | xargs -0 -n 1 -P "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" bash -c 'plan_run "$1"' plan_run

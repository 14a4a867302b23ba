#!/usr/bin/env bash
# `plan` and `runner` are configured and built without each of the packages that they can do without, one after another (and
# without CUDA), then everything with all of them. One build folder, in which a change builds only what it touches; by
# clang, where it is installed, for its warnings. It is a Debug build, whose asserts are on:
# it then checks and explains every run that users copy.
#
#   tests/without.sh [BUILD_DIR]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=${1:-build-debug}
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/pkg-config" <<'END'
#!/usr/bin/env bash
case " $* " in *" libmicrohttpd"*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x "$scratch/pkg-config"

compiler=()
if command -v clang >/dev/null 2>&1; then compiler=(-DCMAKE_C_COMPILER=clang); fi
# with_options NAME OPTIONS...: a fresh configuration, whose objects are those of the last where nothing changed
with_options() {
    local name=$1
    shift
    rm -f "$build/CMakeCache.txt"
    echo "== without $name"
    # shellcheck disable=SC2086
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSW_WERROR=ON "${compiler[@]}" "$@" >"$scratch/log" 2>&1 &&
        cmake --build "$build" --target $targets >>"$scratch/log" 2>&1 && return 0
    tail -n 40 "$scratch/log" >&2
    echo "FAIL: the build without $name" >&2
    exit 1
}
targets='plan runner'
with_options cmocka -DSW_CUDA=OFF -DSW_CMOCKA=OFF
with_options Python -DSW_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON
with_options libmicrohttpd -DSW_CUDA=OFF "-DPKG_CONFIG_EXECUTABLE=$scratch/pkg-config"
with_options libslurm -DSW_CUDA=OFF -DSW_SLURM=OFF
with_options CUDA -DSW_CUDA=OFF
targets=all
with_options nothing -DSW_CUDA_ARCHITECTURES=90

bad=0
for run in configs/runs/*.yaml; do
    for command in "check $run" "explain $run" "search $run" "emit $run -o $scratch/out --set directory=$scratch/run"; do
        # shellcheck disable=SC2086
        "$build/plan" $command >"$scratch/log" 2>&1 && continue
        echo "FAIL: $build/plan $command" >&2
        tail -n 5 "$scratch/log" >&2
        bad=1
    done
done
exit $bad

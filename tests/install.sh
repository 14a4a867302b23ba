#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing. Needs nothing beforehand but bash and apt.
#
#   tests/install.sh build   what builds and runs the two programs (the quickstart)
#   tests/install.sh test    that, and what the tests use
#   tests/install.sh onednn [FOLDER]
#                            oneDNN 3 as PyPI has it built, with GNU's OpenMP, into FOLDER (build/onednn), beside the
#                            system's: cmake -DSW_ONEDNN_ROOT=FOLDER builds with it. Needs no rights; where there is no
#                            pip, no network or another processor it says SKIP and why, and leaves with 77
#   tests/install.sh onednn-sources [FOLDER]
#                            the same of the newest oneDNN whose sources Debian's archive gives (unstable, testing, then stable),
#                            with what Debian mended since: products and reorders alone, 10 to 30 minutes on two cores
#
# Does nothing, and needs no rights and no network, when everything is there. `a|b` in a list: the
# first of the two that is installed or that this release has. `?` before a name: goes on without it.
set -uo pipefail

build_packages=(
    cmake ninja-build gcc libc6-dev pkg-config
    libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libdnnl-dev
    libopenmpi-dev openmpi-bin libmicrohttpd-dev curl
    '?jargon-text'
)
test_packages=(
    libcmocka-dev python3
    '?clang' '?lld' '?clang-format' '?libclang-rt-14-dev|libclang-rt-dev' '?shellcheck'
    '?slurmctld' '?slurmd' '?slurm-client' '?libslurm-dev' '?munge' '?iproute2' '?debootstrap' '?valgrind'
)

skip() {
    echo "SKIP: onednn: $*"
    exit 77
}
make_work() { # sets `work`, a folder that goes with this script
    work=$(mktemp -d) || exit 3
    # shellcheck disable=SC2064 # as it is now
    trap "rm -rf '$work'" EXIT
}
say_onednn() { # FOLDER
    echo "install: oneDNN $(sed -n 's/^#define DNNL_VERSION_[A-Z]* //p' "$1/include/oneapi/dnnl/dnnl_version.h" |
        head -n 3 | paste -sd .) in $1: cmake -DSW_ONEDNN_ROOT=$(cd "$1" && pwd)" >&2
    exit 0
}

onednn() { # FOLDER
    local to=$1 work
    command -v python3 >/dev/null 2>&1 || skip "no python3"
    make_work
    python3 -m pip download -q --no-deps --only-binary :all: -d "$work" onednn-cpu-gomp onednn-devel-cpu-gomp \
        </dev/null >"$work/log" 2>&1 ||
        skip "pip cannot download onednn-cpu-gomp: $(grep . "$work/log" | grep -v '^WARNING' | tail -n 1)"
    for wheel in "$work"/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/wheels" || skip "'$wheel' cannot be unpacked"
    done
    mkdir -p "$to/include" "$to/lib" || exit 3
    cp -r "$work"/wheels/*.data/data/include/. "$to/include/" || exit 3
    # its three names are three files in a wheel
    cp "$work"/wheels/*.data/data/lib/libdnnl.so.3 "$to/lib/" || exit 3
    ln -sf libdnnl.so.3 "$to/lib/libdnnl.so" || exit 3
    say_onednn "$to"
}

# Into $work: the sources of a release of Debian's, from the archive that apt has here, by lists of their own.
fetch_sources() { # ARCHIVE RELEASE
    local apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
        -o APT::Update::Error-Mode=any)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" || exit 3
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $2 main" >"$work/sources.list"
    (cd "$work" && "${apt[@]}" update && "${apt[@]}" source --download-only onednn) </dev/null >"$work/log" 2>&1 &&
        compgen -G "$work/onednn_*.orig.tar.*" >/dev/null
}

build_onednn() { # SOURCES BUILD FOLDER
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DONEDNN_CPU_RUNTIME=OMP -DONEDNN_GPU_RUNTIME=NONE \
        -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_ENABLE_WORKLOAD=INFERENCE \
        '-DONEDNN_ENABLE_PRIMITIVE=MATMUL;REORDER' -DONEDNN_ARCH_OPT_FLAGS= "-DCMAKE_INSTALL_PREFIX=$3" \
        -DCMAKE_INSTALL_LIBDIR=lib && cmake --build "$2" --target install
}

onednn_sources() { # FOLDER
    local to=$1 work archive release program patch
    for program in apt-get cmake ninja c++ xz patch; do
        command -v $program >/dev/null 2>&1 || skip "no $program"
    done
    # shellcheck disable=SC2016 # apt's own
    archive=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
        awk '$1 !~ /-/ {print $2; exit}')
    [ -n "$archive" ] || skip "apt has no list of Debian's packages (apt-get update)"
    make_work
    for release in unstable testing stable none; do
        [ $release != none ] || skip "no sources in Debian's archive: $(grep '^E: ' "$work/log" | head -n 1)"
        fetch_sources "$archive" "$release" && break
        rm -f "$work"/onednn_*
    done
    mkdir "$work/tree" && tar -xf "$work"/onednn_*.orig.tar.* -C "$work/tree" --strip-components 1 &&
        tar -xf "$work"/onednn_*.debian.tar.* -C "$work/tree" || exit 3
    for patch in "$work"/tree/debian/patches/upstream-*.patch; do
        [ ! -e "$patch" ] || patch -s -p1 -d "$work/tree" <"$patch" || exit 3
    done
    to=$(mkdir -p "$to" && cd "$to" && pwd) || exit 3
    build_onednn "$work/tree" "$work/build" "$to" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        echo "install: oneDNN was not built" >&2
        exit 3
    }
    say_onednn "$to"
}

case ${1:-test} in
    onednn) onednn "${2:-$(dirname "$0")/../build/onednn}" ;;
    onednn-sources) onednn_sources "${2:-$(dirname "$0")/../build/onednn}" ;;
    build) wanted=("${build_packages[@]}") ;;
    test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
    *)
        echo "usage: tests/install.sh [build|test|onednn [FOLDER]|onednn-sources [FOLDER]]" >&2
        exit 2
        ;;
esac

if ! command -v apt-get >/dev/null 2>&1; then
    echo "install: not a Debian or Ubuntu system, nothing installed; you need: ${wanted[*]#\?}" >&2
    exit 0
fi

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]
}
any_installed() { # a|b
    local name
    for name in ${1//|/ }; do installed "$name" && return 0; done
    return 1
}
available() {
    apt-cache policy "$1" 2>/dev/null | grep 'Candidate:' | grep -qv '(none)'
}

missing=()
for entry in "${wanted[@]}"; do
    any_installed "${entry#\?}" || missing+=("$entry")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1; then
        as_root=(sudo)
    else
        echo "install: not root and no sudo; as root, run: apt-get install ${missing[*]#\?}" >&2
        exit 3
    fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
        -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}
# A failed update is no reason to stop: the lists that are there may do.
apt update || true

packages=()
for entry in "${missing[@]}"; do
    chosen=
    entry_names=${entry#\?}
    for name in ${entry_names//|/ }; do
        available "$name" && chosen=$name && break
    done
    if [ -n "$chosen" ]; then
        packages+=("$chosen")
    elif [ "${entry#\?}" != "$entry" ]; then
        echo "install: this release has no '$entry_names'; going on without" >&2
    else
        echo "install: this release has no package '$entry_names'" >&2
        exit 3
    fi
done
[ ${#packages[@]} -eq 0 ] && exit 0

echo "install: ${packages[*]}" >&2
if ! apt install --no-install-recommends "${packages[@]}"; then
    tail -n 20 "$log" >&2
    # A package that cannot be configured here (a service that does not start) may still serve.
    for entry in "${missing[@]}"; do
        [ "${entry#\?}" = "$entry" ] || continue
        any_installed "$entry" || {
            echo "install: apt-get failed, '$entry' is missing" >&2
            exit 3
        }
    done
fi

#!/usr/bin/env bash
# What a newcomer's machine has: Debian and git, nothing else. A root folder made by debootstrap, a clone of the
# commit that is checked out, and the README's two commands in it.
#
#   tests/bare_root.sh            the review jobs (below); the quickstart with 8 steps, and again from another folder; the headers
#                                 with what it installs but libmicrohttpd; the tests' build and headers, with all they install.
#                                 Debug, and each file compiled once: warnings and speed are judged outside
#   tests/bare_root.sh --review   the jobs of examples/review: their own packages, build and comparison, a fresh root each
#   tests/bare_root.sh --whole    two fresh roots: the quickstart, then the tests; the tests, then the quickstart
#   tests/bare_root.sh --package [BUILD]
#                                 Debian's packages of BUILD (build) alone, without sources: dpkg and apt install them, a user plans
#                                 and trains, the manual and completion answer, purging leaves no file
#
# Needs root, debootstrap and this machine's source of packages; skipped (77) without.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
only=${1:-}
case $only in
    '' | --whole | --review | --package) ;;
    *) echo "usage: tests/bare_root.sh [--review | --whole | --package [BUILD]]" >&2 && exit 2 ;;
esac
skip() {
    echo "SKIP: both commands in a bare root folder: $*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "only root may change the root folder"
command -v debootstrap >/dev/null 2>&1 || skip "debootstrap is not installed"
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${ID:-}-${VERSION_CODENAME:-}")
[ "${suite%%-*}" = debian ] || skip "this machine is no Debian"
suite=${suite#debian-}
# where this machine gets its packages from
mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' /etc/apt/sources.list.d/debian.sources \
    /etc/apt/sources.list 2>/dev/null | head -n 1)
[ -n "$mirror" ] || skip "no source of packages is known"

scratch=$(mktemp -d) || exit 3
clone=/shardwright
umount_all() {
    local place
    for place in "$scratch"/*/proc "$scratch"/*/sys "$scratch"/*/dev; do
        if mountpoint -q "$place"; then umount -l "$place"; fi
    done
}
trap 'umount_all; rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT TERM

if ! debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$scratch/first" "$mirror" >"$scratch/log" 2>&1; then
    # mounts of /proc are refused in some containers, and so is mknod
    tail -n 5 "$scratch/log" >&2
    skip "debootstrap failed"
fi

# prepare ROOT: packages come from where this machine's come from; a clone of this commit
prepare() {
    local root=$1 path
    for path in /etc/resolv.conf /etc/ssl/certs /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ -e "$path" ] || continue
        mkdir -p "$root$(dirname "$path")"
        cp -rLT "$path" "$root$path"
    done
    # how it is reached (a proxy, credentials), not what a container's image sets beside it
    for path in /etc/apt/apt.conf.d/*; do
        if grep -qE '^ *(Acquire|Auth)' "$path"; then cp -L "$path" "$root/etc/apt/apt.conf.d/"; fi
    done
    # what a crash of this machine leaves of it matters to nobody: no package waits for the disk
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    # Open MPI reads how many cores there are in /sys
    if ! { mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" && mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }; then
        skip "nothing may be mounted here"
    fi
    [ "$only" = --package ] || git clone -q --no-hardlinks . "$root/shardwright" || exit 3
}
# inside ROOT COMMAND: as a new user, in the clone
inside() {
    local root=$1 name
    local -a keep=()
    shift
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        if [ -n "${!name:-}" ]; then keep+=("$name=${!name}"); fi
    done
    echo "== in a bare root folder: $*"
    env -i ${keep[@]+"${keep[@]}"} HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$root" bash -c "cd $clone && $*"
}

# review_jobs: runs the steps of both jobs as their YAML has them, without the comment, which needs a forge
# (tests/unit/test_review.sh). The tree is compared with itself: nothing changes, and the jobs pass.
review_jobs() {
    local root step steps
    for root in gitlab github; do
        cp -a "$scratch/first" "$scratch/$root" || exit 3
        prepare "$scratch/$root"
        # optimized little, and so built in half of the time: speed is judged outside
        # shellcheck disable=SC2016 # the chroot's
        printf '#!/bin/sh\nexec /usr/bin/gcc "$@" -O1\n' >"$scratch/$root/usr/local/bin/cc" &&
            chmod +x "$scratch/$root/usr/local/bin/cc" || exit 3
    done
    steps=$scratch/gitlab/job.sh
    python3 tests/support/review_steps.py examples/review/gitlab-job.yaml >"$steps"
    # shellcheck disable=SC2016 # the inner shell's
    inside "$scratch/gitlab" 'CI_MERGE_REQUEST_DIFF_BASE_SHA=$(git rev-parse HEAD) bash -eo pipefail /job.sh' || return 1
    grep -q '^\*\*Plan:\*\* no plan changes' "$scratch/gitlab/shardwright/plan-diff.md" || return 1

    root=$scratch/github
    printf '#!/bin/sh\nexec "$@"\n' >"$root/usr/local/bin/sudo" && chmod +x "$root/usr/local/bin/sudo"
    mkdir "$root/pull" && mv "$root/shardwright" "$root/pull/new" && mkdir "$root/shardwright" && cp -r "$root/pull/new" "$root/pull/old"
    for step in 'Build plan' Check Diff Verdict; do
        python3 tests/support/review_steps.py examples/review/github-workflow.yaml "$step" >"$root/step.sh"
        [ -s "$root/step.sh" ] || return 1
        steps=/pull
        if [ "$step" = Check ]; then steps=/pull/new; fi # its working-directory
        inside "$root" "cd $steps && GITHUB_STEP_SUMMARY=/summary GITHUB_OUTPUT=/output STATUS=0 bash -eo pipefail /step.sh" || return 1
    done
    grep -qx 'status=0' "$root/output"
}

if [ "$only" = --package ]; then
    build=${2:-build} clone=/
    # on this machine they run with kernels for it, too
    if ! { cmake --build "$build" --target plan runner &&
        (cd "$build" && cpack -G DEB -B "$scratch/packages" -D CPACK_SW_NATIVE=OFF); } >"$scratch/log" 2>&1; then
        tail -n 20 "$scratch/log" >&2
        exit 1
    fi
    prepare "$scratch/first"
    mkdir "$scratch/first/packages" || exit 3
    cp "$scratch"/packages/*.deb tests/support/installed_package.sh "$scratch/first/packages" || exit 3
    inside "$scratch/first" bash /packages/installed_package.sh
    exit
fi
if [ "$only" = --whole ]; then
    cp -a "$scratch/first" "$scratch/second" || exit 3
    prepare "$scratch/first"
    prepare "$scratch/second"
    inside "$scratch/first" examples/quickstart.sh && inside "$scratch/first" tests/run.sh &&
        inside "$scratch/second" tests/run.sh && inside "$scratch/second" examples/quickstart.sh
    exit
fi
if ! review_jobs; then
    echo "FAIL: a job of examples/review does not run in a bare root folder" >&2
    exit 1
fi
[ "$only" != --review ] || exit 0
umount_all
rm -rf --one-file-system "$scratch/gitlab" "$scratch/github"
prepare "$scratch/first"
inside "$scratch/first" CMAKE_BUILD_TYPE=Debug SW_QUICKSTART_STEPS=8 examples/quickstart.sh &&
    inside "$scratch/first" 'cd / && CMAKE_BUILD_TYPE=Debug SW_QUICKSTART_STEPS=8 /shardwright/examples/quickstart.sh' &&
    inside "$scratch/first" 'dpkg --purge --force-depends libmicrohttpd-dev >/dev/null && tests/check_headers.sh' &&
    inside "$scratch/first" SW_WERROR=OFF tests/run.sh --build

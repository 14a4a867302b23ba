#!/usr/bin/env bash
# tests/bench/gpu/pack.sh's archive on a bare machine: a root folder with glibc, bash, coreutils, grep,
# sed, awk, tar, gzip and xz, a driver's tool that only pretends, and nothing else: no Open MPI, no ssh,
# no Python, none of CUDA's libraries. It is small enough to be sent. gpu.sh unpacks it there, the real runner starts, also under
# the packed mpirun, and the report says which library of CUDA's is missing.
#
#   test_gpu_chroot.sh BUILD_DIR      skipped (77) where nobody may chroot
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$1
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
enter=()
if [ "$(id -u)" -ne 0 ]; then enter=(unshare --user --map-root-user); fi
if ! "${enter[@]}" chroot / true 2>/dev/null || ! command -v mpirun >/dev/null 2>&1; then
    echo 'SKIP: no chroot here, or no mpirun to pack'
    exit 77
fi

# give PROGRAM...: with the libraries that the loader finds for it
give() {
    local program path library
    for program in "$@"; do
        path=$(command -v "$program") || { echo "FAIL: no $program here" && exit 1; }
        mkdir -p "$root$(dirname "$path")"
        cp -L "$path" "$root$path"
        ldd "$path" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
            mkdir -p "$root$(dirname "$library")"
            cp -nL "$library" "$root$library"
        done
    done
}
mkdir -p "$root"/{tmp,proc,dev,etc,repo/tests/bench,repo/build-gpu,usr/local/bin}
give bash env cat cp rm mkdir mktemp dirname basename head tail sort tr tee date timeout sleep grep \
    sed awk tar gzip xz find nproc uname hostname id ls
ln -s bash "$root$(command -v bash | sed 's/bash$/sh/')" 2>/dev/null
[ -e "$root/bin" ] || ln -s usr/bin "$root/bin"
# what every machine with glibc has
for library in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1 libstdc++.so.6 \
    libgcc_s.so.1 libnss_files.so.2; do
    path=$(ldconfig -p | awk -v name="$library" '$1 == name && /x86-64/ { print $NF; exit }')
    [ -n "$path" ] && mkdir -p "$root$(dirname "$path")" && cp -nL "$path" "$root$path"
done
: >"$root/dev/null" && chmod 666 "$root/dev/null"
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
cp -r tests/bench/gpu.sh tests/bench/gpu "$root/repo/tests/bench/"
cat >"$root/usr/local/bin/nvidia-smi" <<'SH'
#!/bin/sh
case "$*" in
    -L) echo 'GPU 0: NVIDIA H200 (UUID: none)' ;;
    *) echo 'NVIDIA H200, 580.0, 143771 MiB' ;;
esac
SH
chmod +x "$root/usr/local/bin/nvidia-smi"
# the loader of the real thing may be a link to a script
# shellcheck disable=SC2016
printf '#!/bin/sh\nfor f; do LD_TRACE_LOADED_OBJECTS=1 /lib64/ld-linux-x86-64.so.2 "$f"; done\n' \
    >"$root/usr/local/bin/ldd"
chmod +x "$root/usr/local/bin/ldd"
tests/bench/gpu/pack.sh --as-built "$build" "$scratch" >"$scratch/packed" 2>&1 || {
    echo "FAIL: pack.sh:"
    cat "$scratch/packed"
    exit 1
}
cp "$scratch/pack.tar.xz" "$root/repo/build-gpu/"
size=$(stat -c %s "$scratch/pack.tar.xz")

"${enter[@]}" env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin HOME=/ \
    chroot "$root" bash /repo/tests/bench/gpu.sh --limit 60 build machine >"$scratch/said" 2>&1
code=$?
report=$root/repo/tests/bench/results/gpu-report.md machine=$root/repo/tests/bench/results/gpu-machine.md
wrong=0
most=48000000 # of the 64 MiB that some lenders take the tree is a part
[ "$size" -lt "$most" ] || { echo "FAIL: the archive has $size bytes, more than $most" && wrong=1; }
expect() { # WHAT FILE PATTERN
    grep -qE -- "$3" "$2" && return
    echo "FAIL: $1: '$3' is not in $(basename "$2"):"
    sed 's/^/    /' "$2"
    wrong=1
}
[ "$code" -eq 1 ] || { echo "FAIL: exit code $code, not 1" && cat "$scratch/said" && wrong=1; }
expect 'the archive is unpacked' "$root/repo/tests/bench/results/gpu-build.md" '^- ok: unpack pack.tar.xz'
expect 'the runner starts' "$machine" '^ *runner [0-9.]+$'
expect 'mpirun starts without ssh' "$machine" '^- ok: mpirun starts two runners'
expect 'what is missing' "$machine" "CUDA: none \(the CUDA device needs lib[a-zA-Z]+\.so\.[0-9]+, .*install NVIDIA's package"
expect 'the page says so' "$report" '^- FAIL in machine: .* does not load the CUDA device$'
expect 'the page names the GPU' "$report" '^NVIDIA H200, 580.0'
[ "$wrong" -eq 0 ] && echo "test_gpu_chroot: all as it should be; the archive has $size bytes"
exit "$wrong"

#!/usr/bin/env bash
# Puts what gpu.sh runs into one archive, for a machine with a GPU but without our libraries and
# without a network: the two tools, the GPU tests and benchmarks, oneDNN, libyaml, Open MPI. CUDA's
# own libraries stay out: they are there. Built for any x86-64 CPU, not for this one; its kernels for
# one generation of GPUs, for an archive of all is too large for some to take.
#
#   tests/bench/gpu/pack.sh [--as-built | --architecture N] [BUILD_DIR [OUT_DIR]]
#
# Default: 90 (H100, H200), build-gpu, BUILD_DIR. Writes OUT_DIR/pack.tar.xz. --as-built: of what is
# there, nothing is built. The window of the compression is larger than the archive: programs hold
# much that is the same. Needs xz; unpacking it needs xz or Python.
#
# gpu.sh unpacks it where it finds no build.
set -euo pipefail
cd "$(dirname "$0")/../../.."
as_built=no architecture=90
case ${1:-} in
    --as-built)
        as_built=yes
        shift
        ;;
    --architecture)
        architecture=$2
        shift 2
        ;;
esac
build=${1:-build-gpu} out=${2:-${1:-build-gpu}}
pack=$out/pack

if [ $as_built = no ]; then
    cmake -S . -B "$build" -DSW_NATIVE=OFF -DSW_CUDA=ON \
        -DSW_CUDA_ARCHITECTURES="$architecture" >/dev/null
    cmake --build "$build" -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" --target plan runner test_cuda_ops test_cuda_meshes \
        test_cuda_masks test_cuda_serving test_cuda_cached test_cuda_quantized test_cuda_mma test_cuda_texts \
        test_cudnn_attention test_cuda_calibrate bench_attention bench_cache kernel_times op_times nccl_one ceilings
fi
rm -rf "$pack" "$out"/pack.tar.*
mkdir -p "$pack/tests" "$pack/bench" "$pack/lib" "$pack/openmpi/bin"
cp "$build/plan" "$build/runner" "$build/runner-cuda.so" "$pack"
for name in tests/test_cuda_ops tests/test_cuda_meshes tests/test_cuda_serving tests/test_cuda_cached \
    tests/test_cuda_masks tests/test_cuda_quantized tests/test_cuda_mma tests/test_cuda_texts tests/test_cudnn_attention \
    tests/test_cuda_calibrate bench/bench_attention bench/bench_cache \
    bench/kernel_times.so bench/op_times bench/nccl_one bench/ceilings; do
    if [ $as_built = yes ] && [ ! -e "$build/$name" ]; then continue; fi
    cp "$build/$name" "$pack/${name%/*}"
done

# Open MPI's plugins for one node; others want libraries that are not packed.
mpirun=$(readlink -f "$(command -v mpirun)")
cp "$mpirun" "$pack/openmpi/bin/mpirun"
plugins=$(ompi_info --path pkglibdir --parsable | sed 's/.*://')
mkdir -p "$pack/openmpi/plugins" "$pack/openmpi/pmix"
cp "$plugins"/*.so "$pack/openmpi/plugins"
rm -f "$pack"/openmpi/plugins/*{ucx,ofi,usnic,psm,portals,openib,ugni,lustre,cuda,libfabric}*
cp -r "$(ompi_info --path pkgdatadir --parsable | sed 's/.*://')" "$pack/openmpi/share"
pmix=$(find /usr/lib -path '*pmix2/lib/pmix' -type d 2>/dev/null | head -1)
if [ -n "$pmix" ]; then cp "$pmix"/*.so "$pack/openmpi/pmix"; fi

# What these need and a machine with CUDA and glibc does not have.
find "$pack" -type f \( -name '*.so' -o -perm -u+x \) -print0 |
    xargs -0 -n1 ldd 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    while read -r library; do
        case $(basename "$library") in
            libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | \
                libstdc++.so.* | libgcc_s.so.* | libcud* | libcublas* | libnccl* | libcupti* | \
                libnvrtc*) ;;
            *) cp -L "$library" "$pack/lib" ;;
        esac
    done
find "$pack" -type f \( -name '*.so*' -o -perm -u+x \) -exec strip --strip-unneeded {} + 2>/dev/null || true
tar -C "$out" -cf - pack | xz --threads=1 --lzma2=preset=0,dict=64MiB >"$out/pack.tar.xz"
du -sh "$pack" "$out/pack.tar.xz" | sed 's/^/pack: /'

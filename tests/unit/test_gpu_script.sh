#!/usr/bin/env bash
# tests/bench/gpu.sh rehearsed without a GPU: a driver's tool and programs that only pretend. A part
# that fails stops no other, its whole output is kept, one page says all.
#
#   test_gpu_script.sh
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d) || exit 3
trap 'rm -rf "$scratch"' EXIT
wrong=0

expect() { # WHAT FILE TEXT
    grep -qF -- "$3" "$2" && return
    echo "FAIL: $1: '$3' is not in:"
    sed 's/^/    /' "$2"
    wrong=1
}

program() { # PATH: a script from standard input
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

bin=$scratch/bin build=$scratch/build results=$scratch/results
program "$bin/nvidia-smi" <<'SH'
case "$*" in
    -L) echo 'GPU 0: NVIDIA H200 (UUID: none)' ;;
    *memory.used*loop-ms*) while sleep 0.1; do echo 1234; done ;;
    *) echo 'NVIDIA H200, 580.0, 143771 MiB' ;;
esac
SH
program "$build/pack/runner" <<'SH'
echo "runner 0, plm ${OMPI_MCA_plm:-none}"
SH
program "$build/pack/tests/test_cuda_ops" <<'SH'
for i in 1 2 3 4 5 6 7 8 9 10; do printf 'line %s a\nline %s b\nline %s c\n' $i $i $i; done
exit 1
SH
program "$build/pack/tests/test_cudnn_attention" <<'SH'
exit 0
SH
program "$build/pack/openmpi/bin/mpirun" <<'SH'
exit 0
SH
program "$build/pack/bench/nccl_one" <<'SH'
echo '- FAIL: replay 2: element 3 is 1, not 2'
exit 1
SH

run() { # CODE ARGUMENTS
    local wanted=$1 code
    shift
    env -u LD_LIBRARY_PATH -u OUT PATH="$bin:$PATH" tests/bench/gpu.sh --build "$build" \
        --results "$results" "$@" >"$scratch/out" 2>&1
    code=$?
    [ "$code" -eq "$wanted" ] && return
    echo "FAIL: gpu.sh $*: exit code $code, not $wanted"
    sed 's/^/    /' "$scratch/out"
    wrong=1
}

run 1 --limit 40 seeds nccl machine
report=$results/gpu-report.md
expect 'a part that fails' "$report" '- seeds: FAILED'
expect 'the one after it' "$report" '- machine: all ok'
expect 'what failed' "$report" '- FAIL in seeds: ops against the CPU device, seed 2 (exit code 1)'
expect 'what NCCL does' "$report" '- FAIL in nccl: replay 2: element 3 is 1, not 2'
expect 'what did not' "$results/gpu-seeds.md" "- ok: cuDNN's attention against f64"
expect 'where the output is' "$report" 'Whole output of what failed: logs/'
for line in 'line 1 a' 'line 10 c'; do
    expect 'a whole log' <(cat "$results"/logs/seeds-ops*2.log) "$line"
done
expect 'mpirun on one machine without ssh' "$results/gpu-machine.md" 'plm isolated'

run 1 --total 15 machine # no time for it
expect 'no time' "$results/gpu-machine.md" 'machine: left out, 15 s are over'
run 2 --total
run 2 nothing

# Every part, in the order that tells most first, with programs that pretend to be well
program "$build/pack/plan" <<'SH'
case $1 in
    fit) echo 'name: fitted' && exit ;;
    explain) echo '{}' && exit ;;
esac
name=$(basename "$2" .yaml)
sed -n 's/^directory: */directory: /p; s/^ *micro_batch_size:/    &/p; /^checkpoint: /p' "$2" \
    >"$4/$name.plan.yaml"
printf 'decision:\n  micro_batch_size: 4\nprediction:\n  step_seconds: 0.55\n' >>"$4/$name.plan.yaml"
SH
program "$build/pack/runner" <<'SH'
case $1 in
    train) directory=$(sed -n 's/^directory: //p' "$2") ;;
    calibrate)
        echo 'name: measured' >"$5"
        exit
        ;;
    serve) exec sleep 30 ;;
    *) echo 'runner 0' && exit ;;
esac
saves=$(sed -n 's/^checkpoint: {directory: \(.*\)}$/\1/p' "$2")
mkdir -p "$directory" "$saves/step-8"
[ -e "$directory/metrics.jsonl" ] && echo 'this run is over' && exit 1
[ "$(ls "$saves/..")" = "$(basename "$saves")" ] || { echo 'earlier runs left what they saved' && exit 1; }
echo 'rank 0 uses a GPU; attention: cuDNN 9.19.0'
{
    echo '{"schema": 1, "run": "'"$(basename "$directory")"'", "predicted_step_seconds": 0.55,' \
        '"arena_bytes": 1000000, "predicted_memory": 2000000}'
    for step in 1 2 3 4 5 6 7 8; do
        echo '{"step": '$step', "loss": 5.0, "step_seconds": 0.5, "mfu": 0.55, "tokens": 32768}'
    done
} >"$directory/metrics.jsonl"
[ -z "$SW_KERNEL_REPORT" ] ||
    printf 'window_s 2 busy_s 1.98 busy_share 0.99\n\n| kernel | ms |\n' >"$SW_KERNEL_REPORT"
SH
program "$build/pack/openmpi/bin/mpirun" <<'SH'
shift 2
exec "$@"
SH
for name in tests/test_cuda_ops tests/test_cuda_calibrate tests/test_cuda_meshes \
    tests/test_cuda_masks tests/test_cuda_serving tests/test_cuda_cached tests/test_cuda_quantized \
    tests/test_cuda_mma tests/test_cuda_texts; do
    program "$build/pack/$name" </dev/null
done
for name in ceilings op_times nccl_one bench_attention bench_cache; do
    printf 'echo "attention: cuDNN 9.19.0"\necho "| %s $* |"\n' "$name" | program "$build/pack/bench/$name"
done
: >"$build/pack/bench/kernel_times.so"
program "$bin/compute-sanitizer" <<'SH'
echo "| sanitizer $* |"
SH
program "$bin/ncu" <<'SH'
echo 'Memory Throughput 90 %'
SH
program "$bin/python3" <<SH
case \$* in
    *served.py*) echo "| \$2 | \$5 | \$6 | greedy | 9.0 | 8.0 | 2.50 | 2.40 |" && exit ;;
    *torch_peer.py*)
        [ -z "\$LD_LIBRARY_PATH\$OPAL_PREFIX" ] || exit 9 # it is alone with its own
        echo '{"step_seconds": 0.6, "how": "cuDNN, micro-batch 4"}'
        exit \${PEER_ENDS:-0}
        ;;
    *import\ torch*) exit 0 ;;
esac
exec $(command -v python3) "\$@"
SH
tar -C "$build" -cf - pack | python3 -c 'import lzma, sys
sys.stdout.buffer.write(lzma.compress(sys.stdin.buffer.read(), preset=0))' >"$build/pack.tar.xz" && rm -r "$build/pack"
# a machine without xz
mkdir "$scratch/few"
find /usr/bin /bin -maxdepth 1 ! -type d ! -name '*xz*' -exec ln -sf -t "$scratch/few" {} + 2>/dev/null
PATH=$scratch/few run 0 build
expect 'an archive unpacked without xz' "$results/gpu-build.md" '- ok: unpack pack.tar.xz by Python'
[ -x "$build/pack/runner" ] || { echo 'FAIL: the archive holds no runner that can be run' && wrong=1; }
rm -r "$build/pack"
# what is lent takes few files back
mkdir "$scratch/few-files"
env -u LD_LIBRARY_PATH OUT="$scratch/few-files" PATH="$bin:$PATH" tests/bench/gpu.sh --build "$build" \
    build machine >"$scratch/out" 2>&1
[ "$(ls "$scratch/few-files")" = gpu-results.tar.gz ] || { echo 'FAIL: not one file of results' && wrong=1; }
tar -C "$scratch/few-files" -xzf "$scratch/few-files/gpu-results.tar.gz"
expect 'results in one file' "$scratch/few-files/gpu-report.md" '- machine: all ok'
run 0 --total 0
order=$(sed -n 's/^- \([a-z]*\): all ok, .*/\1/p' "$report" | tr '\n' ' ')
wanted='build machine check bench ops serving served attention torch calibrate nccl seeds sanitize meshes more '
[ "$order" = "$wanted" ] || { echo "FAIL: the order is $order, not $wanted" && wrong=1; }
if grep -n FAIL "$report"; then wrong=1; fi
for row in '| ceilings  |' '| 1b-d128 | 500.0 | 65536 | 55.0 % | 550.0 | +10.0 % |' \
    '| 8b-layers | 500.0 |' '| op_times ' '| bench_attention 32 8 128 16384 |' \
    '| bench_attention 32 8 64 8192 |' '| bench_cache  |' '| nccl_one  |' '| 1b-d64 | 500.0 | 550.0 (+10.0 %) |' \
    '| 1b-d128 | 500.0 | 55.0 % | 600.0 | 45.8 % | 1.20 | cuDNN, micro-batch 4 |' \
    '| 1b-d128-served-32-4096 | 32 | 4096 | greedy | 9.0 | 8.0 | 2.50 | 2.40 |' \
    '| 1b-d128-served-32-512-e4m3 | 32 | 512 | greedy | 9.0 | 8.0 | 2.50 | 2.40 |' \
    '| 1 | 500.0 |' 'Launch gaps of 1b-d128'; do
    expect 'every table' "$report" "$row"
done
expect 'a clock before the losses' "$results/gpu-check.md" "- ok: marks of the GPU's clock"
expect 'a few meshes early' "$results/gpu-seeds.md" '- ok: 5 steps, every fifth mesh'
expect 'bad accesses before races' "$results/gpu-seeds.md" '- ok: memcheck: every op'
expect 'races' "$results/gpu-sanitize.md" '- ok: racecheck: every op'
expect 'what holds a kernel back' "$results/gpu-more.md" 'Memory Throughput 90 %'
if ls -d /dev/shm/gpu-saves-"$(printf %s "$build" | cksum | cut -d' ' -f1)" "$build"/gpu-saves 2>/dev/null; then
    echo 'FAIL: what runs saved is left' && wrong=1
fi
[ ! -d "$results/logs" ] || { echo 'FAIL: logs of failures where nothing failed' && wrong=1; }

# What PyTorch had measured when it ended counts.
PEER_ENDS=1 run 1 --total 0 torch
expect 'PyTorch that fails' "$report" '- FAIL in torch: 1b-d128 in PyTorch (exit code 1)'
expect 'its first figure' "$report" '| 600.0 | 45.8 % | 1.20 | cuDNN, micro-batch 4 |'

# A driver without a GPU
program "$bin/nvidia-smi" <<'SH'
echo 'No devices were found'
SH
run 77 machine
[ "$wrong" -eq 0 ] && echo 'test_gpu_script: all as it should be'
exit "$wrong"

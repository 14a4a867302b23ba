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
    PATH=$bin:$PATH tests/bench/gpu.sh --build "$build" --results "$results" "$@" \
        >"$scratch/out" 2>&1
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

# A driver without a GPU
program "$bin/nvidia-smi" <<'SH'
echo 'No devices were found'
SH
run 77 machine
[ "$wrong" -eq 0 ] && echo 'test_gpu_script: all as it should be'
exit "$wrong"

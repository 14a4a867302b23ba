#!/usr/bin/env bash
# The one command for a machine with an NVIDIA GPU: builds, compares every op and the losses of every
# mesh with the CPU device, looks for bad accesses and races, trains the quickstart model on the GPU
# beside the CPU, and writes what it saw under tests/bench/results/.
#
#   tests/bench/gpu.sh [BUILD_DIR]
#
# Exit code: 0 all agree, 1 something differs, 77 no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build-gpu}
root=$PWD
if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L | grep -q GPU; then
    echo "SKIP: no GPU"
    exit 77
fi
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d '. ')
cmake -S . -B "$build" -DSW_CUDA=ON -DSW_CUDA_ARCHITECTURES="$architecture" &&
    cmake --build "$build" -j "$(nproc)" || exit 1
mkdir -p tests/bench/results
result=$root/tests/bench/results/gpu-$(date +%Y-%m-%d).txt
failed=0

# run NAME COMMAND...: one line of outcome, the end of the output when it failed
run() {
    local name=$1 log begun=$SECONDS
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        echo "ok    $name ($((SECONDS - begun)) s)"
    else
        echo "FAIL  $name (exit $?)"
        tail -25 "$log" | sed 's/^/      /'
        failed=1
    fi
    rm -f "$log"
}

everything() {
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$build/runner" --version
    for seed in 1 2 3 4 5; do
        run "ops against the CPU device, seed $seed" "$build/tests/test_cuda_ops" 6 "$seed"
    done
    run "20 steps, 35 meshes, 4 variants, f32 and bf16, ranks sharing one GPU" \
        "$build/tests/test_cuda_meshes" 20
    if command -v compute-sanitizer >/dev/null 2>&1; then
        run "compute-sanitizer memcheck" compute-sanitizer --tool memcheck --error-exitcode 1 \
            "$build/tests/test_cuda_ops" 1
        run "compute-sanitizer racecheck" compute-sanitizer --tool racecheck --error-exitcode 1 \
            "$build/tests/test_cuda_ops" 1
    else
        echo "left out: compute-sanitizer is not installed"
    fi
    train
}

# The quickstart model on the CPU and on the GPU: the same first losses, and the GPU's speed.
train() {
    local work device gpu
    work=$(mktemp -d)
    gpu=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -1)
    for device in cpu cuda; do
        cat >"$work/$device.yaml" <<YAML
name: gpu-bench-$device
model: $root/configs/models/quickstart.yaml
cluster:
  name: here
  nodes: 1
  accelerators_per_node: 1
  accelerator: {name: here, device: $device, memory: $gpu MiB, reserved_memory: 2 GiB,
                peak: {bf16: 989 TFLOP/s, fp32: 67 TFLOP/s}, memory_bandwidth: 4.8 TB/s}
  links: [{name: none, spans: 1, bandwidth: 1 GB/s, latency: 1 us}]
  launcher: mpirun
sequence_length: 256
global_batch_size: 16
mesh_dim: '1,1,1,1'
precision: {compute: fp32, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-3, warmup_steps: 10, total_steps: 20}
data: {path: $root/examples/data/text.txt, seed: 1}
directory: $work/$device
YAML
        run "20 steps of the quickstart model on $device" sh -c \
            "'$build/plan' emit '$work/$device.yaml' -o '$work' &&
             '$build/runner' train '$work/gpu-bench-$device.plan.yaml'"
    done
    run "their losses agree to 1e-4" python3 - "$work" <<'PYTHON'
import json, sys
def steps(device):
    with open(f"{sys.argv[1]}/{device}/metrics.jsonl") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if "loss" in row and "step" in row]
cpu, cuda = steps("cpu"), steps("cuda")
assert len(cpu) == len(cuda) == 20, (len(cpu), len(cuda))
worst = max(abs(a["loss"] / b["loss"] - 1) for a, b in zip(cuda, cpu))
print("worst difference", worst)
sys.exit(worst > 1e-4)
PYTHON
    [ -f "$work/cuda/metrics.jsonl" ] && tail -2 "$work/cuda/metrics.jsonl"
    rm -rf "$work"
}

everything 2>&1 | tee "$result"
grep -q '^FAIL' "$result" && failed=1
echo "written: ${result#"$root"/}"
exit "$failed"

#!/bin/bash
# What `runner` says about its GPU settings before it looks for a GPU, and where the CUDA device or a
# library of it is missing: test_cuda_cli.sh PLAN RUNNER
set -eu
plan=$1 runner=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

head -c 20000 /dev/zero | tr '\0' 'a' >"$out/text"
cat >"$out/run.yaml" <<YAML
name: gpu
model: configs/models/quickstart.yaml
cluster:
  name: here
  nodes: 1
  accelerators_per_node: 1
  accelerator: {name: gpu, device: cuda, memory: 8 GiB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}
  links: [{name: none, spans: 1, bandwidth: 1 GB/s, latency: 1 us}]
  launcher: mpirun
sequence_length: 64
global_batch_size: 1
mesh_dim: '1,1,1,1'
data: {path: text}
directory: $out/run
YAML
sed -i "s|configs/|$PWD/configs/|" "$out/run.yaml"
"$plan" emit "$out/run.yaml" -o "$out" >/dev/null
status=0
SW_CUDA_ATTENTION=fast "$runner" train "$out/gpu.plan.yaml" >"$out/said" 2>&1 || status=$?
if [ $status -ne 2 ] ||
    ! grep -qF "SW_CUDA_ATTENTION is 'fast'; it may be cudnn or own" "$out/said"; then
    echo "exit code $status:" >&2
    cat "$out/said" >&2
    exit 1
fi

# ---- The CUDA device is a file that is loaded when it is asked for ----

module=$(dirname "$runner")/runner-cuda.so
failed=0
said() { # WHAT CODE TEXT COMMAND...: its exit code, and that its errors are one line with TEXT
    local what=$1 code=$2 text=$3 status=0
    shift 3
    "$@" >"$out/said" 2>&1 </dev/null || status=$?
    [ "$status" -eq "$code" ] && grep -qF -- "$text" "$out/said" &&
        { [ "$code" -eq 0 ] || [ "$(grep -c 'error:' "$out/said")" -eq 1 ]; } && return
    echo "FAIL: $what: exit code $status, not $code, or no line with '$text':" >&2
    sed 's/^/    /' "$out/said" >&2
    failed=1
}

if LC_ALL=C readelf -d "$runner" | grep -E 'NEEDED.*lib(cuda|cublas|cudnn|nccl)'; then
    echo "FAIL: the runner itself names these libraries of NVIDIA's" >&2
    failed=1
fi

sed -e 's/device: cuda/device: cpu/' -e 's/^name: gpu/name: cpu/' -e "s|^directory: .*|directory: $out/cpu|" \
    -e 's/\(directory: .*\)/\1\noptimizer: {type: adamw, learning_rate: 1.0e-3, warmup_steps: 1, total_steps: 2}/' \
    "$out/run.yaml" >"$out/cpu.yaml"
"$plan" emit "$out/cpu.yaml" -o "$out" >/dev/null

# try FOLDER WHAT TEXT: with that runner a CPU plan runs, a CUDA plan ends in one line
try() {
    rm -rf "$out/cpu" "$out/run"
    said "$2: a CPU plan" 0 "" "$1/runner" train "$out/cpu.plan.yaml"
    said "$2: a CUDA plan" 3 "$3" "$1/runner" train "$out/gpu.plan.yaml"
    said "$2: --version" 0 "CUDA: none ($3" "$1/runner" --version
    if [ -s "$out/run/metrics.jsonl" ]; then
        echo "FAIL: $2: a run that never began has metrics" >&2
        failed=1
    fi
}

# As the loader finds it where a library of that name is not installed.
lacking() { # FOLDER LIBRARY: the module needs LIBRARY.99 instead of the version that is here
    mkdir -p "$1"
    cp "$runner" "$1/runner"
    python3 - "$module" "$1/runner-cuda.so" "$2" <<'PY'
import re, sys
source, target, name = sys.argv[1:]
data = open(source, "rb").read()
found = set(re.findall(re.escape(name.encode()) + rb"\.so\.(\d+)\0", data))
if len(found) != 1:
    sys.exit(77)
number = found.pop()
data = data.replace(name.encode() + b".so." + number + b"\0",
                    name.encode() + b".so." + b"7" * len(number) + b"\0")
open(target, "wb").write(data)
PY
}

mkdir -p "$out/alone"
cp "$runner" "$out/alone/runner"
try "$out/alone" 'no module' "the CUDA device is not here: no runner-cuda.so in $out/alone/"
for pair in libcudart:cuda-cudart- libcublasLt:libcublas- libcudnn:libcudnn9-cuda- libnccl:libnccl2; do
    library=${pair%%:*}
    code=0
    lacking "$out/no-$library" "$library" || code=$?
    [ "$code" -eq 77 ] && continue # not in this build
    try "$out/no-$library" "no $library" "the CUDA device needs $library.so.7"
    grep -qF "install NVIDIA's package ${pair#*:}" "$out/said" || {
        echo "FAIL: no $library: its package is not named" >&2
        failed=1
    }
done

# As installed: bin/runner, lib/shardwright/runner-cuda.so. It is found: what it says next is its own.
mkdir -p "$out/installed/bin" "$out/installed/lib/shardwright"
cp "$runner" "$out/installed/bin"
cp "$module" "$out/installed/lib/shardwright"
said 'as installed' 0 "CUDA: 1" "$out/installed/bin/runner" --version

# Of another build: another version in its stamp.
mkdir -p "$out/other"
cp "$runner" "$out/other"
version=$("$runner" --version | sed -n 's/^runner //p')
LC_ALL=C sed "s/$version/${version//[0-9]/8}/g" "$module" >"$out/other/runner-cuda.so"
said 'of another build' 3 'is of another build than this runner' "$out/other/runner" train \
    "$out/gpu.plan.yaml"
exit $failed

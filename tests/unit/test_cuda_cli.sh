#!/bin/bash
# What `runner` says about its GPU settings before it looks for a GPU: test_cuda_cli.sh PLAN RUNNER
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

#!/bin/bash
# Writes tests/bench/published/TABLE.md: what predictions are held to, and every published run beside its own.
#   tests/bench/published/table.sh BUILD_FOLDER
set -eu
build=$(realpath "${1:?the build folder}")
bench=$build/bench/bench_published
cd "$(dirname "$0")"
runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
{
    echo "## llm-foundry, FSDP: constants fitted to all other models of this family"
    echo
    "$bench" --fit clusters/foundry-*.yaml data/published_fsdp.csv
    echo
    echo "## torchtitan and fms-fsdp: llm-foundry's profile, fitted to none of these"
    echo
    "$bench" models/*.yaml clusters/fms-*.yaml clusters/torchtitan-*.yaml \
        data/published_fsdp_tp_cp.csv
    configs=../../../configs/clusters
    clusters=("$configs"/h100-64x8.yaml "$configs"/dgx-a100-16x8.yaml "$configs"/dgx-a100-40gb-16x8.yaml
        "$configs"/h200-16x8.yaml "$configs"/dgx-b200-8x8.yaml "$configs"/tpu-v4-256.yaml
        "$configs"/tpu-v5e-256.yaml "$configs"/tpu-v5p-512.yaml clusters/torchtitan-h100.yaml clusters/fms-*.yaml)
    newer=("$configs"/h100-8x8.yaml "$configs"/tpu-v6e-256.yaml "$configs"/../models/qwen3-8b.yaml models/qwen3-0.6b.yaml
        clusters/kempner-h200.yaml clusters/internevo-a100.yaml)
    echo
    echo "## Other software: constants fitted to all other models of the same software and accelerator"
    echo
    "$bench" --fit "${clusters[@]}" data/published_other.csv
    echo
    echo "## All software with the default profile, which was fitted to those of the tables above together"
    echo
    "$bench" --default "${clusters[@]}" "${newer[@]}" clusters/foundry-*.yaml data/published_other.csv data/published_fsdp.csv \
        data/published_2026.csv |
        grep -v 'not priced'
} >"$runs"
bounds=$(./bounds.py "$build" "$runs")
{
    echo "# Published runs and their predictions"
    echo
    echo "Written by \`tests/bench/published/table.sh BUILD\`. How to read it: README.md."
    echo
    echo "## Bounds: what predictions are held to, and what they reach"
    echo
    echo "$bounds"
    echo
    cat "$runs"
} >TABLE.md

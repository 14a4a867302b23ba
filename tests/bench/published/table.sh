#!/bin/bash
# Writes tests/bench/published/TABLE.md: every published run beside its prediction.
#   tests/bench/published/table.sh BUILD_FOLDER
set -eu
bench=$(realpath "${1:?the build folder}")/bench/bench_published
cd "$(dirname "$0")"
{
    echo "# Published runs and their predictions"
    echo
    echo "Written by \`tests/bench/published/table.sh BUILD\`. How to read it: README.md."
    echo
    echo "## llm-foundry, FSDP: constants fitted to all other models of this family"
    echo
    "$bench" --fit clusters/foundry-*.yaml data/published_fsdp.csv
    echo
    echo "## torchtitan and fms-fsdp: llm-foundry's profile, fitted to none of these"
    echo
    "$bench" models/*.yaml clusters/fms-*.yaml clusters/torchtitan-*.yaml \
        data/published_fsdp_tp_cp.csv
} >TABLE.md
